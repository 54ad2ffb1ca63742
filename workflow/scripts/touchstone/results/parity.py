"""Do frameworks compute the same? The largest deviations between parity steps of a network."""

import zipfile
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

from touchstone.plan.parity import (
    EXACT_STEPS,
    NETWORK,
    OTHERS,
    PERTURBED_STEPS,
    SINGLE_STEPS,
    STEPS,
)
from touchstone.results.files import REMAKE, InputError

Arrays = dict[str, Any]

OF_THE_NETWORK = [
    name
    for name, steps in {**STEPS, **SINGLE_STEPS, **EXACT_STEPS, **PERTURBED_STEPS}.items()
    if steps["optimizer"] == NETWORK
]
"""The parity steps that show what a network computes; without one of them nothing is shown."""
UNSUPPORTED = "unsupported"
TOLERANCES = {
    "fp64": {
        "forward": 1e-10,
        "gradients": 1e-8,
        "losses": 1e-8,
        "update": 1e-7,
        "statistics": 1e-5,
        "evaluation": 1e-5,
    },
    **{name: {"losses": 1e-7, "update": 1e-5} for name in OTHERS},
    "fp32": {"forward": 1e-5, "losses": 1e-3},
}
"""By name of the steps, at least; docs/parity.md says what each is and why it is as large as it is.
Those of `fp32` grow with the reference's own rounding (`_with_rounding`)."""
SINGLE_FLOORS = {
    "sgd": {
        "forward": 1e-5,
        "gradients": 1e-5,
        "losses": 1e-5,
        "update": 1e-4,
        "statistics": 1e-5,
        "evaluation": 1e-5,
    },
    **{name: {"losses": 1e-5, "update": 1e-3} for name in OTHERS},
}
"""By optimiser, what is tolerated at least of a framework that has single precision only."""
SINGLE_FACTOR = 8.0
"""How much farther a framework in single precision may be from the reference than the reference's
single precision is from its double precision: both distances are draws of the same rounding."""
APART_FACTOR = 2.0
"""The same against the reference from images that are apart by more than rounding is."""
AMPLIFIED = ("losses", "update", "statistics", "evaluation")
"""What comes of all steps, which amplify rounding; chance has a share in how far."""
NEGLIGIBLE = 1e-6
"""An array whose gradient is this share of the network's largest is zero but for rounding
(a bias in front of a batch normalisation): its deviation counts relative to that."""
NEGLIGIBLE_UPDATE = 1e-3
"""The same of updates, larger because Adam divides rounding by no more than its epsilon, and of
gradients in single precision."""


def deviations(actual: Arrays, reference: Arrays, single: bool = False) -> dict[str, float]:
    """How far parity steps are from others.

    Args:
        actual, reference: mappings of arrays as `runner/parity.py` keeps them.
        single: whether the steps are in single precision and the reference in double: then the
            differences of gradients and updates are means, for a value within rounding of 0 in
            front of a ReLU changes a few of them as much as a fault would change all.

    Returns:
        forward, evaluation: the logits in evaluation mode before and after the steps, relative
        to the largest; losses: of any step, relative to the first; gradients: of the first
        step, of every array relative to its largest (0 without momentum); update: what all
        steps made of every array, relative to its largest change; statistics: the running
        statistics after all steps, relative to the largest (0 where there are none).
    """
    losses = np.abs(actual["losses"] - reference["losses"]) / abs(float(reference["losses"][0]))
    gradients = [name for name in reference if name.startswith("gradient:")]
    weights = [name for name in reference if name.startswith("weight:")]
    statistics = [name for name in weights if name.endswith((".mean", ".variance"))]
    trained = [name for name in weights if name not in statistics]
    moved = {name: float(reference[name.replace("weight:", "moved:")]) for name in trained}
    largest = max((_largest(reference[name]) for name in gradients), default=0.0)
    farthest = max(moved.values())
    size = _mean if single else _largest
    least = (NEGLIGIBLE_UPDATE if single else NEGLIGIBLE) * largest
    return {
        "forward": _relative(actual["before"], reference["before"]),
        "evaluation": _relative(actual["after"], reference["after"]),
        "losses": float(losses.max()),
        "gradients": max(
            (_relative(actual[n], reference[n], least, size) for n in gradients),
            default=0.0,
        ),
        "update": max(
            size(actual[name] - reference[name]) / max(moved[name], NEGLIGIBLE_UPDATE * farthest)
            for name in trained
        ),
        "statistics": max((_relative(actual[n], reference[n]) for n in statistics), default=0.0),
    }


