"""A stand-in for `conda` on machines without one: the commands that Snakemake gives, no more.

    stand_in.py install FOLDER          make FOLDER/bin/conda and FOLDER/bin/activate
    FOLDER/bin/conda info --json        ... and the other commands of `parser`

Specifications are read, solved and linked by py-rattler, as conda itself would; the pip list
is installed by the new environment's pip. As in conda, `CONDA_CHANNEL_ALIAS` says where
channels are and `CONDA_PKGS_DIRS` where packages are kept.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import yaml
from rattler import Subdir, install, solve

VERSION = "24.7.1"  # the oldest conda that Snakemake takes: nothing newer is stood in for
ACTIVATE = """\
export CONDA_PREFIX="$1" PATH="$1/bin:$PATH"
hash -r
"""


def install_stand_in(root: Path) -> None:
    """Make the command `conda` and the script that activates an environment under `root`."""
    command = root / "bin/conda"
    command.parent.mkdir(parents=True)
    arguments = f"'{sys.executable}' '{Path(__file__).resolve()}' --root '{root}'"
    command.write_text(f'#!/bin/sh\nexec {arguments} "$@"\n')
    command.chmod(0o755)
    (root / "bin/activate").write_text(ACTIVATE)


async def link(channels: list[str], specifications: list[str], prefix: Path) -> None:
    """Solve `specifications` against `channels` and link the packages into `prefix`."""
    alias = os.environ["CONDA_CHANNEL_ALIAS"].rstrip("/")
    records = await solve(
        sources=[f"{alias}/{channel}" for channel in channels if channel != "nodefaults"],
        specs=specifications,
        platforms=[Subdir.current(), Subdir("noarch")],
    )
    packages = os.environ["CONDA_PKGS_DIRS"]
    await install(records, target_prefix=prefix, cache_dir=packages, show_progress=False)


def create(file: Path, prefix: Path) -> None:
    """Make the environment `prefix` of an environment file, its pip list last."""
    environment = yaml.safe_load(file.read_text())
    entries = environment["dependencies"]
    specifications = [entry for entry in entries if isinstance(entry, str)]
    asyncio.run(link(environment["channels"], specifications, prefix))
    requirements = [line for entry in entries if isinstance(entry, dict) for line in entry["pip"]]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.write("\n".join(requirements) + "\n")
        listed.flush()
        pip = [str(prefix / "bin/python"), "-m", "pip", "install", "-U", "-r", listed.name]
        subprocess.run([*pip, "--exists-action=b"], check=True)


def parser() -> argparse.ArgumentParser:
    """The commands, as Snakemake 9 words them; any other is refused.

    There is nothing to `clean`: packages are kept unpacked only.
    """
    parser = argparse.ArgumentParser(prog="conda")
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--version", action="version", version=f"conda {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser("info")
    info.add_argument("--json", action="store_true", required=True)
    config = commands.add_parser("config")
    config.add_argument("--get", choices=["channel_priority"], required=True)
    config.add_argument("--json", action="store_true", required=True)
    env = commands.add_parser("env").add_subparsers(required=True).add_parser("create")
    env.add_argument("--quiet", action="store_true")
    env.add_argument("--no-default-packages", action="store_true")
    env.add_argument("--file", type=Path, required=True)
    env.add_argument("--prefix", type=Path, required=True)
    clean = commands.add_parser("clean")
    clean.add_argument("-y", action="store_true")
    clean.add_argument("--tarballs", action="store_true", required=True)
    commands.add_parser("install").add_argument("folder", type=Path)
    return parser


def main() -> None:
    arguments = parser().parse_args()
    if arguments.command == "install":
        install_stand_in(arguments.folder.resolve())
    elif arguments.command == "info":
        subdir = str(Subdir.current())
        print(json.dumps({"conda_prefix": str(arguments.root), "platform": subdir}))
    elif arguments.command == "config":
        print(json.dumps({"get": {"channel_priority": "strict"}}))
    elif arguments.command == "env":
        create(arguments.file, arguments.prefix.absolute())


if __name__ == "__main__":
    status = 0
    try:
        main()
    except SystemExit as end:
        status = int(end.code or 0)
    except Exception:
        traceback.print_exc()
        status = 1
    # The library's own threads sometimes abort the interpreter at its exit.
    sys.stdout.flush()
    os._exit(status)
