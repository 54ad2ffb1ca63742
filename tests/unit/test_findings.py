"""What a study shows, as data: rankings, other programs, the file and its reference."""

import json

import pytest

from fixtures.studies import findings_of, large, speeds
from touchstone.analysis.comparison import compare
from touchstone.analysis.disturbed import Disturbed, disturbed
from touchstone.analysis.findings import compute
from touchstone.analysis.findings_file import read_findings, write_findings
from touchstone.analysis.findings_model import Findings
from touchstone.analysis.part import RatioEstimate
from touchstone.commands.document_findings import PAGE, reference
from touchstone.files import with_section
from touchstone.report.sections.answer import answer, caveat
from touchstone.report.text import number
from touchstone.results.files import InputError
from touchstone.results.study import Series
from touchstone.results.tables import chosen
from touchstone.schema.spec import Trial
from touchstone.schema.status import STATUSES


def answered(study):
    """The answer and its caveat in words."""
    findings = compute(study, {})
    return answer(findings), caveat(findings.answer.confidence)


# Rankings


def test_a_clear_winner_is_named_with_ratio_n_and_caveat(tmp_path):
    study = speeds(tmp_path, {"mxnet": [256, 258, 260], "pytorch": [512, 516, 520]})
    findings = compute(study, {})
    (comparison,) = findings.comparisons
    names = [cell.name for cell in findings.cells]
    assert (comparison.reference, comparison.winner, comparison.next) == (*names, names[0])
    assert comparison.n == 3 and comparison.rankable and comparison.rivals == []
    assert comparison.lead.value == pytest.approx(2)
    (place,) = findings.answer.places
    assert [(one.winner, one.comparisons) for one in place.outcomes] == [("pytorch", [0])]
    result, doubt = answered(study)
    words = "pytorch was fastest at batch size 64, at 2.00 [2.00, 2.00] times the throughput of"
    assert f"{words} mxnet" in result
    assert doubt.startswith("n = 3, indicative") and "95 %" in doubt


def test_what_slows_a_whole_block_is_paired_away(tmp_path):
    """The ranges overlap by far, but in each block the ratio is about 1.2."""
    rates = {"mxnet": [200, 400, 300], "pytorch": [240, 484, 357]}
    (comparison,) = compare(speeds(tmp_path, rates))
    assert comparison.winner == Series("pytorch")


def test_an_interval_that_holds_1_is_not_ranked(tmp_path):
    study = speeds(tmp_path, {"mxnet": [256, 258, 400], "pytorch": [399, 516, 520]})
    (comparison,) = compare(study)
    assert comparison.winner is None
    result, _ = answered(study)
    assert "no difference shown between the fastest, pytorch and mxnet" in result
    assert "fastest at" not in result


def test_the_fastest_must_beat_all_others_not_only_the_next(tmp_path):
    rates = {"pytorch": [300, 310, 320], "mxnet": [280, 289, 298], "tensorflow": [100, 200, 305]}
    study = speeds(tmp_path, rates)
    (comparison,) = compare(study)
    assert comparison.fastest.series == Series("pytorch") and comparison.winner is None
    result, _ = answered(study)
    assert "no difference shown between the fastest, pytorch and tensorflow" in result


def test_with_more_rivals_each_interval_is_wider(tmp_path):
    """Logarithms 0.06, 0.09, 0.12 have a t of 5.2: above 4.3 (95 %), below 6.2 (97.5 %)."""
    rates = {"mxnet": [100, 100, 100], "pytorch": [106.18, 109.42, 112.75]}
    (two,) = compare(speeds(tmp_path / "two", rates))
    assert two.winner == Series("pytorch")
    (three,) = compare(speeds(tmp_path / "three", {**rates, "tensorflow": [50, 50, 50]}))
    assert three.winner is None
    assert [cell.series for cell in three.rivals] == [Series("mxnet")]


def test_one_run_is_too_few_to_rank(tmp_path):
    study = speeds(tmp_path, {"mxnet": [100], "pytorch": [500]})
    result, doubt = answered(study)
    assert "too few runs to rank the fastest, mxnet and pytorch" in result and not doubt
    (comparison,) = compute(study, {}).comparisons
    assert comparison.lead.low is None and comparison.lead.verdict == "too few runs"


def test_six_runs_are_no_longer_indicative(tmp_path):
    study = speeds(tmp_path, {"mxnet": [256] * 6, "pytorch": [512] * 6})
    assert answered(study)[1].startswith("n = 6: ")


def test_nothing_to_compare_is_said(failed):
    findings = findings_of(failed)
    assert findings.comparisons == [] and findings.answer.confidence is None
    assert "no throughput to compare" in answer(findings)


