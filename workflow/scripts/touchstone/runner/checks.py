"""The settings that are requested and read back from the live framework."""

import math
from typing import Any, Dict

import numpy as np

from touchstone.runner.adapters.base import Adapter
from touchstone.runner.job import Job
from touchstone.schema.events import Settings, Software

ARITHMETIC = {"fp16-amp": "fp16"}
"""What products show in a precision, where it is not called like the precision."""
SETTING_TOLERANCE = 1e-6
"""Relative; a setting kept in float32 is read back with an error up to 6e-8."""


def software_of(adapter: Adapter) -> Software:
    """What computes, NumPy included."""
    software = adapter.software()
    return software._replace(others=dict(software.others, numpy=np.__version__))


def check_settings(requested: Dict[str, Any], effective: Dict[str, Any]) -> None:
    """Raise ValueError if the live framework does not do what was asked; None asks for nothing."""
    wrong = []
    for key, expected in requested.items():
        actual = effective.get(key)
        if expected is None:
            continue
        if isinstance(expected, float) and isinstance(actual, float):
            same = math.isclose(expected, actual, rel_tol=SETTING_TOLERANCE)
        else:
            same = expected == actual
        if not same:
            wrong.append("{}: asked {!r}, found {!r}".format(key, expected, actual))
    if wrong:
        raise ValueError("the framework's settings differ from the spec's: " + "; ".join(wrong))


def prove_settings(
    events: Any,
    adapter: Adapter,
    job: Job,
    requested: Dict[str, Any],
    effective: Dict[str, Any],
) -> None:
    """Write the event `Settings`. Raises ValueError where requested and effective ones differ."""
    differs = adapter.differs(job.execution.device)
    events.write(Settings(requested, effective, list(differs), adapter.hints()))
    check_settings(requested, effective)


def requested_settings(
    job: Job, threads: int, rate: float, batch_size: int, adapter: Adapter
) -> Dict[str, Any]:
    """The settings of training that must be read back with these very values; `rate` and
    `batch_size` are those of the last step."""
    execution = job.execution
    settings = settings_without_updates(job, threads, adapter)
    settings.update(job.optimizer.to_prove(), learning_rate=float(rate))
    settings.update(optimizer=job.optimizer.name, batch_size=batch_size)
    settings["reader_threads"] = execution.reader_threads if job.input == "records" else 0
    return settings


def settings_without_updates(job: Job, threads: int, adapter: Adapter) -> Dict[str, Any]:
    """The requested settings that inference has too."""
    execution = job.execution
    settings = {
        "device": execution.device,
        "precision": execution.precision,
        "mode": execution.mode,
        "batch_size": job.batch_size,
        "threads": threads,
        "parameters": job.network.parameter_count,
        "arithmetic": shown_by_products(job),
    }
    if execution.replicas_are:
        settings["replicas"] = execution.world_size
        if execution.nodes > 1:
            settings["nodes"] = execution.nodes
    if type(adapter).make_deterministic is not Adapter.make_deterministic:
        settings["deterministic"] = execution.deterministic
    settings.update(adapter.extra_settings())
    return settings


def shown_by_products(job: Job) -> str:
    """The arithmetic that products must show in the precision of a job."""
    return ARITHMETIC.get(job.execution.precision, job.execution.precision)


def arithmetic(adapter: Any, job: Job) -> Any:
    """The precision that products show: of 1 + 2^-k, which is one bit too long for the next.

    Mantissas have 52, 23, 10 and 7 bits (IEEE 754; NVIDIA A100 whitepaper for tf32; bfloat16).
    Those of tf32 and fp16 are alike, but fp16 ends at 65504. Where tf32 is asked for, one of both
    kinds of products may show fp32: TF32 is a permission, and a library takes the kernel that is
    faster for a size, as XLA does for the convolution here on an H100.
    """
    names = ["less than bf16"] * 2
    for name, bits in (("bf16", 7), ("tf32", 10), ("fp32", 23), ("fp64", 52)):
        matrix = np.full((64, 64), 1 + 2.0**-bits)
        for i, product in enumerate(adapter.matrix_products(matrix, np.eye(64))):
            if (np.asarray(product) == matrix).all():
                names[i] = name
    if "tf32" in names:
        large = np.full((64, 64), 2.0**20)
        for i, product in enumerate(adapter.matrix_products(large, np.eye(64))):
            if names[i] == "tf32" and not (np.asarray(product) == large).all():
                names[i] = "fp16"
    if job.execution.precision == "tf32" and set(names) == {"tf32", "fp32"}:
        return "tf32"
    return names[0] if names[0] == names[1] else " in products, ".join(names) + " in convolutions"
