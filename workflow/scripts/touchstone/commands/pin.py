"""Rewrite the resolved part of `envs/<name>.yaml`: every package that the direct pins bring.

The lines above the marker are written by a person; the lines below it are what pip
resolves for them with the interpreter that runs this script, with the sha256 of the file
chosen for this platform. A file whose pip list says `# no hashes` gets versions only.
Run it as `make pin ENV=tensorflow`; it downloads metadata, and installs nothing.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

MARKER = "      # resolved from the pins above by `make pin`"


def resolve(requirements: list[str]) -> list[tuple[str, str, str]]:
    """Name, version and sha256 of every package that `requirements` bring, sorted by name."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        command += ["--ignore-installed", "--prefer-binary", "--report", report.name]
        subprocess.run([*command, *requirements], check=True)
        installed = json.loads(Path(report.name).read_text())["install"]
    return sorted(
        (
            package["metadata"]["name"].lower().replace("_", "-"),
            package["metadata"]["version"].split("+")[0],
            package["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for package in installed
    )


def pins(text: str) -> dict[str, str]:
    """Package name -> `name==version` of the pip list of an environment file's text."""
    entries = yaml.safe_load(text)["dependencies"]
    listed = [line for entry in entries if isinstance(entry, dict) for line in entry["pip"]]
    return {normalised(line): line.split(" ")[0] for line in listed}


def normalised(requirement: str) -> str:
    """`ml_dtypes==0.6.0` -> `ml-dtypes`, as the registry compares names."""
    return requirement.split("==")[0].split("[")[0].lower().replace("_", "-")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("environment", type=Path, help="for instance envs/tensorflow.yaml")
    parser.add_argument("--on-top-of", type=Path, help="an environment that is there already")


def run(arguments: argparse.Namespace) -> None:
    head = arguments.environment.read_text().split(MARKER)[0].rstrip("\n")
    hashed = "# no hashes" not in head
    direct = pins(head)
    below = pins(arguments.on_top_of.read_text()) if arguments.on_top_of else {}
    packages = resolve([*direct.values(), *below.values()])
    hashes = {name: f" --hash=sha256:{digest}" * hashed for name, _, digest in packages}
    lines = [
        f"      - {direct[normalised(entry)]}{hashes[normalised(entry)]}"
        if (entry := line.strip().removeprefix("- ").split(" ")[0]) in direct.values()
        else line
        for line in head.splitlines()
    ]
    lines.append(MARKER)
    for name, version, _ in packages:
        if name not in direct and name not in below:
            lines.append(f"      - {name}=={version}{hashes[name]}")
    arguments.environment.write_text("\n".join(lines) + "\n")
