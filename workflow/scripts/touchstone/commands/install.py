"""Install a list of pinned packages beside the Python that runs this; `make` calls it.

    touchstone install REQUIREMENTS.txt

uv installs the list where it can, otherwise pip. A uv that the list pins is installed first.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from touchstone import packages


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("requirements", type=Path, help="one pin with hashes a line")


def run(arguments: argparse.Namespace) -> int:
    listed: Path = arguments.requirements
    pins = [line for line in listed.read_text(encoding="utf-8").splitlines() if line.strip()]
    first = [line for line in pins if line.startswith("uv==")]
    if first and packages.uv() is None:
        only = listed.with_suffix(".uv.txt")
        only.write_text(first[0] + "\n", encoding="utf-8")
        command = [*packages.pip_of(sys.executable), "install", "--quiet", "--quiet"]
        command += ["--no-deps", "--requirement", str(only)]
        # Without it, pip installs the whole list, and says itself what is wrong.
        own = packages.surroundings()
        subprocess.run(command, env=own, stdout=sys.stderr, stderr=subprocess.DEVNULL, check=False)
        only.unlink()
    try:
        packages.install(Path(sys.executable), listed, sys.version_info[:2], _say)
    except subprocess.CalledProcessError as fault:
        return fault.returncode
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
