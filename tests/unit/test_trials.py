"""The trials of the mode `best`: what is tried, who takes turns, and what is chosen."""

import random
import time
from contextlib import nullcontext
from math import exp
from pathlib import Path

import psutil
import pytest

from fixtures.runs import make_run
from fixtures.specs import changed, training_spec
from fixtures.turns import candidate
from touchstone.measure import core_latency, interleaving
from touchstone.measure.interleaving import Failed, FailedBeside, Timing, measure_unknown
from touchstone.measure.trials import (
    COST,
    LEAST_SETS,
    MEASURED_SECONDS,
    MOST_SETS,
    ONE_AFTER_ANOTHER,
    ROUNDS,
    Search,
    Settings,
    chosen,
    folder_of,
    most_trials,
    set_of_runs,
    settings_of,
    slice_of,
    trial_spec,
)
from touchstone.plan import frameworks
from touchstone.results.trials import TurnsJudge, compare, trials_of
from touchstone.schema.interleaved import MeasuredSet, Round, Slice, Turns
from touchstone.schema.spec import Trial
from touchstone.schema.status import OK, OOM, UNSUPPORTED

pytestmark = pytest.mark.long

MODES = ("static", "hybrid")
OPEN = training_spec().execution._replace(mode="best", threads=None)
DEFAULT = Settings("static", None, "default")
PAIR = OPEN._replace(threads=2, wait_policy="passive")
"""An execution of which only modes are tried."""
NOWHERE = Path("no folder")
START = 3.0
"""Seconds that a process takes to start and warm up, where sets are computed."""


class Computed:
    """Sets of settings with the `speed` of a mode, threads and a wait policy; `noise` is that of
    the logarithm of a slice, and `apart` that of a process. `others` says how many cores other
    programs use in a set. Settings in `ill` fail, those in `crowded` with others beside them."""

    def __init__(self, speed, noise=0.02, apart=0.0, others=lambda number: 0.0, seed=1, **ill):
        self.speed, self.noise, self.apart, self.others = speed, noise, apart, others
        self.ill, self.crowded = ill.get("ill", {}), ill.get("crowded", ())
        self.random, self.groups = random.Random(seed), []
        self.fits, self.execution = ill.get("fits", 9), OPEN

    def __call__(self, number, settings, least):
        names = {folder_of(one, self.execution): one for one in settings}
        first = next(iter(names))
        if first in self.ill:
            raise Failed(first, *self.ill[first])
        if len(names) > 1 and first in self.crowded:
            raise FailedBeside(first, "no memory left", OOM)
        self.groups.append(settings)
        failed = [Failed(name, *self.ill[name]) for name in names if name in self.ill]
        well = {name: one for name, one in names.items() if name not in self.ill}
        well = dict(list(well.items())[: self.fits])
        levels = {
            name: self.speed(*one) * exp(self.random.gauss(0, self.apart))
            for name, one in well.items()
        }
        rounds = [self.round(levels, self.others(number)) for _ in range(ROUNDS)]
        seconds = len(names) * (START + ROUNDS * 0.55)
        return MeasuredSet(number, "", seconds, [Turns(list(well), rounds, [])], {}), failed

    def round(self, levels, others):
        pace = exp(self.random.gauss(0, 0.1))
        return Round([
            Slice(name, 0.0, 0.4, round(4e5 * level * pace * exp(self.random.gauss(0, self.noise))),
                  others)
            for name, level in levels.items()
        ])  # fmt: skip


def searched(measure, execution=OPEN, modes=MODES, waits=True, cores=8, in_pairs=False):
    """A search that is over, and what it found."""
    measure.execution = execution
    search = Search(execution, measure, TurnsJudge(), in_pairs)
    return search, search.run(modes, waits, cores)


def tried(speed, execution=OPEN, waits=True, cores=8):
    """What a run tries, and chooses, where `speed` is that of a mode, threads and a wait policy."""
    search, choice = searched(Computed(speed), execution, waits=waits, cores=cores)
    return list(search.tried.values()), choice


# What is tried


def test_each_setting_is_tried_with_the_fastest_values_of_those_before_it():
    def speed(mode, threads, wait):
        return (1 + (mode == "hybrid")) * (1 + (threads == 4)) * (1 + (wait == "passive"))

    settings, best = tried(speed)
    assert settings == [
        ("static", None, "default"), ("hybrid", None, "default"),
        ("hybrid", 1, "default"), ("hybrid", 4, "default"),
        ("hybrid", 4, "passive"), ("hybrid", 4, "active"),
    ]  # fmt: skip
    assert best == ("hybrid", 4, "passive")


