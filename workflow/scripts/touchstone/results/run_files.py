"""The four files of one finished run, read and checked."""

import csv
import io
import math
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from touchstone.results.files import RERUN, InputError, parse_json, read_object, read_text
from touchstone.results.metrics import STATUSES
from touchstone.results.nodes import Node, folders, shift, together

NUMBER = (int, float)
Kind = type | tuple[type, ...]

SPEC_FIELDS: dict[str, Kind] = {
    "cell": str,
    "repeat": int,
    "seed": int,
    "factors": dict,
    "factors.batch_size": int,
    "phases.warmup_steps": int,
    "phases.warmup_seconds": NUMBER,
    "sampling_interval": NUMBER,
}
TRAINING_FIELDS: dict[str, Kind] = {
    "network.training_macs": int,
    "data.train_examples": int,
    "data.test_examples": int,
    "phases.epochs": int,
}
INFERENCE_FIELDS: dict[str, Kind] = {
    "network.macs": int,
    "data.test_examples": int,
    "inference.weights": str,
}
OPERATION_FIELDS: dict[str, Kind] = {"operation.flops": int, "operation.traffic": int}
ENV_FIELDS: dict[str, Kind] = {
    "machine": dict,
    "machine.logical_cores": int,
    "software": dict,
    "run": dict,
    "run.started": str,
    "start": dict,
    "sensors": dict,
    "unknown": dict,
}
EVENT_FIELDS: dict[str, dict[str, Kind]] = {
    "phase": {"name": str, "begin": NUMBER, "end": NUMBER},
    "settings": {"requested": dict, "effective": dict},
    "software": {"framework": str, "version": str},
    "chunk": {
        "phase": str,
        "first_step": int,
        "steps": int,
        "begin": NUMBER,
        "end": NUMBER,
        "losses": list,
    },
    "evaluation": {
        "epoch": int,
        "step": int,
        "examples": int,
        "correct": int,
        "loss": (*NUMBER, str),
    },
    "deviation": {"value": NUMBER, "tolerance": NUMBER},
    "result": {"status": str},
    "outcome": {"status": str},
}


class Run(NamedTuple):
    """A run's files: spec and env objects, events in order, telemetry columns.

    `telemetry` maps a column to its (time, value) pairs, rows without a value left out;
    `samples` are the times of all rows (s, ascending). Of a run on several nodes `env` is that of
    the first, `nodes` are the others, and `telemetry` is of all.
    """

    folder: Path
    spec: dict[str, Any]
    env: dict[str, Any]
    events: list[dict[str, Any]]
    samples: list[float]
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
        return "operation" not in self.spec and "inference" not in self.spec

    def of(self, event: str) -> list[dict[str, Any]]:
        """All events of one kind, in order of time."""
        return [e for e in self.events if e["event"] == event]


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


def _read_events(path: Path) -> list[dict[str, Any]]:
    events = []
    for number, line in enumerate(read_text(path, RERUN).splitlines(), start=1):
        try:
            event = parse_json(line)
        except ValueError as error:
            raise InputError(path, f"line {number} is not valid JSON ({error})", RERUN) from None
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            raise InputError(path, f"line {number} is not an event", RERUN)
        name = event["event"]
        _check(event, EVENT_FIELDS.get(name, {}), f"line {number}: {name} ", path)
        if name in ("phase", "chunk") and event["end"] < event["begin"]:
            raise InputError(path, f"line {number}: {name} ends before it begins", RERUN)
        events.append(event)
    if [e["event"] for e in events].count("outcome") != 1 or events[-1]["event"] != "outcome":
        cause = "the last line is not the run's one outcome, so the run did not finish"
        raise InputError(path, cause, RERUN)
    status = events[-1]["status"]
    if status not in STATUSES:
        raise InputError(path, f"unknown outcome {status!r} (known: {', '.join(STATUSES)})", RERUN)
    return events


