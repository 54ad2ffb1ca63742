"""What a run leaves in `events.jsonl`: one JSON object a line, in order of time.

docs/contracts.md has these classes as tables: a line `name: text` of a docstring is a field's.
Times are in s on the machine's monotonic clock.
"""

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Type, TypeVar, Union

from touchstone.schema.values import WrongValue, from_json, to_json


class Start(NamedTuple):
    """The runner begins.

    t: when its interpreter was ready
    date: UTC, ISO 8601
    pid: of its process
    python: version of its interpreter
    """

    t: float
    date: str
    pid: int
    python: str


class Phase(NamedTuple):
    """A phase, or a part of one between two evaluations, has ended.

    name: `import`, `load`, `build`, `first_step`, `warmup`, `measured`, `evaluation`, `latency`, or
        `rest`: what a program does after its loop
    begin: the end of the phase before it
    end: when all its work was done
    steps: of it, where it has steps: steps of training, batches or calls
    examples: of its steps
    """

    name: str
    begin: float
    end: float
    steps: int = 0
    examples: int = 0


class Software(NamedTuple):
    """What computes.

    framework: its name
    version: of the framework
    others: versions of the libraries that it uses: NumPy, BLAS, CUDA, cuDNN
    """

    framework: str
    version: str
    others: Dict[str, Any]


class Settings(NamedTuple):
    """What the run asks of the framework, and what the live framework gives back.

    Both have the same keys: optimizer, learning_rate as it is in the last step, those of the
    optimizer, weight_decay, batch_size, threads, reader_threads (0 unless `input` is `records`),
    precision of weights and products, arithmetic as products show it, device, mode, parameters,
    deterministic; loss_scaling (`dynamic`) with fp16-amp; inter_op_threads, layout (`NHWC` or
    `NCHW`), PyTorch's cudnn_benchmark; with several replicas their number over all nodes, and
    threads of one of them; with several nodes their number.

    requested: null asks for nothing
    effective: read back
    differs: sentences: where the run does not have what the framework does by itself
    hints: sentences: what may be faster on this machine, but is not the framework's own choice
    """

    requested: Dict[str, Any]
    effective: Dict[str, Any]
    differs: List[str] = []
    hints: List[str] = []


class Chunk(NamedTuple):
    """Steps that were begun together, and have ended.

    phase: to which they belong
    first_step: number of the first one, from 0
    steps: how many
    begin: when the first was begun
    end: when the last loss was known on the host
    losses: one for each step, of training; null: not a finite number
    """

    phase: str
    first_step: int
    steps: int
    begin: float
    end: float
    losses: List[Optional[float]]


class Evaluation(NamedTuple):
    """The test set was evaluated.

    epoch: after which one; 0 of a run that predicts
    step: how many were done until then
    examples: labels of the test set, of which an example may have several
    correct: of them, predicted correctly
    loss: mean cross-entropy; null: not a finite number
    mean_iou: of labels of pixels, the mean of intersection / union over the classes
    """

    epoch: int
    step: int
    examples: int
    correct: int
    loss: Optional[float]
    mean_iou: Optional[float] = None


class Fit(NamedTuple):
    """The training set was evaluated, after the last epoch.

    examples: labels of the training set, of which an example may have several
    correct: of them, predicted correctly
    loss: mean cross-entropy; null: not a finite number
    """

    examples: int
    correct: int
    loss: Optional[float]


class Deviation(NamedTuple):
    """Results were compared with others: those in double precision, or those kept with weights.

    value: largest difference, relative to the largest result
    tolerance: the most that is right
    """

    value: float
    tolerance: float


class Report(NamedTuple):
    """What a program says of itself.

    step: how many steps were done
    loss: by the script; null: none, or not a finite number
    accuracy: by the script, from 0 to 1
    """

    step: int
    loss: Optional[float] = None
    accuracy: Optional[float] = None


class Memory(NamedTuple):
    """What the framework's allocator says in the end.

    device_peak_mib: the most that it had, MiB, or null
    """

    device_peak_mib: Optional[float]


class Result(NamedTuple):
    """The runner's own account of how it ended.

    status: `ok`, `diverged`, `oom`, `unsupported`, or `error` of a program that failed
    reason: why, if not ok
    """

    status: str
    reason: Optional[str]


class Outcome(NamedTuple):
    """How the run ended, by its supervisor: always the last line.

    status: `ok`, `oom`, `diverged`, `timeout`, `unsupported` or `error`
    reason: why, if not ok
    exit_code: of the runner; null: none was started
    begin: when the runner was started
    end: when all its processes had ended
    cpu_seconds: of all its processes, s
    log_tail: the last 20 lines of its log, of an `error`
    """

    status: str
    reason: Optional[str]
    exit_code: Optional[int]
    begin: float
    end: float
    cpu_seconds: Optional[float]
    log_tail: Optional[List[str]] = None


Event = Union[
    Start,
    Phase,
    Software,
    Settings,
    Chunk,
    Evaluation,
    Fit,
    Deviation,
    Report,
    Memory,
    Result,
    Outcome,
]

KINDS: Dict[str, Any] = {
    cls.__name__.lower(): cls
    for cls in (
        Start, Phase, Software, Settings, Chunk, Evaluation, Fit, Deviation, Report, Memory, Result,
        Outcome,
    )
}  # fmt: skip
"""The class of each `event`."""
E = TypeVar("E")


def event_to_line(event: Event) -> str:
    """The event as a line of the file."""
    fields = to_json(event)
    return json.dumps(dict({"event": type(event).__name__.lower()}, **fields)) + "\n"


def event_from_json(value: Any) -> Event:
    """The event of a line of the file.

    Raises:
        WrongValue: it is no event, or a field is not of its type.
    """
    name = value.get("event") if isinstance(value, dict) else None
    if not isinstance(name, str) or name not in KINDS:
        raise WrongValue("it is no event")
    event: Event = from_json(KINDS[name], {k: v for k, v in value.items() if k != "event"})
    return event


def events_of(lines: str, *kinds: Type[E]) -> List[E]:
    """The events of these kinds in whole lines of the file; other values are passed over.

    Raises:
        ValueError: a line is no JSON, or a field is not of its type.
    """
    names = [kind.__name__.lower() for kind in kinds]
    values = [json.loads(line) for line in lines.splitlines()]
    events: List[Any] = [
        event_from_json(value)
        for value in values
        if isinstance(value, dict) and value.get("event") in names
    ]
    return events


def read_events(path: Union[str, "os.PathLike[str]"]) -> List[Event]:
    """The events of a file.

    Raises:
        ValueError: a line is no JSON, or no event.
    """
    with open(path, encoding="utf-8") as file:
        return [event_from_json(json.loads(line)) for line in file]


def outcome_of(events: Sequence[Event]) -> Outcome:
    """The outcome of a run: its last event.

    Raises:
        ValueError: the last event is another one, so the run has not ended.
    """
    last = events[-1] if events else None
    if not isinstance(last, Outcome):
        raise ValueError("the last event is no outcome")
    return last