def test_of_many_networks_some_are_named(tmp_path):
    result, _ = answered(large(tmp_path, 20, 2))
    assert result.count("On net") == 6 and "14 more are in the table of speeds" in result


@pytest.mark.parametrize(
    ("value", "text"),
    [(14012.5, "14,010"), (9.996, "9.996"), (99.996, "100.0"), (0.01234567, "0.01235"), (0, "0"),
     (None, "–"), (256.0, "256.0"), (1e-9, "1e-09")],
)  # fmt: skip
def test_numbers_have_four_digits(value, text):
    assert number(value) == text


# Cells


def test_a_cell_has_its_numbers_and_what_is_missing(bad):
    findings = findings_of(bad)
    assert findings.outcomes == {**dict.fromkeys(STATUSES, 0), "ok": 13, "oom": 3, "timeout": 1,
                                 "diverged": 1}  # fmt: skip
    timed_out = next(c for c in findings.cells if c.outcomes.get("timeout"))
    throughput = timed_out.metrics["throughput"]
    assert (throughput.n, throughput.missing) == (2, {"timeout": 1})
    assert throughput.min <= throughput.median <= throughput.max
    rate, time = timed_out.metrics["step_rate"], timed_out.metrics["step_time"]
    assert (time.min, time.max) == pytest.approx((1000 / rate.max, 1000 / rate.min))
    never_ok = next(c for c in findings.cells if c.outcomes == {"oom": 3})
    assert "throughput" not in never_ok.metrics and never_ok.phases == {}
    assert "gpu_power" in findings.metrics_without_values
    assert "gpu_power" in timed_out.missing_metrics[findings.metrics_without_values["gpu_power"]]
    assert [(one.status, one.repeats) for one in findings.failures] == [
        ("timeout", [2]), ("diverged", [2]), ("oom", [1, 2, 3]),
    ]  # fmt: skip


# Other programs


def test_more_than_a_third_of_the_runs_must_be_disturbed():
    runs = [(["drifting", "noisy_machine"], 40.0)] * 4 + [([], 1.0)] * 8
    assert disturbed(runs) is None and disturbed([]) is None
    assert disturbed(runs[:-1]) == Disturbed(runs=4, total=11, share=40.0)


# What `best` chose


def test_what_threads_are_is_no_choice_of_best_where_the_study_says_it():
    first = Trial("static", 4, "active", "ok", None, 1.0, 0.5, "trials/static")._asdict()
    assert chosen({"trials": [first]}) == "static"
    assert chosen({"trials": [first, {**first, "mode": "hybrid", "throughput": 2.0}]}) == "hybrid"
    two = {**first, "threads": 2, "wait_policy": "passive", "throughput": 2.0}
    assert chosen({"trials": [first, two]}) == "static, 2 threads, passive waiting"
    assert chosen({"trials": [{**first, "throughput": None}]}) == chosen({"trials": []}) == ""


# The file


@pytest.mark.parametrize("root", ["good", "bad", "failed"])
def test_the_file_holds_all_findings(request, root, tmp_path):
    folder = request.getfixturevalue(root)
    findings = findings_of(folder)
    assert read_findings(folder / "findings.json") == findings

    def refuse(constant):
        raise AssertionError(constant)

    json.loads((folder / "findings.json").read_text(), parse_constant=refuse)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"format": 2}, r"not the findings of this version \(format: "),
        ({"surplus": 1}, r"not the findings of this version \(surplus: "),
        ({"disturbed": {"runs": 1, "total": 1}}, r"\(disturbed.share: Field required\)"),
    ],
)
def test_other_findings_are_refused(good, tmp_path, change, cause):
    path = tmp_path / "findings.json"
    path.write_text(json.dumps({**json.loads((good / "findings.json").read_text()), **change}))
    with pytest.raises(InputError, match=cause):
        read_findings(path)
    path.write_text("{")
    with pytest.raises(InputError, match=r"\(the file: Invalid JSON"):
        read_findings(path)


def test_a_number_that_is_not_finite_is_no_finding(good, tmp_path):
    ratio = {"n": 1, "value": 1.0, "low": None, "high": None, "verdict": "", "indicative": True}
    with pytest.raises(ValueError, match="finite number"):
        RatioEstimate(**ratio, detectable=float("inf"))
    write_findings(findings_of(good), tmp_path / "findings.json")
    assert (tmp_path / "findings.json").read_bytes() == (good / "findings.json").read_bytes()


def test_the_reference_of_the_file_is_current():
    page = PAGE.read_text(encoding="utf-8")
    assert with_section(page, "findings", reference()) == page, "run `make docs`"
    assert all(f"| `{name}` |" in page for name in Findings.model_fields)
