"""What a study shows, as data: rankings, other programs, the file and its reference."""

import csv
import json
import re
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures import golden as golden_file
from fixtures.runs import make_record, write_plan
from fixtures.studies import findings_of, gathered, large, speeds
from touchstone.analysis.again import Kept
from touchstone.analysis.disturbed import Disturbed, disturbed
from touchstone.analysis.doubts import Doubt, doubts
from touchstone.analysis.findings import compute
from touchstone.analysis.findings_file import read_findings, write_findings
from touchstone.analysis.findings_model import Findings
from touchstone.analysis.part import RatioEstimate
from touchstone.analysis.ranking_model import CHARTED, NextStep
from touchstone.commands.document_findings import PAGE, reference
from touchstone.files import with_section
from touchstone.plan.scale import scaled
from touchstone.report.sections import strip
from touchstone.report.sections.answer import (
    answer,
    caveat,
    matrix,
    next_step_sentence,
)
from touchstone.report.sections.warnings import doubt_warning, warnings
from touchstone.report.text import interval_text, number
from touchstone.results.files import InputError
from touchstone.results.planned import MOST_COMPARED, PlannedCell, comparable
from touchstone.results.tables import chosen
from touchstone.schema.spec import Trial
from touchstone.schema.status import STATUSES

KEPT = Kept("one")


# Rankings


def test_a_clear_winner_is_named_with_mode_speed_ratio_and_interval(tmp_path, golden):
    study = speeds(tmp_path, {"mxnet": [256, 258, 260], "pytorch": [512, 516, 520]})
    findings = compute(study, {})
    (comparison,) = findings.comparisons
    mxnet, pytorch = (cell.name for cell in findings.cells)
    assert (comparison.leader, comparison.winner, comparison.rivals) == (pytorch, pytorch, [])
    (pair,) = comparison.pairs
    assert (pair.faster, pair.slower) == (pytorch, mxnet)
    assert pair.ratio.value == pytest.approx(2) and comparison.next_step is None
    assert (comparison.cells[0].speed, comparison.cells[1].speed) == pytest.approx((516, 258), 1e-3)
    trust = findings.answer.trust
    assert (trust.level, trust.reason, trust.n) == ("medium", "few runs", 3)
    assert next_step_sentence(findings.answer.next_step) == ""
    golden([*answer(findings), caveat(findings)])


@pytest.mark.parametrize(("month", "said"), [("2022-05", True), ("2025-01", False)])
def test_releases_that_are_years_apart_are_in_the_answer(tmp_path, golden, month, said):
    study = speeds(tmp_path, {"mxnet": [256, 258], "pytorch": [512, 516]})
    findings = compute(study, {}, released={"mxnet": month, "pytorch": "2026-07"})
    assert [cell.released for cell in findings.cells] == [month, "2026-07"]
    assert (answer(findings) != answer(compute(study, {}))) == said
    golden(answer(findings))


def test_what_slows_a_whole_block_is_paired_away(tmp_path):
    """The ranges overlap by far, but in each block the ratio is about 1.2."""
    rates = {"mxnet": [200, 400, 300], "pytorch": [240, 484, 357]}
    (comparison,) = findings_with(tmp_path, rates).comparisons
    assert comparison.winner == comparison.leader


def findings_with(root, rates):
    return compute(speeds(root, rates), {})


def test_an_interval_that_holds_1_leaves_the_question_open(tmp_path, golden):
    findings = findings_with(tmp_path, {"mxnet": [256, 258, 400], "pytorch": [399, 516, 520]})
    (comparison,) = findings.comparisons
    assert comparison.winner is None and comparison.pairs[0].ratio.verdict == "cannot tell"
    assert comparison.too_noisy == (
        "the speed of one configuration differed by a factor of 1.6 between its runs"
    )
    golden(answer(findings))


def test_a_difference_that_is_not_shown_has_its_largest_size_that_is_not_excluded(tmp_path, golden):
    findings = findings_with(tmp_path, {"mxnet": [490, 494, 520], "pytorch": [499, 516, 520]})
    (comparison,) = findings.comparisons
    (pair,) = comparison.pairs
    assert pair.ratio.verdict == "cannot tell" and not comparison.equal
    assert pair.not_excluded == pytest.approx(max(pair.ratio.high, 1 / pair.ratio.low) - 1)
    step = comparison.next_step
    assert step.decides and step.repeats > 3 and step.minutes > 0
    assert step.edit == f"repeats: {step.repeats}"
    golden([*answer(findings), next_step_sentence(step), next_step_sentence(step, 4)])


