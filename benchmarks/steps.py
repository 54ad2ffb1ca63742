"""What a marked loop costs: the time of an empty step, without Touchstone and in a measured run.

    PYTHONPATH=workflow/scripts .venv/bin/python benchmarks/steps.py

Rounds alternate, and medians of them count. A step of LeNet-5 with 64 images takes some ms.
"""

import json
import subprocess
import sys
import tempfile
import time
from itertools import repeat
from pathlib import Path
from statistics import median

from touchstone.paths import ROOT, RUNNER
from touchstone.plan.model import Cell
from touchstone.plan.parts import Program
from touchstone.plan.spec import make_spec
from touchstone.schema.spec import spec_to_json

STEPS, ROUNDS = 1_000_000, 7
SCRIPT = """
from itertools import repeat
from touchstone_steps import steps

for item in steps(repeat(0), examples={examples}):
    pass
"""
CELL = Cell(
    framework="scipy", network="loop", dataset="own", program="loop", mode="default",
    warmup_seconds=0.2, program_seconds=1.0,
)  # fmt: skip


def plain() -> float:
    """Seconds of an empty step of a plain loop."""
    begin = time.perf_counter()
    for _ in repeat(0, STEPS):
        pass
    return (time.perf_counter() - begin) / STEPS


def without_touchstone() -> float:
    """Seconds of an empty step of a marked loop that nobody measures."""
    sys.path.insert(0, str(ROOT / "workflow/scripts/steps"))
    from touchstone_steps import steps

    begin = time.perf_counter()
    for _ in steps(repeat(0, STEPS), examples=64):
        pass
    return (time.perf_counter() - begin) / STEPS


def measured(folder: Path, examples: str) -> float:
    """Seconds of an empty step in a measured run."""
    script, spec, events = folder / "loop.py", folder / "spec.json", folder / "events.jsonl"
    script.write_text(SCRIPT.format(examples=examples))
    made = make_spec(CELL, 1, ROOT, Program(file=str(script), framework="scipy"))
    spec.write_text(json.dumps(spec_to_json(made)))
    subprocess.run([sys.executable, RUNNER, spec, events], check=True)
    for line in events.read_text().splitlines():
        event = json.loads(line)
        if event.get("name") == "measured":
            return float((event["end"] - event["begin"]) / event["steps"])
    raise RuntimeError("the loop was not measured")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ways = {
            "a plain loop": plain,
            "steps(...) without Touchstone": without_touchstone,
            "steps(..., examples=64), measured": lambda: measured(Path(folder), "64"),
            "steps(..., examples=function), measured": lambda: measured(
                Path(folder), "lambda item: 64"
            ),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                seconds[name].append(way())
    for name, found in seconds.items():
        print(f"{name:42} {median(found) * 1e9:8.0f} ns a step")


if __name__ == "__main__":
    main()
