"""Do frameworks compute the same? The largest deviations between traces of one network."""

from pathlib import Path
from typing import Any

import numpy as np

from analyse.files import InputError

TOLERANCES = {
    "fp64": {
        "forward": 1e-10,
        "gradients": 1e-8,
        "losses": 1e-6,
        "statistics": 1e-5,
        "evaluation": 1e-5,
    },
    "fp32": {"forward": 1e-5, "first_loss": 1e-3},
}
"""By precision; docs/parity.md says what each is and why it is as large as it is."""
NEGLIGIBLE = 1e-6
"""An array whose gradient is this share of the network's largest is zero but for rounding
(a bias in front of a batch normalisation): its deviation counts relative to that."""


def deviations(trace: Any, reference: Any) -> dict[str, float]:
    """How far a trace is from another one.

    Args:
        trace, reference: mappings of arrays as `runtime.py --trace` writes them.

    Returns:
        forward, evaluation: the logits in evaluation mode before and after the steps, relative
        to the largest; first_loss: of the first step, relative; losses: of any step, relative
        to the first; gradients: of the first step, of every array relative to its largest;
        statistics: the running statistics after all steps, likewise (0 where there are none).
    """
    losses = np.abs(trace["losses"] - reference["losses"]) / abs(float(reference["losses"][0]))
    gradients = [name for name in reference if name.startswith("gradient:")]
    largest = max(float(np.abs(reference[name]).max()) for name in gradients)
    statistics = [
        name
        for name in reference
        if name.startswith("weight:") and name.endswith((".mean", ".variance"))
    ]
    return {
        "forward": _relative(trace["before"], reference["before"]),
        "evaluation": _relative(trace["after"], reference["after"]),
        "first_loss": float(losses[0]),
        "losses": float(losses.max()),
        "gradients": max(
            _relative(trace[name], reference[name], NEGLIGIBLE * largest) for name in gradients
        ),
        "statistics": max((_relative(trace[n], reference[n]) for n in statistics), default=0.0),
    }


def _relative(found: Any, reference: Any, least: float = 1e-30) -> float:
    """The largest difference, as a share of the reference's largest value or of `least`."""
    scale = max(float(np.abs(reference).max()), least)
    return float(np.abs(found - reference).max()) / scale


def compare(network: str, traces: dict[str, dict[str, Path]]) -> dict[str, Any]:
    """The certificate of a network: every framework against the first, and the verdict.

    `traces` has by precision and framework the file of a trace, the reference first. Raises
    InputError if traces are not of the same batches.
    """
    frameworks: dict[str, Any] = {}
    reference = ""
    for precision, paths in traces.items():
        reference, *others = paths
        expected = dict(np.load(paths[reference]))
        for name in others:
            trace = dict(np.load(paths[name]))
            if not np.array_equal(trace["batches"], expected["batches"]):
                raise InputError(paths[name], "traces other batches", "Trace all frameworks again")
            found = deviations(trace, expected)
            one = frameworks.setdefault(name, {"deviations": {}, "beyond": []})
            one["deviations"][precision] = found
            one["beyond"] += [
                f"{precision} {key}"
                for key, limit in TOLERANCES[precision].items()
                if not found[key] <= limit
            ]
    for one in frameworks.values():
        one["equal"] = not one["beyond"]
    return {
        "format": 1,
        "network": network,
        "reference": reference,
        "tolerances": TOLERANCES,
        "frameworks": frameworks,
        "equal": all(one["equal"] for one in frameworks.values()),
    }
