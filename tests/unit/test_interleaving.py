"""Processes that take turns: who works when, what other programs used, and how a process fails."""

import json
import multiprocessing
import os
import time
from contextlib import nullcontext
from itertools import chain, cycle, repeat
from math import inf
from pathlib import Path
from statistics import fmean

import psutil
import pytest

from fixtures.turns import candidate, computed, with_latencies
from touchstone.commands import interleave
from touchstone.measure import attempts, core_latency, interleaving
from touchstone.measure.interleaving import Failed, Timing, groups_that_fit, measure_set
from touchstone.measure.launch import Fault
from touchstone.plan.parts import Interleave

TIMING = Timing(rounds=3, slice_seconds=0.02, lead_seconds=0.01, max_seconds=0.0)
"""Of three quiet rounds, or six."""
LONGER = TIMING._replace(slice_seconds=0.05, lead_seconds=0.02)
"""Where times are compared."""
PATIENT = TIMING._replace(max_seconds=30.0)
BURN = (
    "def step():\n    end = time.process_time() + 0.01\n    while time.process_time() < end: pass"
)
SPIN = (
    "import threading\n"
    "def spin():\n    while True: sum(range(1000))\n"
    "threading.Thread(target=spin, daemon=True).start()"
)


def rounds_of(measured):
    return [one for turns in measured.turns for one in turns.rounds]


def test_each_round_has_one_slice_of_each_cell_and_slices_never_overlap(tmp_path):
    cells = [candidate(tmp_path, name) for name in ("a", "b", "c")]
    measured = measure_set(1, [cells], TIMING, seed=7)
    rounds = rounds_of(measured)
    assert len(rounds) >= 3
    assert all(sorted(one.cell for one in each.slices) == ["a", "b", "c"] for each in rounds)
    slices = [one for each in rounds for one in each.slices]
    for one, following in zip(slices, slices[1:], strict=False):
        assert one.begin + one.seconds <= following.begin
        assert one.seconds >= TIMING.slice_seconds


def test_the_order_of_a_set_depends_on_the_seed_and_the_number_only(tmp_path):
    cells = [candidate(tmp_path, name) for name in ("a", "b", "c")]
    timing = TIMING._replace(slice_seconds=0.01, lead_seconds=0.0)

    def order(number, seed):
        rounds = rounds_of(measure_set(number, [cells], timing, seed))
        return [[one.cell for one in each.slices] for each in rounds[:3]]

    first = order(1, 7)
    assert first == order(1, 7)
    assert first not in (order(2, 7), order(1, 8))


OWN_CLOCK = "NOW = [0.0]\ntime.monotonic = lambda: NOW[0]\ndef step(): NOW[0] += 0.01"
"""A clock on which each step takes 10 ms, whatever else the machine does."""


def test_the_ratio_of_two_programs_is_that_of_their_work(tmp_path):
    slow = candidate(tmp_path, "slow", OWN_CLOCK)
    fast = candidate(tmp_path, "fast", f"{OWN_CLOCK}\nEXAMPLES = 3")
    for each in rounds_of(measure_set(1, [[slow, fast]], TIMING, seed=1)):
        speed = {one.cell: one.speed for one in each.slices}
        assert speed == pytest.approx({"slow": 100, "fast": 300})


def _burn_until(gone):
    os.setsid()  # the kernel gives each session as much, however many programs another one has
    while not gone.is_set():
        for _ in range(10_000):
            pass


@pytest.mark.long
def test_a_program_beside_them_is_seen_and_their_own_work_is_not(tmp_path):
    core = min(os.sched_getaffinity(0))
    slices = TIMING._replace(slice_seconds=0.5)
    cells = [candidate(tmp_path, name, BURN, threads=1) for name in ("a", "b")]
    gone = multiprocessing.Event()
    other = multiprocessing.Process(target=_burn_until, args=(gone,))
    other.start()
    os.sched_setaffinity(other.pid, {core})
    try:
        busy = rounds_of(measure_set(1, [cells], slices, seed=1))
    finally:
        gone.set()
        other.join()
    assert not any(each.quiet for each in busy)
    # They share a core, so it would be a half.
    assert fmean(one.others for each in busy for one in each.slices) > 0.2


