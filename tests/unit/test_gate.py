"""The gate: its exit status by tolerance, number of configurations, and what was measured."""

import math

import numpy as np
import pytest

from fixtures.turns import computed
from touchstone.analysis.compare_in_turn import Configuration, Recorded, changes_in_turn
from touchstone.analysis.compare_results import NOT_COMPARABLE, ONLY_NEW, Change
from touchstone.analysis.gate import (
    CANNOT_TELL,
    NOT_COMPARED,
    PASSED,
    SLOWER,
    Gate,
    judged_in_turn,
    judged_together,
    least_slowdown,
)
from touchstone.analysis.gate_text import percent, verdict_of
from touchstone.plan.read import ConfigError
from touchstone.plan.study import gate_options
from touchstone.report.gate import make_page
from touchstone.statistics.intervals import Ratio, logarithms, shared_noise, unpaired_ratio

QUIET, NOISY = 0.01, 0.5


def change(ratio, cell="cell", **known):
    return Change(cell, [], [], ratio, "", "", [], ([9000.0], [9000.0 * ratio.value]), **known)


def of_folders(cells, speed, noise, session_sd=0.03, runs=5):
    """Changes of two results folders, of which the new one has these speeds."""
    rng = np.random.default_rng(cells)
    speeds = np.broadcast_to(speed, cells)
    pairs = [
        [(mean * np.exp(rng.normal(0, noise, runs))).tolist() for mean in (one, 1.0)]
        for one in speeds
    ]
    known = shared_noise(logarithms(side) for pair in pairs for side in pair)
    return [
        change(unpaired_ratio(*pair, session_sd, known), f"cell {number}")
        for number, pair in enumerate(pairs)
    ]


def of_turns(cells, speed, noise):
    """Changes of two installations, of which the new one has this speed."""
    sides = {"old": Recorded("pytorch", "1.0"), "new": Recorded("pytorch", "2.0")}
    found = [
        computed({"old": 1.0, "new": speed}, noise=lambda one: one.gauss(0, noise), seed=number)
        for number in range(cells)
    ]
    return changes_in_turn([Configuration(one, "images/s", "CPU", sides) for one in found])


MEASURED = {"unchanged": (1.0, QUIET), "a tenth slower": (0.9, QUIET), "half as fast": (0.5, QUIET)}
WITHOUT = [("unchanged", PASSED), ("a tenth slower", SLOWER), ("half as fast", SLOWER)]
SITTINGS = [  # of which equal ones cannot exclude 8 %
    ("unchanged", 0.05, CANNOT_TELL), ("unchanged", 0.25, PASSED),
    ("a tenth slower", 0.25, PASSED),
    ("half as fast", 0.05, SLOWER), ("half as fast", 0.25, SLOWER),
]  # fmt: skip
IN_TURN = [
    ("unchanged", 0.05, PASSED), ("unchanged", 0.25, PASSED),
    ("a tenth slower", 0.05, SLOWER), ("a tenth slower", 0.25, PASSED),
    ("half as fast", 0.05, SLOWER), ("half as fast", 0.25, SLOWER),
]  # fmt: skip


@pytest.mark.parametrize("cells", [3, 6, 18])
@pytest.mark.parametrize(("measured", "tolerance", "status"), SITTINGS)
def test_exit_status_of_two_results_folders(cells, measured, tolerance, status):
    changes = of_folders(cells, *MEASURED[measured])
    assert judged_together(changes, "throughput", tolerance=tolerance).status == status


@pytest.mark.parametrize("cells", [1, 3, 6, 18])
@pytest.mark.parametrize(("measured", "tolerance", "status"), IN_TURN)
def test_exit_status_of_two_installations(cells, measured, tolerance, status):
    changes = of_turns(cells, *MEASURED[measured])
    assert judged_in_turn(changes, tolerance).status == status


@pytest.mark.parametrize("cells", [3, 6, 18])
@pytest.mark.parametrize("tolerance", [0.05, 0.25])
def test_what_noise_hides_passes_no_tolerance(cells, tolerance):
    folders = judged_together(of_folders(cells, 1.0, NOISY), "throughput", tolerance=tolerance)
    in_turn = judged_in_turn(of_turns(cells, 1.0, 2 * NOISY), tolerance)
    for gate in (folders, in_turn):
        assert gate.status == CANNOT_TELL
        assert verdict_of(gate).startswith("Cannot tell. A slowdown of up to ")
        assert gate._replace(tolerance=None).status == PASSED


@pytest.mark.parametrize("cells", [3, 6, 18])
@pytest.mark.parametrize(("measured", "status"), WITHOUT)
def test_without_a_tolerance_what_is_not_shown_passes(cells, measured, status):
    assert judged_in_turn(of_turns(cells, *MEASURED[measured])).status == status


@pytest.mark.parametrize("cells", [6, 18])
def test_all_cells_slower_by_a_tenth_are_found_however_many(cells):
    """More than sittings differ by: 8 %."""
    gate = judged_together(of_folders(cells, 0.89, QUIET), "throughput")
    assert gate.status == SLOWER and not gate.slower and gate.shift_verdict == "slower"
    assert verdict_of(gate).startswith("Slower: all cells together. A slowdown of up to ")


@pytest.mark.parametrize("cells", [3, 6, 18])
def test_one_slower_cell_is_named(cells):
    speeds = [0.7] + [1.0] * (cells - 1)
    gate = judged_together(of_folders(cells, speeds, QUIET), "throughput", tolerance=0.25)
    assert gate.status == SLOWER and [one.cell for one in gate.slower] == ["cell 0"]
    assert "More than the tolerance of 25 % is not excluded in 1 of " in verdict_of(gate)


