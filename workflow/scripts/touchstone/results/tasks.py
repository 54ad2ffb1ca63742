"""The metrics of tasks in which an example has several labels."""

import math

from touchstone.results.losses import last_evaluation
from touchstone.results.measured import MetricValue
from touchstone.results.phases import Phase
from touchstone.results.run_files import Run
from touchstone.schema.spec import NO_NETWORK, Network, OperationSpec, ProgramSpec

NO_TOKENS = "the network predicts no tokens"
NO_PIXELS = "the network labels no pixels"


def _network(run: Run) -> Network:
    """The network of the run; one without a task where there is none."""
    if isinstance(run.spec, OperationSpec | ProgramSpec):
        return NO_NETWORK
    return run.spec.network


def token_rate(run: Run, measured: Phase) -> MetricValue:
    """Predicted tokens per second of the measured phase."""
    network = _network(run)
    if network.task != "next_token":
        return NO_TOKENS
    return measured.examples * network.labels / measured.seconds


def perplexity_of(run: Run) -> MetricValue:
    """e to the power of the mean loss of the test set's tokens."""
    if _network(run).task != "next_token":
        return NO_TOKENS
    last = last_evaluation(run)
    if isinstance(last, str):
        return last
    if last.loss is None:
        return "the loss of the test set is not finite"
    try:
        return math.exp(last.loss)
    except OverflowError:
        return f"the loss of the test set, {last.loss:g}, is too large"


def mean_iou_of(run: Run) -> MetricValue:
    """The mean intersection over union of the test set's pixels."""
    if _network(run).task != "label_per_pixel":
        return NO_PIXELS
    last = last_evaluation(run)
    if isinstance(last, str):
        return last
    return "the run did not compare its pixels" if last.mean_iou is None else last.mean_iou
