"""Losses and accuracies of a run."""

import math
from statistics import fmean
from typing import Any

from touchstone.results.measured import Answer, as_metric, events_error
from touchstone.results.metrics import CENSORED
from touchstone.results.phases import Phase, trained_until
from touchstone.results.run_files import Run


def losses_of(run: Run) -> tuple[int, list[float]]:
    """The number of steps, and the training loss of every one, in order, if it trained.

    Chunks must follow one another.
    """
    steps, losses = 0, list[float]()
    for chunk in run.of("chunk"):
        if chunk["first_step"] != steps:
            cause = f"a chunk begins at step {chunk['first_step']}, not {steps}"
            raise events_error(run, cause)
        steps += chunk["steps"]
        expected = chunk["steps"] if run.trains else 0
        if chunk["steps"] < 1 or len(chunk["losses"]) != expected:
            cause = f"a chunk of {chunk['steps']} steps has {len(chunk['losses'])} losses"
            raise events_error(run, cause)
        try:
            losses += map(float, chunk["losses"])
        except (TypeError, ValueError) as error:
            raise events_error(run, f"a loss is not a number ({error})") from None
    return steps, losses


def epoch_means(losses: list[float], steps: int) -> list[float | None]:
    """Mean loss of each complete epoch of `steps` steps; None where a loss is not finite."""
    complete = len(losses) // steps if steps else 0
    epochs = [losses[i * steps : (i + 1) * steps] for i in range(complete)]
    return [fmean(epoch) if all(map(math.isfinite, epoch)) else None for epoch in epochs]


def evaluations_of(run: Run, phases: dict[str, Phase]) -> list[dict[str, Any]]:
    """Accuracy and loss on the test set by epoch, and the seconds of training until then."""
    steps = 0
    ends: dict[int, float] = {}
    for name in ("first_step", "warmup", "measured"):
        for part in phases[name].parts if name in phases else ():
            steps += part.steps
            ends.setdefault(steps, part.end)
    found: list[dict[str, Any]] = []
    for event in run.of("evaluation"):
        examples = run.spec["data"]["test_examples"]
        if event["examples"] != examples or not 0 <= event["correct"] <= examples:
            cause = f"evaluated {event['correct']} / {event['examples']} correct"
            raise events_error(run, f"{cause}, the test set has {examples} examples")
        if not run.trains:
            continue
        if event["step"] not in ends:
            cause = f"an evaluation after step {event['step']}, where no phase ends"
            raise events_error(run, cause)
        loss = float(event["loss"])
        found.append(
            {
                "epoch": event["epoch"],
                "accuracy": event["correct"] / examples if examples else None,
                "loss": loss if math.isfinite(loss) else None,
                "seconds": trained_until(phases, ends[event["step"]]),
            }
        )
    return found


def to_accuracy(
    run: Run, evaluations: list[dict[str, Any]], status_reason: str
) -> dict[str, dict[str, Any]]:
    """The metrics of `CENSORED`: when an evaluation first reached the target accuracy.

    Of a run that went to its end or its time limit without, `censored_at` says how far it is
    known that more was needed.
    """
    status = run.of("outcome")[0]["status"]
    target = run.spec["phases"].get("target_accuracy")
    known = [each for each in evaluations if each["accuracy"] is not None]
    last = known[-1] if known and status in ("ok", "timeout") else None
    if target is None and status == "ok":
        return {name: as_metric(name, "the cell has no target accuracy") for name in CENSORED}
    if target is None or status in ("diverged", "error"):
        return {name: as_metric(name, status_reason) for name in CENSORED}
    reached = next((each for each in known if each["accuracy"] >= target), None)
    if reached:
        return {name: as_metric(name, reached[key]) for name, key in CENSORED.items()}
    if last is None:
        return {name: as_metric(name, status_reason) for name in CENSORED}
    reason = f"not reached within {last['epoch']} epochs"
    return {
        name: {**as_metric(name, reason), "censored_at": last[key]}
        for name, key in CENSORED.items()
    }


def final_loss(means: list[float | None]) -> Answer:
    if not means:
        return "no epoch was completed"
    return "a loss of the last epoch is not finite" if means[-1] is None else means[-1]


def accuracy_of(run: Run) -> Answer:
    epochs, examples = run.spec["phases"].get("epochs", 0), run.spec["data"]["test_examples"]
    if limit := run.spec["phases"].get("measured_steps"):
        return f"the cell ends after {limit} measured steps, without an evaluation"
    last = [event for event in run.of("evaluation") if event["epoch"] == epochs]
    if not last:
        return f"no evaluation after epoch {epochs}"
    return last[-1]["correct"] / examples if examples else "the test set is empty"
