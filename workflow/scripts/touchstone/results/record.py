"""From the four files of a run to its record: metrics, flags and provenance."""

from pathlib import Path
from typing import Any

from touchstone.results import untested
from touchstone.results.evidence import Evidence
from touchstone.results.files import FORMAT
from touchstone.results.flags import flags_of, noisy_flags
from touchstone.results.losses import epoch_means, evaluations_of, losses_of
from touchstone.results.measured import Censored, MetricValue, events_error
from touchstone.results.metrics import METRICS, absent, values_of
from touchstone.results.phases import (
    Phase,
    measured_chunks,
    phases_of,
    planned_steps,
    steps_before,
)
from touchstone.results.run_files import Run, read_run
from touchstone.safe_text import one_line
from touchstone.schema.events import Outcome, Report, Result, Settings, Software
from touchstone.schema.spec import ProgramSpec, TrainingSpec, epochs_of
from touchstone.schema.status import DIVERGED, ERROR, OK
from touchstone.schema.values import to_json

REPORTS = 200
"""Reports of a program that its record keeps, about."""


def build_record(folder: Path, fault: str | None = None) -> dict[str, Any]:
    """Judge one run.

    Args:
        folder: holds `spec.json`, `events.jsonl`, `telemetry.csv` and `env.json`.
        fault: why `events.jsonl` does not count; the run is then an `error` with this reason.

    Returns:
        The record, as `workflow/schemas/record.schema.json` describes it.

    Raises:
        EventsError: `events.jsonl` is damaged, or contradicts itself or the spec.
        InputError: another file is missing or damaged.
    """
    run = read_run(folder, [Outcome(ERROR, fault, None, 0.0, 0.0, None)] if fault else None)
    outcome = run.outcome
    status = outcome.status
    phases = phases_of(run)
    steps, losses = losses_of(run)
    steps_per_epoch, steps_planned = planned_steps(run, steps, phases)
    if status == OK:
        _check_finished(run, phases, steps, steps_planned)
    finished = status not in (DIVERGED, ERROR) and steps == steps_planned and "measured" in phases
    if "measured" in phases:
        _check_measured(run, phases["measured"], steps_before(phases))
    stated = [outcome.reason, *(result.reason for result in run.of(Result))]
    reason = None if status == OK else one_line(next(filter(None, stated), "no reason given"))
    software = _software(run)
    if status == ERROR:
        installed = run.env["software"].get("packages") or ()
        remark = untested.remark(run.spec.factors.framework, software.get("version"), installed)
        reason = "; ".join(filter(None, (reason, remark)))
    means = epoch_means(losses, steps_per_epoch)
    evaluations = [] if status == ERROR else evaluations_of(run, phases)
    evidence = Evidence(run, phases, means, evaluations, finished)
    values = values_of(evidence, f"{status}: {reason}")
    settings: dict[str, Any] = next((to_json(event) for event in run.of(Settings)), {})
    return {
        "format": FORMAT,
        "cell": run.spec.cell,
        "repeat": run.spec.repeat,
        "status": status,
        "reason": reason,
        "factors": to_json(run.spec.factors),
        "flags": flags_of(run, phases, settings, values) if finished else noisy_flags(values),
        "metrics": {name: _metric(name, value) for name, value in values.items()},
        "phases": {name: phase.seconds for name, phase in phases.items()},
        "evaluations": evaluations,
        **({"reports": reports} if (reports := _reports(run)) else {}),
        "losses": [{"epoch": i, "loss": mean} for i, mean in enumerate(means, start=1)],
        "provenance": {
            "seed": run.spec.seed,
            "deviations": run.spec.deviations,
            "started": run.env["run"]["started"],
            **({"data": run.env["data"]} if run.env.get("data") is not None else {}),
            "machine": run.env["machine"],
            "environment": {k: v for k, v in run.env["run"].items() if k != "started"},
            "software": {**run.env["software"], **software},
            "settings": settings,
            "trials": to_json(run.spec.trials or []),
            "start": run.env["start"],
            "unknown": run.env["unknown"],
            "run": folder.as_posix(),
            **({"nodes": _nodes(run)} if run.nodes else {}),
        },
        **({"log_tail": [*map(one_line, outcome.log_tail or [])]} if status == ERROR else {}),
    }


def _metric(name: str, value: MetricValue | Censored) -> dict[str, Any]:
    """A metric as the record has it."""
    if isinstance(value, Censored):
        return {**absent(name, value.reason), "censored_at": value.at}
    if isinstance(value, str):
        return absent(name, value)
    return {"value": value, "unit": METRICS[name].unit}


def _reports(run: Run) -> list[dict[str, Any]]:
    """What a program reported: of many reports the first, the last and some between them."""
    reports = list(run.of(Report))
    every = -(-len(reports) // REPORTS) or 1
    kept = [*reports[::every], *(reports[-1:] if (len(reports) - 1) % every else [])]
    return [{"step": event.step, "loss": event.loss, "accuracy": event.accuracy} for event in kept]


def _nodes(run: Run) -> list[dict[str, Any]]:
    """The nodes of a run on several, and by how much their clocks may be wrong (s)."""
    first = {"machine": run.env["machine"], "clock_uncertainty": 0.0}
    return [
        first,
        *({"machine": n.env["machine"], "clock_uncertainty": n.uncertainty} for n in run.nodes),
    ]


def _software(run: Run) -> dict[str, Any]:
    """The framework, its version and those of its libraries, by name."""
    for event in run.of(Software):
        return {"framework": event.framework, "version": event.version, **event.others}
    return {}


def _check_finished(run: Run, phases: dict[str, Phase], steps: int, planned: int) -> None:
    """InputError when a run calls itself ok without the evidence: no early stop counts as ok."""
    result = [event.status for event in run.of(Result)]
    if result != [OK]:
        raise events_error(run, f"the outcome is ok, but the runner's results are {result}")
    needed = ("measured",) if isinstance(run.spec, ProgramSpec) else ("first_step", "measured")
    for name in needed:
        if name not in phases:
            raise events_error(run, f"the outcome is ok, but there is no {name} phase")
    if steps != planned:
        raise events_error(run, f"the outcome is ok after {steps} of {planned} planned steps")


def _check_measured(run: Run, measured: Phase, before: int) -> None:
    """InputError when the measured phase contradicts its own chunks or the batch size; `before` are
    the steps before it."""
    steps = sum(chunk.steps for chunk in measured_chunks(run, measured))
    if measured.seconds <= 0 or measured.steps < 1 or measured.steps != steps:
        cause = f"the measured phase states {measured.steps} steps in {measured.seconds:g} s"
        raise events_error(run, f"{cause}, its chunks have {steps}")
    if isinstance(run.spec, ProgramSpec):
        return  # its script says how many examples a step has
    expected = measured.steps * run.spec.factors.batch_size
    if isinstance(run.spec, TrainingSpec):
        expected = epochs_of(run.spec).examples_of(before, measured.steps)
    if measured.examples != expected:
        cause = f"the measured phase states {measured.examples} examples"
        raise events_error(run, f"{cause}, its steps x batch size are {expected}")
