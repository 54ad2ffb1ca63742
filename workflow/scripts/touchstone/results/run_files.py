"""The four files of one finished run, read and checked."""

import math
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

from touchstone.reading import rows_of, text_of
from touchstone.results.files import RERUN, InputError, parse_json, read_object, read_text
from touchstone.results.nodes import Node, folders, shift, together
from touchstone.schema.events import Chunk, Event, Outcome, Phase, event_from_json, outcome_of
from touchstone.schema.spec import (
    ParitySpec,
    ProfileSpec,
    RunSpec,
    TrainingSpec,
    kind_of,
    spec_from_json,
)
from touchstone.schema.status import OK, STATUSES
from touchstone.schema.values import WrongValue

NUMBER = (int, float)
Kind = type | tuple[type, ...]

ENV_FIELDS: dict[str, Kind] = {
    "machine": dict,
    "machine.logical_cores": int,
    "software": dict,
    "run": dict,
    "run.started": str,
    "run.threads": int,
    "start": dict,
    "sensors": dict,
    "unknown": dict,
}

SENSOR_FIELDS: dict[str, Kind] = {"columns": dict, "missing": dict}

E = TypeVar("E")


class EventsError(InputError):
    """The events of a run are damaged, unfinished, or contradict the rest."""

    def __init__(self, file: Path, cause: str) -> None:
        super().__init__(file, cause, RERUN)


class Run(NamedTuple):
    """A run's files: spec, env object, events in order, telemetry columns.

    `telemetry` maps a column to its (time, value) pairs, rows without a value left out. Of a run
    on several nodes `env` is that of the first, `nodes` are the others, and `telemetry` is of all.
    """

    folder: Path
    spec: RunSpec
    env: dict[str, Any]
    events: list[Event]
    telemetry: dict[str, list[tuple[float, float]]]
    nodes: tuple[Node, ...] = ()

    @property
    def envs(self) -> list[dict[str, Any]]:
        """The env object of every node."""
        return [self.env, *(node.env for node in self.nodes)]

    @property
    def logical_cores(self) -> int:
        """Those of all nodes."""
        return sum(env["machine"]["logical_cores"] for env in self.envs)

    @property
    def trains(self) -> bool:
        """Whether it trained; else it called an operation, or predicted, for a time."""
        return isinstance(self.spec, TrainingSpec)

    @property
    def outcome(self) -> Outcome:
        """How it ended."""
        return outcome_of(self.events)

    def of(self, kind: type[E]) -> list[E]:
        """All events of one kind, in order of time."""
        return [event for event in self.events if isinstance(event, kind)]


