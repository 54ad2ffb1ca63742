"""Parity steps of a network on the device, in each precision, beside those on the CPU."""

import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

import numpy as np

from touchstone.gpu_check.steps import Kit, StepFailed, last_line
from touchstone.measure.launch import thread_variables
from touchstone.measure.variables import passed
from touchstone.paths import RUNNER
from touchstone.plan.parity import parity_spec
from touchstone.results.parity import TOLERANCES, deviations
from touchstone.schema.spec import ParitySpec, spec_to_json

NETWORKS = {
    "gpu": ("lenet5", "resnet20-cifar", "resnet50", "lstm-text", "transformer-text"),
    "cpu": ("lenet5",),
}
PRECISIONS = {"gpu": ("fp32", "tf32", "bf16", "fp16-amp"), "cpu": ("fp32", "bf16")}
LIMIT = 300.0
"""Seconds that the steps of a network may take in one place."""
PROCESSES = BoundedSemaphore(os.cpu_count() or 1)
"""So many run at once: nothing is timed here."""


def certificate(kit: Kit, framework: str, network: str) -> dict[str, Any]:
    """The largest deviations of the device from the CPU in double precision, by precision.

    `within` says of fp64 and fp32 whether they are inside the tolerances of certificates; there
    are none for the others. A precision that a framework lacks has its reason. Raises StepFailed.
    """
    spec = parity_spec(network, framework)
    if "fp64" not in spec.parity_steps:
        raise StepFailed(f"{framework} has no double precision to compare with")
    # Rounding grows from step to step, so single precision has one, as in certificates.
    double = {name: spec.parity_steps[name]._replace(precision="fp64") for name in ("fp64", "fp32")}
    cases = {"fp64": "fp64", **dict.fromkeys(PRECISIONS[kit.device], "fp32")}
    on_device = spec._replace(execution=spec.execution._replace(device=kit.device))

    def trace(precision: str) -> dict[str, Any]:
        case = cases[precision]
        steps = {case: spec.parity_steps[case]._replace(precision=precision)}
        return _arrays(kit, on_device._replace(parity_steps=steps))

    with ThreadPoolExecutor() as pool:
        reference = pool.submit(_arrays, kit, spec._replace(parity_steps=double))
        traces = dict(zip(cases, pool.map(trace, cases), strict=True))
    result: dict[str, Any] = {}
    for precision, arrays in traces.items():
        if "unsupported" in arrays:
            result[precision] = {"unsupported": str(arrays["unsupported"])}
            continue
        measured, exact = (_case(side, cases[precision]) for side in (arrays, reference.result()))
        apart = deviations(measured, exact, single=precision != "fp64")
        result[precision] = {"deviations": apart}
        if precision in TOLERANCES:
            tolerated = TOLERANCES[precision]
            result[precision]["within"] = all(apart[key] <= most for key, most in tolerated.items())
    return result


def _arrays(kit: Kit, spec: ParitySpec) -> dict[str, Any]:
    """What the runner keeps of the steps. Raises StepFailed."""
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder) / "spec.json", Path(folder) / "steps.npz"
        path.write_text(json.dumps(spec_to_json(spec)), encoding="utf-8")
        command = [kit.python, str(RUNNER), str(path), str(output)]
        variables = {**passed(os.environ), **thread_variables(1, "passive")}
        with PROCESSES:
            ended = subprocess.run(
                command, env=variables, capture_output=True, text=True, timeout=LIMIT
            )
        if ended.returncode:
            raise StepFailed(f"exit status {ended.returncode}: {last_line(ended.stderr)}")
        with np.load(output, allow_pickle=False) as file:
            return dict(file)


def _case(arrays: dict[str, Any], name: str) -> dict[str, Any]:
    begin = f"{name}/"
    return {key[len(begin) :]: array for key, array in arrays.items() if key.startswith(begin)}
