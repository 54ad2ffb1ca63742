"""A study that another workflow runs with ours as a module, and Snakemake's own report of it."""

import base64
import json
import os
import re
import subprocess
import sys

import pytest
import yaml

from workflow.project import ENVIRONMENTS, ROOT

pytestmark = pytest.mark.long

STUDY = {
    "study": "tiny", "title": "Small matrix products", "repeats": 2,
    "defaults": {
        "framework": "scipy", "operation_seconds": 0.05, "warmup_seconds": 0.0,
        "warmup_steps": 1, "sampling_interval": 0.05, "wait_policy": "passive",
    },
    "sweeps": [{"network": "sparse_gemm", "dataset": "64x8x64x90"}],
}  # fmt: skip
WORKFLOW = f"""
configfile: "config.yaml"


module touchstone:
    snakefile:
        {str(ROOT / "workflow/Snakefile")!r}
    config:
        config["speeds"]


use rule * from touchstone as speed_*


rule summary:
    default_target: True
    input:
        "results/tables/summary.csv",
        "results/report/tiny/index.html",
    output:
        "lines.txt",
    shell:
        "wc -l < {{input[0]}} > {{output}}"


onstart:
    touchstone.onstart()


onsuccess:
    touchstone.onsuccess()
"""


@pytest.fixture(scope="module")
def snakemake(tmp_path_factory):
    """A function that runs Snakemake in the folder of the other workflow: folder, output."""
    folder = tmp_path_factory.mktemp("other")
    (folder / "Snakefile").write_text(WORKFLOW)
    (folder / "config.yaml").write_text(yaml.safe_dump({"speeds": STUDY, "other": 1}))
    # The lock of measured runs is among temporary files: no other study is waited for.
    own = {"TOUCHSTONE_ENVS": str(ENVIRONMENTS), "TMPDIR": str(tmp_path_factory.mktemp("lock"))}

    def run(*arguments):
        ended = subprocess.run(
            [sys.executable, "-m", "snakemake", "--cores", "1", *arguments],
            cwd=folder, env={**os.environ, **own}, capture_output=True, text=True,
        )  # fmt: skip
        output = ended.stdout + ended.stderr
        assert ended.returncode == 0, output
        return folder, output

    return run


@pytest.fixture(scope="module")
def first(snakemake):
    """The first execution."""
    return snakemake()


def test_a_study_runs_as_a_module(first):
    folder, output = first
    assert "2 runs: about" in output and "run 2 of 2  scipy-sparse_gemm" in output
    assert f"Report: {folder}/results/report/tiny/index.html" in output
    assert int((folder / "lines.txt").read_text()) > 1


def test_the_report_of_snakemake_has_page_figures_and_tables(first, snakemake):
    folder, _ = snakemake("--report", "report.html")
    page = (folder / "report.html").read_text()
    results = json.loads(re.search(r"var results = (\{.*?\});?\n", page)[1])
    categories = json.loads(re.search(r"var categories = (\{.*?\});?\n", page)[1])
    assert {*categories} == {"Answer", "Tables", "Figures"}
    shown = {
        path: base64.b64decode(result["data_uri"].partition("base64,")[2]).decode()
        for path, result in results.items()
    }
    assert "<title>Small matrix products" in shown["results/report/tiny/index.html"]
    for name in ("throughput", "operations"):
        assert "<svg" in shown[f"results/figures/{name}.svg"]
    for name in ("measurements", "summary", "comparisons"):
        path = f"results/tables/{name}.csv"
        assert shown[path] == (folder / path).read_text()
    assert all(result["caption"] for result in results.values())
