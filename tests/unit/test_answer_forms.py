"""The answer of studies that ask different questions, and that leave nothing out."""

import csv
import json

import pytest

from fixtures.runs import edit_json
from fixtures.studies import built, gathered, studied, text_of
from fixtures.turns import computed
from fixtures.turns import with_latencies as turned
from touchstone.analysis.findings_file import read_findings
from touchstone.report.sections import strip
from touchstone.report.sections.answer import answer, matrix


def with_latencies(root, latencies):
    """Give the runs of cells these core latencies, ns, before and after each repeat."""
    for cell, of_runs in latencies.items():
        for repeat, pair in enumerate(of_runs, start=1):
            path = root / "records" / cell / f"rep{repeat}.json"
            edit_json(path, provenance__environment__core_latency=list(pair))


def around(speed):
    return [0.99 * speed, speed, 1.01 * speed]


def test_best_beside_threads_and_precisions_is_in_the_answer(tmp_path, golden):
    """The highest point of the figure was left out of the answer."""
    cells = [{"threads": t, "precision": p} for t in (1, 2) for p in ("fp32", "bf16")]
    cells.append({"mode": "best", "threads": "", "precision": "fp32"})
    findings = studied(tmp_path, cells, [around(s) for s in (100, 200, 150, 300, 400)])
    (comparison,) = findings.comparisons
    assert len(comparison.cells) == 5 and comparison.leader == findings.cells[-1].name
    assert findings.answer.not_compared == []
    effects = {effect.factor: effect.levels[1].ratio.value for effect in comparison.effects}
    assert effects == pytest.approx({"threads": 1.5, "precision": 2}, rel=1e-3)
    assert comparison.leads[0].ratio.value == pytest.approx(4 / 3, rel=1e-3)
    golden(answer(findings))
    table = matrix(findings)
    assert table.labels == ["1 thread", "2 threads"] and table.crossed
    assert [row.place for row in table.rows] == ["fp32", "bf16"]
    speeds = [[entry.speed for entry in row.entries] for row in table.rows]
    assert speeds == [["100.0", "150.0"], ["200.0", "300.0"]]


def test_cells_that_all_have_the_mode_best_are_compared_like_others(tmp_path, golden):
    cells = [{"mode": "best", "threads": threads} for threads in (1, 2)]
    findings = studied(tmp_path, cells, [around(100), around(150)])
    assert findings.comparisons[0].winner == "cell2"
    golden(answer(findings))


def test_a_lead_that_is_shown_beside_much_noise_is_no_answer_and_no_open_question(tmp_path, golden):
    cells = [{"framework": name} for name in ("mxnet", "pytorch")]
    findings = studied(tmp_path, cells, [[10, 15, 9], [100, 260, 190]])
    (comparison,) = findings.comparisons
    (pair,) = comparison.pairs
    assert pair.ratio.low > 1 and pair.ratio.high > 1.5 * pair.ratio.value
    assert comparison.winner is None and comparison.next_step is None
    golden(answer(findings))


def test_one_configuration_has_all_that_is_known_of_it(tmp_path, golden):
    """Its executions, and its share of the machine's peak."""
    dates = {repeat: f"2026-11-2{8 + (repeat > 2)}T08:00:00Z" for repeat in range(1, 4)}
    product = {"network": "gemm", "dataset": "9x9x9", "batch_size": 1, "epochs": ""}
    findings = studied(
        tmp_path, [{"framework": "pytorch"}, {**product, "framework": "scipy"}],
        [[100, 102, 110], [1e6, 1e6, 1e6]], execution=lambda name, repeat: dates[repeat],
    )  # fmt: skip
    trained = findings.cells[0]
    assert trained.by_sitting == {dates[1]: pytest.approx(101), dates[3]: pytest.approx(110)}
    golden(answer(findings))


def test_operations_of_two_frameworks_are_compared(tmp_path, golden):
    """One was 1.8 times as fast, and the answer had no word on it."""
    work = {"network": "gemm", "dataset": "9x9x9", "batch_size": 1, "epochs": ""}
    cells = [{**work, "framework": name} for name in ("scipy", "pytorch")]
    findings = studied(tmp_path, cells, [around(10), around(18)])
    (comparison,) = findings.comparisons
    assert (comparison.workload, comparison.winner) == ("operation", "cell2")
    assert comparison.pairs[0].ratio.value == pytest.approx(1.8, rel=1e-3)
    golden(answer(findings))


