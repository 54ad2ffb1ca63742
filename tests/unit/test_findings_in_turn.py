"""What a study says whose cells were measured in turn."""

import json

import pytest

from fixtures.runs import FACTORS, cell_name, make_record, write_plan
from fixtures.studies import built, text_of
from fixtures.turns import computed, with_latencies
from touchstone.analysis.findings_file import read_findings
from touchstone.report.sections.answer import answer

CELLS = [{"framework": "pytorch"}, {"framework": "mxnet"}]
NAMES = [cell_name({**FACTORS, **cell}) for cell in CELLS]


def said(root):
    """The answer, which the page has too."""
    paragraphs = answer(read_findings(root / "findings.json"))
    assert all(paragraph in text_of(root) for paragraph in paragraphs)
    return paragraphs


@pytest.fixture
def ended(tmp_path):
    """A function that builds a study in which the runs of some frameworks timed out."""

    def build(*frameworks, speeds=(2e-3, 1e-3), **turns):
        write_plan(tmp_path / "plan.tsv", CELLS)
        (tmp_path / "config.resolved.yaml").write_text("study: turns\n")
        for cell in CELLS:
            for repeat in (1, 2, 3):
                over = {"status": "timeout", "reason": "slow", "steps": 4}
                how = over if cell["framework"] in frameworks else {}
                make_record(tmp_path / "runs", tmp_path / "records", **cell, repeat=repeat, **how)
        named = dict(zip(NAMES, speeds, strict=True))
        return built(tmp_path, images=False, interleaved=[computed(named, **turns)])

    return build


@pytest.mark.parametrize("frameworks", [("pytorch",), ("pytorch", "mxnet")])
def test_turns_answer_where_all_runs_of_a_framework_were_ended(ended, golden, frameworks):
    root = ended(*frameworks, others=lambda number, place: float(place > 1))
    (found,) = read_findings(root / "findings.json").comparisons
    assert found.winner == NAMES[0] and found.in_turn.disturbed == 40
    assert found.pairs[0].ratio.value == pytest.approx(2, rel=0.05)
    assert (found.trust.level, found.trust.reason, found.trust.runs) == ("low", "disturbed", 50)
    golden(said(root))


def test_the_answer_says_when_cores_were_apart(ended, golden):
    root = ended()
    group = computed(dict(zip(NAMES, (2e-3, 1e-3), strict=True)))
    for one in group.sets:
        (turns,) = one.turns
        turns.rounds[:] = [
            with_latencies(each, 500.0 if place > 3 else 150.0)
            for place, each in enumerate(turns.rounds)
        ]
    built(root, images=False, interleaved=[group])
    (found,) = json.loads((root / "findings.json").read_text())["comparisons"]
    assert (found["in_turn"]["rounds"], found["in_turn"]["moved"]) == (20, 60)
    golden(said(root))
    group.sets[0].turns[0].set_aside.append(group.sets[0].slices[0])
    built(root, images=False, interleaved=[group])
    golden(said(root), "a slice was repeated")


def test_long_runs_that_show_another_ratio_lower_the_trust_and_are_named(ended, golden):
    root = ended()
    (found,) = read_findings(root / "findings.json").comparisons
    (pair,) = found.pairs
    assert pair.runs_disagree and pair.runs_ratio.high < pair.ratio.low
    assert (found.trust.level, found.trust.reason) == ("low", "long runs")
    golden(said(root))
    assert pair.runs_ratio.value == pytest.approx(1, rel=0.1)


def test_long_runs_answer_where_turns_are_too_noisy_for_an_answer(ended, golden):
    root = ended(sets=3, noise=lambda one: one.gauss(0, 3))
    (found,) = read_findings(root / "findings.json").comparisons
    assert found.noisy_turns and found.in_turn is None and not found.too_noisy
    assert found.pairs[0].runs_ratio is None and found.trust.reason != "long runs"
    assert [cell.values == cell.runs for cell in found.cells] == [True, True]
    golden(said(root))


def test_long_runs_of_the_other_order_are_in_the_answer(ended, golden):
    """Runs of equal speeds within a hundredth, and turns that show the first to be slower."""
    root = ended(speeds=(0.97e-3, 1e-3), noise=lambda one: one.gauss(0, 0.002))
    (found,) = read_findings(root / "findings.json").comparisons
    (pair,) = found.pairs
    assert pair.ratio.value > 1 and pair.runs_differ
    golden(said(root))
    turned = pair.model_copy(
        update={"runs_ratio": pair.runs_ratio.model_copy(update={"value": 0.99, "low": 0.9})}
    )
    assert not pair.runs_turn_round and turned.runs_turn_round and turned.runs_differ
