"""Do frameworks compute the same? The largest deviations between traces of one network."""

from pathlib import Path
from typing import Any

import numpy as np

from analyse.files import InputError

Arrays = dict[str, Any]

TOLERANCES = {
    "fp64": {
        "forward": 1e-10,
        "gradients": 1e-8,
        "losses": 1e-8,
        "update": 1e-7,
        "statistics": 1e-5,
        "evaluation": 1e-5,
    },
    "adam": {"losses": 1e-7, "update": 1e-5},
    "fp32": {"forward": 1e-5, "losses": 1e-3},
}
"""By trace; docs/parity.md says what each is and why it is as large as it is."""
NEGLIGIBLE = 1e-6
"""An array whose gradient is this share of the network's largest is zero but for rounding
(a bias in front of a batch normalisation): its deviation counts relative to that."""
NEGLIGIBLE_UPDATE = 1e-3
"""The same of updates, larger because Adam divides rounding by no more than its epsilon."""


def deviations(trace: Arrays, reference: Arrays) -> dict[str, float]:
    """How far a trace is from another one.

    Args:
        trace, reference: mappings of arrays as `runtime.py` writes them for one trace.

    Returns:
        forward, evaluation: the logits in evaluation mode before and after the steps, relative
        to the largest; losses: of any step, relative to the first; gradients: of the first
        step, of every array relative to its largest (0 without momentum); update: what all
        steps made of every array, relative to its largest change; statistics: the running
        statistics after all steps, relative to the largest (0 where there are none).
    """
    losses = np.abs(trace["losses"] - reference["losses"]) / abs(float(reference["losses"][0]))
    gradients = [name for name in reference if name.startswith("gradient:")]
    weights = [name for name in reference if name.startswith("weight:")]
    statistics = [name for name in weights if name.endswith((".mean", ".variance"))]
    trained = [name for name in weights if name not in statistics]
    moved = {name: float(reference[name.replace("weight:", "moved:")]) for name in trained}
    largest = max((_largest(reference[name]) for name in gradients), default=0.0)
    farthest = max(moved.values())
    return {
        "forward": _relative(trace["before"], reference["before"]),
        "evaluation": _relative(trace["after"], reference["after"]),
        "losses": float(losses.max()),
        "gradients": max(
            (_relative(trace[n], reference[n], NEGLIGIBLE * largest) for n in gradients),
            default=0.0,
        ),
        "update": max(
            _largest(trace[name] - reference[name]) / max(moved[name], NEGLIGIBLE_UPDATE * farthest)
            for name in trained
        ),
        "statistics": max((_relative(trace[n], reference[n]) for n in statistics), default=0.0),
    }


def _largest(array: Any) -> float:
    return float(np.abs(array).max())


def _relative(found: Any, reference: Any, least: float = 1e-30) -> float:
    """The largest difference, as a share of the reference's largest value or of `least`."""
    return _largest(found - reference) / max(_largest(reference), least)


def _traces(path: Path) -> dict[str, Arrays]:
    """The arrays of every trace in a file, by its name."""
    traces: dict[str, Arrays] = {}
    for key, array in np.load(path).items():
        trace, _, name = key.rpartition("/")
        traces.setdefault(trace, {})[name] = array
    return traces


def compare(network: str, paths: dict[str, Path]) -> dict[str, Any]:
    """The certificate of a network: every framework against the first, and the verdict.

    `paths` has by framework the file of its traces, the reference first. Raises InputError if
    traces are not of the same batches.
    """
    reference, *others = paths
    expected = _traces(paths[reference])
    frameworks = {}
    for name in others:
        found = _traces(paths[name])
        without = {**expected.get("", {}), **found.get("", {})}.get("unsupported")
        frameworks[name] = (
            {"equal": False, "unsupported": str(without), "deviations": {}, "beyond": []}
            if without is not None
            else _judge(found, expected, paths[name])
        )
    return {
        "format": 1,
        "network": network,
        "reference": reference,
        "tolerances": TOLERANCES,
        "frameworks": frameworks,
        "equal": all(one["equal"] for one in frameworks.values()),
    }


def _judge(found: dict[str, Arrays], expected: dict[str, Arrays], path: Path) -> dict[str, Any]:
    """One framework's traces against the reference's."""
    measured = {}
    for trace in TOLERANCES:
        if not np.array_equal(found[trace]["batches"], expected[trace]["batches"]):
            raise InputError(path, "traces other batches", "Trace all frameworks again")
        measured[trace] = deviations(found[trace], expected[trace])
    beyond = [
        f"{trace} {key}"
        for trace, limits in TOLERANCES.items()
        for key, limit in limits.items()
        if not measured[trace][key] <= limit
    ]
    return {"equal": not beyond, "beyond": beyond, "deviations": measured}
