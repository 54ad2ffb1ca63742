"""Kill executions of a small study at random times, and check that each kill costs one run at most.

`make test-faults` does so 200 times, which takes about an hour; `make test-faults KILLS=5` is a
sample. After every kill the study is started again, after `--unlock` if the lock was left: that is
all the manual work that docs/reliability.md names. A study that is finished begins again.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "workflow/scripts")]

from workflow.project import ENVIRONMENTS, Project  # noqa: E402

STUDY = {
    "study": "faults", "title": "Kills", "repeats": 3, "parity": False,
    "defaults": {"network": "gemm", "operation_seconds": 0.3, "warmup_seconds": 0.1},
    "sweeps": [{"framework": "scipy", "dataset": ["64x64x64", "128x128x128"]}],
}  # fmt: skip
RUNS = 6
END = 10.0
"""Seconds in which every process of a killed execution must have ended."""
LIMIT = 600.0
"""Seconds in which an execution must come to its end."""
VICTIMS = ("the driver", "a job", "all")


class Lost(AssertionError):
    """A kill cost more than it may."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    choice = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="touchstone-faults-") as name:
        project = Project(Path(name) / "project", ENVIRONMENTS, STUDY)
        whole = finish(project)
        print(f"an execution without a kill takes {whole:.0f} s", flush=True)
        done = Counter(
            kill_once(project, choice, whole, number) for number in range(1, arguments.kills + 1)
        )
        finish(project)
    print("; ".join(f"{text}: {count}" for text, count in sorted(done.items())))
    return 0


def finish(project: Project) -> float:
    """Run the study to its end, and check all of it; returns the seconds that it took."""
    begin = time.monotonic()
    unlocked(project)
    status, output = project.snakemake("--cores", "all")
    if status:
        raise Lost(f"the study does not end well:\n{output[-4000:]}")
    records = list((project.folder / "results/records").glob("*/rep*.json"))
    if len(records) != RUNS or any('"status": "ok"' not in path.read_text() for path in records):
        raise Lost(f"{len(records)} records, not {RUNS} that are ok:\n{output[-4000:]}")
    status, output = project.snakemake("--dry-run")
    if status or "Nothing to be done" not in output:
        raise Lost(f"a second start would do more:\n{output[-4000:]}")
    return time.monotonic() - begin


def kill_once(project: Project, choice: random.Random, whole: float, number: int) -> str:
    """Start the study, kill some of it at a random time, and check what is left.

    Returns what was killed.
    """
    before = finished(project)
    if len(before) == RUNS or choice.random() < 0.2:
        shutil.rmtree(project.folder / "results", ignore_errors=True)  # a kill may come before it
        before = {}
    unlocked(project)
    process = project.start("--cores", "all")
    time.sleep(choice.uniform(0, whole))
    victim = choice.choice(VICTIMS)
    family = [psutil.Process(process.pid)] if process.poll() is None else []
    if family:
        family += family[0].children(recursive=True)
    for each in chosen(victim, family, choice):
        with_signal(each)
    # After the kill of a job the driver tries the run again, or records its fault, and goes on.
    survivors = [] if victim == "a job" else psutil.wait_procs(family, timeout=END)[1]
    if survivors:
        raise Lost(f"kill {number} of {victim}: {survivors} outlive it")
    process.communicate(timeout=LIMIT)
    after = finished(project)
    changed = [path for path, when in before.items() if after.get(path) != when]
    if changed:
        raise Lost(f"kill {number} of {victim} cost finished runs: {changed}")
    print(f"{number}: {victim}, {len(after)} of {RUNS} runs are there", flush=True)
    return victim if family else "ended before"


def chosen(victim: str, family: list, choice: random.Random) -> list:
    """The processes to kill, the driver first where it is one of them."""
    if victim == "a job" and len(family) > 1:
        return [choice.choice(family[1:])]
    return family if victim == "all" else family[:1]


def with_signal(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)


def unlocked(project: Project) -> None:
    """Do what docs/commands.md says about a lock that was left."""
    if list((project.folder / ".snakemake/locks").glob("*.lock")):
        status, output = project.snakemake("--dry-run")
        if "make unlock" not in output:
            raise Lost(f"the lock is not explained:\n{output[-2000:]}")
        project.run("--unlock")


def finished(project: Project) -> dict[Path, int]:
    """The runs that Snakemake keeps: those of which a record was made, by time of their events."""
    found = {}
    for record in (project.folder / "results/records").glob("*/rep*.json"):
        events = project.folder / "results/runs" / record.parent.name / record.stem / "events.jsonl"
        if events.exists():
            found[events] = os.stat(events).st_mtime_ns
    return found


if __name__ == "__main__":
    sys.exit(main())
