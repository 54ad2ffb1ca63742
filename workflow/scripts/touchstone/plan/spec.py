"""The spec of a run: everything that its runner reads, and nothing else."""

from functools import cache
from pathlib import Path
from typing import Any

from touchstone import networks, operations, optimizers
from touchstone.datasets import catalogue
from touchstone.networks.graph import OwnStart
from touchstone.plan import frameworks, programs
from touchstone.plan.model import SETTINGS, Cell, settings
from touchstone.plan.parts import Program
from touchstone.plan.read import canonical, digest, digest_of_text, name_of
from touchstone.plan.setting import INFERENCE, OPERATION
from touchstone.schema import spec as schema
from touchstone.schema.spec import (
    NO_NETWORK,
    Augmentation,
    Calls,
    Data,
    Execution,
    Factors,
    InferenceSpec,
    Limits,
    Network,
    OperationSpec,
    Optimizer,
    ProgramSpec,
    RunSpec,
    Schedule,
    TimedPhases,
    TrainingPhases,
    TrainingSpec,
    spec_to_json,
)
from touchstone.schema.values import to_json

FACTORS = set(settings(lambda traits: traits.shown is not None)) - {"batch_size"}
"""The factors of every run, beside its batch size, which is that of all replicas."""
BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16-amp": 2}
"""Of a number that a product reads or writes; operations count those of single precision."""
WHITE = 255
"""The largest value of a byte that is a pixel."""


@cache
def _network(
    name: str, shape: tuple[int, ...], classes: int, initialisation: str, own: OwnStart | None
) -> Network:
    return networks.build(name, shape, classes).network(initialisation, own)


def _described(cell: Cell, dataset: catalogue.Dataset) -> tuple[Any, ...]:
    """What decides the network of a cell: the arguments of `_network`."""
    own = (
        frameworks.default_initialisation(cell.framework)
        if cell.initialisation == "framework"
        else None
    )
    shape, classes = tuple(dataset.shape), len(dataset.classes)
    return cell.network, shape, classes, cell.initialisation, own


@cache
def _dataset(name: str, folder: Path) -> catalogue.Dataset:
    return catalogue.load(name, folder)


def seed_of(cell: Cell, repeat: int) -> int:
    """The seed of a run."""
    return cell.seed + repeat - 1


def data_folder(cell: Cell) -> str:
    """The folder of the cell's converted data set, relative to the working folder."""
    return f"results/data/{cell.dataset}/{frameworks.record_format(cell.framework)}"


def make_spec(cell: Cell, repeat: int, root: Path, program: Program | None = None) -> RunSpec:
    """The spec of repeat `repeat` of `cell`, which may run a program; `root` is the project's
    folder."""
    if program:
        return _program_spec(cell, repeat, program)
    if cell.kind == OPERATION:
        return _operation_spec(cell, repeat)
    dataset = _dataset(cell.dataset, root / "config/datasets")
    network = _network(*_described(cell, dataset))
    deviations = frameworks.deviations(cell.framework, network, cell.input)
    data = _data_of(cell, dataset)
    if cell.kind == INFERENCE:
        return InferenceSpec(
            **_common(cell, repeat),
            factors=_factors_of(cell)._replace(workload=cell.workload, weights=cell.weights),
            network=network,
            data=data,
            deviations=deviations,
            phases=_timed_phases(cell, cell.inference_seconds),
        )
    return TrainingSpec(
        **_common(cell, repeat),
        factors=_factors_of(cell),
        network=network,
        data=data,
        optimizer=optimizer_of(cell),
        schedule=schedule_of(cell),
        augmentation=augmentation_of(cell),
        deviations=deviations,
        phases=TrainingPhases(measured_steps=cell.steps, **_named(TrainingPhases, cell)),
    )


def _operation_spec(cell: Cell, repeat: int) -> OperationSpec:
    operation = operations.load(cell.network)
    dimensions = operations.dimensions(cell.network, cell.dataset)
    collective = operations.collective(cell.network)
    return OperationSpec(
        **_common(cell, repeat),
        factors=_factors_of(cell)._replace(batch_size=cell.batch_size),
        operation=Calls(
            name=cell.network,
            dimensions=dimensions,
            flops=operation.flops(**dimensions),
            traffic=operation.traffic(**dimensions) * BYTES[cell.precision] // 4,
            exchanged=operation.exchanged(**dimensions) if collective else None,
        ),
        deviations=[],
        phases=_timed_phases(cell, cell.operation_seconds),
    )


def _program_spec(cell: Cell, repeat: int, program: Program) -> ProgramSpec:
    seeded = cell.model_copy(update={"seed": seed_of(cell, repeat)})
    given = programs.arguments(program, seeded)
    return ProgramSpec(
        **_common(cell, repeat),
        factors=_factors_of(cell),
        program=schema.Program(
            str(cell.program), program.file, given, program.until, programs.code(program, given)
        ),
        deviations=[],
        phases=_timed_phases(cell, cell.program_seconds),
    )