def test_the_default_stays_where_nothing_is_faster():
    settings, best = tried(lambda mode, threads, wait: 1 + (threads is None and wait == "default"))
    assert len(settings) == 6
    assert best == DEFAULT


def test_one_thread_waits_for_nobody():
    settings, best = tried(lambda mode, threads, wait: 8 / (threads or 8))
    assert settings[-2:] == [("static", 1, "default"), ("static", 4, "default")]
    assert best.threads == 1
    assert len(tried(lambda *settings: 1.0, cores=1)[0]) == len(MODES)


@pytest.mark.parametrize(
    ("own", "waits", "found"),
    [
        ({}, False, [1, 4]),
        ({"threads": 2}, True, ["passive", "active"]),
        ({"threads": 1}, True, []),
        ({"wait_policy": "active"}, True, [1, 4]),
        ({"device": "gpu"}, True, []),
        ({"replicas": 2}, True, []),
    ],
)
def test_only_what_the_study_leaves_open_is_tried(own, waits, found):
    execution = OPEN._replace(**own)
    settings, _ = tried(lambda *settings: 1.0, execution, waits)
    assert len(settings) == len(MODES) + len(found) == most_trials(execution, MODES, waits)
    for value, others in zip(found, settings[len(MODES) :], strict=True):
        assert value in others and others[0] == "static"


@pytest.mark.parametrize(("cores", "numbers"), [(2, [1]), (3, [1]), (4, [1, 2]), (64, [1, 32])])
def test_the_numbers_of_threads_are_one_and_half_of_the_cores(cores, numbers):
    settings, _ = tried(lambda *settings: 1.0, waits=False, cores=cores)
    assert [threads for _, threads, _ in settings[len(MODES) :]] == numbers


def test_the_frameworks_whose_idle_threads_heed_a_wait_policy():
    heeding = {name for name in frameworks.adapters() if frameworks.supports_wait_policy(name)}
    assert heeding == {"cntk", "mxnet", "onnxruntime", "pytorch"}


# Who takes turns


def test_what_is_not_faster_drops_out_and_the_fastest_is_measured_again_with_the_default():
    speeds = {"static": 1.0, "hybrid": 1.5, "imperative": 0.5}
    measure = Computed(lambda mode, *_: speeds[mode])
    search, choice = searched(measure, PAIR, tuple(speeds))
    assert [[one.mode for one in group] for group in measure.groups] == [
        [*speeds], *[["static", "hybrid"]] * (LEAST_SETS - 1)
    ]  # fmt: skip
    static, hybrid, imperative = trials_of(search, choice, NOWHERE)
    assert (static.ratio, static.low, static.sets, static.chosen) == (1.0, None, 3, False)
    assert hybrid.chosen and 1 < hybrid.low < hybrid.ratio < hybrid.high
    assert (hybrid.sets, imperative.sets) == (3, 1)
    assert imperative.low < imperative.ratio < imperative.high < 1
    assert hybrid.ratio == pytest.approx(1.5, rel=0.05)
    assert hybrid.throughput == pytest.approx(1.5e6, rel=0.2)


def test_the_default_takes_part_in_every_set():
    measure = Computed(lambda mode, threads, wait: 1 + (mode == "hybrid"))
    searched(measure)
    assert all(group[0] == DEFAULT for group in measure.groups)


def test_nothing_is_measured_again_where_no_mode_is_faster():
    measure = Computed(lambda mode, *_: 1.0)
    search, choice = searched(measure, PAIR)
    assert (len(measure.groups), choice.mode) == (1, "static")
    _, hybrid = trials_of(search, choice, NOWHERE)
    assert hybrid.low < 1 < hybrid.high and not hybrid.chosen


def test_turns_cost_at_most_twice_as_much_as_trials_one_after_another():
    for seed in range(20):
        measure = Computed(lambda mode, threads, wait: 1 + 0.1 * (mode == "hybrid"), apart=0.1,
                           seed=seed)  # fmt: skip
        search, _ = searched(measure)
        spent = sum(one.seconds for one in search.sets)
        assert spent <= COST * len(search.tried) * (START + ONE_AFTER_ANOTHER)
        assert len(search.sets) <= MOST_SETS + 2