def test_the_fastest_must_beat_all_others_not_only_the_next(tmp_path):
    rates = {"mxnet": [280, 289, 298], "tensorflow": [100, 200, 305], "pytorch": [300, 310, 320]}
    findings = findings_with(tmp_path, rates)
    (comparison,) = findings.comparisons
    assert [findings.cell[c.cell].framework for c in comparison.cells] == [
        "pytorch", "mxnet", "tensorflow",
    ]  # fmt: skip
    assert comparison.winner is None and len(comparison.pairs) == 3


def test_the_slowest_has_its_numbers_too(tmp_path, golden):
    rates = {"mxnet": [99, 100, 101], "tensorflow": [402, 400, 398], "pytorch": [199, 200, 201]}
    findings = findings_with(tmp_path, rates)
    (comparison,) = findings.comparisons
    assert comparison.winner == comparison.cells[0].cell
    assert [pair.ratio.value for pair in comparison.leads] == pytest.approx([2, 4], rel=1e-3)
    assert comparison.leads[1].ratio.low > 3.9
    golden(answer(findings))


@pytest.mark.parametrize(
    "order", [("mxnet", "pytorch", "tensorflow"), ("tensorflow", "mxnet", "pytorch")]
)
def test_with_one_run_each_the_order_is_that_of_the_speeds(tmp_path, golden, order):
    """Once the first two cells of the plan were called the fastest."""
    rates = {"mxnet": [100], "pytorch": [200], "tensorflow": [400]}
    findings = findings_with(tmp_path, {name: rates[name] for name in order})
    (comparison,) = findings.comparisons
    assert [cell.speed for cell in comparison.cells] == pytest.approx([400, 200, 100])
    assert (findings.answer.trust.level, findings.answer.trust.reason) == ("low", "one run")
    assert comparison.winner is None and not comparison.next_step.decides
    assert comparison.next_step.repeats == 3
    assert [doubt.cause for doubt in findings.doubts] == ["one run"] and not caveat(findings)
    assert {pair.ratio.verdict for pair in comparison.pairs} == {"too few runs"}
    golden(answer(findings))


def test_speeds_that_are_alike_are_called_so(tmp_path, golden):
    findings = findings_with(tmp_path, {"mxnet": [1000, 1008, 992], "pytorch": [1000, 992, 1008]})
    (comparison,) = findings.comparisons
    (pair,) = comparison.pairs
    within = max(pair.ratio.high, 1 / pair.ratio.low) - 1
    assert 0.02 < within <= 0.05 and pair.equal_within == pytest.approx(within)
    golden(answer(findings))
    assert comparison.equal == comparison.rivals and findings.answer.next_step is None


def test_six_alike_runs_are_trusted(tmp_path):
    findings = findings_with(tmp_path, {"mxnet": [256, 257] * 3, "pytorch": [512, 513] * 3})
    assert findings.answer.trust.level == "high" and findings.doubts == []


def test_no_number_is_named_that_may_not_be_enough(golden):
    how = {"unit": "repeats", "decides": True}
    nothing = NextStep(repeats=None, minutes=None, edit="", **how)
    steps = [
        NextStep(repeats=9, minutes=minutes, edit="repeats: 9", **how) for minutes in (300, 0.5, 7)
    ]
    golden(map(next_step_sentence, [nothing, *steps]))


def test_flags_on_more_than_a_third_of_the_runs_are_a_doubt(tmp_path, golden):
    study = speeds(tmp_path, {"mxnet": [256] * 3, "pytorch": [512] * 3})
    assert doubts(study) == []
    for run in study.runs[:3]:
        run.flags.append("throttled")
    (doubt,) = doubts(study)
    assert (doubt.cause, doubt.flags, doubt.runs, doubt.total) == (
        "flags", {"throttled": 3}, 3, 6,
    )  # fmt: skip
    golden([doubt_warning(doubt, KEPT).fault])
    assert compute(study, {}).answer.trust.reason == "disturbed"


