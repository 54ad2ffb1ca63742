"""The settings that are requested and read back from the live framework."""

import math
from typing import Any

import numpy as np

from touchstone.runner.adapters.base import Adapter
from touchstone.schema.types import Spec

ARITHMETIC = {"fp16-amp": "fp16"}
"""What products show in a precision, where it is not called like the precision."""
SETTING_TOLERANCE = 1e-6
"""Relative; a setting kept in float32 is read back with an error up to 6e-8."""


def check_settings(requested: Spec, effective: Spec) -> None:
    """Raise ValueError if the live framework does not do what was asked; None asks for nothing."""
    wrong = []
    for key, asked in requested.items():
        found = effective.get(key)
        if asked is None:
            continue
        if isinstance(asked, float) and isinstance(found, float):
            same = math.isclose(asked, found, rel_tol=SETTING_TOLERANCE)
        else:
            same = asked == found
        if not same:
            wrong.append("{}: asked {!r}, found {!r}".format(key, asked, found))
    if wrong:
        raise ValueError("the framework's settings differ from the spec's: " + "; ".join(wrong))


def prove_settings(events: Any, adapter: Any, spec: Spec, requested: Spec, effective: Spec) -> None:
    """Write what was asked of the live framework, what was read back from it, where the run has
    not what the framework does by itself, and the adapter's hints. Raises ValueError where the
    first two differ."""
    differs = adapter.capabilities.differs.get(spec["execution"]["device"], [])
    events.write(
        "settings", requested=requested, effective=effective, differs=differs, hints=adapter.hints()
    )
    check_settings(requested, effective)


def requested_settings(spec: Spec, threads: int, rate: Any, adapter: Any) -> Any:
    """The settings that must be read back with these very values."""
    settings = {
        key: value
        for key, value in spec["optimizer"].items()
        if key not in ("name", "decoupled", "spared")
    }
    settings.update({key: spec["execution"][key] for key in ("device", "precision", "mode")})
    settings.update(
        learning_rate=float(rate),
        optimizer=spec["optimizer"]["name"],
        batch_size=spec["factors"]["batch_size"],
        threads=threads,
        reader_threads=(
            spec["execution"]["reader_threads"] if spec["factors"]["input"] == "records" else 0
        ),
        parameters=spec["network"]["parameter_count"],
        arithmetic=shown_by_products(spec),
    )
    if "replicas" in spec["execution"]:
        nodes = spec["execution"].get("nodes", 1)
        settings["replicas"] = spec["execution"]["replicas"] * nodes
        if nodes > 1:
            settings["nodes"] = nodes
    if type(adapter).make_deterministic is not Adapter.make_deterministic:
        settings["deterministic"] = spec["execution"]["deterministic"]
    settings.update(adapter.asked())
    return settings


def shown_by_products(spec: Spec) -> Any:
    """The arithmetic that products must show in the precision of a spec."""
    return ARITHMETIC.get(spec["execution"]["precision"], spec["execution"]["precision"])


def arithmetic(adapter: Any) -> Any:
    """The precision that products show: of 1 + 2^-k, which is one bit too long for the next.

    Mantissas have 52, 23, 10 and 7 bits (IEEE 754; NVIDIA A100 whitepaper for tf32; bfloat16).
    Those of tf32 and fp16 are alike, but fp16 ends at 65504.
    """
    found = ["less than bf16"] * 2
    for name, bits in (("bf16", 7), ("tf32", 10), ("fp32", 23), ("fp64", 52)):
        one = np.full((64, 64), 1 + 2.0**-bits)
        for i, product in enumerate(adapter.products(one, np.eye(64))):
            if (np.asarray(product) == one).all():
                found[i] = name
    if "tf32" in found:
        large = np.full((64, 64), 2.0**20)
        for i, product in enumerate(adapter.products(large, np.eye(64))):
            if found[i] == "tf32" and not (np.asarray(product) == large).all():
                found[i] = "fp16"
    return found[0] if found[0] == found[1] else " in products, ".join(found) + " in convolutions"