def test_what_weighs_more():
    """Slower, then not compared, then not told."""
    gone = Change("gone", [], [], None, NOT_COMPARABLE, "new: oom 1", [])
    new = gone._replace(cell="new", why=ONLY_NEW)
    slow, wide = (Ratio(5, log, error, 8.0) for log, error in ((math.log(0.5), 0.01), (0.0, 0.2)))
    assert judged_together([change(slow), gone], "throughput", tolerance=0.05).status == SLOWER
    assert (
        judged_together([change(wide), gone], "throughput", tolerance=0.05).status == NOT_COMPARED
    )
    assert judged_together([change(wide), new], "throughput", tolerance=0.05).status == CANNOT_TELL
    assert judged_together([new], "throughput", tolerance=0.05).status == NOT_COMPARED


def test_a_slowdown_that_is_shown_and_tolerated_passes():
    ratio = Ratio(5, math.log(0.97), 0.005, 8.0)
    assert ratio.verdict() == "slower"
    assert [judged_in_turn([change(ratio)], limit).status for limit in (None, 0.02, 0.05)] == [
        SLOWER, SLOWER, PASSED,
    ]  # fmt: skip


@pytest.mark.parametrize(("metric", "slowdown"), [("throughput", 1 - 0.9), ("training_time", 0.2)])
def test_the_slowdown_that_is_not_excluded_is_of_the_old_speed_or_time(metric, slowdown):
    """An interval from 0.9 to 1.2."""
    middle, half = math.log(0.9 * 1.2) / 2, math.log(1.2 / 0.9) / 2
    ratio = Ratio(5, middle, half / 1.959963984540054, math.inf)
    gate = judged_together([change(ratio)], metric)
    assert gate.slowdown(gate.worst.whole) == pytest.approx(slowdown)


def test_two_sittings_say_why_they_cannot_exclude_less():
    changes = of_folders(3, 1.0, 1e-4)
    gate = judged_together(changes, "throughput", tolerance=0.05)
    assert gate.slowdown(gate.worst.whole) == pytest.approx(least_slowdown(0.03), abs=1e-3)
    assert "cannot exclude less than 8.0 %, as sittings differ by 3 %" in verdict_of(gate)
    no_sittings = of_folders(3, 1.0, QUIET, session_sd=0.0)
    assert judged_together(no_sittings, "throughput", 0.0, 0.05).status == PASSED


def test_a_tolerance_is_of_the_shift_too():
    """Cells without their shift are equal, and half as fast with it."""
    gate = judged_together(of_folders(6, 0.5, QUIET), "throughput", tolerance=0.25)
    assert gate.shift.value == pytest.approx(0.5, rel=0.02) and gate.status == SLOWER
    assert all(one.ratio.value == pytest.approx(1, abs=0.03) for one in gate.changes)
    assert all(0.5 < gate.slowdown(one.whole) < 0.6 for one in gate.changes)


@pytest.mark.parametrize(("cells", "groups"), [(6, 1), (18, 6)])
def test_what_cells_of_a_set_share_is_no_shift(cells, groups):
    """Turns: in each of five sets all cells of a group are as fast as the machine is then."""
    rng, failed, studies = np.random.default_rng(3), 0, 600
    for _ in range(studies):
        sides = [
            np.exp(
                rng.normal(0, 0.03)
                + rng.normal(0, 0.10, (groups, 1, 5))
                + rng.normal(0, 0.03, (groups, cells // groups, 5))
            ).reshape(cells, 5)
            for _ in range(2)
        ]
        noise = shared_noise(logarithms(row) for side in sides for row in side.tolist())
        changes = [
            change(unpaired_ratio(*pair, noise=noise), together=(str(place * groups // cells),))
            for place, pair in enumerate(zip(*(side.tolist() for side in sides), strict=True))
        ]
        failed += judged_together(changes, "throughput").status == SLOWER
    # 5 % and three standard errors; without what they share it is 13 % of a single group.
    assert failed / studies < 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)


@pytest.mark.parametrize(
    ("share", "text"), [(0.539, "54 %"), (0.0301, "3.1 %"), (0.1, "10 %"), (0.0, "0.0 %")]
)
def test_a_bound_is_rounded_up(share, text):
    assert percent(share) == text


def test_the_page_has_the_verdict_and_every_configuration():
    gone = Change("<gone>", [], [], None, NOT_COMPARABLE, "new: oom 1", [])
    gate = judged_in_turn([*of_turns(2, 0.5, QUIET), gone], 0.05)
    page = make_page(gate, "PyTorch 1.0 -> 2.0", "changes.csv")
    assert verdict_of(gate) in page and page.count(">slower<") == 2
    assert "&lt;gone&gt;" in page and "new: oom 1" in page and 'href="changes.csv"' in page
    assert "version: 1.0 / 2.0 (2 configurations)" in page


def test_an_empty_gate_is_not_compared():
    assert Gate([], "throughput", 0.0, None).status == NOT_COMPARED
    assert verdict_of(Gate([], "throughput", 0.0, 0.05)) == (
        "Not compared: there is nothing to compare."
    )


def test_the_workflow_refuses_what_compare_would_refuse_after_the_study(tmp_path):
    assert gate_options(None, None) == [""]
    assert gate_options(tmp_path, "5%") == [str(tmp_path), "--tolerance", "5%"]
    assert gate_options(tmp_path, 0.05) == [str(tmp_path), "--tolerance", "0.05"]
    with pytest.raises(ConfigError) as refused:
        gate_options(tmp_path / "gone", 5)
    assert "gone is no folder; give the old results folder\ntolerance: '5' is no share" in str(
        refused.value
    )
