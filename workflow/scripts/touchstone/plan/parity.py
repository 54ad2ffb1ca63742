"""The specs from which frameworks are compared: one network, synthetic images, few steps."""

from functools import cache
from math import log2
from typing import Any

from touchstone import networks, optimizers
from touchstone.networks.graph import GraphError
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.read import ConfigError
from touchstone.plan.spec import (
    WHITE,
    augmentation_of,
    execution_of,
    optimizer_of,
    schedule_of,
)
from touchstone.schema.spec import TUNED, Data, Network, ParitySpec, ParitySteps

REFERENCE = "pytorch"
"""The framework that the others are compared with."""
BATCH_SIZE = 8
CLASSES = 10
SIDES = (32, 64, 96, 128, 224)
"""The network is built for the smallest of these image sizes that it accepts; one that takes no
images, for a text."""
TEXT_LENGTH = 32
"""Tokens of such a text."""
EPSILON = 2.0**-20


def exact(value: float) -> float:
    """A number close to one below 1 that has few bits: 1 less a power of 2, as 0.875 for 0.9."""
    return 1 - 2.0 ** round(log2(1 - value)) if 0 < value < 1 else value


USUAL: dict[str, Any] = {
    **{own.name: exact(own.default) for own, _ in optimizers.settings()},
    "epsilon": EPSILON,
    "learning_rate": 2.0**-20,
    "weight_decay": 2.0**-10,
}
"""Exact in single precision, in which some kernels keep them; the rate is small, since a
large one amplifies rounding from step to step."""
NETWORK = "sgd"
"""The optimizer of the steps that show what a network computes: its velocity is the gradient."""
OTHERS = [name for name in optimizers.equations() if name != NETWORK]
"""Those whose steps show their update equation. They divide by a root, which amplifies the rounding
of small squares."""
STEPS: dict[str, dict[str, Any]] = {
    "fp32": {"precision": "fp32", "optimizer": NETWORK, "steps": 1},
    "fp64": {"precision": "fp64", "optimizer": NETWORK, "steps": 10},
    **{name: {"precision": "fp64", "optimizer": name, "steps": 10} for name in OTHERS},
}
"""The parity steps of a network, by the names under which the certificate judges them."""
SINGLE: dict[str, Any] = {**USUAL, "learning_rate": 2.0**-14, "epsilon": 2.0**-10}
"""The settings where a framework has single precision only: a rate at which its weights show an
update, and an epsilon that keeps Adam from enlarging the rounding of small gradients."""
SINGLE_STEPS: dict[str, dict[str, Any]] = {
    f"{name}32": {"precision": "fp32", "optimizer": name, "steps": 10}
    for name in (NETWORK, *OTHERS)
}
"""The parity steps of such a framework."""
EXACT_STEPS: dict[str, dict[str, Any]] = {
    f"{name}64": {**SINGLE_STEPS[f"{name}32"], "precision": "fp64"} for name in (NETWORK, *OTHERS)
}
"""Those of the reference beside these, for them to be compared with."""
PERTURBATION = 2.0**-16
"""By what share of themselves, at most, images are changed to see how far rounding is amplified:
so that the logits move by some ten times what single precision does to them."""
PERTURBED_STEPS = {
    f"{name}apart": {**case, "perturbation": PERTURBATION} for name, case in EXACT_STEPS.items()
}
"""The same from images that are changed."""


@cache
def reduced(network: str) -> Network:
    """The network at reduced resolution.

    Raises:
        ConfigError: no size fits it.
    """
    cause = ""
    for shape in [*((side, side, 3) for side in SIDES), (TEXT_LENGTH, 1, 1)]:
        try:
            return networks.build(network, shape, CLASSES).network()
        except GraphError as fault:
            cause = cause or str(fault)
    raise ConfigError(
        f"network {network} builds neither at the image sizes {SIDES} nor for a text: {cause}"
    )


def steps_spec(
    network: Network, framework: str, mode: str, single: bool = False, **settings: Any
) -> ParitySpec:
    """The spec of the parity steps of a network.

    Args:
        network: at the size at which it is compared.
        mode: an execution mode of the framework.
        single: compare in single precision, as frameworks need that have nothing else; others
            compute it in double precision too.
        settings: of a cell, in place of the usual ones.
    """
    wanted, usual = (SINGLE_STEPS, SINGLE) if single else (STEPS, USUAL)
    if single and not frameworks.single_precision_only(framework):
        wanted = {**SINGLE_STEPS, **EXACT_STEPS}
        if network.vocabulary is None:  # no word is nearly another one
            wanted |= PERTURBED_STEPS
    cell = Cell(
        framework=framework, network=network.name, dataset="synthetic", mode=mode,
        input="synthetic", batch_size=BATCH_SIZE, threads=1, **{**usual, **settings},
    )  # fmt: skip
    return ParitySpec(
        framework=framework,
        seed=cell.seed,
        batch_size=BATCH_SIZE,
        input="synthetic",
        network=network,
        data=Data(
            format="",
            encoding="raw",
            folder="",
            shards={},
            shape=network.input,
            classes=CLASSES,
            train_examples=max(case["steps"] for case in wanted.values()) * BATCH_SIZE,
            test_examples=BATCH_SIZE,
            mean=[],
            std=[],
            pixel_maximum=WHITE if network.vocabulary is None else 1,
        ),
        schedule=schedule_of(cell),
        augmentation=augmentation_of(cell),
        execution=execution_of(cell),
        parity_steps={
            name: ParitySteps(
                precision=case["precision"],
                optimizer=optimizer_of(cell.model_copy(update={"optimizer": case["optimizer"]})),
                steps=case["steps"],
                perturbation=case.get("perturbation"),
            )
            for name, case in wanted.items()
        },
    )


def parity_spec(
    network: str, framework: str, single: bool = False, style: str = TUNED
) -> ParitySpec:
    """The spec by which a network is compared: at reduced resolution, in the usual mode.

    A framework that has only single precision is always compared in that; the reference is
    where `single` asks for it.
    """
    single = single or frameworks.single_precision_only(framework)
    mode = frameworks.modes(framework, style)[0]
    return steps_spec(reduced(network), framework, mode, single, style=style)