def _largest(array: Any) -> float:
    return float(np.abs(array).max())


def _mean(array: Any) -> float:
    return float(np.abs(array).mean())


def _relative(
    actual: Any,
    reference: Any,
    least: float = 1e-30,
    size: Callable[[Any], float] = _largest,
) -> float:
    """The `size` of the difference, as a share of the reference's largest value or of `least`."""
    return size(actual - reference) / max(_largest(reference), least)


def _read(path: Path) -> dict[str, Arrays]:
    """The arrays of all parity steps in a file, by their name."""
    steps: dict[str, Arrays] = {}
    try:
        with np.load(path, allow_pickle=False) as file:
            for key, array in file.items():
                case, _, name = key.rpartition("/")
                steps.setdefault(case, {})[name] = array
    except (
        OSError, EOFError, ValueError, AttributeError, RuntimeError, zipfile.BadZipFile, zlib.error,
    ) as error:  # fmt: skip
        raise InputError(path, f"no parity steps ({error})", REMAKE) from None
    return steps


def compare(network: str, paths: dict[str, Path], single: Path | None = None) -> dict[str, Any]:
    """The certificate of a network: every framework against the first, and the verdict.

    `paths` has by framework the file of its parity steps, the reference first, and `single` the
    reference's for those that have single precision only. Raises InputError if they
    are not of the same batches.
    """
    reference, *others = paths
    expected = _read(paths[reference])
    exact = _read(single) if single else {}
    frameworks = {}
    for name in others:
        actual = _read(paths[name])
        alone = "sgd32" in actual
        wanted = exact if alone else expected
        try:
            lacking = _lacking(actual, wanted, reference)
            judge = _judge_single if alone else _judge
            frameworks[name] = _without(actual, wanted, reference) or {
                **judge(actual, wanted, paths[name], lacking),
                **({"lacking": lacking} if lacking else {}),
            }
        except (KeyError, ValueError, TypeError, IndexError) as fault:
            cause = f"not the parity steps that {reference} has ({fault})"
            raise InputError(paths[name], cause, REMAKE) from None
    return {
        "format": 1,
        "network": network,
        "reference": reference,
        "tolerances": TOLERANCES,
        "frameworks": frameworks,
        "equal": all(entry["equal"] for entry in frameworks.values()),
    }


def _without(
    actual: dict[str, Arrays], expected: dict[str, Arrays], reference: str
) -> dict[str, Any] | None:
    """What stands for a comparison where parity steps are missing: the reason; None where none is.

    It is `unsupported` where the framework cannot do what the network asks for, and `failed`
    where something that should have been there is not. Steps of an optimizer are no such thing.
    """
    nothing: dict[str, Any] = {"equal": False, "deviations": {}, "beyond": []}
    for kind, reason in _reasons(actual).items():
        return {**nothing, kind: reason}
    for reason in _reasons(expected).values():
        return {**nothing, "failed": f"{reference} has no parity steps: {reason}"}
    return None


def _reasons(steps: dict[str, Arrays]) -> dict[str, str]:
    """By `unsupported` or `failed`, why there are no steps at all, or none of the network's."""
    reasons = {kind: str(reason) for kind, reason in steps.get("", {}).items()}
    for case in OF_THE_NETWORK:
        if UNSUPPORTED in steps.get(case, {}):
            reasons.setdefault(UNSUPPORTED, str(steps[case][UNSUPPORTED]))
    return reasons


