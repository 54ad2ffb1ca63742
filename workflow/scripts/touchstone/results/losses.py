"""Losses and accuracies of a run."""

from statistics import fmean
from typing import Any

from touchstone.results.measured import Censored, MetricValue, events_error
from touchstone.results.phases import Phase, trained_until
from touchstone.results.run_files import Run
from touchstone.schema.events import Chunk, Evaluation, Fit
from touchstone.schema.spec import OperationSpec, ProgramSpec, TrainingSpec
from touchstone.schema.status import DIVERGED, ERROR, OK, TIMEOUT


def losses_of(run: Run) -> tuple[int, list[float | None]]:
    """The number of steps, and the training loss of every one, in order, if it trained.

    A loss that is not finite is None. Chunks must follow one another.
    """
    steps, losses = 0, list[float | None]()
    for chunk in run.of(Chunk):
        if chunk.first_step != steps:
            cause = f"a chunk begins at step {chunk.first_step}, not {steps}"
            raise events_error(run, cause)
        steps += chunk.steps
        expected = chunk.steps if run.trains else 0
        if chunk.steps < 1 or len(chunk.losses) != expected:
            cause = f"a chunk of {chunk.steps} steps has {len(chunk.losses)} losses"
            raise events_error(run, cause)
        losses += chunk.losses
    return steps, losses


def epoch_means(losses: list[float | None], steps: int) -> list[float | None]:
    """Mean loss of each complete epoch of `steps` steps; None where a loss is not finite."""
    complete = len(losses) // steps if steps else 0
    epochs = [losses[i * steps : (i + 1) * steps] for i in range(complete)]
    finite = [[loss for loss in epoch if loss is not None] for epoch in epochs]
    return [fmean(epoch) if len(epoch) == steps else None for epoch in finite]


def evaluations_of(run: Run, phases: dict[str, Phase]) -> list[dict[str, Any]]:
    """Accuracy and loss on the test set by epoch, and the seconds of training until then."""
    steps = 0
    ends: dict[int, float] = {}
    for name in ("first_step", "warmup", "measured"):
        for part in phases[name].parts if name in phases else ():
            steps += part.steps
            ends.setdefault(steps, part.end)
    evaluations: list[dict[str, Any]] = []
    for event in run.of(Evaluation):
        labels = _labels_of(run, "test")
        if event.examples != labels or not 0 <= event.correct <= labels:
            cause = f"evaluated {event.correct} / {event.examples} correct"
            raise events_error(run, f"{cause}, the test set has {labels} labels")
        if not run.trains:
            continue
        if event.step not in ends:
            cause = f"an evaluation after step {event.step}, where no phase ends"
            raise events_error(run, cause)
        evaluations.append(
            {
                "epoch": event.epoch,
                "accuracy": event.correct / labels if labels else None,
                "loss": event.loss,
                "seconds": trained_until(phases, ends[event.step]),
            }
        )
    return evaluations


def to_accuracy(
    run: Run, evaluations: list[dict[str, Any]], key: str
) -> MetricValue | Censored | None:
    """What an evaluation that first reached the target accuracy has under `key`.

    Of a run that went to its end or its time limit without, it is known how far more was needed.
    None where the run's status says why there is no number.
    """
    status = run.outcome.status
    target = run.spec.phases.target_accuracy if isinstance(run.spec, TrainingSpec) else None
    if target is None:
        return "the cell has no target accuracy" if status == OK else None
    if status in (DIVERGED, ERROR):
        return None
    scored = [evaluation for evaluation in evaluations if evaluation["accuracy"] is not None]
    reached = next((evaluation for evaluation in scored if evaluation["accuracy"] >= target), None)
    if reached:
        value: float = reached[key]
        return value
    if not scored or status not in (OK, TIMEOUT):
        return None
    return Censored(f"not reached within {scored[-1]['epoch']} epochs", scored[-1][key])


def final_loss(means: list[float | None]) -> MetricValue:
    if not means:
        return "no epoch was completed"
    return "a loss of the last epoch is not finite" if means[-1] is None else means[-1]


def last_evaluation(run: Run) -> Evaluation | str:
    """That after the last epoch, or the reason why there is none."""
    epochs = 0
    if isinstance(run.spec, TrainingSpec):
        epochs = run.spec.phases.epochs
        if limit := run.spec.phases.measured_steps:
            return f"the cell ends after {limit} measured steps, without an evaluation"
    last = [event for event in run.of(Evaluation) if event.epoch == epochs]
    if not last:
        return f"no evaluation after epoch {epochs}"
    return last[-1]


def accuracy_of(run: Run) -> MetricValue:
    last = last_evaluation(run)
    if isinstance(last, str):
        return last
    labels = _labels_of(run, "test")
    return last.correct / labels if labels else "the test set is empty"


def training_accuracy_of(run: Run) -> MetricValue:
    """The accuracy on the training set; raises EventsError if that has another size."""
    if not isinstance(run.spec, TrainingSpec) or not run.spec.phases.training_accuracy:
        return "the cell does not ask for it (`training_accuracy: true`)"
    labels = _labels_of(run, "train")
    for event in run.of(Fit):
        if event.examples != labels or not 0 <= event.correct <= labels:
            cause = f"evaluated {event.correct} / {event.examples} labels of training correct"
            raise events_error(run, f"{cause}, the training set has {labels}")
        return event.correct / labels
    return "the training set was not evaluated"


def _labels_of(run: Run, split: str) -> int:
    """How many labels the examples of a split have; 0 where nobody knows of any."""
    if isinstance(run.spec, OperationSpec | ProgramSpec):
        return 0
    data = run.spec.data
    examples = data.test_examples if split == "test" else data.train_examples
    return examples * run.spec.network.labels