@pytest.mark.parametrize(("apart", "noise"), [(0.0, 0.05), (0.05, 0.05), (0.2, 0.1)])
def test_of_equal_settings_another_than_the_default_is_seldom_chosen(apart, noise):
    """At most 1 of 20 times, whatever differs from process to process."""
    others = 0
    for seed in range(200):
        measure = Computed(lambda *settings: 1.0, noise, apart, seed=seed)
        others += searched(measure)[1] != DEFAULT
    assert others <= 10


def test_a_mode_that_fails_is_dropped_with_its_reason():
    ill = {"trials/hybrid": ("no compiler", UNSUPPORTED)}
    search, choice = searched(Computed(lambda *_: 1.0, ill=ill), PAIR)
    static, hybrid = trials_of(search, choice, NOWHERE)
    assert (hybrid.status, hybrid.reason, hybrid.throughput) == ("unsupported", "no compiler", None)
    assert static.chosen and choice.mode == "static"


def test_where_the_default_fails_the_fastest_other_mode_is_chosen():
    speeds = {"static": 9.0, "hybrid": 1.0, "imperative": 2.0}
    ill = {"trials/static": ("no memory left", OOM)}
    search, choice = searched(Computed(lambda mode, *_: speeds[mode], ill=ill), PAIR, tuple(speeds))
    static, hybrid, imperative = trials_of(search, choice, NOWHERE)
    assert (static.status, static.ratio, hybrid.ratio) == ("oom", None, 1.0)
    assert choice.mode == "imperative" and imperative.chosen


def test_where_no_mode_passes_nothing_else_is_tried_and_the_default_shows_why():
    ill = {f"trials/{mode}": ("no", UNSUPPORTED) for mode in MODES}
    search, choice = searched(Computed(lambda *_: 1.0, ill=ill))
    assert [one.mode for one in search.tried.values()] == [*MODES]
    assert choice == DEFAULT
    assert chosen(trials_of(search, choice, NOWHERE)) is None


def test_on_a_gpu_each_mode_takes_turns_with_the_default_only():
    speeds = {"static": 1.0, "hybrid": 1.2, "imperative": 2.0}
    measure = Computed(lambda mode, *_: speeds[mode])
    execution = PAIR._replace(device="gpu")
    _, choice = searched(measure, execution, tuple(speeds), in_pairs=True)
    groups = [[one.mode for one in group] for group in measure.groups]
    assert groups[:2] == [["static", "hybrid"], ["static", "imperative"]]
    assert {tuple(group) for group in groups[2:]} == {("static", "imperative")}
    assert choice.mode == "imperative"


def test_what_does_not_fit_into_memory_together_takes_turns_in_pairs():
    speeds = {"static": 1.0, "hybrid": 1.2, "imperative": 2.0}
    measure = Computed(lambda mode, *_: speeds[mode], fits=2)
    search, choice = searched(measure, PAIR, tuple(speeds))
    assert [one.turns[0].cells for one in search.sets[:2]] == [
        ["trials/static", "trials/hybrid"], ["trials/static", "trials/imperative"],
    ]  # fmt: skip
    assert choice.mode == "imperative"


def test_a_default_that_fails_only_beside_others_stays():
    speeds = {"static": 1.0, "hybrid": 1.2, "imperative": 2.0}
    measure = Computed(lambda mode, *_: speeds[mode], crowded=["trials/static"])
    search, choice = searched(measure, PAIR, tuple(speeds))
    assert choice.mode == "static" and "trials/static" not in search.failed
    reason = search.failed["trials/hybrid"].reason
    assert reason == "beside it trials/static failed: no memory left"


def test_rounds_beside_other_programs_show_nothing():
    measure = Computed(lambda mode, *_: 1.0 + (mode == "hybrid"), others=lambda number: 1.0)
    search, choice = searched(measure, PAIR)
    assert choice.mode == "static"
    static, hybrid = trials_of(search, choice, NOWHERE)
    assert (hybrid.ratio, hybrid.sets) == (None, 0)
    assert hybrid.throughput > static.throughput


