"""What `sinfo` tells, and the jobs that no node can ever take."""

from math import inf

import pytest

from touchstone.plan.slurm import impossible, minutes, read_sinfo

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
