"""Our speed beside that of a loop which an expert would write: `benchmarks/compare.py`."""

import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from touchstone.gpu_check.steps import Kit, StepFailed, last_line
from touchstone.paths import ROOT

OPTIONS = {
    "gpu": ("--network", "resnet50", "--precision", "bf16", "--pairs", "2", "--seconds", "2"),
    "cpu": ("--network", "lenet5", "--cores", "all", "--pairs", "1", "--seconds", "0.5"),
}
LIMIT = 420.0
"""Seconds that the trials and the pairs may take."""


def experts(kit: Kit) -> dict[str, Any]:
    """Every run of the comparison with PyTorch's expert, and its tables. Raises StepFailed."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "bench.csv"
        command = [sys.executable, str(ROOT / "benchmarks/compare.py"), "--framework", "pytorch"]
        command += ["--device", kit.device, "--python", kit.python, *OPTIONS[kit.device]]
        command += ["--trial-seconds", "0.5", "--output", str(output)]
        variables = {**os.environ, "PYTHONPATH": str(ROOT / "workflow/scripts")}
        ended = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=LIMIT
        )
        if ended.returncode:
            raise StepFailed(f"exit status {ended.returncode}: {last_line(ended.stderr)}")
        with open(output, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    tables = ended.stdout[ended.stdout.index("| network |") :].splitlines()
    return {"rows": rows, "tables": tables}
