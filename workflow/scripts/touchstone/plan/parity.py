"""The specs from which frameworks are compared: one network, synthetic images, few steps."""

from functools import cache
from typing import Any

from touchstone import networks
from touchstone.networks.graph import GraphError
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.read import ConfigError
from touchstone.plan.spec import augmentation_of, execution_of, optimizer_of, schedule_of

REFERENCE = "pytorch"
"""The framework that the others are compared with."""
BATCH_SIZE = 8
CLASSES = 10
SIDES = (32, 64, 96, 128, 224)
"""The network is built for the smallest of these image sizes that it accepts; one that takes no
images, for a text."""
STEPS = 32
"""Tokens of such a text."""
USUAL: dict[str, Any] = {
    "learning_rate": 2.0**-20,
    "momentum": 0.875,
    "beta1": 0.875,
    "beta2": 1 - 2.0**-10,
    "epsilon": 2.0**-20,
    "weight_decay": 2.0**-10,
}
"""Exact in single precision, in which some kernels keep them; the rate is small, since a
large one amplifies rounding from step to step."""
TRACES: dict[str, dict[str, Any]] = {
    "fp32": {"precision": "fp32", "optimizer": "sgd", "steps": 1},
    "fp64": {"precision": "fp64", "optimizer": "sgd", "steps": 10},
    "adam": {"precision": "fp64", "optimizer": "adam", "steps": 10},
}
"""What a network is traced with, by the names under which the certificate judges it."""
SINGLE: dict[str, Any] = {**USUAL, "learning_rate": 2.0**-14, "epsilon": 2.0**-10}
"""The settings where a framework has single precision alone: a rate at which its weights show an
update, and an epsilon that keeps Adam from enlarging the rounding of small gradients."""
SINGLE_TRACES: dict[str, dict[str, Any]] = {
    "sgd32": {"precision": "fp32", "optimizer": "sgd", "steps": 10},
    "adam32": {"precision": "fp32", "optimizer": "adam", "steps": 10},
}
"""What such a framework is traced with."""
EXACT_TRACES: dict[str, dict[str, Any]] = {
    "sgd64": {**SINGLE_TRACES["sgd32"], "precision": "fp64"},
    "adam64": {**SINGLE_TRACES["adam32"], "precision": "fp64"},
}
"""What the reference is traced with beside these, for them to be compared with."""
APART = 2.0**-16
"""By what share of themselves, at most, images are changed to see how far rounding is amplified:
so that the logits move by some ten times what single precision does to them."""
APART_TRACES = {f"{name}apart": {**trace, "apart": APART} for name, trace in EXACT_TRACES.items()}
"""The same from images that are apart."""


@cache
def reduced(network: str) -> dict[str, Any]:
    """The network's graph at reduced resolution; raises ConfigError if it fits none.

    Each of its traces asks for it several times: nobody may change it.
    """
    cause = ""
    for shape in [*((side, side, 3) for side in SIDES), (STEPS, 1, 1)]:
        try:
            return networks.build(network, shape, CLASSES).as_dict()
        except GraphError as fault:
            cause = cause or str(fault)
    raise ConfigError(
        f"network {network} builds neither at the image sizes {SIDES} nor for a text: {cause}"
    )


def trace_spec(
    graph: dict[str, Any], framework: str, mode: str, single: bool = False, **settings: Any
) -> dict[str, Any]:
    """The spec of the traces of `graph`: what of docs/contracts.md their runner reads.

    `single` are the traces for frameworks that have single precision alone, which for others
    include double precision. `settings` of a cell may replace the usual ones.
    """
    traces, usual = (SINGLE_TRACES, SINGLE) if single else (TRACES, USUAL)
    if single and not frameworks.single_precision_only(framework):
        traces = {**SINGLE_TRACES, **EXACT_TRACES}
        if "vocabulary" not in graph:  # no word is nearly another one
            traces |= APART_TRACES
    cell = Cell(
        framework=framework, network=graph["name"], dataset="synthetic", mode=mode,
        input="synthetic", batch_size=BATCH_SIZE, threads=1, **{**usual, **settings},
    )  # fmt: skip
    steps = max(trace["steps"] for trace in traces.values())
    return {
        "format": 1,
        "seed": cell.seed,
        "factors": {"framework": framework, "input": "synthetic", "batch_size": BATCH_SIZE},
        "network": graph,
        "data": {
            "encoding": "raw",
            "folder": "",
            "shape": graph["input"],
            "classes": CLASSES,
            "train_examples": steps * BATCH_SIZE,
            "test_examples": BATCH_SIZE,
        },
        "schedule": schedule_of(cell),
        "augmentation": augmentation_of(cell),
        "execution": execution_of(cell),
        "traces": {
            name: {
                **trace,
                "optimizer": optimizer_of(
                    cell.model_copy(update={"optimizer": trace["optimizer"]})
                ),
            }
            for name, trace in traces.items()
        },
    }


def parity_spec(network: str, framework: str, single: bool = False) -> dict[str, Any]:
    """The spec by which a network is compared: at reduced resolution, in the usual mode.

    A framework that has single precision alone is always traced for that; the reference is
    where `single` asks for it.
    """
    single = single or frameworks.single_precision_only(framework)
    return trace_spec(reduced(network), framework, frameworks.modes(framework)[0], single)
