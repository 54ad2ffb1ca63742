"""The workflow as a module of another workflow, from a checkout and from a hosted repository.

Everything here is a dry run: no framework is started.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest

from touchstone.paths import ROOT

MODULE = """
configfile: "config/config.yaml"


module touchstone:
    snakefile:
        {snakefile}
    config:
        config


use rule * from touchstone{naming}
"""
"""What `snakedeploy deploy-workflow` writes; it calls a module as the repository is called."""
CATALOGUE = ROOT / ".snakemake-workflow-catalog.yml"


@pytest.fixture
def other(tmp_path):
    """The folder of another workflow, with a copy of our configuration."""
    folder = tmp_path / "other"
    shutil.copytree(ROOT / "config", folder / "config")
    (folder / "workflow").mkdir()
    return folder


def jobs(folder, snakefile, naming="", **variables):
    """The jobs of a dry run by rule, and its whole output."""
    text = MODULE.format(snakefile=snakefile, naming=naming)
    (folder / "workflow/Snakefile").write_text(text)
    ended = subprocess.run(
        [sys.executable, "-m", "snakemake", "--dry-run", "--cores", "1", "--printshellcmds"],
        cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True,
    )  # fmt: skip
    output = ended.stdout + ended.stderr
    assert ended.returncode == 0, output
    return dict(re.findall(r"^(\w+) +(\d+)$", output, re.M)), output


def test_a_module_of_a_checkout_plans_the_default_study(other):
    found, _ = jobs(other, repr(str(ROOT / "workflow/Snakefile")))
    assert found["train"] == found["parse_run"] == "9" and found["report"] == "1"


@pytest.mark.long
def test_a_module_has_its_own_configuration_and_names(other):
    path = other / "config/config.yaml"
    path.write_text(re.sub(r"repeats: \d+", "repeats: 2", path.read_text()))
    naming = " as touchstone_*"
    found, _ = jobs(other, repr(str(ROOT / "workflow/Snakefile")), naming)
    assert found["touchstone_train"] == "6" and found["touchstone_interleave"] == "1"


@pytest.mark.long
def test_a_module_of_a_hosted_repository_gets_the_files_of_its_commit(other, tmp_path):
    """Snakemake's clone of the repository exists already, so that no network is needed."""
    source, cache = tmp_path / "source", tmp_path / "cache"
    for name in ("config", "envs", "profiles", "workflow"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    git = ["git", "-C", str(source), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=a"]):
        subprocess.run([*git, *command], check=True)
    subprocess.run([*git, "tag", "v1"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    clones = cache / "snakemake/snakemake/source-cache/snakemake-git-cache"
    clone = clones / "github.com/someone/touchstone"
    clone.parent.mkdir(parents=True)
    subprocess.run([*git, "clone", "--quiet", "--bare", ".", str(clone)], check=True)

    snakefile = 'github("someone/touchstone", path="workflow/Snakefile", tag="v1")'
    found, _ = jobs(other, snakefile, XDG_CACHE_HOME=str(cache))
    assert found["train"] == "9"
    unpacked = other / ".snakemake/touchstone" / head.stdout.strip()
    assert (unpacked / "workflow/scripts/cli.py").is_file()
    assert [path.name for path in unpacked.parent.iterdir()] == [unpacked.name]