def clock_of(process):
    """The clock of a process's CPU time (clock_getcpuclockid(3)), which has no ticks."""
    return ~process.pid << 3 | 2


def test_their_own_work_counts_for_nobody_else(tmp_path, monkeypatch):
    def used_by_children(cores):
        return sum(time.clock_gettime(clock_of(one)) for one in psutil.Process().children())

    monkeypatch.setattr(interleaving, "core_seconds", used_by_children)
    cells = [candidate(tmp_path, name, BURN) for name in ("a", "b")]
    slices = TIMING._replace(slice_seconds=0.1)
    rounds = rounds_of(measure_set(1, [cells], slices, seed=1))
    assert max(one.others for each in rounds for one in each.slices) < 0.1


def test_what_a_process_uses_while_it_waits_is_known(tmp_path):
    cells = [candidate(tmp_path, "calm"), candidate(tmp_path, "spins", SPIN)]
    measured = measure_set(1, [cells], LONGER, seed=1)
    assert measured.waiting["calm"].cores < 0.05 < measured.waiting["spins"].cores


@pytest.mark.parametrize(
    "changes, reason",
    [
        ("raise SystemExit(3)", "exit status 3"),
        ("def step(): raise ValueError('no such step')", "ValueError: no such step"),
        ("def end(): sys.exit(4)", "exit status 4"),
        ("def end(): pass", "exit status 0"),
        (
            "def end():\n    with open(events, 'w') as file: file.write(json.dumps(dict("
            "event='result', status='unsupported', reason='no bf16')) + '\\n')",
            "unsupported: no bf16",
        ),
        ("def usage(): return 'much', 0", "cpu_before"),
    ],
)  # fmt: skip
def test_a_process_that_fails_is_named_with_the_reason(tmp_path, changes, reason):
    cells = [candidate(tmp_path, "well"), candidate(tmp_path, "ill", changes)]
    with pytest.raises(Failed, match=reason) as failed:
        measure_set(1, [cells], TIMING, seed=1)
    assert failed.value.cell == "ill"


def test_a_process_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(interleaving, "BUILD_SECONDS", 0.5)
    hangs = "open(events + '.pid', 'w').write(str(os.getpid())); time.sleep(1000)"
    cell = candidate(tmp_path, "hangs", hangs)
    with pytest.raises(Failed, match="did not answer"):
        measure_set(1, [[candidate(tmp_path, "well"), cell]], TIMING, seed=1)
    pid = tmp_path / "hangs/events.jsonl.pid"
    if pid.exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


@pytest.mark.long
def test_rounds_go_on_until_enough_are_quiet_or_there_are_too_many(tmp_path, monkeypatch):
    cells = [candidate(tmp_path, name) for name in ("a", "b")]
    used = iter(range(10**9))
    monkeypatch.setattr(interleaving, "REST", 0.0)
    # A hypervisor may move the cores, for which slices are repeated too.
    monkeypatch.setattr(core_latency, "reader", lambda cores: nullcontext(None))
    monkeypatch.setattr(interleaving, "core_seconds", lambda cores: float(next(used)))
    # A slice is repeated, and the wait before it ends, once ten times three rounds should be over.
    begin = time.monotonic()
    measured = measure_set(1, [cells], PATIENT, seed=1)
    assert time.monotonic() - begin > 10 * 3 * 2 * 0.03
    assert len(rounds_of(measured)) == 6 and len(measured.set_aside) == 1
    monkeypatch.setattr(interleaving, "core_seconds", lambda cores: 0.0)
    assert len(rounds_of(measure_set(1, [cells], PATIENT, seed=1))) == 3


