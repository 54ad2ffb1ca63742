"""`snakemake --use-conda` end to end, with every framework in an environment of Snakemake's.

The environment files are the shipped ones, untouched. Their channel is a local one, made from
this machine's own Python and pip, which conda is pointed to by an environment variable. Where
the machine has no conda, a stand-in is brought (docs/installation.md says what that proves).
"""

import csv
import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from touchstone.environments import ensure, read
from workflow.project import ENVIRONMENTS, Project

HERE = Path(__file__).parent
FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")
STUDY = {
    "study": "conda",
    "title": "One small run per framework",
    "repeats": 1,
    "defaults": {
        "network": "lenet5", "dataset": "mnist-5k", "epochs": 2, "warmup_seconds": 0.0,
    },
    "sweeps": [{"framework": list(FRAMEWORKS), "batch_size": 128, "learning_rate": 0.01}],
}  # fmt: skip


class Deployed(Project):
    """A project whose Snakemake gets `--use-conda` while `conda` is true."""

    conda = True

    def options(self) -> list[str]:
        return ["--use-conda"] * self.conda

    def records(self) -> dict[str, dict]:
        """Cell -> record."""
        paths = self.folder.glob("results/records/*/rep1.json")
        return {path.parent.name: json.loads(path.read_text()) for path in paths}


@pytest.fixture(scope="module")
def conda(tmp_path_factory):
    """The environment variables under which a conda works, and works with our channel."""
    folder = tmp_path_factory.mktemp("conda")
    python = ensure(HERE / "stand_in.yaml", ENVIRONMENTS)
    # The channel has the pip beside this Python, which uv adds to no environment.
    subprocess.run([python, "-m", "ensurepip", "--default-pip"], check=True)
    subprocess.run([python, HERE / "channel.py", folder / "channel"], check=True)
    variables = {
        "CONDA_CHANNEL_ALIAS": (folder / "channel").as_uri(),
        "CONDA_PKGS_DIRS": str(folder / "packages"),
        "PIP_NO_COMPILE": "1",  # installing takes a fifth less
    }
    if not shutil.which("conda"):
        subprocess.run([python, HERE / "stand_in.py", "install", folder / "home"], check=True)
        variables["PATH"] = f"{folder}/home/bin:{os.environ['PATH']}"
    return variables


@pytest.fixture(scope="module")
def project(tmp_path_factory, conda):
    """A project whose study was run with conda, and without any virtual environment."""
    folder = tmp_path_factory.mktemp("project")
    project = Deployed(folder / "home", folder / "no-environments", STUDY)
    project.variables.update(conda)
    output = project.run()
    assert "run 3 of 3" in output
    yield project
    shutil.rmtree(project.folder / ".snakemake/conda")  # 3 GB


@pytest.fixture
def path_without_conda():
    """The folders of PATH that have no conda."""
    folders = os.environ["PATH"].split(":")
    return ":".join(folder for folder in folders if not Path(folder, "conda").exists())


def environments(project) -> dict[str, Path]:
    """Text of an environment file -> the environment that conda made of it."""
    folders = project.folder.glob(".snakemake/conda/*_")
    return {
        path.with_suffix(".yaml").read_text(): path
        for path in folders
        if list(path.glob("conda-meta/python-3.11*.json"))
    }


def test_every_environment_is_condas(project):
    names = (*FRAMEWORKS, "base")
    shipped = {(project.folder / f"envs/{name}.yaml").read_text() for name in names}
    assert set(environments(project)) == shipped
    assert not Path(project.variables["TOUCHSTONE_ENVS"]).exists()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_ran_with_its_pins(project, framework):
    [env] = project.folder.glob(f"results/runs/{framework}-*/rep1/env.json")
    packages = json.loads(env.read_text())["software"]["packages"]
    seen = {line.lower().replace("_", "-") for line in packages}
    _, requirements = read(project.folder / f"envs/{framework}.yaml")
    here = f'"{platform.machine()}"'
    mine = [line for line in requirements.lines if "platform_machine" not in line or here in line]
    pins = {line.split()[0].lower().replace("_", "-") for line in mine}
    assert pins <= seen


def test_every_run_is_ok_and_in_the_tables(project):
    records = project.records()
    assert {record["factors"]["framework"] for record in records.values()} == set(FRAMEWORKS)
    assert {record["status"] for record in records.values()} == {"ok"}
    with open(project.folder / "results/tables/measurements.csv") as table:
        assert {row["cell"] for row in csv.DictReader(table)} == set(records)
    assert (project.folder / "results/parity/lenet5.json").exists()
    assert (project.folder / "results/report/index.html").exists()


def test_the_base_environment_can_drive(project, conda):
    """As after `conda env create --file envs/base.yaml && conda activate`."""
    base = environments(project)[(project.folder / "envs/base.yaml").read_text()]
    path = f"{base}/bin:{project.variables['PATH']}"
    answer = subprocess.run(
        ["snakemake", "--cores", "1", "--use-conda", "--dry-run"],
        cwd=project.folder,
        env={**project.variables, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0 and "Nothing to be done" in answer.stdout + answer.stderr


def test_nothing_runs_again(project):
    """With conda and without: as it is, moved, moved and with the environments deleted."""

    def jobs() -> list[dict]:
        counts = []
        for project.conda in (False, True):
            counts.append(project.jobs())
        return counts

    home, moved = project.folder, project.folder.with_name("moved")
    assert jobs() == [{}, {}]
    home.rename(moved)
    project.folder = moved
    made, away = moved / ".snakemake/conda", moved / "away"
    try:
        assert jobs() == [{}, {}]
        made.rename(away)
        assert jobs() == [{}, {}]
    finally:
        if away.exists():
            shutil.rmtree(made, ignore_errors=True)
            away.rename(made)
        moved.rename(home)
        project.folder = home


def test_the_same_numbers_without_conda(project):
    """The same runs, made again in virtual environments, learn the same."""
    with_conda = project.records()
    project.conda = False
    project.variables["TOUCHSTONE_ENVS"] = str(ENVIRONMENTS)
    assert "run 3 of 3" in project.run("--forcerun", "train")
    without = project.records()
    project.conda = True
    assert project.jobs() == {}
    assert set(without) == set(with_conda)
    for cell, record in without.items():
        assert record["provenance"]["started"] > with_conda[cell]["provenance"]["started"]
        losses = [entry["loss"] for entry in record["losses"]]
        assert losses == pytest.approx(
            [entry["loss"] for entry in with_conda[cell]["losses"]], rel=1e-3
        )


def refusal(folder: Path, path: str) -> str:
    """What `snakemake --use-conda` says of a fresh project, which must stay untouched."""
    project = Deployed(folder, folder / "no-environments", STUDY)
    project.variables["PATH"] = path
    status, output = project.snakemake()
    assert status == 1 and "Traceback" not in output
    assert not (folder / "results").exists()
    return output


def test_no_conda_is_refused(tmp_path, path_without_conda):
    output = refusal(tmp_path / "project", path_without_conda)
    assert "Is conda installed and accessible?" in output


def test_an_old_conda_is_refused(tmp_path, path_without_conda):
    old = tmp_path / "bin/conda"
    old.parent.mkdir()
    info = json.dumps({"conda_prefix": str(tmp_path), "platform": "linux-64"})
    old.write_text(f"#!/bin/sh\n[ $1 = info ] && echo '{info}' || echo conda 4.14.0\n")
    old.chmod(0o755)
    output = refusal(tmp_path / "project", f"{old.parent}:{path_without_conda}")
    assert "Conda must be version 24.7.1 or later, found version 4.14.0" in output
