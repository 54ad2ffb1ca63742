"""What the plan must know of a framework, whose adapter it does not import."""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchstone import optimizers
from touchstone.datasets import catalogue
from touchstone.networks.graph import OwnStart
from touchstone.paths import ROOT
from touchstone.plan.setting import TRAINING
from touchstone.schema.capabilities import Capabilities
from touchstone.schema.spec import PINNED, PLAIN, TUNED, Network

if TYPE_CHECKING:
    from touchstone.plan.model import Cell

FOLDER = Path(__file__).parent.parent / "runner/adapters"
FORMATS = Path(__file__).parent.parent / "datasets/formats"


def adapters() -> list[str]:
    """The frameworks that can be planned: the folders of `runner/adapters`."""
    return sorted(path.parent.name for path in FOLDER.glob("*/capabilities.py"))


@cache
def capabilities(framework: str) -> Capabilities:
    """What the adapter of a framework can do."""
    module = import_module(f"touchstone.runner.adapters.{framework}.capabilities")
    traits: Capabilities = module.CAPABILITIES
    return traits


def names() -> list[str]:
    """Those of them that train: all but the ones that are for something else only."""
    return [name for name in adapters() if single_purpose(name) is None]


def single_purpose(framework: str) -> str | None:
    """What the adapter is for, where it is for one thing: `inference`, `operations`, or None."""
    return capabilities(framework).only


def modes(framework: str, style: str = TUNED, device: str = "cpu") -> tuple[str, ...]:
    """The adapter's execution modes on a device in a style, the usual one first; none where it
    lacks the style."""
    traits = capabilities(framework)
    if style == TUNED:
        return (*traits.modes, *(traits.gpu_modes if device == "gpu" else ()))
    return tuple(traits.plain.modes) if traits.plain else ()


def adapter_files(framework: str, style: str) -> list[str]:
    """The modules of the adapter's folder that run a style, whichever its mode is."""
    traits = capabilities(framework)
    if style == TUNED or not traits.plain:
        return ["adapter"]
    return sorted(set(traits.plain.modes.values()))


def modules(framework: str, style: str = TUNED) -> dict[str, str]:
    """By name, the package of each module that every run in a style imports."""
    traits = capabilities(framework)
    return {**traits.modules, **(traits.plain.modules if style == PLAIN and traits.plain else {})}


def record_format(framework: str) -> str:
    """The record format that the adapter reads."""
    return capabilities(framework).record_format


@cache
def constants(path: Path) -> dict[str, Any]:
    """The literal constants that a file of Python assigns at its top level."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    values = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                values[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return values


def record_format_has(framework: str, constant: str) -> bool:
    """What that format says of itself: `SHARDED` or `PHOTOS` (datasets/formats), whose import
    brings NumPy, which would take longer than all else that a plan reads."""
    return bool(constants(FORMATS / f"{record_format(framework)}.py")[constant])


def deviations(framework: str, network: Network, source: str) -> list[str]:
    """Where the adapter cannot do what the graph `network` says, or the input `source`."""
    texts = capabilities(framework).deviations
    used = {layer["op"] for layer in network.layers} | {source}
    return [text for what, text in texts.items() if what in used]


def released(framework: str) -> str | None:
    """The month (`YYYY-MM`) in which the pinned version was released, if the adapter has it."""
    return capabilities(framework).released


def default_initialisation(framework: str) -> OwnStart:
    """What the framework draws as initial weights where its user says nothing."""
    return OwnStart(*capabilities(framework).initialisation)


def single_precision_only(framework: str) -> bool:
    """Whether the framework has no double precision."""
    return capabilities(framework).single_precision_only


def parity_bytes(framework: str) -> int:
    """What parity steps take at most for each parameter, bytes."""
    return capabilities(framework).parity_bytes


def supports_wait_policy(framework: str) -> bool:
    """Whether idle threads of the framework heed a wait policy."""
    return capabilities(framework).waits


def replicas(framework: str) -> tuple[str | None, str | None]:
    """What the adapter's replicas are, `processes` or `devices` of one, or why it has none."""
    traits = capabilities(framework)
    why = traits.why_no_replicas or f"the adapter of {framework} knows no replicas"
    return traits.replicas, None if traits.replicas else why


def why_no_nodes(framework: str) -> str | None:
    """Why the adapter does not train on several nodes, or None."""
    return replicas(framework)[1] or capabilities(framework).why_no_nodes


def unsupported(cell: Cell) -> str | None:
    """Why a cell cannot be run whatever the machine has: no environment has its framework, its
    records hold no photos, or its adapter says so; None if it can."""
    path = environment(cell.framework, cell.device, cell.style)
    if cell.environment == PINNED and not _is_there(path):
        return f"no environment has {cell.framework} for {cell.device.upper()}s: no {path}"
    if cell.reads and not record_format_has(cell.framework, "PHOTOS") and _has_photos(cell.dataset):
        kind = record_format(cell.framework)
        return (
            f"{cell.dataset} has photos, and {cell.framework} reads {kind} records, which hold none"
        )
    if cell.nodes > 1 and (why := why_no_nodes(cell.framework)):
        return why
    if cell.kind != TRAINING:
        return None
    return capabilities(cell.framework).why_no_optimizer(optimizers.equation(cell.optimizer))


def is_installable(framework: str, device: str) -> bool:
    """Whether an environment has the framework for a kind of device."""
    return _is_there(environment(framework, device))


@cache
def _has_photos(dataset: str) -> bool:
    """Whether a data set is one of photos."""
    return catalogue.load(dataset, ROOT / "config/datasets").photos is not None


@cache
def _is_there(path: str) -> bool:
    """Whether the project has a file."""
    return (ROOT / path).exists()


def environment(framework: str, device: str, style: str = TUNED) -> str:
    """The path of the environment file for cells of that framework on that device in a style."""
    more = style == PLAIN and modules(framework, style) != modules(framework)
    plain, gpu = "-plain" * more, "-gpu" * (device == "gpu")
    return f"envs/{framework}{plain}{gpu}.yaml"
