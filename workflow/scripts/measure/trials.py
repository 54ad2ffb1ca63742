"""Which of a framework's execution modes is the fastest: a short measured run of each."""

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

WARMUP_STEPS = 3
WARMUP_SECONDS = 1.0
MEASURED_SECONDS = 3.0
"""How long a trial measures, at most, after its first step and warm-up, s."""


def trial_of(spec: dict[str, Any], mode: str) -> dict[str, Any]:
    """The spec of the trial of `mode`: the run's own, but for its length; it evaluates nothing."""
    trial = copy.deepcopy(spec)
    trial["execution"]["mode"] = mode
    trial["phases"].update(
        evaluate_every=0,
        warmup_steps=WARMUP_STEPS,
        warmup_seconds=WARMUP_SECONDS,
        measured_seconds=MEASURED_SECONDS,
    )
    return trial


def outcome_of(mode: str, events: Path) -> dict[str, Any]:
    """How the trial that left these events went.

    Returns:
        `mode`, `status`, `reason`; `throughput` (images/s) and `first_step_time` (s), or None.
    """
    lines = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    phases = {line["name"]: line for line in lines if line["event"] == "phase"}
    seconds = {name: phase["end"] - phase["begin"] for name, phase in phases.items()}
    status, reason = lines[-1]["status"], lines[-1]["reason"]
    measured = status == "ok" and seconds.get("measured")
    return {
        "mode": mode,
        "status": status,
        "reason": reason,
        "throughput": phases["measured"]["examples"] / measured if measured else None,
        "first_step_time": seconds.get("first_step"),
    }


def fastest(trials: Iterable[dict[str, Any]]) -> str | None:
    """The mode of the trial with the highest throughput; None where all failed."""
    passed = [trial for trial in trials if trial["throughput"] is not None]
    best = max(passed, key=lambda trial: float(trial["throughput"]), default=None)
    return None if best is None else str(best["mode"])
