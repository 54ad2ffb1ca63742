"""The Python of `envs/<name>.yaml`: made on demand, once, as a virtual environment.

    touchstone in-env ENVIRONMENT.yaml FOLDER [COMMAND ARGUMENT ...]

Reads the same file that `--use-conda` reads, and runs the same `<name>.post-deploy.sh` after
it, if there is one, with the environment's `bin` first on PATH. The virtual environment lies
in FOLDER, is named by the digest of what it installs, and is made under a lock, so that jobs
that start together make it once; an interrupted making is begun again. With a COMMAND, it
replaces this process by that command with the environment's `bin` first on PATH; without
one, it prints the environment's Python.
"""

import argparse
import os
import sys
from pathlib import Path

import yaml

from touchstone.environments import EnvironmentFault, activated, ensure


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("environment", type=Path, help="for instance envs/tensorflow.yaml")
    parser.add_argument("folder", type=Path, help="of the virtual environments")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="and its arguments")


def run(arguments: argparse.Namespace) -> None:
    command = arguments.command
    try:
        python = ensure(arguments.environment, arguments.folder.absolute())
    except (EnvironmentFault, OSError, KeyError, yaml.YAMLError) as fault:
        sys.exit(f"error: {fault}")
    if not command:
        print(python)
        return
    os.execvpe(command[0], list(command), activated(python.parent.parent))
