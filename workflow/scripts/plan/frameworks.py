"""What the plan must know of a framework, read from its adapter's text without importing it."""

import ast
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "frameworks"
FORMATS = Path(__file__).parent.parent / "datasets/formats"


def adapters() -> list[str]:
    """The frameworks that can be planned: the adapters `frameworks/<name>.py`."""
    stems = (path.stem for path in FOLDER.glob("*.py"))
    return sorted(stem for stem in stems if stem != "runtime" and not stem.startswith("_"))


def names() -> list[str]:
    """Those of them that train: all but the ones that are for something else alone."""
    return [name for name in adapters() if only(name) is None]


def only(framework: str) -> str | None:
    """What alone the adapter is for, as its `ONLY` says: `inference`, `operations`, or None."""
    found: str | None = _constants(framework).get("ONLY")
    return found


def _constants(framework: str) -> dict[str, Any]:
    return constants(FOLDER / f"{framework}.py")


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


def modes(framework: str) -> tuple[str, ...]:
    """The adapter's execution modes, its own choice first."""
    found: tuple[str, ...] = _constants(framework)["MODES"]
    return found


def record_format(framework: str) -> str:
    """The record format that the adapter reads."""
    found: str = _constants(framework)["RECORD_FORMAT"]
    return found


def of_records(framework: str, constant: str) -> bool:
    """What that format says of itself: `SHARDED` or `PHOTOS` (datasets/formats), whose import
    brings NumPy, which would take longer than all else that a plan reads."""
    return bool(constants(FORMATS / f"{record_format(framework)}.py")[constant])


def deviations(framework: str, network: dict[str, Any], source: str) -> list[str]:
    """Where the adapter cannot do what the graph `network` says, as its `DEVIATIONS` tell.

    A deviation may also be that of an input, `source`.
    """
    found: dict[str, str] = _constants(framework).get("DEVIATIONS", {})
    used = {layer["op"] for layer in network["layers"]} | {source}
    return [text for what, text in found.items() if what in used]


def released(framework: str) -> str | None:
    """The month (`YYYY-MM`) in which the pinned version was released, if the adapter tells it."""
    found: str | None = _constants(framework).get("RELEASED")
    return found


def single_precision_only(framework: str) -> bool:
    """Whether the framework computes in single precision alone (`SINGLE_PRECISION_ONLY`)."""
    return bool(_constants(framework).get("SINGLE_PRECISION_ONLY", False))


def trace_bytes(framework: str) -> int:
    """What a trace takes at most for each parameter, bytes: `TRACE_BYTES`, or what PyTorch takes
    for the traces of both precisions."""
    found: int = _constants(framework).get("TRACE_BYTES", 170)
    return found


def waits(framework: str) -> bool:
    """Whether idle threads of the framework heed a wait policy, as its `WAITS` says."""
    return bool(_constants(framework).get("WAITS", False))


def replicas(framework: str) -> tuple[str | None, str | None]:
    """What the adapter's replicas are, `processes` or `devices` of one, or why it has none."""
    constants = _constants(framework)
    kind: str | None = constants.get("REPLICAS")
    why: str = constants.get("NO_REPLICAS", f"the adapter of {framework} knows no replicas")
    return kind, None if kind else why


def why_no_nodes(framework: str) -> str | None:
    """Why the adapter does not train on several nodes, as its `NO_NODES` says, or None."""
    found: str | None = replicas(framework)[1] or _constants(framework).get("NO_NODES")
    return found


def environment(framework: str, device: str) -> str:
    """The path of the environment file for cells of that framework on that device."""
    return f"envs/{framework}-gpu.yaml" if device == "gpu" else f"envs/{framework}.yaml"
