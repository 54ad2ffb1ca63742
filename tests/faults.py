"""Kill executions of a small study at random times, and check that each kill costs what it may.

`make test-faults` does so 200 times, `make test-faults KILLS=20` is a sample. Each time the study
begins with what an earlier execution left of it, a process gets SIGKILL, and `make run` starts it
again until it is done. Then 10 s after a kill of the driver, and 10 s after the end of an execution
of which a job was killed, no process of it is left; no finished run and no finished set of turns
is made again; and `make run` needs nothing else.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import psutil

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "workflow/scripts")]

from fixtures.interpreters import plant  # noqa: E402
from touchstone.environments import ensure  # noqa: E402
from workflow.project import ENVIRONMENTS, IN_TURN, OPERATION, ROOT, Project  # noqa: E402

STUDY = {
    "study": "faults", "title": "Kills", "repeats": 1, "parity": False, "strict": True,
    "interleave": IN_TURN, "defaults": {"threads": 1},
    "sweeps": [
        {**OPERATION, "framework": "scipy", "operation_seconds": 0.3},
        {**OPERATION, "framework": "scipy", "operation_seconds": 0.3, "environment": "mine"},
    ],
}  # fmt: skip
RUNS, SETS = 2, IN_TURN["sets"]
END = 10.0
"""Seconds in which every process of a killed execution must have ended."""
LIMIT = 900.0
"""Seconds in which an execution must come to its end."""
COMMANDS = {
    "a supervisor of runs": ("cli.py", "run"),
    "a supervisor of turns": ("cli.py", "interleave"),
    "a runner": ("run_in_framework.py", ""),
    "a job": ("cli.py", ""),
}
"""Victims by the file that they execute, and the first word after it."""
VICTIMS = ("the driver", "all", *COMMANDS)


class Lost(AssertionError):
    """A kill cost more than it may."""


class Kill(NamedTuple):
    """What was killed, after how many seconds; the exit status of the execution and of the next."""

    victim: str
    after: float
    status: int
    again: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    choice = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="touchstone-faults-") as name:
        project = make_project(Path(name).resolve())
        begin = time.monotonic()
        finish(project)
        whole = time.monotonic() - begin
        print(f"an execution without a kill takes {whole:.0f} s", flush=True)
        kills: Counter[str] = Counter()
        while kills.total() < arguments.kills:
            victim = VICTIMS[kills.total() % len(VICTIMS)]
            if kill := kill_once(project, choice, whole, victim):
                kills[victim] += 1
                print(
                    f"{kills.total()}: {kill.victim} killed after {kill.after:.1f} s, which ended"
                    f" with {kill.status}; nothing left, the next make run with {kill.again}",
                    flush=True,
                )
        done, said = project.snakemake("--dry-run")
        if done or "Nothing to be done" not in said:
            raise Lost(f"one more start would do more:\n{said[-4000:]}")
    print("; ".join(f"{text}: {count}" for text, count in kills.items()))
    return 0


def make_project(folder: Path) -> Project:
    """The study in a copy of the project, with its Makefile and this environment."""
    pinned = ensure(ROOT / "envs/scipy.yaml", ENVIRONMENTS)
    mine = {"framework": "scipy", "python": str(plant(folder / "mine", beside=pinned))}
    project = Project(folder / "project", ENVIRONMENTS, {**STUDY, "environments": {"mine": mine}})
    for name in ("Makefile", "Snakefile"):
        shutil.copy(ROOT / name, project.folder / name)
    # For `make` the environment is there, and newer than its pins; make refuses a link to it.
    environment = project.folder / ".venv"
    environment.mkdir()
    for path in (ROOT / ".venv").iterdir():
        if path.name != "base":
            (environment / path.name).symlink_to(path)
    (environment / "base").touch()
    return project


def make_run(project: Project) -> subprocess.Popen:
    """Start `make run`; a pipe would last as long as its processes do."""
    with open(project.folder / "make.log", "wb") as log:
        return subprocess.Popen(
            ["make", "run"], cwd=project.folder, env=project.variables, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip


def output(project: Project) -> str:
    """The last lines that `make run` printed."""
    return (project.folder / "make.log").read_text(errors="replace")[-4000:]


def finish(project: Project) -> int:
    """Run the study to its end, and check all of it; returns the exit status."""
    status = make_run(project).wait(LIMIT)
    if status:
        raise Lost(f"make run does not continue, it ends with {status}:\n{output(project)}")
    records = list((project.folder / "results/records").glob("*/rep*.json"))
    if len(records) != RUNS or any('"status": "ok"' not in path.read_text() for path in records):
        raise Lost(f"{len(records)} records, not {RUNS} that are ok:\n{output(project)}")
    if len(sets_of(project)) != SETS:
        raise Lost(f"not {SETS} sets of turns:\n{output(project)}")
    return status


def kill_once(project: Project, choice: random.Random, whole: float, victim: str) -> Kill | None:
    """Start the study, kill a process of it at a random time, check what is left, and continue.

    Returns None where the execution ended before there was such a process.
    """
    shutil.rmtree(project.folder / "results", ignore_errors=True)
    process, begin = make_run(project), time.monotonic()
    time.sleep(choice.uniform(0, 0.7 * whole))
    while not (found := chosen(project, victim, choice)):
        if process.poll() is not None:
            return None
        time.sleep(0.02)
    before, after = finished(project), time.monotonic() - begin
    for each in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.send_signal(signal.SIGKILL)
    if victim in ("the driver", "all"):
        check_that_nothing_is_left(project, victim)
    status = process.wait(LIMIT)
    check_that_nothing_is_left(project, victim)
    again = finish(project)
    now = finished(project)
    if changed := [path for path, when in before.items() if now.get(path) != when]:
        raise Lost(f"a kill of {victim} cost what was finished: {changed}")
    return Kill(victim, after, status, again)


def check_that_nothing_is_left(project: Project, victim: str) -> None:
    """Wait until no process of the study is left, for a limited time."""
    end = time.monotonic() + END
    while left := processes(project):
        if time.monotonic() > end:
            lines = "\n".join(" ".join(words) for words in left.values())
            raise Lost(f"{END:g} s after a kill of {victim} there are:\n{lines}")
        time.sleep(0.1)


def processes(project: Project) -> dict[psutil.Process, list[str]]:
    """The living processes of the study, whoever their parents are now, by their words."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
                words = process.cmdline()
                here = Path(process.cwd()).is_relative_to(project.folder)
                if here or any(str(project.folder) in word for word in words):
                    found[process] = words
    return found


