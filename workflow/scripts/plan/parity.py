"""The specs from which frameworks are compared: one network, synthetic images, few steps."""

from typing import Any

import networks
from networks.graph import GraphError
from plan import frameworks
from plan.model import Cell
from plan.spec import execution_of, optimizer_of
from plan.study import ConfigError

STEPS = {"fp32": 10, "fp64": 4}
"""By precision."""
BATCH_SIZE = 8
CLASSES = 10
SIDES = (32, 64, 96, 128, 224)
"""The network is built for the smallest of these image sizes that it accepts."""
SETTINGS: dict[str, Any] = {
    "learning_rate": 2.0**-14,
    "momentum": 0.875,
    "weight_decay": 2.0**-10,
}
"""Exact in single precision, in which some kernels keep them; the rate is small, since a
large one amplifies rounding from step to step."""


def reduced(network: str) -> dict[str, Any]:
    """The network's graph at reduced resolution; raises ConfigError if it fits none."""
    cause = ""
    for side in SIDES:
        try:
            return networks.build(network, (side, side, 3), CLASSES).as_dict()
        except GraphError as fault:
            cause = str(fault)
    raise ConfigError(f"network {network} builds at none of the image sizes {SIDES}: {cause}")


def trace_spec(graph: dict[str, Any], framework: str, mode: str, precision: str) -> dict[str, Any]:
    """The spec of a trace of `graph` in `fp32` or `fp64`: what of docs/contracts.md it reads."""
    cell = Cell(
        framework=framework, network=graph["name"], dataset="synthetic", mode=mode,
        input="synthetic", batch_size=BATCH_SIZE, **SETTINGS,
    )  # fmt: skip
    return {
        "format": 1,
        "seed": cell.seed,
        "factors": {"framework": framework, "input": "synthetic", "batch_size": BATCH_SIZE},
        "network": graph,
        "data": {
            "folder": "",
            "shape": graph["input"],
            "classes": CLASSES,
            "train_examples": STEPS[precision] * BATCH_SIZE,
            "test_examples": BATCH_SIZE,
        },
        "optimizer": optimizer_of(cell),
        "execution": {**execution_of(cell), "precision": precision},
    }


def parity_spec(network: str, framework: str, precision: str) -> dict[str, Any]:
    """The spec by which a network is compared: at reduced resolution, in the usual mode."""
    return trace_spec(reduced(network), framework, frameworks.modes(framework)[0], precision)