def test_single_runs_are_no_doubt_of_an_answer_from_turns(tmp_path):
    study = speeds(tmp_path, {"mxnet": [256], "pytorch": [512]})
    found = [doubt for in_turn in (False, True) for doubt in doubts(study, in_turn)]
    assert [(doubt.cause, doubt.beside) for doubt in found] == [
        ("one run", False), ("one run", True),
    ]  # fmt: skip


def test_flags_that_are_together_on_more_than_a_third_of_the_runs_are_a_doubt(tmp_path, golden):
    study = speeds(tmp_path, {"mxnet": [256] * 3, "pytorch": [512] * 3})
    for run, flag in zip(study.runs, ("throttled", "throttled", "drifting"), strict=False):
        run.flags.append(flag)
    (doubt,) = doubts(study)
    assert (doubt.flags, doubt.runs) == ({"drifting": 1, "throttled": 2}, 3)
    golden([doubt_warning(doubt, KEPT).fault])


@pytest.mark.parametrize(
    ("config", "edit"),
    [
        ({"study": "one"}, "`repeats: 3`"),
        ({"study": "one", "scale": "paper", "scales": {"smoke": {"repeats": 1}}}, "`repeats: 3`"),
        ({"study": "one", "scale": "smoke", "scales": {"smoke": {}}}, "`repeats: 3`"),
        (
            {"study": "one", "scale": "smoke", "scales": {"smoke": {"repeats": 1}}},
            "`repeats: 3`, under `scales` and there under `smoke`,",
        ),
    ],
)
def test_a_single_run_names_the_edit_that_gives_more(config, edit):
    doubt = Doubt(cause="one run", flags={}, runs=2, total=2)
    (alert,) = warnings(None, [doubt], Kept.of(config))
    assert alert.remedy.startswith(f"Write {edit} into the study's file and run it again")
    made = {**config, "scales": {**config.get("scales", {})}, "repeats": 1}
    (made["scales"]["smoke"] if "there under" in edit else made)["repeats"] = 3
    assert scaled({**made, "sweeps": [{}]}, [])["repeats"] == 3


def test_every_command_is_of_the_study_whose_page_it_is_on():
    disturbed = Disturbed(runs=2, total=3, share=40.0)
    doubt = Doubt(cause="flags", flags={"throttled": 2}, runs=2, total=3)
    command = "make run CONFIG=results/report/one/config.yaml RERUN=disturbed"
    found = warnings(disturbed, [doubt], KEPT)
    assert [alert.command for alert in found] == [command, command]
    assert disturbed.line(KEPT).endswith(f"repeat these runs: {command}")
    assert KEPT._replace(study="$(touch x)").again("all") == (
        "make run CONFIG='results/report/$(touch x)/config.yaml' RERUN=all"
    )


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.82, 1.74, "[0.82, 1.74]"), (1.003, 1.2, "[1.003, 1.20]"), (0.5, 0.9996, "[0.50, 0.9996]"),
     (1.0, 1.0, "[1.00, 1.00]"), (None, None, "")],
)  # fmt: skip
def test_an_interval_shows_on_which_side_of_1_it_ends(low, high, text):
    ratio = RatioEstimate(n=3, value=1.0, low=low, high=high, verdict="", indicative=True,
                          detectable=None, detectable_low=None, detectable_high=None)  # fmt: skip
    assert interval_text(ratio) == text


def test_nothing_to_compare_is_said(failed, golden):
    findings = findings_of(failed)
    assert findings.comparisons == [] and findings.answer.trust is None
    golden(answer(findings))


def test_many_comparisons_are_counted_and_have_a_matrix(tmp_path, golden):
    findings = compute(large(tmp_path, 20, 2), {})
    assert not any(comparison.winner for comparison in findings.comparisons)
    golden(answer(findings))
    table = matrix(findings)
    assert len(table.rows) == 40 and len(table.labels) == 2
    assert table.rows[0].entries[0].speed == "256.0"


# Other questions


