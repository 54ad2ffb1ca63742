"""What a record is: its fields, their types, units and limits.

`workflow/schemas/record.schema.json` and the table of fields in `docs/contracts.md` are generated
from here by `make docs`.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import CoreSchema

from touchstone.measure.trials import WAIT_POLICIES
from touchstone.results.files import FORMAT
from touchstone.results.flags import FLAGS
from touchstone.results.metrics import METRICS
from touchstone.results.phases import PHASES
from touchstone.schema.status import STATUSES

OF_OK = [name for name, metric in METRICS.items() if metric.certain]
"""Metrics that every run with the status `ok` has a number for, but those of programs."""
DATE = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$"
"""UTC in ISO 8601."""
ABSENT: Any = None
"""The default of a field that a record may lack. It is not a value: null is refused there."""


class _Made:
    """Validates a field as a type that is made at run time, which mypy cannot read."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return handler.generate_schema(self.made)


def _one_of(values: Iterable[Any]) -> _Made:
    return _Made(Literal.__getitem__(tuple(values)))


def _different(flags: list[str]) -> list[str]:
    if len(set(flags)) < len(flags):
        raise ValueError("a flag is there twice")
    return flags


Status = Annotated[str, _one_of(STATUSES)]
Text = Annotated[str, Field(min_length=1)]
Scalar = str | float | bool | None
Seconds = Annotated[float, Field(ge=0)]


def _described(description: str, unit: str | None = None, **rest: Any) -> Any:
    extra = rest.pop("json_schema_extra", {}) | ({} if unit is None else {"unit": unit})
    return Field(description=description, json_schema_extra=extra or None, **rest)


class RecordPart(BaseModel):
    """A mapping without other keys than those of its fields."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Metric(RecordPart):
    """A number with its unit, or null with the reason. Never 0 for no data."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"value": {"type": "null"}}},
            "then": {"required": ["reason"]},
            "else": {"properties": {"reason": False, "censored_at": False}},
        }
    )

    value: Annotated[float | None, _described("the number, in `unit`; null if there is none")]
    unit: Annotated[str, _described("of the value: the one in the table of metrics")]
    reason: Annotated[Text, _described("why there is no number; only beside null")] = ABSENT
    censored_at: Annotated[
        float,
        _described(
            "only beside null: the value is known to be larger than this, in `unit`, for the run"
            " ended before it had one"
        ),
    ] = ABSENT

    @model_validator(mode="after")
    def _number_or_reason(self) -> Self:
        given = self.model_fields_set & {"reason", "censored_at"}
        if self.value is None and "reason" not in given:
            raise ValueError("there is no number and no reason")
        if self.value is not None and given:
            raise ValueError("a number has no reason")
        return self


def _metrics() -> type[RecordPart]:
    """The model of all metrics, each in its unit; another version may know others."""
    units = dict.fromkeys(metric.unit for metric in METRICS.values())
    in_unit = {
        unit: create_model(
            f"Metric in {unit}",
            __base__=Metric,
            __doc__=Metric.__doc__,
            unit=(Annotated[str, _one_of([unit])], _described("of the value")),
        )
        for unit in units
    }
    fields: dict[str, Any] = {
        name: (in_unit[metric.unit], _described(metric.definition, default=ABSENT))
        for name, metric in METRICS.items()
    }
    text = "The metrics that the version knew that made the record, each in its unit."
    return create_model("Metrics", __base__=OpenPart, __doc__=text, **fields)


class OpenPart(RecordPart):
    """Metrics; those that only another version knows have any unit."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Metric]


class Factors(RecordPart):
    """What the cell is; those of its settings that are not named here follow."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Scalar]

    framework: Annotated[Scalar, _described("which framework")]
    network: Annotated[Scalar, _described("what is trained or predicts; or a basic operation")]
    dataset: Annotated[Scalar, _described("what on; the shape of an operation")]
    device: Annotated[Scalar, _described("`cpu` or `gpu`")]
    precision: Annotated[Scalar, _described("of weights and arithmetic")]
    mode: Annotated[Scalar, _described("execution mode")]
    input: Annotated[Scalar, _described("where batches come from")]
    batch_size: Annotated[Scalar, _described("of all replicas together", "images")]
    learning_rate: Annotated[Scalar, _described("of the first step after the warm-up")]


class EpochLoss(RecordPart):
    """The training loss of an epoch."""

    epoch: Annotated[int, _described("the epoch's number", ge=1)]
    loss: Annotated[
        float | None,
        _described("mean training loss of its steps; null where one of them is not finite", "1"),
    ]


