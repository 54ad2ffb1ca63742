"""Executions of one study, judged by all of them together."""

import pytest
from executions import agree, faults, found_in, judge, pooled, ratios

from fixtures.studies import findings_of, gathered, speeds
from fixtures.turns import computed
from touchstone.analysis.findings_file import write_findings

A, B = "pytorch", "tensorflow"


@pytest.fixture
def executed(tmp_path):
    """A function that writes an execution in which PyTorch has some speeds and TensorFlow 100."""

    def write(folder, number, *own):
        root = tmp_path / "studies" / folder / str(number)
        root.mkdir(parents=True)
        speeds(root, {A: list(own), B: [101.0, 99.0, 100.0]})
        target = tmp_path / folder / str(number)
        target.mkdir(parents=True)
        write_findings(findings_of(root), target / "findings.json")
        return tmp_path / folder

    return write


def test_each_ratio_is_that_of_the_names_in_order_and_the_truth_their_mean(executed):
    executed("rest", 1, 200.0, 201.0, 199.0)
    found = found_in(executed("rest", 2, 50.0, 50.5, 49.5))
    assert list(found) == ["1", "2"]
    (slow,) = ratios(found["2"]).values()
    assert slow.value == pytest.approx(0.5, rel=0.01) and slow.low < 0.5 < slow.high
    assert list(pooled(found.values()).values()) == [pytest.approx(1, rel=0.01)]


@pytest.mark.parametrize(
    "truth, wrong",
    [
        (2.0, []),
        (2.4, ["beside the truth"]),
        (0.5, ["beside the truth", "wrong order"]),
    ],
)
def test_an_interval_beside_the_truth_and_a_wrong_order_are_faults(executed, truth, wrong):
    found = found_in(executed("rest", 1, 200.0, 202.0, 198.0))["1"]
    (pair,) = ratios(found)
    assert list(faults(ratios(found), {pair: truth})) == wrong
    assert list(faults({}, {pair: truth})) == ["no interval"]


@pytest.mark.parametrize("truth, wrong", [(1.2, ["undecided"]), (1.1, [])])
def test_a_clear_difference_must_not_be_open(executed, truth, wrong):
    found = found_in(executed("rest", 1, 60.0, 120.0, 240.0))["1"]
    (pair,) = ratios(found)
    assert list(faults(ratios(found), {pair: truth})) == wrong


def test_the_faults_of_all_executions_are_counted(executed, capsys):
    truth = executed("rest", 1, 200.0, 201.0, 199.0)
    executed("loaded", 1, 200.0, 202.0, 198.0)
    judge(executed("loaded", 2, 50.0, 50.5, 49.5), truth)
    text = capsys.readouterr().out
    assert "Faults among 2 ratios: {'beside the truth': 1, 'wrong order': 1}" in text
    with pytest.raises(SystemExit, match="has no execution"):
        judge(truth / "none", truth)


def test_agreement_counts_in_which_interval_each_estimate_lies(tmp_path, capsys):
    for number, ratio in ((1, 1.5), (2, 3.0)):
        root = tmp_path / str(number)
        root.mkdir()
        study = speeds(root, {A: [150.0, 152.0, 148.0], B: [101.0, 99.0, 100.0]})
        in_turn = computed(
            {c.plan.name: {A: ratio, B: 1.0}[c.series.framework] for c in study.cells}
        )
        gathered(root, interleaved=[in_turn])
    agree(tmp_path)
    first, second = capsys.readouterr().out.strip().split("\n\n")
    assert "of 1 ratios 1 in turns lie in the interval of the runs, 1 in runs" in first
    assert "of 1 ratios 0 in turns lie in the interval of the runs, 0 in runs" in second
    assert "differ by a factor of 2.0" in second