def studied(root, cells, rates):
    """A study of cells, each with the throughputs (images/s) of its runs."""
    for cell, speeds_of_runs in zip(cells, rates, strict=True):
        batch = cell.get("batch_size", 64)
        for repeat, rate in enumerate(speeds_of_runs, start=1):
            make_record(
                root / "runs", root / "records", repeat=repeat, train_examples=20 * batch,
                epochs=1, step_seconds=lambda step, r=rate, b=batch: b / r, **cell,
            )  # fmt: skip
    write_plan(root / "plan.tsv", [{"epochs": 1, **cell} for cell in cells], len(rates[0]))
    return gathered(root)


def test_a_study_of_one_framework_asks_which_batch_size_is_fastest(tmp_path, golden):
    cells = [{"batch_size": size} for size in (32, 64, 128, 256)]
    rates = [[100 * n, 101 * n, 102 * n] for n in (1, 2, 4, 3)]
    findings = compute(studied(tmp_path, cells, rates), {})
    (comparison,) = findings.comparisons
    assert comparison.compared == ["batch_size"] and comparison.batch_size is None
    assert comparison.winner == findings.cells[2].name and comparison.device == "cpu"
    (effect,) = comparison.effects
    ratios = [level.ratio.value for level in effect.levels[1:]]
    assert effect.highest.value == "128" and ratios == pytest.approx([2, 4, 3])
    assert findings.answer.accuracy_gap.largest == 0
    golden(answer(findings))
    rows = list(csv.DictReader((tmp_path / "tables/comparisons.csv").open()))
    assert {row["metric"] for row in rows} >= {"throughput"}
    assert len([row for row in rows if row["metric"] == "throughput"]) == 6


def test_precision_and_batch_size_may_be_the_question_together(tmp_path, golden):
    cells = [{"precision": p, "batch_size": b} for p in ("fp32", "bf16") for b in (32, 64)]
    findings = compute(studied(tmp_path, cells, [[100], [150], [200], [120]]), {})
    (comparison,) = findings.comparisons
    assert comparison.compared == ["precision", "batch_size"]
    assert [cell.speed for cell in comparison.cells] == pytest.approx([200, 150, 120, 100])
    golden(answer(findings))


def test_where_frameworks_are_compared_nothing_else_is(tmp_path):
    cells = [
        {"framework": f, "batch_size": b}
        for f, b in (("pytorch", 32), ("mxnet", 32), ("mxnet", 64))
    ]
    findings = compute(studied(tmp_path, cells, [[100], [150], [200]]), {})
    (comparison,) = findings.comparisons
    assert comparison.compared == ["framework"] and comparison.batch_size == 32


def test_other_networks_and_large_groups_are_no_question(tmp_path, golden):
    cells = [{"network": "lenet5"}, {"network": "resnet20-cifar"}]
    findings = compute(studied(tmp_path / "two", cells, [[100], [150]]), {})
    assert findings.comparisons == []
    golden(answer(findings))
    usual = {"framework": "mxnet", "network": "lenet5", "dataset": "d"}
    rows = [{**usual, "batch_size": str(size + 1)} for size in range(MOST_COMPARED + 1)]
    sizes = [PlannedCell.of_row(row["batch_size"], row, 1) for row in rows]
    assert comparable(sizes) == [] and len(comparable(sizes[1:])) == 1


def test_one_configuration_has_its_speed_in_the_answer(tmp_path, golden):
    findings = compute(studied(tmp_path, [{}], [[100, 200, 300]]), {})
    assert findings.comparisons == [] and findings.answer.not_compared == []
    golden(answer(findings))


# The strip