@pytest.mark.parametrize(
    ("busy", "rounds"),
    [(0, 3), (1, 4), (10**9, 6)],
    ids=["quiet", "one round is not quiet", "none is quiet"],
)
def test_a_set_whose_time_is_over_ends_with_three_quiet_rounds_or_six(
    busy, rounds, tmp_path, monkeypatch
):
    cells = [candidate(tmp_path, name) for name in ("a", "b")]
    used = chain(range(busy), repeat(busy))
    monkeypatch.setattr(interleaving, "core_seconds", lambda cores: float(next(used)))
    late = TIMING._replace(rounds=10)
    assert len(rounds_of(measure_set(1, [cells], late, seed=1))) == rounds
    at_once = late._replace(least_rounds=0)
    assert len(rounds_of(measure_set(1, [cells], at_once, seed=1))) == 1


def test_what_does_not_fit_into_memory_takes_turns_in_pairs(tmp_path):
    sizes = {"base": 100, "small": 50, "large": 300, "huge": 1000}
    cells = [candidate(tmp_path, name, memory=size) for name, size in sizes.items()]
    assert groups_that_fit(cells, 1450) == ([cells], {})
    base, small, large, _ = cells
    pairs, left = groups_that_fit(cells, 500)
    assert pairs == [[base, small], [base, large]]
    assert list(left) == ["huge"] and "1,100 MiB" in left["huge"]


def test_pairs_are_measured_one_after_another(tmp_path):
    a, b, c = (candidate(tmp_path, name) for name in "abc")
    measured = measure_set(1, [[a, b], [a, c]], TIMING, seed=1)
    assert [turns.cells for turns in measured.turns] == [["a", "b"], ["a", "c"]]
    json.dumps(measured)


def test_a_comparison_has_one_line_in_a_log(tmp_path, capsys):
    cells = [candidate(tmp_path, name) for name in ("a", "b")]
    options = Interleave(
        sets=3, rounds=3, slice_seconds=0.02, lead_seconds=0.01, max_seconds=0.1
    )  # fmt: skip
    interleave.measure("two", "identity", options, cells, {}, tmp_path / "sets")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("in turn  two  3 sets  ") and " rounds quiet  " in line


def test_a_fault_in_turns_is_tried_again_then_recorded(tmp_path):
    """As that of a run; whatever a cell needs too much of is no fault."""
    killed = "import signal\nos.kill(os.getpid(), signal.SIGKILL)"
    cells = [candidate(tmp_path, "a"), candidate(tmp_path, "b", killed)]
    options = Interleave(sets=3, rounds=3, slice_seconds=0.02, max_seconds=0.1)
    folder = tmp_path / "sets"
    folder.mkdir()
    with pytest.raises(Fault, match="^b takes no turn: its process ended with exit status -9$"):
        interleave.measure("two", "identity", options, cells, {}, folder, final=False)
    assert attempts.faults(str(folder)) == 0
    found = interleave.measure("two", "identity", options, cells, {}, folder)
    assert list(found.excluded) == ["b"] and attempts.faults(str(folder)) == 1
    said = json.dumps({"event": "result", "status": "oom", "reason": "too large"})
    large = f"print({said!r}, file=open(events, 'w'))\nsys.exit(1)"
    cells[1] = candidate(tmp_path, "b", large)
    found = interleave.measure("two", "identity", options, cells, {}, folder, final=False)
    assert found.excluded == {"b": "oom: too large"} and attempts.faults(str(folder)) == 1


