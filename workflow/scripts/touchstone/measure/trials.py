"""Which mode, how many threads and which waiting are the fastest: a short measured run of each."""

import copy
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

TRIED = ("mode", "threads", "wait_policy")
"""The settings that trials change: one is chosen before the next one is tried."""
WAIT_POLICIES = ("passive", "active")
MANY = 4
"""So many cores, or more, have the most numbers of threads to try."""
WARMUP_STEPS = 3
WARMUP_SECONDS = 1.0
MEASURED_SECONDS = 3.0
"""How long a trial measures, at most, after its first step and warm-up, s."""


def to_try(
    setting: str, execution: dict[str, Any], modes: Sequence[str], waits: bool, cores: int
) -> Sequence[Any]:
    """The values of a setting to try: every mode, of the others those that are not tried yet.

    What the study sets is not tried, and on a GPU or with several replicas nothing but modes.

    Args:
        execution: that of a spec, with the fastest values of the settings before this one.
        modes: the framework's.
        waits: whether its idle threads heed a wait policy.
        cores: that the run may use.
    """
    if setting == "mode":
        return modes
    if execution["device"] != "cpu" or "replicas" in execution:
        return ()
    if setting == "threads":
        return sorted({1, cores // 2} - {0, cores}) if execution["threads"] is None else ()
    several = (execution["threads"] or cores) > 1
    return WAIT_POLICIES if waits and several and execution["wait_policy"] == "default" else ()


def most(execution: dict[str, Any], modes: Sequence[str], waits: bool) -> int:
    """The largest number of trials that a run can make, on whatever machine."""
    return sum(len(to_try(setting, execution, modes, waits, MANY)) for setting in TRIED)


def search(
    execution: dict[str, Any],
    modes: Sequence[str],
    waits: bool,
    cores: int,
    attempt: Callable[[dict[str, Any]], dict[str, Any]],
) -> list[dict[str, Any]]:
    """All trials of a run, in their order; see `to_try`.

    `attempt` makes the trial of some settings and returns how it went, as `outcome_of` does. Where
    no mode passes, nothing else is tried.
    """
    trials: list[dict[str, Any]] = []
    for setting in TRIED:
        own = {name: execution[name] for name in TRIED}
        for value in to_try(setting, execution, modes, waits, cores):
            settings = {**own, setting: value}
            trials.append({**settings, **attempt(settings)})
        best = settings_of(fastest(trials))
        if best is None:
            break
        execution = {**execution, **best}
    return trials


def folder_of(settings: dict[str, Any], execution: dict[str, Any]) -> str:
    """Where the files of a trial are in the folder of its run: it names the mode, and what else is
    not the `execution`'s own."""
    words = [settings["mode"]]
    if settings["threads"] != execution["threads"]:
        words.append(f"threads{settings['threads']}")
    if settings["wait_policy"] != execution["wait_policy"]:
        words.append(settings["wait_policy"])
    return f"trials/{'-'.join(words)}"


def trial_of(spec: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The spec of the trial of some settings: the run's own, but for its length; it evaluates
    nothing."""
    trial = copy.deepcopy(spec)
    trial["execution"].update(settings)
    trial["phases"].update(
        evaluate_every=0,
        warmup_steps=WARMUP_STEPS,
        warmup_seconds=WARMUP_SECONDS,
        measured_seconds=MEASURED_SECONDS,
    )
    return trial


def outcome_of(events: Path) -> dict[str, Any]:
    """How the trial that left these events went.

    Returns:
        `status`, `reason`; `throughput` (images/s) and `first_step_time` (s), or None.
    """
    lines = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    phases = {line["name"]: line for line in lines if line["event"] == "phase"}
    seconds = {name: phase["end"] - phase["begin"] for name, phase in phases.items()}
    status, reason = lines[-1]["status"], lines[-1]["reason"]
    measured = status == "ok" and seconds.get("measured")
    return {
        "status": status,
        "reason": reason,
        "throughput": phases["measured"]["examples"] / measured if measured else None,
        "first_step_time": seconds.get("first_step"),
    }


def fastest(trials: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """The trial with the highest throughput; None where all failed."""
    passed = [trial for trial in trials if trial["throughput"] is not None]
    return max(passed, key=lambda trial: float(trial["throughput"]), default=None)


def settings_of(trial: dict[str, Any] | None) -> dict[str, Any] | None:
    """What a trial tried: the settings of `TRIED` with their values."""
    return trial and {name: trial[name] for name in TRIED}