def resample(
    column: list[tuple[float, float]], begin: float, end: float, interval: float
) -> list[tuple[float, float | None]]:
    """A telemetry column at another interval: the mean of the samples in each window.

    Windows of `interval` seconds follow one another from `begin`; one that `end` cuts short is
    left out. Each is given as its begin (s) and its mean, None where it has no sample. So are
    1 s samples compared with a study that looked every 5 s.
    """
    windows: list[list[float]] = [[] for _ in range(int((end - begin) // interval))]
    for t, value in column:
        place = math.floor((t - begin) / interval)
        if 0 <= place < len(windows):
            windows[place].append(value)
    return [(begin + i * interval, fmean(w) if w else None) for i, w in enumerate(windows)]


def _check(value: dict[str, Any], fields: dict[str, Kind], where: str, path: Path) -> None:
    """InputError unless every dotted field is there with a value of its kind."""
    for name, kind in fields.items():
        part: Any = value
        for key in name.split("."):
            part = part.get(key) if isinstance(part, dict) else None
        if not isinstance(part, kind) or isinstance(part, bool):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            wanted = " or ".join(k.__name__ for k in kinds)
            raise InputError(path, f"{where}'{name}' is {part!r}, not {wanted}", RERUN)


def _read_env(path: Path) -> dict[str, Any]:
    env = read_object(path)
    _check(env, ENV_FIELDS, "", path)
    for name, sensor in env["sensors"].items():
        _check({"sensors": sensor}, {"sensors": dict}, f"sensor {name}: ", path)
        _check({"missing": {}, **sensor}, SENSOR_FIELDS, f"sensor {name}: ", path)
        _check_texts({**sensor.get("missing", {}), "reason": sensor.get("reason") or ""}, path)
    _check_texts(env["unknown"], path)
    _check_counts({"machine.logical_cores": env["machine"]["logical_cores"]}, path)
    _check_counts({"run.threads": env["run"]["threads"]}, path)
    _check_latencies(env["run"].get("core_latency", []), path)
    return env


def _check_latencies(latencies: Any, path: Path) -> None:
    """InputError unless it is a list of positive numbers."""
    wrong = not isinstance(latencies, list) or any(
        not isinstance(latency, NUMBER) or isinstance(latency, bool) or not 0 < latency < math.inf
        for latency in latencies
    )
    if wrong:
        cause = f"'run.core_latency' is {latencies!r}, not a list of positive numbers"
        raise InputError(path, cause, RERUN)


def _check_texts(reasons: dict[str, Any], path: Path) -> None:
    """InputError unless each reason is a text."""
    for name, why in reasons.items():
        if not isinstance(why, str):
            raise InputError(path, f"the reason of '{name}' is {why!r}, not str", RERUN)


def _read_spec(path: Path) -> RunSpec:
    try:
        spec = spec_from_json(read_object(path))
    except WrongValue as fault:
        raise InputError(path, str(fault), RERUN) from None
    if isinstance(spec, (ParitySpec, ProfileSpec)):
        raise InputError(path, f"its kind is {kind_of(spec)}, which is no run of a study", RERUN)
    epochs = spec.phases.epochs if isinstance(spec, TrainingSpec) else 1
    counts = {
        "repeat": spec.repeat, "factors.batch_size": spec.factors.batch_size,
        "phases.epochs": epochs,
    }  # fmt: skip
    _check_counts(counts, path)
    return spec


def _check_counts(counts: dict[str, int], path: Path) -> None:
    """InputError unless each count is at least 1."""
    for name, count in counts.items():
        if count < 1:
            raise InputError(path, f"'{name}' is {count}, not at least 1", RERUN)


def _read_events(path: Path) -> list[Event]:
    events: list[Event] = []
    try:
        lines = text_of(path).splitlines()
    except FileNotFoundError:
        raise EventsError(path, "the file is missing") from None
    except (OSError, ValueError) as error:
        raise EventsError(path, f"cannot be read ({error})") from None
    for number, line in enumerate(lines, start=1):
        try:
            event = event_from_json(parse_json(line))
        except WrongValue as fault:
            raise EventsError(path, f"line {number}: {fault}") from None
        except ValueError as error:
            raise EventsError(path, f"line {number} is not valid JSON ({error})") from None
        if isinstance(event, Phase | Chunk) and event.end < event.begin:
            name = type(event).__name__.lower()
            raise EventsError(path, f"line {number}: {name} ends before it begins")
        events.append(event)
    outcomes = [event for event in events if isinstance(event, Outcome)]
    if len(outcomes) != 1 or events[-1] is not outcomes[0]:
        cause = "the last line is not the run's one outcome, so the run did not finish"
        raise EventsError(path, cause)
    status = outcomes[0].status
    if status not in STATUSES:
        raise EventsError(path, f"unknown outcome {status!r} (known: {', '.join(STATUSES)})")
    return events


def _read_telemetry(path: Path) -> dict[str, list[tuple[float, float]]]:
    last = -math.inf
    header: list[str] = []
    columns: dict[str, list[tuple[float, float]]] = {}
    try:
        for line, row in rows_of(read_text(path, RERUN)):
            if not header:
                header, columns = row, {name: [] for name in row[1:]}
                if header[:1] != ["t"]:
                    raise ValueError("the first column is not 't'")
                continue
            values = _numbers(line, row, len(header))
            t = values[0]
            if t is None or t < last:
                raise ValueError(f"line {line}: time is missing or goes backwards")
            last = t
            for name, value in zip(header[1:], values[1:], strict=True):
                if value is not None:
                    columns[name].append((t, value))
    except ValueError as fault:
        raise InputError(path, str(fault), RERUN) from None
    return columns


def _numbers(line: int, row: list[str], count: int) -> list[float | None]:
    """The numbers of a row of telemetry, None for an empty field; raises ValueError."""
    if len(row) != count:
        raise ValueError(f"line {line} has {len(row)} fields, not {count}")
    try:
        values = [float(field) if field else None for field in row]
    except ValueError as error:
        raise ValueError(f"line {line}: {str(error)[:200]}") from None
    if any(value is not None and not math.isfinite(value) for value in values):
        raise ValueError(f"line {line} has a number that is not finite")
    return values


def read_run(folder: Path, events: list[Event] | None = None) -> Run:
    """Read a run's folder; `events`, if they are given, are in the place of events.jsonl.

    Raises:
        EventsError: events.jsonl is damaged or unfinished.
        InputError: another file is missing, damaged, or of a foreign format.
    """
    spec_path, env_path = folder / "spec.json", folder / "env.json"
    spec, env = _read_spec(spec_path), _read_env(env_path)
    telemetry = _read_telemetry(folder / "telemetry.csv")
    if events is None:
        events = _read_events(folder / "events.jsonl")
    others = tuple(map(_read_node, folders(folder)))
    wanted = spec.execution.nodes - 1
    if outcome_of(events).status == OK and len(others) != wanted:
        cause = f"the outcome is ok, but {len(others)} other nodes left their files, not {wanted}"
        raise InputError(folder / "nodes", cause, RERUN)
    if len(others) != wanted:
        telemetry = {name: [] for name in telemetry}  # a part would be taken for all
    elif others:
        telemetry = together(telemetry, [node.telemetry for node in others])
    return Run(folder, spec, env, events, telemetry, others)


def _read_node(folder: Path) -> Node:
    """Another node of a run, its telemetry on the clock of the first."""
    path, env_path = folder / "node.json", folder / "env.json"
    node, env = read_object(path), _read_env(env_path)
    _check(node, {"name": str, "clock": list}, "", path)
    clock = node["clock"]
    for reading in clock:
        _check({"clock": reading}, {"clock": dict}, "", path)
        _check(reading, {"at": NUMBER, "offset": NUMBER, "uncertainty": NUMBER}, "", path)
    if not clock:
        raise InputError(path, "the first node's clock was not read", RERUN)
    telemetry = _read_telemetry(folder / "telemetry.csv")
    shifted = {
        name: [(shift(clock, t), value) for t, value in column]
        for name, column in telemetry.items()
    }
    return Node(node["name"], env, shifted, max(reading["uncertainty"] for reading in clock))
