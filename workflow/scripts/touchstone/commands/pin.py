"""Rewrite the resolved part of `envs/<name>.yaml`: every package that the direct pins bring.

The lines above the marker are written by a person; the lines below it are what pip
resolves for them with the interpreter that runs this script, with the sha256 of the files for
this machine and for Linux on aarch64, where there is one. A file whose
pip list says `# for Python 3.11 3.12` gets the same versions with the hashes for each of these
Pythons. A pin of one build (`torch==2.13.0+cpu`) takes an index that has it
(`PIP_EXTRA_INDEX_URL`). A line for one kind of machine has a marker:
`- tensorflow==2.21.0 ; platform_machine == "aarch64"`.
Run it as `make pin ENV=tensorflow`; it downloads metadata, and installs nothing.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from touchstone.packages import MARKER

AARCH64 = [
    f"--platform={libc}_aarch64"
    for libc in ("manylinux2014", *(f"manylinux_2_{minor}" for minor in range(17, 40)))
]
"""pip's options for files of Linux on aarch64."""


def resolve(requirements: list[str], *options: str) -> list[tuple[str, str, str, bool]]:
    """Name, version and sha256 of every package that `requirements` bring, sorted by name, and
    whether its file is a wheel for one Python or platform. `options` are pip's."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        command += ["--ignore-installed", "--prefer-binary", "--report", report.name]
        subprocess.run([*command, *options, *requirements], check=True)
        installed = json.loads(Path(report.name).read_text())["install"]
    return sorted(
        (
            package["metadata"]["name"].lower().replace("_", "-"),
            package["metadata"]["version"],
            package["download_info"]["archive_info"]["hashes"]["sha256"],
            package["download_info"]["url"].endswith(".whl")
            and not package["download_info"]["url"].endswith("-none-any.whl"),
        )
        for package in installed
    )


def on_aarch64(requirement: str, pythons: list[str]) -> list[str]:
    """The sha256 of the wheels of `name==version` for Linux on aarch64: one for each of the
    Pythons that has one."""
    digests = list[str]()
    for python in pythons:
        with tempfile.TemporaryDirectory() as target:
            options = ["--no-deps", "--only-binary=:all:", f"--python-version={python}"]
            try:
                chosen = resolve([requirement], *options, *AARCH64, f"--target={target}")
            except subprocess.CalledProcessError:
                continue  # pip has said that there is none
            digests += [digest for _, _, digest, _ in chosen if digest not in digests]
    return digests


def hashes_of(packages: list[tuple[str, str, str, bool]], pythons: list[str]) -> dict[str, str]:
    """Package name -> its options `--hash`: of the file chosen here, and those for `pythons`, the
    first of which runs here, and for aarch64."""
    by_name = {name: [digest] for name, _, digest, _ in packages}
    binary = [f"{name}=={version}" for name, version, _, special in packages if special]
    for python in pythons[1:]:
        options = ["--no-deps", f"--python-version={python}"]
        with tempfile.TemporaryDirectory() as target:
            others = resolve(binary, *options, f"--target={target}") if binary else []
        for name, _, digest, _ in others:
            if digest not in by_name[name]:
                by_name[name].append(digest)
    for requirement in binary:
        name = normalised(requirement)
        by_name[name] += [d for d in on_aarch64(requirement, pythons) if d not in by_name[name]]
    return {
        name: "".join(f" --hash=sha256:{digest}" for digest in digests)
        for name, digests in by_name.items()
    }


def pins(text: str) -> dict[str, str]:
    """Package name -> `name==version`, with its marker, of the pip list of an environment file."""
    entries = yaml.safe_load(text)["dependencies"]
    listed = [line for entry in entries if isinstance(entry, dict) for line in entry["pip"]]
    return {normalised(line): line.partition(" --hash")[0] for line in listed}


def normalised(requirement: str) -> str:
    """`ml_dtypes==0.6.0` -> `ml-dtypes`, as the registry compares names."""
    return requirement.split("==")[0].split("[")[0].lower().replace("_", "-")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("environment", type=Path, help="for instance envs/tensorflow.yaml")
    parser.add_argument("--on-top-of", type=Path, help="an environment that is there already")


def run(arguments: argparse.Namespace) -> None:
    head = arguments.environment.read_text().split(MARKER)[0].rstrip("\n")
    direct = pins(head)
    below = pins(arguments.on_top_of.read_text()) if arguments.on_top_of else {}
    packages = resolve([*direct.values(), *below.values()])
    pythons = re.findall("# for Python ([0-9. ]+)|- python=([0-9.]+)", head)
    versions = (pythons[0][0] or pythons[0][1]).split()
    hashes = dict.fromkeys(direct, "") | hashes_of(packages, versions)
    for name, line in direct.items():
        if 'platform_machine == "aarch64"' in line:
            digests = on_aarch64(line.split(" ")[0], versions)
            hashes[name] = "".join(f" --hash=sha256:{digest}" for digest in digests)
    lines = [
        f"      - {direct[normalised(entry)]}{hashes[normalised(entry)]}"
        if (entry := line.strip().removeprefix("- ")).partition(" --hash")[0] in direct.values()
        else line
        for line in head.splitlines()
    ]
    lines.append(MARKER)
    for name, version, *_ in packages:
        if name not in direct and name not in below:
            lines.append(f"      - {name}=={version}{hashes.get(name, '')}")
    arguments.environment.write_text("\n".join(lines) + "\n")