def test_two_ordered_factors_have_a_curve_each_and_a_matrix(tmp_path, golden):
    cells = [{"batch_size": b, "threads": t} for b in (32, 64, 128) for t in (1, 2)]
    speeds = [around(s) for s in (100, 180, 130, 250, 140, 280)]
    findings = studied(tmp_path, cells, speeds)
    (comparison,) = findings.comparisons
    assert [(one.factor, one.ordered) for one in comparison.effects] == [
        ("batch_size", True), ("threads", True),
    ]  # fmt: skip
    golden(answer(findings))
    levels = comparison.effects[0].levels
    assert levels[2].ratio.value == pytest.approx((1.4 * 280 / 180) ** 0.5)
    assert (levels[2].least, levels[2].most) == pytest.approx((1.4, 280 / 180))
    assert matrix(findings).labels == ["1 thread", "2 threads"]


def test_batch_sizes_beside_frameworks_have_a_curve_for_each(tmp_path, golden):
    cells = [{"framework": f, "batch_size": b} for b in (32, 64) for f in ("pytorch", "mxnet")]
    findings = studied(tmp_path, cells, [around(s) for s in (100, 50, 150, 60)])
    assert len(findings.comparisons) == 2
    ratios = {curve.cells[0]: curve.effect.levels[1].ratio.value for curve in findings.curves}
    assert ratios == pytest.approx({"cell3": 1.5, "cell4": 1.2}, rel=1e-3)
    golden(answer(findings))
    noisy = studied(tmp_path / "noisy", cells, [[s, 9 * s, s] for s in (100, 50, 150, 60)])
    # Whole blocks are slow: that is paired away.
    assert not any(curve.too_noisy for curve in noisy.curves)


def test_releases_of_one_framework_are_a_curve_in_the_order_of_their_versions(tmp_path, golden):
    cells = [{"environment": name} for name in ("new", "old", "middle")]
    versions = {"new": "2.13.0", "old": "2.9.1", "middle": "2.10.0"}
    speeds = [around(150), around(100), around(120)]
    findings = studied(tmp_path, cells, speeds, lambda cell: versions[cell["environment"]])
    (effect,) = findings.comparisons[0].effects
    assert [level.version for level in effect.levels] == ["2.9.1", "2.10.0", "2.13.0"]
    assert [level.ratio.value for level in effect.levels[1:]] == pytest.approx([1.2, 1.5], rel=1e-3)
    golden(answer(findings))


def test_a_configuration_that_is_compared_with_nothing_is_in_the_answer(tmp_path, golden):
    cells = [
        {"framework": "pytorch"},
        {"framework": "mxnet"},
        {"framework": "mxnet", "batch_size": 32},
    ]
    findings = studied(tmp_path, cells, [around(s) for s in (300, 200, 100)])
    assert [one.cells for one in findings.answer.not_compared] == [["cell3"]]
    golden(answer(findings))


def test_runs_of_two_sittings_are_no_pairs_and_that_is_said(tmp_path, golden):
    """A partial re-run had turned `too few runs to tell` into a winner."""
    cells = [{"batch_size": size} for size in (32, 64, 128)]
    speeds = [around(100), around(150), around(200)]
    hours = {"cell1": "08", "cell2": "08", "cell3": "09"}
    studied(
        tmp_path, cells, speeds,
        execution=lambda name, repeat: f"2026-11-28T{hours[name]}:00:00Z",
    )  # fmt: skip
    built(tmp_path, images=False)
    findings = read_findings(tmp_path / "findings.json")
    (comparison,) = findings.comparisons
    ratios = {(pair.faster, pair.slower): pair.ratio for pair in comparison.pairs}
    assert ratios["cell2", "cell1"].low > 1
    assert ratios["cell3", "cell2"] is None and comparison.winner is None
    sittings = [(sitting.began, sitting.runs) for sitting in findings.setup.sittings]
    assert sittings == [("2026-11-28T08:00:00Z", 6), ("2026-11-28T09:00:00Z", 3)]
    text = text_of(tmp_path)
    assert "in 2 sittings" in text and all(said in text for said in answer(findings))
    golden(answer(findings))


def test_a_ratio_without_an_interval_claims_no_difference_that_is_excluded(tmp_path, golden):
    """Of two blocks each, the cells have one in common, which says nothing of the noise."""
    cells = [{"batch_size": size} for size in (32, 64)]
    hours = {("cell1", 1): "07", ("cell1", 2): "08", ("cell2", 1): "09", ("cell2", 2): "08"}
    findings = studied(
        tmp_path, cells, [[100, 101], [151, 150]],
        execution=lambda name, repeat: f"2026-11-28T{hours[name, repeat]}:00:00Z",
    )  # fmt: skip
    (pair,) = findings.comparisons[0].pairs
    assert pair.ratio and pair.ratio.low is None and pair.not_excluded is None
    golden(answer(findings))


