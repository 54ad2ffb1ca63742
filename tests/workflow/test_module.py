"""A study that another workflow runs with ours as a module: its results, and what it prints."""

import os
import subprocess
import sys

import yaml

from workflow.project import ENVIRONMENTS, ROOT

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


def test_a_study_runs_as_a_module(tmp_path):
    (tmp_path / "Snakefile").write_text(WORKFLOW)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"speeds": STUDY, "other": 1}))
    ended = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "1"],
        cwd=tmp_path, env={**os.environ, "TOUCHSTONE_ENVS": str(ENVIRONMENTS)},
        capture_output=True, text=True,
    )  # fmt: skip
    output = ended.stdout + ended.stderr
    assert ended.returncode == 0, output
    assert "2 runs: about" in output and "run 2 of 2  scipy-sparse_gemm" in output
    assert f"Report: {tmp_path}/results/report/tiny/index.html" in output
    assert int((tmp_path / "lines.txt").read_text()) > 1
