"""The trials of the mode `best`: what is tried, and how trials are judged."""

import pytest

from fixtures.runs import make_run
from fixtures.specs import changed, training_spec
from touchstone.measure.trials import (
    MEASURED_SECONDS,
    Settings,
    fastest,
    folder_of,
    most_trials,
    search,
    settings_of,
    trial_from,
    trial_spec,
)
from touchstone.plan import frameworks
from touchstone.schema.spec import Trial
from touchstone.schema.status import OK

MODES = ("static", "hybrid")
OPEN = training_spec().execution._replace(mode="best", threads=None)
DEFAULT = Settings("static", None, "default")


def tried(speed, execution=OPEN, waits=True, cores=8):
    """What a run tries, and chooses, where `speed` is that of a mode, threads and a wait policy."""

    def attempt(settings):
        return Trial(*settings, OK, None, speed(*settings), None, "")

    trials = search(execution, MODES, waits, cores, attempt)
    best = fastest(trials)
    return [settings_of(trial) for trial in trials], best and settings_of(best)


def test_each_setting_is_tried_with_the_fastest_values_of_those_before_it():
    def speed(mode, threads, wait):
        return (mode == "hybrid") + 1 / abs((threads or 8) - 4.5) + (wait == "passive")

    settings, best = tried(speed)
    assert settings == [
        ("static", None, "default"), ("hybrid", None, "default"),
        ("hybrid", 1, "default"), ("hybrid", 4, "default"),
        ("hybrid", 4, "passive"), ("hybrid", 4, "active"),
    ]  # fmt: skip
    assert best == ("hybrid", 4, "passive")


def test_what_was_tried_first_stays_chosen_where_nothing_is_faster():
    settings, best = tried(lambda mode, threads, wait: threads is None and wait == "default")
    assert len(settings) == 6
    assert best == DEFAULT


def test_one_thread_waits_for_nobody():
    settings, best = tried(lambda mode, threads, wait: 1 / (threads or 8))
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


def test_where_no_mode_passes_nothing_else_is_tried():
    settings, best = tried(lambda *settings: None)
    assert (len(settings), best) == (len(MODES), None)


def test_the_frameworks_whose_idle_threads_heed_a_wait_policy():
    heeding = {name for name in frameworks.adapters() if frameworks.waits(name)}
    assert heeding == {"cntk", "mxnet", "onnxruntime", "pytorch"}


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


def test_what_a_trial_says(tmp_path):
    make_run(tmp_path)
    trial = trial_from(tmp_path / "events.jsonl", DEFAULT, "trials/static")
    assert trial == Trial(*DEFAULT, OK, None, 256.0, 1.0, "trials/static")


def test_a_trial_that_failed_has_its_reason_and_no_speed(tmp_path):
    make_run(tmp_path / "a", status="unsupported", reason="no compiler")
    make_run(tmp_path / "b", status="oom", reason="no memory left", steps=12)
    trials = [trial_from(tmp_path / name / "events.jsonl", DEFAULT, name) for name in "ab"]
    assert [trial[3:] for trial in trials] == [
        ("unsupported", "no compiler", None, None, "a"),
        ("oom", "no memory left", None, 1.0, "b"),
    ]
