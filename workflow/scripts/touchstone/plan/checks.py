"""What the settings of a cell must satisfy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError

from touchstone import networks, operations, optimizers
from touchstone.datasets import catalogue
from touchstone.networks.graph import GraphError
from touchstone.plan import environment, frameworks, inference
from touchstone.plan.devices import AVAILABLE
from touchstone.plan.effect import foreign, missing_requirement, with_defaults
from touchstone.plan.model import SETTINGS, Cell
from touchstone.plan.names import BEST
from touchstone.plan.parts import Environment, Program, Shapes
from touchstone.plan.read import ConfigError, read
from touchstone.plan.setting import INFERENCE, OPERATION, PROGRAM
from touchstone.schema.spec import PINNED, PLAIN

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
SHAPE = re.compile(r"[0-9]+(x[0-9]+)*")
OF_SETTINGS = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "threads"),
    "NPROC": "threads",
    "OMP_WAIT_POLICY": "wait_policy",
    "MKL_DEBUG_CPU_TYPE": "mode",
    "TF_ENABLE_ONEDNN_OPTS": "mode",
}
"""Variables that another setting of a study sets."""


def fault_of(place: str, error: Any, model: type[BaseModel]) -> str:
    """One fault in words: the key, what is wrong with it, what to write instead."""
    given = error.get("input")
    if error["type"] == "extra_forbidden":
        return f"{place}: unknown key{like(place.rpartition('.')[2], model.model_fields)}"
    if error["type"] == "missing":
        field = model.model_fields[place.rpartition(".")[2]]
        return f"{place}: missing; {field.description}"
    if error["type"] in ("model_type", "dict_type"):
        key = place.rpartition(".")[2].partition("[")[0]
        return f"{place}: {given!r} is no mapping; write `{key}: {{key: value}}`"
    text = error["msg"][0].lower() + error["msg"][1:]
    remedy = ""
    if error["type"] in ("float_type", "int_type") and isinstance(given, str):
        remedy = "; write a number without quotes, and 1.0e-3 rather than 1e-3"
    return f"{place}: {text}, not {given!r}{remedy}"


def like(word: str, names: Any) -> str:
    near = difflib.get_close_matches(word, list(names), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{hint} Known: {', '.join(names)}" if hint else f"; known: {', '.join(names)}"


class Known:
    """What a cell may name: frameworks, networks and data sets, found by their files."""

    def __init__(
        self,
        root: Path,
        own: Mapping[str, Environment] = MappingProxyType({}),
        programs: Mapping[str, Program] = MappingProxyType({}),
    ) -> None:
        """The environments of the study are `own`."""
        self.root, self.own = root, own
        by_name = {name: environment.faults(name, env) for name, env in own.items()}
        self.own_faults = [fault for faults in by_name.values() for fault in faults]
        self.usable = [name for name, faults in by_name.items() if not faults]
        self.datasets: dict[str, catalogue.Dataset] = {}
        self.graphs: dict[tuple[str, str], str | None] = {}
        self.tasks: dict[tuple[str, str], str | None] = {}
        self.names = {
            "framework": frameworks.adapters(),
            "environment": [PINNED, *own],
            "network": networks.names() + operations.names(),
            "dataset": catalogue.names(root / "config/datasets"),
            "program": list(programs),
        }
        self.shapes = {path.stem: path for path in (root / "config/operations").glob("*.yaml")}
        self.read_shapes: dict[str, dict[str, list[str]] | str] = {}

    def listed(self, key: str) -> str:
        return ", ".join(self.names[key])

    def in_style(self, style: str) -> list[str]:
        """The frameworks that have a style."""
        return [name for name in self.names["framework"] if frameworks.modes(name, style)]

    def unknown(self, key: str, value: Any, is_program: bool = False) -> str | None:
        """Why `value` names nothing, or None; a program has words of its own."""
        if is_program and key in ("network", "dataset"):
            return None if WORD.fullmatch(value) else f"{value!r} is no word of letters and digits"
        if key == "dataset" and (value in self.shapes or SHAPE.fullmatch(value)):
            return None  # whether the operation has it is a question to the whole cell
        if key in self.names and value not in self.names[key]:
            return f"no {key} is named {value!r}{like(value, self.names[key])}"
        return None

    def resolved(self, cell: Cell) -> list[Cell]:
        """The cell with its framework's own mode for null; of an operation, one for each of the
        shapes that it names, with what is a matter of training as in every other."""
        if cell.mode is None and cell.framework in self.names["framework"]:
            modes = frameworks.modes(cell.framework, cell.style) or frameworks.modes(cell.framework)
            cell = cell.model_copy(update={"mode": modes[0]})
        unheeded = [name for name in SETTINGS if foreign(cell, name)]
        if cell.kind == PROGRAM:
            mode = frameworks.modes(cell.framework)[0]
            return [with_defaults(cell, unheeded).model_copy(update={"mode": mode})]
        if cell.kind != OPERATION:
            if cell.kind == INFERENCE and cell.trained_batch_size is None:
                cell = cell.model_copy(update={"trained_batch_size": cell.batch_size})
            dependent = ("batch_split", "trained_batch_size")
            return [
                with_defaults(
                    cell,
                    [*unheeded, *(name for name in dependent if missing_requirement(cell, name))],
                )
            ]
        shapes, mode = [cell.dataset], frameworks.modes(cell.framework)[0]
        if cell.dataset in self.shapes:
            listed = self._shapes_of(cell.dataset)
            shapes = shapes if isinstance(listed, str) else listed.get(cell.network, shapes)
        cell = with_defaults(cell, unheeded)
        same = {"batch_size": 1, "input": "synthetic", "mode": mode}
        return [cell.model_copy(update={**same, "dataset": shape}) for shape in shapes]

    def _shapes_of(self, name: str) -> dict[str, list[str]] | str:
        """The shapes of each operation in a file of `config/operations`, or its faults."""
        if name not in self.read_shapes:
            try:
                self.read_shapes[name] = Shapes.model_validate(read(self.shapes[name])).shapes
            except ConfigError as fault:
                self.read_shapes[name] = str(fault)
            except ValidationError as invalid:
                faults = [
                    fault_of(".".join(map(str, error["loc"])), error, Shapes)
                    for error in invalid.errors()
                ]
                self.read_shapes[name] = f"{self.shapes[name]}: {'; '.join(faults)}"
        return self.read_shapes[name]

    def faults(self, cell: Cell) -> list[str]:
        """What is wrong with the cell as a whole, each fault led by its key."""
        faults = []
        modes = (*frameworks.modes(cell.framework, cell.style, cell.device), BEST)
        if len(modes) == 1:
            faults.append(
                f"style: {cell.framework} has no style {cell.style!r} here; leave it out, or "
                f"choose another framework: {', '.join(self.in_style(cell.style))}"
            )
        elif cell.mode not in modes and cell.mode in frameworks.modes(
            cell.framework, cell.style, "gpu"
        ):
            faults.append(
                f"mode: {cell.framework} has {cell.mode!r} on GPUs only; set device to gpu, or "
                f"choose another mode: {', '.join(modes)}"
            )
        elif cell.mode not in modes:
            plain = " in the style plain" if cell.style == PLAIN else ""
            faults.append(
                f"mode: {cell.framework} has no mode {cell.mode!r}{plain}"
                f"{like(cell.mode or '', modes)}"
            )
        if cell.device == AVAILABLE:
            faults.append("device: available is for a sweep; write it there, or name one device")
        if cell.style == PLAIN:
            faults += _plain_faults(cell)
        faults += _variable_faults(cell)
        if (cell.schedule == "step") != bool(cell.milestones):
            faults.append(
                f"milestones: {cell.milestones} with the schedule {cell.schedule!r}; the schedule "
                "'step' wants some, and it alone"
            )
        if fault := optimizers.fault(cell.optimizer, vars(cell)):
            faults.append(fault)
        if max([*cell.milestones, cell.lr_warmup_epochs]) >= cell.epochs:
            faults.append(
                f"epochs: {cell.epochs} end before the last of the milestones {cell.milestones} "
                f"and the {cell.lr_warmup_epochs} epochs of warm-up; train for longer"
            )
        if cell.kind == PROGRAM:
            return faults
        if cell.kind == OPERATION:
            faults += environment.cell_faults(cell, self.own, self.usable, photos=False)
            return [*faults, *self._operation_faults(cell)]
        try:
            if cell.dataset not in self.datasets:
                folder = self.root / "config/datasets"
                self.datasets[cell.dataset] = catalogue.load(cell.dataset, folder)
        except catalogue.CatalogueError as fault:
            return [*faults, f"dataset: {fault}"]
        dataset = self.datasets[cell.dataset]
        photos = dataset.photos is not None
        faults += environment.cell_faults(cell, self.own, self.usable, photos)
        faults += _replica_faults(cell, dataset.splits.train)
        faults += _padding_faults(cell, dataset)
        if cell.kind == INFERENCE:
            faults += inference.faults(cell, dataset.splits.test)
        elif cell.global_batch_size > dataset.splits.train:
            faults.append(
                f"batch_size: {cell.global_batch_size} is more than the {dataset.splits.train} "
                f"training examples of {cell.dataset}; choose a smaller one"
            )
        elif cell.epochs * cell.batches(dataset.splits.train).steps < 2:
            faults.append("epochs: a single step leaves none to measure; train for more epochs")
        elif cell.steps is not None:
            faults += _step_faults(cell, cell.batches(dataset.splits.train).steps)
        pair = (cell.network, cell.dataset)
        if pair not in self.graphs:
            try:
                graph = networks.build(cell.network, tuple(dataset.shape), len(dataset.classes))
                self.graphs[pair], self.tasks[pair] = None, graph.task
                if (graph.vocabulary is not None) != dataset.tokens:
                    kinds = ("images", "text") if dataset.tokens else ("text", "images")
                    self.graphs[pair] = (
                        f"network: {cell.network} takes {kinds[0]}, {cell.dataset} has {kinds[1]}; "
                        "choose another network or data set"
                    )
            except GraphError as fault:
                self.graphs[pair] = f"network: {fault}; choose another network or data set"
        if dataset.tokens and _augments(cell):
            faults.append(
                "crop_padding, crop_area, flip: a text is not augmented; set them to 0 and false"
            )
        if cell.crop_padding and cell.crop_area:
            faults.append(
                "crop_area: with crop_padding each example would be cut twice; set one of them to 0"
            )
        if message := self.graphs[pair]:
            faults.append(message)
        return [*faults, *_task_faults(cell, self.tasks.get(pair), dataset)]

    def _operation_faults(self, cell: Cell) -> list[str]:
        if cell.dataset in self.shapes:
            listed = self._shapes_of(cell.dataset)
            lacks_it = (
                f"{self.shapes[cell.dataset]} has no shapes of {cell.network}; list some there"
            )
            return [f"dataset: {listed if isinstance(listed, str) else lacks_it}"]
        try:
            operations.dimensions(cell.network, cell.dataset)
        except ValueError as fault:
            listed = ", ".join(sorted(self.shapes))
            return [f"dataset: {fault}; write one, or a file of config/operations: {listed}"]
        faults = []
        written = operations.precisions(cell.network)
        if cell.precision not in written:
            faults.append(
                f"precision: {cell.network} is written for {', '.join(written)}, not "
                f"{cell.precision!r}; choose one of them"
            )
        if operations.collective(cell.network):
            if cell.replicas < 2:
                faults.append(
                    f"replicas: {cell.network} is between several; set replicas to 2 or more"
                )
            # Each has an array of its own, so threads alone are to be split.
            faults += _replica_faults(cell.model_copy(update={"batch_split": "per_replica"}))
        return faults


def _plain_faults(cell: Cell) -> list[str]:
    """What the style `plain` does not do."""
    faults = []
    if cell.kind == INFERENCE:
        faults.append("workload: the style plain trains only; choose style: tuned to predict")
    if cell.world_size > 1:
        faults.append(
            "replicas: the style plain trains one model on one device; set replicas and nodes to 1"
        )
    if cell.input == "records":
        faults.append(
            "input: the style plain has its examples in memory; choose memory or synthetic"
        )
    return faults


def _augments(cell: Cell) -> bool:
    return bool(cell.crop_padding or cell.crop_area or cell.flip)


def _task_faults(cell: Cell, task: str | None, dataset: catalogue.Dataset) -> list[str]:
    """What a network with several labels for each example cannot do."""
    faults = []
    if task and cell.kind == INFERENCE:
        faults.append(
            f"workload: {cell.network} gives several labels for each example, which inference "
            "does not compare; choose another network, or train it"
        )
    elif task and cell.input == "records":
        faults.append(
            f"input: {cell.network} learns several labels of each example, which records do not "
            "hold; set it to memory"
        )
    if task == "label_per_pixel":
        if dataset.foreground is None:
            faults.append(
                f"dataset: {cell.network} labels pixels, and {cell.dataset} does not say which are "
                "of what its labels name; choose one with a foreground, as mnist-5k-32"
            )
        if _augments(cell):
            faults.append(
                f"crop_padding, crop_area, flip: the labels of {cell.network} are of pixels, which "
                "would move; set them to 0 and false"
            )
    return faults


def _variable_faults(cell: Cell) -> list[str]:
    """What is wrong with the environment variables that a study sets."""
    faults = []
    for name in cell.variables:
        if setting := OF_SETTINGS.get(name):
            faults.append(f"variables: {name} follows from the setting {setting}; set that instead")
        elif name.startswith(("TOUCHSTONE_", "PYTHON")) or name == "PATH":
            faults.append(f"variables: {name} is what the run itself is started with; leave it out")
    return faults


def _step_faults(cell: Cell, per_epoch: int) -> list[str]:
    """What is wrong with the limit of a cell's steps; an epoch has `per_epoch` of them."""
    faults, steps = [], cell.steps or 0
    if cell.evaluate_every or cell.target_accuracy is not None:
        faults.append(
            "steps: a run that ends after some steps evaluates nothing; leave evaluate_every and "
            "target_accuracy out"
        )
    if 2 * steps > cell.epochs * per_epoch:
        faults.append(
            f"steps: {steps} are more than half of the {cell.epochs * per_epoch} in "
            f"{cell.epochs} epochs, and warm-up may take the other half; write epochs: "
            f"{-(-2 * steps // per_epoch)}, or fewer steps"
        )
    return faults


