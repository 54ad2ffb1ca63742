"""The spec of a run: everything that its runner is told, and nothing else."""

from functools import cache
from pathlib import Path
from typing import Any

from touchstone import networks, operations
from touchstone.datasets import catalogue
from touchstone.plan import frameworks, inference
from touchstone.plan.model import Cell
from touchstone.plan.read import canonical, digest, digest_of_text, is_operation, name_of

FORMAT = 1
FACTORS = (
    "framework", "network", "dataset", "device", "precision", "mode", "input", "batch_size",
    "learning_rate", "optimizer", "momentum", "weight_decay", "schedule", "epochs",
)  # fmt: skip
"""The settings that tables and records name."""

BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16-amp": 2}
"""Of a number that a product reads or writes; operations count those of single precision."""
WARMUP = ("warmup_steps", "warmup_seconds", "chunk_seconds")
PLAIN = {
    "optimizer": "sgd", "momentum": 0.0, "nesterov": False, "weight_decay": 0.0,
    "weight_decay_form": "coupled", "weight_decay_on": "all",
}  # fmt: skip


@cache
def _graph(network: str, shape: tuple[int, ...], classes: int) -> dict[str, Any]:
    return networks.build(network, shape, classes).as_dict()


@cache
def _dataset(name: str, folder: Path) -> catalogue.Dataset:
    return catalogue.load(name, folder)


def seed_of(cell: Cell, repeat: int) -> int:
    """The seed of a run."""
    return cell.seed + repeat - 1


def data_folder(cell: Cell) -> str:
    """Where the cell's converted data set lies, relative to the working folder."""
    return f"results/data/{cell.dataset}/{frameworks.record_format(cell.framework)}"


def make_spec(cell: Cell, repeat: int, root: Path) -> dict[str, Any]:
    """The spec of repeat `repeat` of `cell`, as in docs/contracts.md; `root` is the project."""
    if is_operation(cell):
        return _operation_spec(cell, repeat)
    dataset = _dataset(cell.dataset, root / "config/datasets")
    network = _graph(cell.network, tuple(dataset.shape), len(dataset.classes))
    sharded = frameworks.of_records(cell.framework, "SHARDED")
    spec = {
        "format": FORMAT,
        "cell": name_of(cell),
        "repeat": repeat,
        "seed": seed_of(cell, repeat),
        "factors": {
            **{key: getattr(cell, key) for key in FACTORS},
            "batch_size": cell.effective_batch,
            **({} if cell.steps is None else {"steps": cell.steps}),
        },
        "network": network,
        "data": {
            "format": frameworks.record_format(cell.framework),
            "encoding": "raw" if dataset.photos is None else "jpeg",
            "folder": data_folder(cell),
            "stems": {
                split: catalogue.stems(split, shards if sharded else 1)
                for split, shards in dataset.shards.model_dump().items()
            },
            "shape": list(dataset.shape),
            "classes": len(dataset.classes),
            "train_examples": dataset.splits.train,
            "test_examples": dataset.splits.test,
            "mean": list(dataset.mean),
            "std": list(dataset.std),
            **({"white": 1} if dataset.tokens else {}),
        },
        "optimizer": optimizer_of(cell),
        "schedule": schedule_of(cell),
        "augmentation": augmentation_of(cell),
        "deviations": frameworks.deviations(cell.framework, network, cell.input),
        "execution": execution_of(cell),
        "phases": {
            **{
                key: getattr(cell, key)
                for key in ("epochs", "evaluate_every", "target_accuracy", *WARMUP)
            },
            **({} if cell.steps is None else {"measured_steps": cell.steps}),
        },
        "limits": limits_of(cell),
        "sampling_interval": cell.sampling_interval,
    }
    return _inference_spec(spec, cell) if inference.is_inference(cell) else spec


def _inference_spec(spec: dict[str, Any], cell: Cell) -> dict[str, Any]:
    """The spec of a run that predicts: it lasts for a time, and updates nothing.

    The optimiser is the one without states, for adapters make one with every network.
    """
    names = ("workload", "weights")
    return {
        **spec,
        "factors": {**spec["factors"], **{key: getattr(cell, key) for key in names}},
        "inference": {"weights": cell.weights},
        "optimizer": optimizer_of(cell.model_copy(update=PLAIN)),
        "augmentation": None,
        "phases": {
            "seconds": cell.inference_seconds,
            **{key: getattr(cell, key) for key in WARMUP},
        },
    }


