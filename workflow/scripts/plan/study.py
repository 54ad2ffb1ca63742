"""Read a configuration, find all its faults at once, and list its cells."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import random
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

import networks
import operations
from datasets import catalogue
from networks.graph import GraphError
from plan import frameworks, inference
from plan.model import BEST, RESULTS_FORMAT, Cell, Study
from plan.scale import scaled

OPERATION = (
    "framework", "network", "dataset", "device", "precision", "seed", "threads",
    "wait_policy", "warmup_steps", "warmup_seconds", "chunk_seconds", "operation_seconds",
    "sampling_interval", "time_limit", "time_limit_factor", "memory_limit",
)  # fmt: skip
"""The settings that an operation has; all others are of training."""
SLUG = ("framework", "network", "dataset", "device", "precision", "batch_size", "learning_rate")
"""The settings that a cell's name spells out, in this order."""
USUAL = {key: field.default for key, field in Cell.model_fields.items()}
"""What the settings are where nobody says otherwise."""


SHAPE = re.compile(r"\d+(x\d+)*")


class ConfigError(ValueError):
    """A configuration is refused; the message lists every fault, its key, cause and remedy."""


@dataclass(frozen=True)
class Plan:
    """A study with its cells by name, in the order of its sweeps.

    `study.repeats` are those of the study's scale, `whole_repeats` those of the whole study.
    `weights_from` has by inference cell the training cell whose weights it predicts with.
    """

    study: Study
    cells: dict[str, Cell]
    whole_repeats: int
    weights_from: dict[str, str] = field(default_factory=dict)

    @cached_property
    def order(self) -> list[tuple[str, int]]:
        """The runs (cell, repeat) in randomised blocks: each block has every cell once.

        The order within block r depends on the cells, their seed and r alone.
        """
        runs = []
        for repeat in range(1, self.study.repeats + 1):
            block = sorted(self.cells)
            seed = min(cell.seed for cell in self.cells.values())
            random.Random(f"{seed} {repeat}").shuffle(block)
            runs += [(name, repeat) for name in block]
        return runs

    def resolved(self) -> dict[str, Any]:
        """The configuration with nothing left out, as plain values."""
        return {**self.study.model_dump(), "repeats": self.whole_repeats}


def canonical(value: Any) -> str:
    """JSON with sorted keys: equal for equal values, whatever their order in a file."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(value: Any) -> str:
    """Twelve hex digits of the canonical JSON of `value`."""
    return digest_of_text(canonical(value))


def digest_of_text(text: str) -> str:
    """Twelve hex digits of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def is_operation(cell: Cell) -> bool:
    """Whether the cell calls an operation instead of training a network."""
    return cell.network in operations.names()


def name_of(cell: Cell) -> str:
    """The cell's name: what `SLUG` lists, and a short hash of whatever else is no default."""
    values = vars(cell)
    named = [key for key in SLUG if not is_operation(cell) or key in OPERATION]
    slug = "-".join(
        {"batch_size": "b", "learning_rate": "lr"}.get(key, "") + f"{values[key]}" for key in named
    )
    if inference.is_inference(cell):
        slug += "-inference"
    usual = {**USUAL, "mode": frameworks.modes(cell.framework)[0]}
    rest = {k: v for k, v in values.items() if k not in named and v != usual[k]}
    rest.pop("workload", None)
    if rest.get("trained_batch_size") == cell.batch_size:
        del rest["trained_batch_size"]
    return f"{slug}-{digest(rest)[:8]}" if rest else slug


def _twice(node: yaml.Node | None) -> list[str]:
    """The keys that a mapping of a YAML document has more than once, each with its lines."""
    if isinstance(node, yaml.SequenceNode):
        return [told for item in node.value for told in _twice(item)]
    if not isinstance(node, yaml.MappingNode):
        return []
    lines: dict[str, list[int]] = {}
    for key, _ in node.value:
        lines.setdefault(str(key.value), []).append(key.start_mark.line + 1)
    own = [f"{key} (lines {', '.join(map(str, at))})" for key, at in lines.items() if len(at) > 1]
    return own + [told for _, value in node.value for told in _twice(value)]