def test_one_set_beside_another_program_does_not_hide_a_faster_mode():
    measure = Computed(lambda mode, *_: 1.0 + (mode == "hybrid"), others=lambda number: number == 2)
    search, choice = searched(measure, PAIR, (*MODES, "imperative", "compile"))
    assert choice.mode == "hybrid"
    assert compare(search.sets, "trials/hybrid", "trials/static").sets == LEAST_SETS


# Trials that are runs


def test_of_several_replicas_each_trial_is_a_run(tmp_path):
    names = ["trials/static", "trials/hybrid"]
    make_run(tmp_path / names[0])
    make_run(tmp_path / names[1], status="oom", reason="no memory left", steps=12)

    def attempt(name):
        return slice_of(tmp_path / name / "events.jsonl", name)

    one, (failed,) = set_of_runs(1, names, 1, attempt)
    ((part,),) = [each.slices for each in one.rounds]
    assert (part.cell, part.speed) == (names[0], 256.0)
    assert (failed.cell, failed.status, failed.reason) == (names[1], "oom", "no memory left")
    with pytest.raises(Failed, match="oom: no memory left"):
        set_of_runs(1, names[::-1], 1, attempt)


def test_runs_of_one_disturbed_set_decide_nothing():
    def measure(number, settings, least):
        def attempt(name):
            disturbed = number == 1 and name == "trials/static"
            return Slice(name, 0.0, 1.0, 50 if disturbed else 100 + number, 0.0)

        names = [folder_of(one, PAIR) for one in settings]
        one, failed = set_of_runs(number, names, 1, attempt)
        return one._replace(seconds=len(names) * 7.0), failed

    search, choice = searched(measure, PAIR)
    assert choice.mode == "static" and len(search.sets) > 1


# With processes


STEP = """
def step():
    end = time.process_time() + 0.004
    while time.process_time() < end: pass
EXAMPLES = {examples}
"""
"""A step of 4 ms of CPU time."""
LOAD = """
import signal, subprocess
load, plain, well = subprocess.Popen([sys.executable, "-c", "while True: pass"]), step, end
def step():
    load.send_signal(signal.SIGCONT)
    plain()
def rest(): load.send_signal(signal.SIGSTOP)
def end():
    load.kill()
    well()
rest()
"""
"""Another program on the core while this runner works. Its CPU time is no part of the runner's."""
QUICK = Timing(rounds=3, slice_seconds=0.1, lead_seconds=0.02, max_seconds=4.0)
SPEEDS = {"static": 10, "equal": 10, "slow": 5}


class Stood:
    """Measures stand-ins that do known work, a process each. Beside that of one setting, in one set
    or in all, another program works."""

    def __init__(self, folder, speeds, victim, disturbed=lambda number: True):
        self.folder, self.speeds = folder, speeds
        self.victim, self.disturbed, self.number = victim, disturbed, 0

    def __call__(self, number, settings, least):
        self.number = number
        cells = [self.candidate(one) for one in settings]
        return measure_unknown(number, cells, QUICK, 1, least)

    def candidate(self, settings):
        loaded = settings.mode == self.victim and self.disturbed(self.number)
        changes = STEP.format(examples=self.speeds[settings.mode]) + LOAD * loaded
        return candidate(self.folder, folder_of(settings, ONE), changes, threads=1)


ONE = OPEN._replace(threads=1)


def cpu_seconds(process):
    """CPU time of a process so far, s (clock_getcpuclockid(3))."""
    try:
        return time.clock_gettime(~process.pid << 3 | 2)
    except OSError:
        return 0.0


@pytest.fixture
def still(monkeypatch):
    """Cores that no hypervisor moves, and that nobody uses but the processes of this test."""

    def used(cores):
        return sum(map(cpu_seconds, psutil.Process().children(recursive=True)))

    monkeypatch.setattr(core_latency, "reader", lambda cores: nullcontext(None))
    monkeypatch.setattr(interleaving, "core_seconds", used)


@pytest.mark.parametrize("disturbed", [lambda number: True, lambda number: number == 1])
@pytest.mark.parametrize("victim", [*SPEEDS])
def test_with_a_load_beside_one_trial_nothing_slower_is_chosen(tmp_path, still, victim, disturbed):
    measure = Stood(tmp_path, SPEEDS, victim, disturbed)
    search, choice = searched(measure, ONE, tuple(SPEEDS), cores=1)
    assert not search.failed
    assert SPEEDS[choice.mode] == 10