@pytest.mark.parametrize("precision", [None, 1e-6])
def test_a_set_may_have_the_time_that_those_before_it_did_not_need(
    precision, tmp_path, monkeypatch
):
    sets, given = computed({"a": 1.0, "b": 1.0}, sets=5).sets, []

    def measured_at_once(number, groups, timing, seed, least):
        given.append(timing.max_seconds)
        return sets[number - 1]

    monkeypatch.setattr(interleave, "measure_set", measured_at_once)
    cells = [candidate(tmp_path, name) for name in ("a", "b")]
    options = Interleave(sets=3, precision=precision, max_sets=5, max_seconds=30.0)
    interleave.measure("two", "identity", options, cells, {}, tmp_path / "sets")
    assert given == pytest.approx([10, 20, 30, 30, 30] if precision else [10, 20, 30], abs=1)


@pytest.mark.parametrize(
    ("latencies", "waits"),
    [
        ([120.0] * 5, [True] * 5),
        ([120.0, 120.0, 500.0, 120.0, 120.0], [True, True, True, False, True]),
    ],
)
def test_more_sets_wait_for_near_cores_only_if_those_before_had_them(
    latencies, waits, tmp_path, monkeypatch
):
    sets, given = computed({"a": 1.0, "b": 1.0}, sets=5).sets, []
    for one, latency in zip(sets, latencies, strict=True):
        (turns,) = one.turns
        turns.rounds[:] = [with_latencies(each, latency) for each in turns.rounds]

    def measured_at_once(number, groups, timing, seed, least):
        given.append(timing.near)
        return sets[number - 1]

    monkeypatch.setattr(interleave, "measure_set", measured_at_once)
    cells = [candidate(tmp_path, name) for name in ("a", "b")]
    options = Interleave(sets=3, precision=1e-6, max_sets=5)
    interleave.measure("two", "identity", options, cells, {}, tmp_path / "sets")
    assert given == waits


@pytest.mark.long
def test_a_set_has_enough_rounds_with_near_cores(tmp_path, monkeypatch):
    for module in ("schema.interleaved", "measure.interleaving"):
        monkeypatch.setattr(f"touchstone.{module}.QUIET", inf)
    # With 600 ns the work before a slice is repeated, with 610 ns the slice.
    latencies = chain([150.0, 160.0, 600.0, 160.0, 610.0], repeat(170.0))
    monkeypatch.setattr(core_latency, "reader", lambda cores: nullcontext(lambda: next(latencies)))
    cells = [candidate(tmp_path, name) for name in ("a", "b")]
    measured = measure_set(1, [cells], PATIENT, seed=1)
    read = [part.core_latency for each in measured.rounds for part in each.slices]
    assert read == [160.0, *repeat(170.0, 5)]
    assert [part.core_latency for part in measured.set_aside] == [610.0]
    # The least of the sets before counts too.
    latencies = repeat(600.0)
    measured = measure_set(2, [cells], PATIENT, seed=1, least=150.0)
    assert len(measured.rounds) == 6 and len(measured.set_aside) <= 1
    # A set that does not wait for near cores repeats no slice.
    latencies = cycle([150.0, 600.0])
    measured = measure_set(3, [cells], PATIENT._replace(near=False), seed=1, least=150.0)
    assert len(measured.rounds) == 3 and not measured.set_aside


def test_what_spins_after_a_slice_is_stopped_while_the_cores_are_read(tmp_path, monkeypatch):
    states = []

    def read():
        pid = (tmp_path / "spins/events.jsonl.pid").read_text()
        deadline = time.monotonic() + 10  # the signal takes a moment to reach all threads
        while True:
            threads = Path("/proc", pid, "task").glob("*/stat")
            found = {one.read_text().rpartition(") ")[2][0] for one in threads}
            if found == {"T"} or time.monotonic() > deadline:
                states.append(found)
                return 150.0
            time.sleep(0.001)

    monkeypatch.setattr(core_latency, "reader", lambda cores: nullcontext(read))
    tells = "\nwith open(events + '.pid', 'w') as file: file.write(str(os.getpid()))"
    measure_set(1, [[candidate(tmp_path, "spins", SPIN + tells)]], TIMING, seed=1)
    assert len(states) >= 6 and all(each == {"T"} for each in states)
