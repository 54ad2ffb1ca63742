"""What `sinfo` tells, and the jobs that no node can ever take."""

from math import inf

import pytest
import yaml

from touchstone.plan.slurm import (
    MEASURED,
    impossible,
    managed,
    minutes,
    not_alone,
    profile_faults,
    read_sinfo,
)
from touchstone.workflow.start import profiles

SINFO = """\
cpu*|8|192000|1-00:00:00|(null)
gpu|2|515000|2:00:00|gpu:a100:4(S:0-1),gpu:v100:2(S:0)
gpu|3|257000|2:00:00|gpu:a100:1
old|1|64000|infinite|gpu:2,shard:8
uncounted|4|1|infinite|(null)
"""


@pytest.mark.parametrize(
    "text, expected",
    [("30:00", 30), ("2:00:00", 120), ("1-12:00:00", 2160), ("infinite", inf), ("n/a", inf)],
)
def test_limits_of_time(text, expected):
    assert minutes(text) == expected


def test_partitions():
    known = read_sinfo(SINFO)
    assert known[""] == known["cpu"] and [n.minutes for n in known["cpu"]] == [1440]
    assert [nodes.gpus for nodes in known["gpu"]] == [{"a100": 4, "v100": 2}, {"a100": 1}]
    assert [nodes.number for nodes in known["gpu"]] == [2, 3]
    assert known["old"][0].gpus == {"": 2} and known["old"][0].minutes == inf


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"slurm_partition": "gpu", "gpu": 6, "mem_mb": 515000, "runtime": 120},
        {"slurm_partition": "gpu", "gpu": 4, "gpu_model": "a100"},
        {"slurm_partition": "gpu", "gpu": 12, "nodes": 2},
        {"slurm_partition": "gpu", "gres": "gpu:v100:2", "nodes": 2},
        {"slurm_partition": "gpu", "gpu": 5, "nodes": 5, "gpu_model": "a100"},
        {"slurm_partition": "cpu,old", "gpu": 2, "mem_mb": 64000},
        {"slurm_partition": "cpu", "gpu": 0, "mem_mb": "<TBD>"},
        {"slurm_partition": "uncounted", "mem_mb": 8000},
        {"slurm_partition": "elsewhere", "clusters": "other"},
    ],
)
def test_what_can_be_had(asked):
    assert impossible([("train", asked)], read_sinfo(SINFO)) == []


@pytest.mark.parametrize(
    "asked, fault",
    [
        (
            {"slurm_partition": "gpus"},
            "slurm_partition: there is no 'gpus'; there are: cpu, gpu, old, uncounted",
        ),
        ({"slurm_partition": "gpu", "gpu": 7}, "gpu: 7 asked of a node, gpu has at most 6"),
        ({"gpu": 1}, "gpu: 1 asked of a node, the default partition has at most 0"),
        (
            {"slurm_partition": "gpu", "gpu": 1, "gpu_model": "h100"},
            "gpu: 1 h100 asked of a node, gpu has at most 0",
        ),
        (
            {"slurm_partition": "gpu", "gpu": 2, "gpu_model": "a100", "mem_mb": 515001},
            "mem_mb: 515001 MiB asked of a node, gpu has at most 515000",
        ),
        (
            {"slurm_partition": "cpu,old", "gpu": 2, "mem_mb": 64001},
            "mem_mb: 64001 MiB asked of a node, cpu, old has at most 64000",
        ),
        (
            {"runtime": 1441},
            "runtime: 1441 min asked of a node, the default partition has at most 1440",
        ),
        ({"nodes": 9}, "nodes: 9 asked, the default partition has 8 that can give it"),
        (
            {"slurm_partition": "gpu", "gpu": 12, "nodes": 3},
            "nodes: 3 asked, gpu has 2 that can give it",
        ),
        (
            {"slurm_partition": "cpu,old", "nodes": 9},
            "nodes: 9 asked, cpu, old has 8 that can give it",
        ),
        (
            {"slurm_partition": "gpu", "gres": "gpu:7", "nodes": 2},
            "gpu: 7 asked of a node, gpu has at most 6",
        ),
    ],
)
def test_what_no_node_can_give_is_reported_once(asked, fault):
    jobs = [("train", asked), ("convert_dataset", {}), ("train", asked)]
    assert impossible(jobs, read_sinfo(SINFO)) == [f"train: {fault}"]