def test_a_faster_stand_in_is_chosen_although_a_load_disturbed_its_first_set(tmp_path, still):
    speeds = {"static": 10, "fast": 40}
    measure = Stood(tmp_path, speeds, "static", lambda number: number == 2)
    search, choice = searched(measure, ONE, tuple(speeds), cores=1)
    assert choice.mode == "fast"
    *_, fast = trials_of(search, choice, tmp_path)
    assert 1 < fast.low < fast.high and fast.first_step_time is None


def test_a_stand_in_that_fails_is_left_out_with_its_reason(tmp_path, still):
    cells = [candidate(tmp_path, name, threads=1) for name in ("a", "b")]
    for place, ill in enumerate((
        "raise SystemExit(3)",
        "def step(): raise ValueError('no such step')",
        "def end(): sys.exit(4)",
        "def end():\n    with open(events, 'w') as file: file.write(json.dumps(dict("
        "event='result', status='oom', reason='too large')) + '\\n')",
    )):  # fmt: skip
        cells.append(candidate(tmp_path, f"ill{place}", ill, threads=1))
    one, failed = measure_unknown(1, cells, QUICK, 1)
    assert {"a", "b"} <= set(one.turns[0].cells)
    reasons = {fault.cell: (fault.status, fault.reason) for fault in failed}
    assert set(reasons) == {"ill0", "ill1", "ill2", "ill3"}
    assert reasons["ill3"] == ("oom", "too large")
    assert "exit status 3" in reasons["ill0"][1] and "no such step" in reasons["ill1"][1]
    with pytest.raises(Failed, match="exit status 3"):
        measure_unknown(1, cells[2:3] + cells[:2], QUICK, 1)


def test_a_first_one_that_fails_beside_others_says_so(tmp_path, still):
    counts = "count = [0]\ndef rest():\n    count[0] += 1\n    if count[0] > 2: sys.exit(5)"
    cells = [candidate(tmp_path, "a", counts, threads=1), candidate(tmp_path, "b", threads=1)]
    with pytest.raises(FailedBeside, match="exit status 5"):
        measure_unknown(1, cells, QUICK, 1)


def test_what_does_not_fit_beside_the_first_one_waits_for_its_turn(tmp_path, still, monkeypatch):
    cells = [candidate(tmp_path, name, threads=1) for name in "abc"]
    monkeypatch.setattr(interleaving, "available_mib", lambda: 0.0)
    one, failed = measure_unknown(1, cells, QUICK, 1)
    assert one.turns[0].cells == ["a"] and [fault.status for fault in failed] == ["oom"] * 2
    monkeypatch.setattr(interleaving.Process, "memory", lambda process: 100.0)
    monkeypatch.setattr(interleaving, "available_mib", lambda: 150.0)
    one, failed = measure_unknown(1, cells, QUICK, 1)
    assert (one.turns[0].cells, failed) == (["a", "b"], [])


# What a trial is


def test_a_folder_names_the_mode_and_what_is_not_the_cells_own():
    own = OPEN._replace(threads=4)
    named = [("static", 4, "default"), ("static", 1, "default"), ("static", 2, "passive")]
    assert [folder_of(Settings(*one), own) for one in named] == [
        "trials/static", "trials/static-threads1", "trials/static-threads2-passive",
    ]  # fmt: skip


def test_a_trial_is_the_run_with_other_settings_and_shorter():
    spec = changed(training_spec(), execution__mode="best", phases__evaluate_every=1)
    trial = trial_spec(spec, Settings("static", 2, "passive"))
    assert settings_of(trial.execution) == ("static", 2, "passive")
    assert trial.execution.device == "cpu"
    assert trial.phases.epochs == spec.phases.epochs and trial.phases.evaluate_every == 0
    assert trial.phases.measured_seconds == MEASURED_SECONDS
    assert spec.execution.mode == "best" and spec.phases.measured_seconds is None


def test_of_trials_of_older_versions_the_one_with_the_highest_throughput_was_chosen():
    slow = Trial("static", None, "default", OK, None, 1.0, 0.5, "trials/static")
    fast, ill = slow._replace(mode="hybrid", throughput=2.0), slow._replace(throughput=None)
    assert chosen([slow, ill, fast]) == fast
    assert chosen([ill]) is chosen([]) is None
    assert chosen([slow._replace(chosen=True), fast._replace(chosen=False)]).mode == "static"