def chosen(project: Project, victim: str, choice: random.Random) -> list[psutil.Process]:
    """The processes to kill, none where no such process lives."""
    living = processes(project)
    drivers = [each for each, words in living.items() if is_driver(words)]
    if victim == "the driver":
        return drivers
    if victim == "all":
        return [*drivers, *(each for each in living if each not in drivers)] if drivers else []
    program, command = COMMANDS[victim]
    fitting = [each for each, words in living.items() if is_command(words, program, command)]
    return [choice.choice(fitting)] if fitting else []


def is_driver(words: list[str]) -> bool:
    return any(os.path.basename(word) == "snakemake" for word in words[:3])


def is_command(words: list[str], program: str, command: str) -> bool:
    return [os.path.basename(word) for word in words[1:2]] == [program] and command in (
        "", *words[2:3]
    )  # fmt: skip


def finished(project: Project) -> dict[Path, int]:
    """What must not be made again: the runs of which a record was made, and the sets of turns, by
    the time at which they were written."""
    found = {path: os.stat(path).st_mtime_ns for path in sets_of(project)}
    for record in (project.folder / "results/records").glob("*/rep*.json"):
        events = project.folder / "results/runs" / record.parent.name / record.stem / "events.jsonl"
        if events.exists():
            found[events] = os.stat(events).st_mtime_ns
    return found


def sets_of(project: Project) -> list[Path]:
    return list((project.folder / "results/interleaved").glob("*/set*.json"))


if __name__ == "__main__":
    sys.exit(main())
