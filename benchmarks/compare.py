"""Our training loop against an expert's own, LeNet-5 at batch size 64, as ratios.

Each side is a fresh process on one and the same core, one thread, waiting passively, on
synthetic data in memory; the two run in turn, so that a machine whose speed drifts moves
both. An expert's loop is the file `expert_<framework>.py`, which uses none of our code.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "workflow/scripts"))

from in_env import ensure  # noqa: E402
from measure.supervisor import thread_variables  # noqa: E402
from plan import frameworks  # noqa: E402
from plan.model import Cell  # noqa: E402
from plan.spec import make_spec  # noqa: E402

RUNTIME = ROOT / "workflow/scripts/frameworks/runtime.py"
PAIRS = 5
CORE = min(os.sched_getaffinity(0))


def alone(command: list[str]) -> str:
    """The output of a command on one core."""
    variables = {**os.environ, **thread_variables(1, "passive")}
    ended = subprocess.run(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        check=True, preexec_fn=lambda: os.sched_setaffinity(0, {CORE}),
    )  # fmt: skip
    return ended.stdout


def ours(python: str, framework: str) -> float:
    """Images/s of the measured phase of our run, which lasts some seconds."""
    cell = Cell(
        framework=framework, network="lenet5", dataset="mnist-5k", input="synthetic",
        mode=frameworks.modes(framework)[0], epochs=20,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        spec, events = Path(folder, "spec.json"), Path(folder, "events.jsonl")
        spec.write_text(json.dumps(make_spec(cell, 1, ROOT)))
        alone(
            [python, str(ROOT / "workflow/scripts/frameworks/runtime.py"), str(spec), str(events)]
        )
        lines = map(json.loads, events.read_text().splitlines())
        measured = next(line for line in lines if line.get("name") == "measured")
    rate: float = measured["examples"] / (measured["end"] - measured["begin"])
    return rate


def main() -> None:
    environments = Path(os.environ.get("TOUCHSTONE_ENVS", ROOT / ".venvs"))
    print(f"ours / expert, images/s of LeNet-5 b64, core {CORE}, {PAIRS} pairs")
    for expert in sorted(Path(__file__).parent.glob("expert_*.py")):
        framework = expert.stem.removeprefix("expert_")
        python = str(ensure(ROOT / f"envs/{framework}.yaml", environments))
        pairs = [
            (ours(python, framework), float(alone([python, str(expert)]).splitlines()[-1]))
            for _ in range(PAIRS)
        ]
        ratios = sorted(mine / theirs for mine, theirs in pairs)
        rates = [statistics.median(side) for side in zip(*pairs, strict=True)]
        print(
            f"{framework:12} {statistics.median(ratios):.2f}  ({ratios[0]:.2f} to "
            f"{ratios[-1]:.2f})  {rates[0]:,.0f} against {rates[1]:,.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