def _read_telemetry(path: Path) -> tuple[list[float], dict[str, list[tuple[float, float]]]]:
    rows = csv.reader(io.StringIO(read_text(path, RERUN)))
    header = next(rows, [])
    if header[:1] != ["t"]:
        raise InputError(path, "the first column is not 't'", RERUN)
    samples: list[float] = []
    columns: dict[str, list[tuple[float, float]]] = {name: [] for name in header[1:]}
    for row in rows:
        where = f"line {rows.line_num}"
        if len(row) != len(header):
            raise InputError(path, f"{where} has {len(row)} fields, not {len(header)}", RERUN)
        try:
            values = [float(field) if field else None for field in row]
        except ValueError as error:
            raise InputError(path, f"{where}: {error}", RERUN) from None
        if any(value is not None and not math.isfinite(value) for value in values):
            raise InputError(path, f"{where} has a number that is not finite", RERUN)
        t = values[0]
        if t is None or (samples and t < samples[-1]):
            raise InputError(path, f"{where}: time is missing or goes backwards", RERUN)
        samples.append(t)
        for name, value in zip(header[1:], values[1:], strict=True):
            if value is not None:
                columns[name].append((t, value))
    return samples, columns


def read_run(folder: Path) -> Run:
    """Read a run's folder.

    Raises:
        InputError: a file is missing, damaged, unfinished or of a foreign format.
    """
    spec_path, env_path = folder / "spec.json", folder / "env.json"
    spec, env = read_object(spec_path), read_object(env_path)
    _check(spec, SPEC_FIELDS, "", spec_path)
    fields = TRAINING_FIELDS
    if "operation" in spec:
        fields = OPERATION_FIELDS
    elif "inference" in spec:
        fields = INFERENCE_FIELDS
    _check(spec, fields, "", spec_path)
    _check(env, ENV_FIELDS, "", env_path)
    counts = {
        (spec_path, "repeat"): spec["repeat"],
        (spec_path, "factors.batch_size"): spec["factors"]["batch_size"],
        (spec_path, "phases.epochs"): spec["phases"].get("epochs", 1),
        (env_path, "machine.logical_cores"): env["machine"]["logical_cores"],
    }
    for (path, name), count in counts.items():
        if count < 1:
            raise InputError(path, f"'{name}' is {count}, not at least 1", RERUN)
    samples, telemetry = _read_telemetry(folder / "telemetry.csv")
    events = _read_events(folder / "events.jsonl")
    others = tuple(map(_read_node, folders(folder)))
    wanted = spec.get("execution", {}).get("nodes", 1) - 1
    if events[-1]["status"] == "ok" and len(others) != wanted:
        cause = f"the outcome is ok, but {len(others)} other nodes left their files, not {wanted}"
        raise InputError(folder / "nodes", cause, RERUN)
    if len(others) != wanted:
        telemetry = {name: [] for name in telemetry}  # a part would be taken for all
    elif others:
        telemetry = together(telemetry, [node.telemetry for node in others])
    return Run(folder, spec, env, events, samples, telemetry, others)


def _read_node(folder: Path) -> Node:
    """Another node of a run, its telemetry on the clock of the first."""
    path, env_path = folder / "node.json", folder / "env.json"
    node, env = read_object(path), read_object(env_path)
    _check(node, {"name": str, "clock": list}, "", path)
    _check(env, ENV_FIELDS, "", env_path)
    clock = node["clock"]
    for reading in clock:
        _check(reading, {"at": NUMBER, "offset": NUMBER, "uncertainty": NUMBER}, "", path)
    if not clock:
        raise InputError(path, "the first node's clock was not read", RERUN)
    _, telemetry = _read_telemetry(folder / "telemetry.csv")
    shifted = {
        name: [(shift(clock, t), value) for t, value in column]
        for name, column in telemetry.items()
    }
    return Node(node["name"], env, shifted, max(each["uncertainty"] for each in clock))