def _operation_spec(cell: Cell, repeat: int) -> dict[str, Any]:
    """The spec of an operation: it has neither network nor data, and lasts for a time."""
    operation = operations.load(cell.network)
    dimensions = operations.dimensions(cell.network, cell.dataset)
    return {
        "format": FORMAT,
        "cell": name_of(cell),
        "repeat": repeat,
        "seed": seed_of(cell, repeat),
        "factors": {key: getattr(cell, key) for key in FACTORS},
        "operation": {
            "name": cell.network,
            "dimensions": dimensions,
            "flops": operation.flops(**dimensions),
            "traffic": operation.traffic(**dimensions) * BYTES[cell.precision] // 4,
            **(
                {"exchanged": operation.exchanged(**dimensions)}
                if operations.collective(cell.network)
                else {}
            ),
        },
        "deviations": [],
        "optimizer": {},
        "execution": execution_of(cell),
        "phases": {
            "seconds": cell.operation_seconds,
            **{key: getattr(cell, key) for key in WARMUP},
        },
        "limits": limits_of(cell),
        "sampling_interval": cell.sampling_interval,
    }


@cache
def _graph_digest(network: str, shape: tuple[int, ...], classes: int) -> str:
    return digest(_graph(network, shape, classes))


def spec_digests(cell: Cell, repeats: int, root: Path) -> list[str]:
    """The digests of the whole specs of repeats 1 to `repeats`; that of a network's graph is taken
    once, and what the repeats have in common is spelled once."""
    spec = make_spec(cell, 1, root)
    if not is_operation(cell):
        data = spec["data"]
        spec["network"] = _graph_digest(cell.network, tuple(data["shape"]), data["classes"])
    own = {"repeat", "seed"}
    parts = {key: "" if key in own else canonical(value) for key, value in sorted(spec.items())}
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


def optimizer_of(cell: Cell) -> dict[str, Any]:
    """The update equation of a cell, as specs tell it: only what its optimiser knows."""
    keys = ("momentum", "nesterov") if cell.optimizer == "sgd" else ("beta1", "beta2", "epsilon")
    return {
        "name": cell.optimizer,
        **{key: getattr(cell, key) for key in ("learning_rate", *keys, "weight_decay")},
        "decoupled": cell.weight_decay_form == "decoupled",
        "spared": [] if cell.weight_decay_on == "all" else ["bias", "scale", "offset"],
    }


def schedule_of(cell: Cell) -> dict[str, Any]:
    """How the rate of a cell goes, as specs tell it."""
    return {
        "name": cell.schedule,
        "milestones": cell.milestones,
        "factor": cell.schedule_factor,
        "warmup_epochs": cell.rate_warmup_epochs,
    }


def augmentation_of(cell: Cell) -> dict[str, Any] | None:
    """What is done to a training image, as specs tell it; None if nothing is."""
    if not cell.crop_padding and not cell.flip:
        return None
    return {"crop_padding": cell.crop_padding, "flip": cell.flip}


def limits_of(cell: Cell) -> dict[str, Any]:
    """What ends a run of a cell, as specs tell it."""
    return {
        "seconds": cell.time_limit,
        "memory_mib": cell.memory_limit,
        "factor": cell.time_limit_factor,
    }


def execution_of(cell: Cell) -> dict[str, Any]:
    """How a cell is executed, as specs tell it."""
    keys = (
        "device", "precision", "mode", "threads", "wait_policy", "reader_threads", "deterministic",
    )  # fmt: skip
    execution = {key: getattr(cell, key) for key in keys}
    if cell.world_size > 1:
        kind, why = frameworks.replicas(cell.framework)
        execution.update(replicas=cell.replicas, batch_split=cell.batch_split, replicas_are=kind)
        if why:
            execution["why_no_replicas"] = why
    if cell.nodes > 1:
        execution["nodes"] = cell.nodes
        if why := frameworks.why_no_nodes(cell.framework):
            execution["why_no_nodes"] = why
    return execution