class Reported(RecordPart):
    """What a program says of itself."""

    step: Annotated[int, _described("how many steps were done", ge=0)]
    loss: Annotated[float | None, _described("a loss; null: none, or not finite")]
    accuracy: Annotated[float | None, _described("an accuracy, or null", "1")]


class Evaluation(RecordPart):
    """What the network did on the test set."""

    epoch: Annotated[int, _described("after this epoch", ge=1)]
    accuracy: Annotated[float | None, _described("correct / all examples", "1", ge=0, le=1)]
    loss: Annotated[float | None, _described("mean loss of the test set", "1")]
    seconds: Annotated[Seconds, _described("training time until then, evaluations left out", "s")]


class Machine(RecordPart):
    """The machine, as in `env.json`."""

    model_config = ConfigDict(extra="allow")

    logical_cores: Annotated[Any, _described("hardware threads", "cores")]


class Settings(RecordPart):
    """The event `settings`: what was asked for and what the live framework says."""

    requested: Annotated[dict[str, Any], _described("what the spec asks for")] = ABSENT
    effective: Annotated[
        dict[str, Any], _described("what was read back from the live framework")
    ] = ABSENT
    differs: Annotated[
        list[Text],
        _described("where the run has not what the framework does by itself, as sentences"),
    ] = ABSENT
    hints: Annotated[
        list[Text],
        _described(
            "what may be faster on this machine but is not the framework's own choice, as sentences"
        ),
    ] = ABSENT


class Trial(RecordPart):
    """How one candidate of the mode `best` did in its turns."""

    mode: Annotated[str, _described("the mode that was tried")]
    threads: Annotated[
        int | None,
        _described("threads that it was given; null is all that the run may use", "threads", ge=1),
    ]
    wait_policy: Annotated[
        str, _one_of(("default", *WAIT_POLICIES)), _described("how idle threads wait")
    ]
    status: Annotated[Status, _described("how the trial ended")]
    reason: Annotated[str | None, _described("why it is not `ok`")]
    throughput: Annotated[float | None, _described("median speed of its slices", "images/s")]
    first_step_time: Annotated[
        float | None, _described("of its first step, compilation included", "s")
    ]
    folder: Annotated[str, _described("its files, in the folder of the run")]
    ratio: Annotated[
        float,
        _described(
            "its speed / that of the framework's default, which is the first trial that passed;"
            " absent where that was not measured",
            gt=0,
        ),
    ] = ABSENT
    low: Annotated[float, _described("lower end of the 95 % interval of the ratio", ge=0)] = ABSENT
    high: Annotated[float, _described("upper end of the interval", gt=0)] = ABSENT
    sets: Annotated[
        int,
        _described(
            "sets of processes that it took turns in with the default and that count; with one, the"
            " interval is from its rounds",
            ge=0,
        ),
    ] = ABSENT
    chosen: Annotated[
        bool,
        _described(
            "whether the run has its settings; absent from records of older versions, whose runs"
            " have those with the highest throughput"
        ),
    ] = ABSENT


class Node(RecordPart):
    """One node of a run on several."""

    machine: Annotated[dict[str, Any], _described("the node's machine, as in its `env.json`")]
    clock_uncertainty: Annotated[
        Seconds,
        _described("by how much its clock may be wrong against that of the first node", "s"),
    ]


class Data(RecordPart):
    """What was verified of the record files that the run read."""

    folder: Annotated[Text, _described("of the record files")]
    files: Annotated[int, _described("how many there are", ge=1)]
    bytes: Annotated[int, _described("of all of them", "B", ge=0)]
    verified: Annotated[
        str,
        _described(
            "when they were last read and compared with the manifest's SHA-256, UTC", pattern=DATE
        ),
    ]
    remembered: Annotated[
        bool, _described("whether that was before this run, on the same machine and within a day")
    ]