def _common(cell: Cell, repeat: int) -> dict[str, Any]:
    """The fields that every kind of spec has alike."""
    return {
        "cell": name_of(cell),
        "repeat": repeat,
        "seed": seed_of(cell, repeat),
        "execution": execution_of(cell),
        "limits": Limits(cell.time_limit, cell.memory_limit, cell.time_limit_factor),
        "sampling_interval": cell.sampling_interval,
    }


def _factors_of(cell: Cell) -> Factors:
    return Factors(
        batch_size=cell.global_batch_size, **{name: getattr(cell, name) for name in FACTORS}
    )


def _timed_phases(cell: Cell, seconds: float) -> TimedPhases:
    return TimedPhases(seconds, **_named(TimedPhases, cell))


def _named(part: Any, cell: Cell) -> dict[str, Any]:
    """The settings of a cell that a part of its spec has under their names."""
    return {name: getattr(cell, name) for name in part._fields if name in SETTINGS}


def _data_of(cell: Cell, dataset: catalogue.Dataset) -> Data:
    sharded = frameworks.record_format_has(cell.framework, "SHARDED")
    return Data(
        format=frameworks.record_format(cell.framework),
        encoding="raw" if dataset.photos is None else "jpeg",
        folder=data_folder(cell),
        shards={
            split: catalogue.shard_names(split, shards if sharded else 1)
            for split, shards in dataset.shards.model_dump().items()
        },
        shape=list(dataset.shape),
        classes=len(dataset.classes),
        train_examples=dataset.splits.train,
        test_examples=dataset.splits.test,
        mean=list(dataset.mean),
        std=list(dataset.std),
        pixel_maximum=1 if dataset.tokens else WHITE,
        foreground=dataset.foreground,
    )


@cache
def _network_digest(*described: Any) -> str:
    return digest(to_json(_network(*described)))


def spec_digests(cell: Cell, repeats: int, root: Path, program: Program | None = None) -> list[str]:
    """The digests of the specs of repeats 1 to `repeats`.

    The digest of a network is computed once, and what the repeats share is written out once.
    """
    if program and "seed" in programs.named(program):  # the repeats have other arguments
        every = range(1, repeats + 1)
        return [digest(spec_to_json(make_spec(cell, n, root, program))) for n in every]
    spec = make_spec(cell, 1, root, program)
    if isinstance(spec, OperationSpec | ProgramSpec):
        values = spec_to_json(spec)
    else:
        dataset = _dataset(cell.dataset, root / "config/datasets")
        network_digest = _network_digest(*_described(cell, dataset))
        values = spec_to_json(spec._replace(network=NO_NETWORK)) | {"network": network_digest}
    own = {"repeat", "seed"}
    parts = {key: "" if key in own else canonical(value) for key, value in sorted(values.items())}
    digests = []
    for repeat in range(1, repeats + 1):
        parts.update(repeat=f"{repeat}", seed=f"{seed_of(cell, repeat)}")
        text = "{" + ",".join(f'"{key}":{value}' for key, value in parts.items()) + "}"
        digests.append(digest_of_text(text))
    return digests


def training_examples(cell: Cell, root: Path) -> int:
    """How many examples the training set of a cell has."""
    count: int = _dataset(cell.dataset, root / "config/datasets").splits.train
    return count


def optimizer_of(cell: Cell) -> Optimizer:
    """The update equation of a cell, with the settings of its own optimizer only."""
    own = optimizers.own_settings(cell.optimizer)
    return Optimizer(
        name=optimizers.equation(cell.optimizer),
        learning_rate=cell.learning_rate,
        weight_decay=cell.weight_decay,
        decoupled=cell.weight_decay_form == "decoupled",
        spared=[] if cell.weight_decay_on == "all" else ["bias", "scale", "offset"],
        settings={setting.name: getattr(cell, setting.name) for setting in own},
    )


def schedule_of(cell: Cell) -> Schedule:
    """How the learning rate of a cell changes."""
    return Schedule(cell.schedule, list(cell.milestones), cell.lr_gamma, cell.lr_warmup_epochs)


def augmentation_of(cell: Cell) -> Augmentation | None:
    """How the training images of a cell change at random; None if they do not."""
    if not cell.crop_padding and not cell.flip and not cell.crop_area:
        return None
    return Augmentation(cell.crop_padding, cell.flip, cell.crop_area)


def execution_of(cell: Cell) -> Execution:
    """How a cell is executed."""
    named = _named(Execution, cell)
    named["mode"] = cell.mode or frameworks.modes(cell.framework, cell.style)[0]
    named["variables"] = dict(sorted(cell.variables.items()))
    if cell.world_size == 1:
        return Execution(**{**named, "batch_split": None})
    kind, why = frameworks.replicas(cell.framework)
    return Execution(
        **named,
        replicas_are=kind,
        why_no_replicas=why,
        why_no_nodes=frameworks.why_no_nodes(cell.framework) if cell.nodes > 1 else None,
    )