def _replica_faults(cell: Cell, examples: int = 0) -> list[str]:
    """What of a cell with so many training examples cannot be split evenly over its replicas."""
    faults, count = [], cell.world_size
    where = f" on {cell.nodes} nodes" if cell.nodes > 1 else ""
    rest = cell.batches(examples).rest if examples else 0
    if rest % count:
        faults.append(
            f"last_batch: the last batch of an epoch has {rest} examples, which cannot be split "
            f"evenly over {count} replicas{where}; choose 'drop'"
        )
    if cell.global_batch_size % count:
        faults.append(
            f"batch_size: {cell.batch_size} examples cannot be split evenly over {count} "
            f"replicas{where}; choose a multiple of {count}, or batch_split: per_replica"
        )
    if cell.device == "cpu" and cell.threads and cell.threads % cell.replicas:
        faults.append(
            f"threads: {cell.threads} cannot be split evenly over {cell.replicas} replicas; choose "
            f"a multiple of {cell.replicas}"
        )
    return faults


def _padding_faults(cell: Cell, dataset: catalogue.Dataset) -> list[str]:
    """Why a padded example cannot be cut, if some of its windows would have nothing of it."""
    side = min(dataset.shape[:2])
    if cell.crop_padding < side:
        return []
    return [
        f"crop_padding: {cell.crop_padding} pixels around the {side} of {cell.dataset}, so that a"
        f" window may have nothing of the example; choose less than {side}"
    ]