class Provenance(RecordPart):
    """Where the numbers come from."""

    seed: Annotated[int, _described("of weights, order and draws", ge=0)]
    deviations: Annotated[
        list[str], _described("in what the framework does not do what the cell asks, as sentences")
    ]
    started: Annotated[str, _described("when the run began, UTC", pattern=DATE)]
    data: Annotated[
        Data,
        _described("what was verified of the record files; only of a run that read some"),
    ] = ABSENT
    machine: Annotated[Machine, _described("the machine, as in `env.json`")]
    environment: Annotated[dict[str, Any], _described("`run` of `env.json`, but for `started`")]
    software: Annotated[
        dict[str, Any], _described("`software` of `env.json`, joined with the event `software`")
    ]
    settings: Annotated[Settings, _described("the event `settings`")]
    trials: Annotated[
        list[Trial],
        _described("the trials of a cell whose mode is `best`, in their order"),
    ]
    start: Annotated[
        dict[str, Any],
        _described(
            "the run's block and its position in the order of execution, and the state that the"
            " machine started it in"
        ),
    ]
    unknown: Annotated[
        dict[str, Text], _described("why a value of `env.json` is null, by its dotted name")
    ]
    run: Annotated[Text, _described("the folder of the run's files")]
    nodes: Annotated[
        list[Node],
        _described("of a run on several nodes: all of them, the first one first", min_length=2),
    ] = ABSENT


class Record(RecordPart):
    """One run, judged. Tables, figures and the report are made from records only."""

    model_config = ConfigDict(
        title="Touchstone record",
        json_schema_extra={
            "allOf": [
                {
                    "if": {"properties": {"status": {"const": "ok"}}},
                    "then": {"properties": {"reason": {"type": "null"}}},
                    "else": {"properties": {"reason": {"type": "string"}}},
                },
                {
                    "if": {
                        "properties": {
                            "status": {"const": "ok"},
                            "factors": {"properties": {"program": {"type": "null"}}},
                        }
                    },
                    "then": {
                        "properties": {
                            "metrics": {
                                "properties": {
                                    name: {"properties": {"value": {"type": "number"}}}
                                    for name in OF_OK
                                }
                            },
                        }
                    },
                },
                {
                    "if": {"properties": {"status": {"const": "error"}}},
                    "then": {"required": ["log_tail"]},
                    "else": {"properties": {"log_tail": False}},
                },
            ]
        },
    )

    format: Annotated[
        int,
        _described(
            "the version of this format",
            ge=FORMAT,
            le=FORMAT,
            json_schema_extra={"const": FORMAT},
        ),
    ]
    cell: Annotated[str, _described("the cell's name", pattern=r"^[A-Za-z0-9._-]+$")]
    repeat: Annotated[int, _described("which repeat of the cell", ge=1)]
    status: Annotated[Status, _described("how the run ended")]
    reason: Annotated[Text | None, _described("why it is not `ok`; null if it is")]
    factors: Annotated[Factors, _described("what the cell is")]
    flags: Annotated[
        list[Annotated[str, _one_of(FLAGS)]],
        AfterValidator(_different),
        _described(
            "what to doubt; the table of flags says when", json_schema_extra={"uniqueItems": True}
        ),
    ]
    metrics: Annotated[
        RecordPart,
        _Made(_metrics()),
        _described("those of the table of metrics that the record's version knew"),
    ]
    phases: Annotated[
        dict[Annotated[str, _one_of(PHASES)], Seconds],
        _described("the time in each phase that was reached", "s"),
    ]
    evaluations: Annotated[list[Evaluation], _described("on the test set, in order")]
    losses: Annotated[list[EpochLoss], _described("of each complete epoch, in order")]
    reports: Annotated[
        list[Reported], _described("of a program: the first, the last and some between them")
    ] = ABSENT
    provenance: Annotated[Provenance, _described("where the numbers come from")]
    log_tail: Annotated[
        list[str],
        _described("the last lines of the log of a run that ended in a fault; only of `error`"),
    ] = ABSENT

    @model_validator(mode="after")
    def _as_its_status_asks(self) -> Self:
        if (self.status == "ok") != (self.reason is None):
            raise ValueError(f"the status is {self.status}, the reason {self.reason!r}")
        if (self.status == "error") != ("log_tail" in self.model_fields_set):
            raise ValueError("log_tail is there if, and only if, the status is error")
        is_program = (self.factors.model_extra or {}).get("program") is not None
        for name in OF_OK if self.status == "ok" and not is_program else ():
            metric = getattr(self.metrics, name)
            if metric is not ABSENT and metric.value is None:
                raise ValueError(f"the run is ok, but {name} has no value")
        return self


def faults(record: Mapping[str, Any]) -> list[str]:
    """What is wrong with a record: place and cause, `$.repeat: Input should be ...`."""
    try:
        Record.model_validate(record)
    except ValidationError as error:
        return schema_faults(error)
    return []


def schema_faults(error: ValidationError) -> list[str]:
    """What a model found: place and cause."""
    return [f"{_place(fault['loc'])}: {fault['msg']}" for fault in error.errors()]


def _place(keys: tuple[int | str, ...]) -> str:
    """The place of a fault as a JSON path."""
    return "$" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
