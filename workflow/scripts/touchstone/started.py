"""How the reader of a message started Touchstone, and the commands that fit.

`make` says so itself; for Snakemake the options stay that say which Snakemake it is: profile,
folder, conda. Commands that are started by hand fit the folder: `make`, where it was used here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import join, quote, split

from touchstone.paths import CLI, ROOT, snakemake
from touchstone.schema.variables import STARTED

MAKE, TOUCHSTONE = "make", "touchstone"
LASTING = {
    "--cores", "-c", "--profile", "--workflow-profile", "--directory", "-d", "--snakefile", "-s",
    "--software-deployment-method", "--deployment-method", "--deployment", "--sdm", "--use-conda",
    "--executor", "-e", "--jobs", "-j",
}  # fmt: skip
"""Options of Snakemake that every later command needs too."""
USUAL = ("--cores", "all")


def note(arguments: Sequence[str]) -> None:
    """Note how this execution was started, for its jobs: by these arguments of Snakemake, unless
    `make` or `touchstone` started it."""
    if os.environ.get(STARTED) not in (MAKE, TOUCHSTONE):
        os.environ[STARTED] = join([snakemake(), *(_lasting(arguments) or USUAL)])


def by_make() -> bool:
    """Whether the reader uses `make`."""
    starter = os.environ.get(STARTED)
    here = Path("Makefile").exists() and Path(".venv/base").exists()
    return starter == MAKE or (not starter and here)


def by_touchstone() -> bool:
    """Whether the reader uses the command `touchstone`."""
    return os.environ.get(STARTED) == TOUCHSTONE


def again(*words: str) -> str:
    """The command that starts Snakemake as the reader did, with more words."""
    starter = os.environ.get(STARTED, MAKE)
    if starter == TOUCHSTONE:
        return f"touchstone run {join(words)}"
    start = join([snakemake(), *USUAL]) if starter == MAKE else starter
    return f"{start} {join(words)}"


def unlock() -> str:
    """The command that removes the lock of a dead execution."""
    return "make unlock" if by_make() else again("--unlock")


def verify(repair: bool = False) -> str:
    """The command that verifies all files, and can repair them."""
    if by_make():
        return f"make verify{' REPAIR=1' * repair}"
    return _ours("verify", *["--repair"] * repair)


def repeat(runs: str, config: str) -> str:
    """The command that repeats these runs of the study in a file."""
    if by_make():
        return f"make run CONFIG={quote(config)} RERUN={runs}"
    path = str(Path(config).absolute()) if _elsewhere() else config
    start = again(path) if by_touchstone() else again("--configfile", path)
    return f"{_ours('repeat', runs, path)} && {start}"


def _ours(*words: str) -> str:
    """A command of ours, in the folder of the results."""
    if by_touchstone():
        return join(["touchstone", *words])
    here = Path.cwd()
    python = ".venv/bin/python" if (here / ".venv/bin/python").exists() else sys.executable
    command = join([python, str(CLI.relative_to(ROOT) if here == ROOT else CLI), *words])
    return f"(cd {quote(str(here))} && {command})" if _elsewhere() else command


def _elsewhere() -> bool:
    """Whether the reader is in another folder than the results."""
    words = split(os.environ.get(STARTED, ""))
    return any(word.partition("=")[0] in ("--directory", "-d") for word in words)


def _lasting(arguments: Sequence[str]) -> list[str]:
    """Those of Snakemake's arguments that every later command needs, with their values."""
    return [word for group in _groups(arguments) if group[0].partition("=")[0] in LASTING
            for word in group]  # fmt: skip


def _groups(arguments: Iterable[str]) -> list[list[str]]:
    """Arguments by option, each with the words behind it."""
    groups: list[list[str]] = [[""]]
    for word in arguments:
        if word.startswith("-"):
            groups.append([word])
        else:
            groups[-1].append(word)
    return groups