def test_every_run_with_moved_cores_is_flagged_and_counted_beside_an_answer_from_turns(tmp_path):
    """The least was that of the larger readings, so 1 of 9 runs was counted, not 9."""
    cells = [{"framework": name} for name in ("mxnet", "pytorch", "tensorflow")]
    studied(tmp_path, cells, [around(s) for s in (100, 200, 300)])
    readings = {
        "cell1": [(314, 303), (309, 327), (308, 315)],
        "cell2": [(216, 306), (238, 312), (215, 312)],
        "cell3": [(315, 220), (396, 305), (313, 225)],
    }
    with_latencies(tmp_path, readings)
    built(tmp_path, images=False)
    text = text_of(tmp_path)
    assert "Before or after 9 of 9 runs the hypervisor had moved the cores" in text
    (first, *_) = answer(read_findings(tmp_path / "findings.json"))
    assert text.index("Before or after 9 of 9 runs") < text.index(first)
    with open(tmp_path / "tables/measurements.csv") as file:
        flags = {(row["cell"], row["repeat"]): row["flags"] for row in csv.DictReader(file)}
    assert len(flags) == 9 and all("cores_apart" in of_run for of_run in flags.values())

    group = computed({"cell1": 1e-4, "cell2": 2e-4, "cell3": 3e-4})
    for one in group.sets:
        (turns,) = one.turns
        turns.rounds[:] = [turned(each, 200.5) for each in turns.rounds]
    built(tmp_path, images=False, interleaved=[group])
    text = text_of(tmp_path)
    assert text.count("Before or after 9 of 9") == 1
    assert "All numbers Before or after 9 of 9 runs" in text


@pytest.mark.parametrize(("least", "flagged"), [(150.0, 1), (100.0, 3)])
def test_the_least_reading_of_turns_is_the_machines_too(tmp_path, least, flagged):
    cells = [{"framework": name} for name in ("mxnet", "pytorch")]
    studied(tmp_path, cells, [[100.0, 100.0], [200.0, 200.0]])
    with_latencies(tmp_path, {"cell1": [(160, 231), (160, 165)], "cell2": [(175, 160), (150, 171)]})
    group = computed({"cell1": 1e-4, "cell2": 2e-4})
    (first, *_), *_ = (one.turns for one in group.sets)
    first.rounds[0] = turned(first.rounds[0], least)
    gathered(tmp_path, interleaved=[group])
    found = read_findings(tmp_path / "findings.json")
    assert found.flags["cores_apart"] == flagged
    (doubt,) = (one for one in found.doubts if one.cause == "cores apart")
    assert (doubt.runs, doubt.total, doubt.beside) == (flagged, 4, True)


def test_every_speed_of_the_answer_is_in_what_the_page_draws_and_lists(tmp_path, golden):
    """Sentence, picture, table and first figure order the configurations alike."""
    cells = [{"framework": name} for name in ("mxnet", "pytorch", "tensorflow")]
    studied(tmp_path, cells, [around(s) for s in (100, 330, 300)])
    group = computed({"cell1": 1e-4, "cell2": 2.8e-4, "cell3": 3e-4})
    built(tmp_path, images=False, interleaved=[group])
    (found,) = read_findings(tmp_path / "findings.json").comparisons
    assert [cell.cell for cell in found.cells] == ["cell3", "cell2", "cell1"]
    for cell in found.cells:
        assert min(cell.values) <= cell.speed <= max(cell.values)
    for pair in found.pairs:
        speed = {cell.cell: cell.speed for cell in found.cells}
        assert speed[pair.faster] / speed[pair.slower] == pytest.approx(pair.ratio.value)
    (drawn,) = strip.view(read_findings(tmp_path / "findings.json"))["strips"]
    rows = drawn.charts[0].rows
    assert [row.name.split()[0] for row in rows] == ["TensorFlow", "PyTorch", "MXNet"]
    for row in rows:
        places = [float(place.removesuffix("%")) for place in (*row.dots, row.middle)]
        assert min(places[:-1]) <= places[-1] <= max(places[:-1])
        for baseline in row.against.values():
            if baseline.low:
                low, high = (float(end.removesuffix("%")) for end in (baseline.low, baseline.high))
                assert low < places[-1] < high
    captions = json.loads((tmp_path / "figures/captions.json").read_text())
    assert "a set of processes that took turns" in captions["throughput"]["caption"]
    best = f"The highest geometric mean is {found.cells[0].speed:.0f} images/s: TensorFlow"
    assert best in captions["throughput"]["alt"]
    assert any(pair.runs_turn_round for pair in found.pairs)
    said = answer(read_findings(tmp_path / "findings.json"))
    assert all(text in text_of(tmp_path) for text in said)
    golden(said)