def test_a_cluster_without_a_default_partition():
    known = read_sinfo("cpu|2|1000|infinite|(null)\n")
    assert impossible([("train", {"mem_mb": 9000})], known) == []


EXCLUSIVE = {"slurm_extra": "--exclusive", "cpus_per_task": -1}


@pytest.mark.parametrize("rule", MEASURED)
def test_a_measured_job_that_would_share_its_node_is_refused_with_the_lines(rule):
    for extra in ("", "--nice=5", "--exclusive=user", "--not--exclusive"):
        asked = {"slurm_extra": extra, "cpus_per_task": 12, "slurm_account": "lab"}
        refused, warned = not_alone([(rule, asked), ("convert", {})], 64)
        assert refused.startswith(f"{rule}: without --exclusive") and not warned
        added = yaml.safe_load(refused.partition("profile:\n")[2])["set-resources"]
        # The lines cure: Snakemake takes both values as expressions.
        cured = {key: eval(value) for key, value in added[rule].items()}
        assert not_alone([(rule, asked | cured)], 64) == ("", "")
        assert (
            cured["slurm_extra"] == f"--exclusive {extra.removesuffix('--exclusive=user')}".strip()
        )
    refused, _ = not_alone([(name, {}) for name in MEASURED], 64)
    assert [*yaml.safe_load(refused.partition("profile:\n")[2])["set-resources"]] == [*MEASURED]


def test_a_run_on_fewer_cores_than_the_node_has_is_a_warning():
    assert not_alone([("train", EXCLUSIVE), ("convert", {"cpus_per_task": 1})], 64) == ("", "")
    for count, told in ((12, True), (1, True), (64, False), (-1, False)):
        _, warned = not_alone([("train", EXCLUSIVE | {"cpus_per_task": count})], 64)
        assert bool(warned) == told and ('"0 - 1"' in warned) == told
    _, warned = not_alone([("train", {"slurm_extra": "--exclusive"})], 64)
    assert warned.startswith("train gets 1 of a node's cores")


@pytest.mark.parametrize(
    "extra, key",
    [("--qos=long", "qos"), ("--exclusive --qos long", "qos"), ("-p gpu", "slurm_partition"),
     ("--account=lab", "slurm_account"), ("--time=10", "runtime")],
)  # fmt: skip
def test_an_option_of_the_plugin_is_refused_before_it_submits(extra, key):
    (fault,) = managed([("train", {"slurm_extra": extra}), ("train", {"slurm_extra": extra})])
    assert fault.startswith("train: slurm_extra: ") and f"write {key}: VALUE" in fault
    assert managed([("train", {"slurm_extra": "--exclusive --nice=5"}), ("all", {})]) == []


def test_a_profile_for_an_older_snakemake_is_refused_with_the_lines_to_write(tmp_path, root):
    path = tmp_path / "config.yaml"
    path.write_text("cluster: sbatch -p gpu\ncluster-config: c.yaml\njobs: 5\n")
    fault, note = profile_faults(path)
    assert "cluster, cluster-config: Snakemake 9 has no such key" in fault and not note
    lines = fault.partition("instead\n")[2].rpartition("\nor fill in")[0]
    assert yaml.safe_load(lines)["executor"] == "slurm"
    path.write_text(lines)
    assert profile_faults(path) == ("", "")
    path.write_text("executor: slurm\nretries: 0\n")
    assert "retries: 0 does not hold for runs" in profile_faults(path)[1]
    assert profile_faults(tmp_path / "none.yaml") == ("", "")
    for arguments in (["--profile", str(tmp_path)], [f"--workflow-profile={tmp_path}"]):
        assert profiles(["snakemake", *arguments]) == [path]


def test_the_shipped_profile_has_no_fault(root):
    path = root / "profiles/slurm/config.yaml"
    assert profile_faults(path) == ("", "")
    added = yaml.safe_load(path.read_text())["set-resources"]
    cured = [(rule, {key: eval(value) for key, value in added[rule].items()}) for rule in MEASURED]
    assert not_alone(cured, 64) == ("", "") and managed(cured) == []