def test_the_strip_shows_every_run_and_the_intervals_of_the_answer(tmp_path):
    rates = {"mxnet": [256, 258, 260], "pytorch": [512, 516, 520], "tensorflow": [100, 300, 500]}
    findings = findings_with(tmp_path, rates)
    (comparison,) = findings.comparisons
    first, *others = comparison.cells
    assert first.runs == pytest.approx([512, 516, 520]) and first.low is first.high is None
    for cell, pair in zip(others, comparison.leads, strict=True):
        assert cell.low == pytest.approx(first.speed / pair.ratio.high)
        assert cell.high == pytest.approx(first.speed / pair.ratio.low)
    (one,) = strip.view(findings)["strips"]
    speed = one.charts[0]
    assert [row.name for row in speed.rows] == [
        "PyTorch (channels last)", "MXNet (channels last)", "TensorFlow (channels last)",
    ]  # fmt: skip
    places = [float(place.rstrip("%")) for row in speed.rows for place in row.dots]
    assert all(0 < place <= 100 for place in places)
    pytorch, mxnet, _ = speed.rows
    assert at(mxnet.middle) / at(pytorch.middle) == pytest.approx(258 / 516, rel=1e-3)
    against = mxnet.against[pytorch.name]
    assert pytorch.against[pytorch.name].low == "" and at(against.low) < at(mxnet.middle)
    assert mxnet.values == "3 runs: 256.0, 258.0, 260.0"
    assert against.cut and against.high == "100.00%"
    calm = findings_with(tmp_path / "calm", {"mxnet": [256, 258, 260], "pytorch": [512, 516, 520]})
    (row,) = strip.view(calm)["strips"][0].charts[0].rows[1:]
    (_, against), (_, baseline) = row.against.items()
    assert baseline.text == "baseline" and not against.cut and at(against.high) < 100
    ticks = [at(place) for place, _ in speed.ticks]
    assert ticks == sorted(ticks) and speed.ticks[0] == ("0.00%", "0") and ticks[-1] <= 100


def at(place):
    """A place on an axis, %."""
    return float(place.removesuffix("%"))


def test_every_metric_of_the_chart_has_the_ratios_of_the_table(tmp_path):
    """So has every baseline; accuracies have differences, whose intervals hold together."""
    findings = findings_with(tmp_path, {"mxnet": [256, 258, 260], "pytorch": [512, 516, 520]})
    with (tmp_path / "tables/comparisons.csv").open() as file:
        rows = {row["metric"]: row for row in csv.DictReader(file)}
    (comparison,) = findings.comparisons
    found = {metric.metric: metric for metric in comparison.metrics}
    assert {"first_step_time", "host_memory_peak", "test_accuracy"} <= set(found)
    for name in found.keys() - {"test_accuracy"}:
        (pair,), row = found[name].pairs, rows[name]
        numbers = [float(row[key]) for key in ("ratio", "low", "high")]
        if pair.cell != row["cell"]:
            numbers = [1 / numbers[0], 1 / numbers[2], 1 / numbers[1]]
        assert [pair.value, pair.low, pair.high] == pytest.approx(numbers), name
    best, other = found["test_accuracy"].cells
    (pair,) = found["test_accuracy"].pairs
    assert pair.value == pytest.approx(best.value - other.value)
    assert best.value == pytest.approx(mean(best.values)) and pair.low <= pair.value <= pair.high
    charts = strip.view(findings)["strips"][0].charts
    assert [chart.label for chart in charts][:2] == ["Speed", "First step"]


def test_of_many_configurations_the_strip_shows_the_first(tmp_path):
    cells = [{"batch_size": 2**i} for i in range(10)]
    findings = compute(studied(tmp_path, cells, [[100 + i] for i in range(10)]), {})
    (one,) = strip.view(findings)["strips"]
    (chart, *_) = one.charts
    assert len(chart.rows) == CHARTED and one.left_out == 2
    assert chart.note == "Higher is better. A dot is a run."
    assert chart.rows[0].name == "batch size 512"


@given(st.floats(0, 1e7))
def test_an_axis_holds_its_values_and_has_few_ticks(most):
    end, ticks = strip.axis(most)
    assert most <= end and ticks[0] == 0 and ticks[-1] <= end
    assert 2 <= len(ticks) <= strip.TICKS + 2 or not most


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
        ({"format": 3}, r"not the findings of this version \(format: "),
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
        RatioEstimate(**ratio, detectable=float("inf"), detectable_low=None, detectable_high=None)
    write_findings(findings_of(good), tmp_path / "findings.json")
    assert (tmp_path / "findings.json").read_bytes() == (good / "findings.json").read_bytes()


def test_the_reference_of_the_file_is_current():
    page = PAGE.read_text(encoding="utf-8")
    assert with_section(page, "findings", reference()) == page, "run `make docs`"
    assert all(f"| `{name}` |" in page for name in Findings.model_fields)


def test_every_section_of_the_golden_file_is_of_a_test():
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    names = {re.split(r"\[|, ", name)[0] for name in golden_file.sections()}
    assert names and {name for name in names if f"def {name}(" not in tests} == set()