def read(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; raises ConfigError that names the file, cause and remedy."""
    try:
        text = path.read_text(encoding="utf-8")
        values = yaml.safe_load(text)
        # Of a key that stands twice YAML's readers take the last, and say nothing.
        twice = _twice(yaml.compose(text, yaml.SafeLoader))
    except UnicodeDecodeError as fault:
        raise ConfigError(f"{path}: not UTF-8 at byte {fault.start}; save it as UTF-8") from None
    except OSError as fault:
        raise ConfigError(f"{path}: {fault.strerror}; check its name and permissions") from None
    except yaml.YAMLError as fault:
        cause = " ".join(str(fault).split())
        raise ConfigError(f"{path}: not valid YAML: {cause}; mend that line") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: holds no mapping; write `key: value` lines at its top level")
    if twice:
        raise ConfigError(
            f"{path}: more than once in one mapping: {'; '.join(twice)}; keep one each"
        )
    return values


def make_plan(config: dict[str, Any], root: Path) -> Plan:
    """The plan of a configuration; `root` is the project's folder.

    Raises ConfigError with every fault found, one a line.
    """
    faults: list[str] = []
    config = json.loads(json.dumps(config))
    study = _study(config, faults)
    config = scaled(config, faults)
    whole = study.repeats if study else 0
    defaults = config.get("defaults") or {}
    sweeps = config.get("sweeps")
    cells: dict[str, Cell] = {}
    origin: dict[str, int] = {}
    if isinstance(defaults, dict) and isinstance(sweeps, list):
        known = _Known(root)
        usual = _settings("defaults", defaults, known, faults, lists=False)
        for index, sweep in enumerate(sweeps):
            if not isinstance(sweep, dict):
                faults.append(f"sweeps[{index}]: {sweep!r} is no mapping; write `setting: value`")
                continue
            before = len(faults)
            own = _settings(f"sweeps[{index}]", sweep, known, faults, lists=True)
            settings = {**usual, **own}
            for key in ("framework", "network", "dataset"):
                if key not in sweep and key not in defaults:
                    faults.append(f"sweeps[{index}].{key}: missing; name one: {known.listed(key)}")
            if len(faults) > before or any(not values for values in settings.values()):
                continue
            for combination in itertools.product(*settings.values()):
                where = f"sweeps[{index}]"
                for cell in known.resolved(Cell(**dict(zip(settings, combination, strict=True)))):
                    cell_faults = known.faults(cell)
                    faults += [f"{where}.{f}" for f in cell_faults if f"{where}.{f}" not in faults]
                    if cell_faults:
                        continue
                    name = name_of(cell)
                    if name in cells:
                        faults.append(
                            f"{where}: repeats the cell {name} of sweeps[{origin[name]}]; "
                            "remove one"
                        )
                    cells[name] = cell
                    origin[name] = index
    weights_from, without = inference.sources(cells)
    for name in [] if faults else without:  # a cell that has a fault may be the one
        faults.append(
            f"sweeps[{origin[name]}].weights: no training cell of this study leaves those of "
            f"{name}; add a sweep that trains with the same settings, say its batch size with "
            "`trained_batch_size`, or predict with `weights: initial`"
        )
    if faults or study is None:
        count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
        raise ConfigError(f"the configuration has {count}:\n" + "\n".join(f"  {f}" for f in faults))
    study = study.model_copy(update={"repeats": config.get("repeats", whole)})
    return Plan(study, cells, whole, weights_from)


def paths(given: Any) -> list[str]:
    """The paths of a list, or of a text with commas between them, as a command line gives it."""
    parts = given if isinstance(given, list) else str(given).split(",")
    return [str(part).strip() for part in parts if str(part).strip()]


def check_results(path: Path) -> None:
    """Refuse a results folder that another version of the format made.

    `path` is its `config.resolved.yaml`. Raises ConfigError.
    """
    if not path.exists():
        return
    found = read(path).get("results_format")
    if found != RESULTS_FORMAT:
        raise ConfigError(
            f"{path}: results_format is {found!r}, this version writes {RESULTS_FORMAT}; "
            f"move the folder {path.parent}/ away, or use the version that made it"
        )


def _study(config: dict[str, Any], faults: list[str]) -> Study | None:
    try:
        return Study(**config)
    except ValidationError as invalid:
        for error in invalid.errors():
            key = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error["loc"])[1:]
            faults.append(_fault(key, error, Study))
    return None


def _settings(
    where: str, given: dict[str, Any], known: _Known, faults: list[str], lists: bool
) -> dict[str, list[Any]]:
    """Every setting of `given` as the list of its values, each checked by itself."""
    settings: dict[str, list[Any]] = {}
    for key, value in given.items():
        if key not in Cell.model_fields:
            faults.append(f"{where}.{key}: unknown setting{_like(key, Cell.model_fields)}")
            continue
        many = lists and isinstance(value, list)
        if many and key == "milestones":  # whose one value is a list itself
            many = any(isinstance(item, list) for item in value)
        if many and not value:
            faults.append(f"{where}.{key}: an empty list; give it a value or remove the key")
        settings[key] = []
        for index, item in enumerate(value if many else [value]):
            place = f"{where}.{key}[{index}]" if many else f"{where}.{key}"
            field = Cell.model_fields[key]
            try:
                checked = _adapter(field).validate_python(item)
            except ValidationError as invalid:
                faults.append(_fault(place, invalid.errors()[0], Cell))
            else:
                if fault := known.unknown(key, checked):
                    faults.append(f"{place}: {fault}")
                settings[key].append(checked)
    return settings


def _adapter(field: FieldInfo) -> TypeAdapter[Any]:
    annotation: Any = field.annotation
    for constraint in field.metadata:
        annotation = Annotated[annotation, constraint]
    return TypeAdapter(annotation, config=ConfigDict(strict=True, allow_inf_nan=False))


def _fault(place: str, error: Any, model: type[BaseModel]) -> str:
    """One fault in words: the key, what is wrong with it, what to write instead."""
    given = error.get("input")
    if error["type"] == "extra_forbidden":
        return f"{place}: unknown key{_like(place, model.model_fields)}"
    if error["type"] == "missing":
        return f"{place}: missing; {model.model_fields[place].description}"
    text = error["msg"][0].lower() + error["msg"][1:]
    remedy = ""
    if error["type"] in ("float_type", "int_type") and isinstance(given, str):
        remedy = "; write a number without quotes, and 1.0e-3 rather than 1e-3"
    return f"{place}: {text}, not {given!r}{remedy}"


def _like(word: str, known: Any) -> str:
    near = difflib.get_close_matches(word, list(known), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{hint} Known: {', '.join(known)}" if hint else f"; known: {', '.join(known)}"


class _Known:
    """What a cell may name: frameworks, networks and data sets, found by their files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.datasets: dict[str, catalogue.Dataset] = {}
        self.graphs: dict[tuple[str, str], str | None] = {}
        self.names = {
            "framework": frameworks.adapters(),
            "network": networks.names() + operations.names(),
            "dataset": catalogue.names(root / "config/datasets"),
        }
        self.shapes = {path.stem: path for path in (root / "config/operations").glob("*.yaml")}
        self.environments = {f"envs/{path.name}" for path in (root / "envs").glob("*.yaml")}

    def listed(self, key: str) -> str:
        return ", ".join(self.names[key])

    def unknown(self, key: str, value: Any) -> str | None:
        """Why `value` names nothing, or None."""
        if key == "dataset" and (value in self.shapes or SHAPE.fullmatch(value)):
            return None  # whether the operation has it is a question to the whole cell
        if key in self.names and value not in self.names[key]:
            return f"no {key} is named {value!r}{_like(value, self.names[key])}"
        return None

    def resolved(self, cell: Cell) -> list[Cell]:
        """The cell with its framework's own mode for null; of an operation, one for each of the
        shapes that it names, with what is a matter of training as in every other."""
        if cell.mode is None and cell.framework in self.names["framework"]:
            cell = cell.model_copy(update={"mode": frameworks.modes(cell.framework)[0]})
        if not is_operation(cell):
            same = {"operation_seconds": USUAL["operation_seconds"]}
            if cell.world_size == 1:  # which has the whole batch either way
                same["batch_split"] = USUAL["batch_split"]
            return [inference.resolved(cell.model_copy(update=same))]
        shapes, mode = [cell.dataset], frameworks.modes(cell.framework)[0]
        if cell.dataset in self.shapes:
            shapes = read(self.shapes[cell.dataset])["shapes"].get(cell.network, shapes)
        rest = {key: value for key, value in USUAL.items() if key not in OPERATION}
        rest.update(batch_size=1, input="synthetic", mode=mode)
        if operations.collective(cell.network):
            rest["replicas"] = cell.replicas
        return [cell.model_copy(update={**rest, "dataset": s}) for s in shapes]

    def faults(self, cell: Cell) -> list[str]:
        """What is wrong with the cell as a whole, each fault led by its key."""
        found = []
        modes = (*frameworks.modes(cell.framework), BEST)
        if cell.mode not in modes:
            found.append(
                f"mode: {cell.framework} has no mode {cell.mode!r}{_like(cell.mode or '', modes)}"
            )
        if (cell.schedule == "step") != bool(cell.milestones):
            found.append(
                f"milestones: {cell.milestones} with the schedule {cell.schedule!r}; the schedule "
                "'step' wants some, and it alone"
            )
        if cell.nesterov and (cell.optimizer != "sgd" or not cell.momentum):
            found.append("nesterov: only sgd with a momentum has it; set it to false")
        if max([*cell.milestones, cell.rate_warmup_epochs]) >= cell.epochs:
            found.append(
                f"epochs: {cell.epochs} end before the last of the milestones {cell.milestones} "
                f"and the {cell.rate_warmup_epochs} epochs of warm-up; train for longer"
            )
        environment = frameworks.environment(cell.framework, cell.device)
        if environment not in self.environments:
            found.append(
                f"device: {cell.framework} cannot train on {cell.device}, for {environment} "
                "is not there; write that file, or choose another device"
            )
        if is_operation(cell):
            return [*found, *self._operation_faults(cell)]
        try:
            if cell.dataset not in self.datasets:
                folder = self.root / "config/datasets"
                self.datasets[cell.dataset] = catalogue.load(cell.dataset, folder)
        except catalogue.CatalogueError as fault:
            return [*found, f"dataset: {fault}"]
        dataset = self.datasets[cell.dataset]
        found += [*_replica_faults(cell), *_photo_faults(cell, dataset)]
        if inference.is_inference(cell):
            found += inference.faults(cell, dataset.splits.test)
        elif cell.effective_batch > dataset.splits.train:
            found.append(
                f"batch_size: {cell.effective_batch} is more than the {dataset.splits.train} "
                f"training examples of {cell.dataset}; choose a smaller one"
            )
        elif cell.epochs * (dataset.splits.train // cell.effective_batch) < 2:
            found.append("epochs: a single step leaves none to measure; train for more epochs")
        elif cell.steps is not None:
            found += _step_faults(cell, dataset.splits.train // cell.effective_batch)
        pair = (cell.network, cell.dataset)
        if pair not in self.graphs:
            try:
                graph = networks.build(cell.network, tuple(dataset.shape), len(dataset.classes))
                self.graphs[pair] = None
                if (graph.vocabulary is not None) != dataset.tokens:
                    kinds = ("images", "text") if dataset.tokens else ("text", "images")
                    self.graphs[pair] = (
                        f"network: {cell.network} takes {kinds[0]}, {cell.dataset} has {kinds[1]}; "
                        "choose another network or data set"
                    )
            except GraphError as fault:
                self.graphs[pair] = f"network: {fault}; choose another network or data set"
        if dataset.tokens and (cell.crop_padding or cell.flip):
            found.append("crop_padding, flip: a text is not augmented; set them to 0 and false")
        if message := self.graphs[pair]:
            found.append(message)
        return found

    def _operation_faults(self, cell: Cell) -> list[str]:
        if cell.dataset in self.shapes:
            return [f"dataset: {self.shapes[cell.dataset]} has no shapes of {cell.network}"]
        try:
            operations.dimensions(cell.network, cell.dataset)
        except ValueError as fault:
            listed = ", ".join(sorted(self.shapes))
            return [f"dataset: {fault}; write one, or a file of config/operations: {listed}"]
        found = []
        written = operations.precisions(cell.network)
        if cell.precision not in written:
            found.append(
                f"precision: {cell.network} is written for {', '.join(written)}, not "
                f"{cell.precision!r}; choose one of them"
            )
        if operations.collective(cell.network):
            if cell.replicas < 2:
                found.append(
                    f"replicas: {cell.network} is between several; set replicas to 2 or more"
                )
            # Each has an array of its own, so threads alone are to be split.
            found += _replica_faults(cell.model_copy(update={"batch_split": "per_replica"}))
        return found


def _step_faults(cell: Cell, per_epoch: int) -> list[str]:
    """What is wrong with the limit of a cell's steps; an epoch has `per_epoch` of them."""
    found, steps = [], cell.steps or 0
    if cell.evaluate_every or cell.target_accuracy is not None:
        found.append(
            "steps: a run that ends after some steps evaluates nothing; leave evaluate_every and "
            "target_accuracy out"
        )
    if 2 * steps > cell.epochs * per_epoch:
        found.append(
            f"steps: {steps} are more than half of the {cell.epochs * per_epoch} in "
            f"{cell.epochs} epochs, and warm-up may take the other half; write epochs: "
            f"{-(-2 * steps // per_epoch)}, or fewer steps"
        )
    return found


def _replica_faults(cell: Cell) -> list[str]:
    """What of a cell cannot be split evenly over its replicas."""
    found, count = [], cell.world_size
    where = f" on {cell.nodes} nodes" if cell.nodes > 1 else ""
    if cell.effective_batch % count:
        found.append(
            f"batch_size: {cell.batch_size} examples cannot be split evenly over {count} "
            f"replicas{where}; choose a multiple of {count}, or batch_split: per_replica"
        )
    if cell.device == "cpu" and cell.threads and cell.threads % cell.replicas:
        found.append(
            f"threads: {cell.threads} cannot be split evenly over {cell.replicas} replicas; choose "
            f"a multiple of {cell.replicas}"
        )
    return found


def _photo_faults(cell: Cell, dataset: catalogue.Dataset) -> list[str]:
    """Why the framework's records cannot hold the photos of a data set, if they cannot."""
    if dataset.photos is None or cell.input == "synthetic":
        return []
    if frameworks.of_records(cell.framework, "PHOTOS"):
        return []
    kind = frameworks.record_format(cell.framework)
    return [
        f"dataset: {cell.dataset} has photos, and {cell.framework} reads {kind} records, which "
        "hold none; choose another framework, or another data set for it"
    ]