def _lacking(
    actual: dict[str, Arrays], expected: dict[str, Arrays], reference: str
) -> dict[str, str]:
    """By optimizer, why its steps are missing, in the framework or in the reference."""
    reasons = {}
    for name in OTHERS:
        for whose, side in ((f"{reference}: ", expected), ("", actual)):
            for case in (name, f"{name}32"):
                if UNSUPPORTED in side.get(case, {}):
                    reasons[name] = whose + str(side[case][UNSUPPORTED])
    return reasons


def _judge(
    actual: dict[str, Arrays], expected: dict[str, Arrays], path: Path, lacking: Collection[str]
) -> dict[str, Any]:
    """One framework's parity steps against the reference's, but for those that either lacks."""
    tolerances = {case: limits for case, limits in TOLERANCES.items() if case not in lacking}
    measured = {}
    for case in tolerances:
        _require_same_batches(actual[case], expected[case], path)
        measured[case] = deviations(actual[case], expected[case])
    beyond = _beyond(measured, tolerances)
    entry = {"equal": not beyond, "beyond": beyond, "deviations": measured}
    # Where double precision agrees, what is left in single precision is rounding, or a kernel's.
    if not beyond or any(not text.startswith("fp32 ") for text in beyond):
        return entry
    tolerances = tolerances | {"fp32": _with_rounding(expected)}
    beyond = _beyond(measured, tolerances)
    return {**entry, "equal": not beyond, "beyond": beyond, "tolerances": tolerances}


def _with_rounding(expected: dict[str, Arrays]) -> dict[str, float]:
    """The tolerances of single precision: `SINGLE_FACTOR` times as far as the reference's own
    single precision is from its double precision in the first step, on the same batch; at least the
    usual ones."""
    single, double = expected["fp32"], expected["fp64"]
    first = float(double["losses"][0])
    own = {
        "forward": _relative(single["before"], double["before"]),
        "losses": abs(float(single["losses"][0]) - first) / abs(first),
    }
    usual = TOLERANCES["fp32"]
    return {key: max(least, SINGLE_FACTOR * own[key]) for key, least in usual.items()}


def _judge_single(
    actual: dict[str, Arrays], expected: dict[str, Arrays], path: Path, lacking: Collection[str]
) -> dict[str, Any]:
    """The parity steps of a framework that has single precision only: a weaker proof.

    They are compared with the reference in double precision, and tolerated as far from it as
    `SINGLE_FACTOR` times the reference's own single precision is. That rounding sends a value to
    the other side of a ReLU or a maximum is chance, and may happen to one of the two only; so what
    comes of all steps may also be `APART_FACTOR` times as far as the reference from images that are
    a little apart, which send more values there.
    """
    measured, tolerances = {}, {}
    for optimizer, floors in SINGLE_FLOORS.items():
        if optimizer in lacking:
            continue
        case, exact = f"{optimizer}32", expected[f"{optimizer}64"]
        _require_same_batches(actual[case], exact, path)
        measured[case] = deviations(actual[case], exact, single=True)
        own = deviations(expected[case], exact, single=True)
        allowed = {key: max(least, SINGLE_FACTOR * own[key]) for key, least in floors.items()}
        if near := expected.get(f"{optimizer}64apart"):
            apart = deviations(near, exact, single=True)
            allowed |= {
                key: max(allowed[key], APART_FACTOR * apart[key])
                for key in allowed.keys() & set(AMPLIFIED)
            }
        tolerances[case] = allowed
    beyond = _beyond(measured, tolerances)
    return {
        "equal": not beyond,
        "beyond": beyond,
        "deviations": measured,
        "tolerances": tolerances,
        "single_precision_only": True,
    }


def _require_same_batches(actual: Arrays, expected: Arrays, path: Path) -> None:
    if not np.array_equal(actual["batches"], expected["batches"]):
        raise InputError(
            path, "its parity steps are of other batches", "Compute those of all frameworks again"
        )


def _beyond(
    measured: dict[str, dict[str, float]], tolerances: dict[str, dict[str, float]]
) -> list[str]:
    """Name of the steps, and kind, of what is not within its tolerance."""
    return [
        f"{case} {key}"
        for case, limits in tolerances.items()
        for key, limit in limits.items()
        if not measured[case][key] <= limit
    ]
