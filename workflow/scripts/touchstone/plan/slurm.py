"""What must be known of Slurm before anything is submitted.

Jobs that a driver left in the queue when it was killed, and jobs that no node can ever take.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from math import ceil, inf
from pathlib import Path
from typing import Any, NamedTuple

import yaml

MEASURED = ("train", "find_max_batch", "interleave")
"""The rules whose jobs measure: each needs a node for itself, and all its cores."""
LINES = """\
set-resources:
  {rule}:
    slurm_extra: "'--exclusive{others}'"
    cpus_per_task: "0 - 1\""""
"""What a profile says of such a rule."""
ALONE = re.compile(r"(?<!\S)--exclusive(?!\S)")
OLD = {"cluster", "cluster-config", "cluster-status", "cluster-cancel", "cluster-sync", "drmaa"}
"""Keys of profiles for a Snakemake before version 8."""


def not_alone(jobs: Iterable[tuple[str, Mapping[str, Any]]], cores: float) -> tuple[str, str]:
    """Why measured runs among these jobs (rule, resources) would share their node, with the lines
    that a profile lacks; and a warning where they get fewer than the `cores` that every node has.
    Empty where nothing is wrong."""
    sharing: dict[str, str] = {}
    fewer: dict[str, float] = {}
    for rule, request in jobs:
        if not (name := next((ending for ending in MEASURED if rule.endswith(ending)), "")):
            continue
        extra = str(request.get("slurm_extra") or "")
        count = _number(request.get("cpus_per_task", 1))
        if not ALONE.search(extra):
            others = re.sub(r"(?<!\S)--exclusive=\S+", "", extra).split()
            sharing[name] = "".join(f" {word}" for word in others)
        elif 0 <= count < cores:
            fewer[name] = count
    lines = [LINES.format(rule=rule, others=extra) for rule, extra in sharing.items()]
    merged = "\n".join(["set-resources:", *(text.partition("\n")[2] for text in lines)])
    refused = (
        f"{', '.join(sharing)}: without --exclusive, jobs of others on the node change the numbers;"
        f" add to the profile:\n{merged}"
    )
    told = ", ".join(f"{rule} gets {count:.9g}" for rule, count in fewer.items())
    warned = (
        f'{told} of a node\'s cores; to measure with all of them, write cpus_per_task: "0 - 1"'
        " for it under set-resources of the profile (docs/slurm.md)"
    )
    return refused * bool(sharing), warned * bool(fewer)


def managed(jobs: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Which jobs have an option in `slurm_extra` that Snakemake's plugin sets itself, and refuses
    only when it submits."""
    from snakemake_executor_plugin_slurm.validation import get_forbidden_slurm_options

    options = get_forbidden_slurm_options()
    faults = dict.fromkeys(
        f"{rule}: slurm_extra: {match[0].rstrip(' =')} is the plugin's own ({what}); "
        f"take it out, and write {_key(match[0])}: VALUE beside slurm_extra"
        for rule, request in jobs
        for pattern, what in options.items()
        if (match := re.search(pattern, str(request.get("slurm_extra") or "")))
    )
    return list(faults)


KEYS = {
    "--partition": "slurm_partition", "-p": "slurm_partition", "--account": "slurm_account",
    "-A": "slurm_account", "--time": "runtime", "-t": "runtime", "--mem": "mem_mb",
    "--mem-per-cpu": "mem_mb_per_cpu", "--cpus-per-task": "cpus_per_task", "-c": "cpus_per_task",
    "--ntasks": "tasks", "-n": "tasks", "--nodes": "nodes", "-N": "nodes", "-C": "constraint",
}  # fmt: skip
"""By option of `sbatch`, the resource of a profile; other options have their own name."""


def _key(option: str) -> str:
    name = option.strip().rstrip("=").strip()
    return KEYS.get(name, name.lstrip("-").replace("-", "_"))


def profile_faults(path: Path) -> tuple[str, str]:
    """Why a profile cannot start a study, and a note on what it says without effect; empty where
    nothing is wrong. A file that cannot be read is left to Snakemake."""
    try:
        profile = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return "", ""
    if not isinstance(profile, dict):
        return "", ""
    old = sorted(OLD & {str(key).replace("_", "-") for key in profile})
    fault = (
        f"{path}: {', '.join(old)}: Snakemake 9 has no such key; write instead\n"
        "executor: slurm\njobs: 100\ndefault-resources:\n  slurm_partition: PARTITION\n"
        f"{LINES.format(rule='train', others='')}\nor fill in profiles/slurm/config.yaml"
    )
    note = f"{path}: retries: 0 does not hold for runs: one that fails is tried again"
    return fault * bool(old), note * (profile.get("retries") == 0)


def node_cores() -> float:
    """The fewest cores that a node has; infinite where `sinfo` does not tell."""
    if not shutil.which("sinfo"):
        return inf
    command = ["sinfo", "--all", "--noheader", "--exact", "--format=%c"]
    answer = subprocess.run(command, capture_output=True, text=True)
    counts = [int(word) for word in answer.stdout.split() if word.isdecimal()]
    return min(counts, default=inf)


def orphans(folder: Path) -> list[str]:
    """The numbers of the jobs that Slurm holds or runs for a workflow in `folder`.

    The plugin's jobs have the workflow's folder as their own and a comment that begins with
    `rule_`. None are known where there is no `squeue`, or it does not answer.
    """
    if not shutil.which("squeue"):
        return []
    answer = subprocess.run(
        ["squeue", "--me", "--noheader", "--format=%i|%Z|%k"], capture_output=True, text=True
    )
    jobs = [line.split("|", 2) for line in answer.stdout.splitlines()]
    return [
        number
        for number, where, comment in jobs
        if os.path.realpath(where) == os.path.realpath(folder) and comment.startswith("rule_")
    ]


def refusal(jobs: list[str]) -> str:
    """Why a workflow cannot start whose folder has these jobs."""
    return (
        f"Slurm still has jobs of this folder ({', '.join(jobs)}) from an execution that was "
        "killed; two jobs would write the same run. Wait until they have ended, or: scancel "
        f"{' '.join(jobs)}"
    )


class Nodes(NamedTuple):
    """Nodes of a partition that are alike: how many, and of each the GPUs by type, the memory
    (MiB), and the longest job (minutes)."""

    number: int
    gpus: dict[str, int]
    memory: float
    minutes: float


Partitions = dict[str, list[Nodes]]
"""By name; the default partition is there again, as the empty name."""


def partitions() -> Partitions | None:
    """The partitions that `sinfo` tells of; None where it is not there or does not answer."""
    if not shutil.which("sinfo"):
        return None
    answer = subprocess.run(
        ["sinfo", "--all", "--noheader", "--exact", "--format=%P|%D|%m|%l|%G"],
        capture_output=True,
        text=True,
    )
    return read_sinfo(answer.stdout) if answer.returncode == 0 and answer.stdout else None


def read_sinfo(text: str) -> Partitions:
    """Lines of partition, number of nodes, memory, time limit and generic resources, with bars
    between them."""
    cluster: Partitions = {}
    for line in text.splitlines():
        name, size, memory, limit, resources = line.split("|", 4)
        gpus: dict[str, int] = {}
        for kind, count in re.findall(r"\bgpu(?::([^:,()]+))??(?::(\d+))?(?=[,(]|$)", resources):
            gpus[kind] = gpus.get(kind, 0) + int(count or 1)
        # A site that does not count memory leaves it at 1 MiB.
        mib = inf if memory == "1" else int(memory.rstrip("+"))
        nodes = Nodes(int(size), gpus, mib, minutes(limit))
        cluster.setdefault(name.rstrip("*"), []).append(nodes)
        if name.endswith("*"):
            cluster.setdefault("", []).append(nodes)
    return cluster


def minutes(limit: str) -> float:
    """A time limit as Slurm prints it: `30:00`, `2:00:00`, `1-00:00:00`, `infinite`."""
    days, _, clock = limit.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdecimal() for part in parts):
        return inf
    seconds = sum(int(part) * 60.0**i for i, part in enumerate(reversed(parts)))
    return (int(days or 0) * 86400 + seconds) / 60


def impossible(jobs: Iterable[tuple[str, Mapping[str, Any]]], cluster: Partitions) -> list[str]:
    """What of these jobs (rule, resources) no node of their partitions can ever give, each once."""
    return list(
        dict.fromkeys(fault for rule, request in jobs for fault in _lacks(rule, request, cluster))
    )


def _lacks(rule: str, request: Mapping[str, Any], cluster: Partitions) -> list[str]:
    if request.get("clusters"):
        return []  # sinfo listed this cluster only
    names = str(request.get("slurm_partition") or "").split(",")
    if unknown := [name for name in names if name not in cluster]:
        if unknown == [""]:
            return []  # no default partition: sbatch may have one from elsewhere
        have = ", ".join(sorted(filter(None, cluster)))
        return [
            f"{rule}: slurm_partition: there is no {name!r}; there are: {have}" for name in unknown
        ]
    where = ", ".join(filter(None, names)) or "the default partition"
    nodes = [node for name in names for node in cluster[name]]
    gpus, model = _gpus(request)
    for key, value, unit, most in (
        ("gpu", gpus, f" {model}" * bool(model), lambda node: _having(node, model)),
        ("mem_mb", _number(request.get("mem_mb")), " MiB", lambda node: node.memory),
        ("runtime", _number(request.get("runtime")), " min", lambda node: node.minutes),
    ):
        best = max(map(most, nodes), default=0)
        if value > best:
            return [
                f"{rule}: {key}: {value:.9g}{unit} asked of a node, {where} has at most {best:.9g}"
            ]
        nodes = [node for node in nodes if most(node) >= value]
    count = max(sum(node.number for node in cluster[name] if node in nodes) for name in names)
    if (several := _nodes(request)) > count:
        return [f"{rule}: nodes: {several:.9g} asked, {where} has {count} that can give it"]
    return []


def _number(value: Any) -> float:
    """A resource that is not known before the job starts counts as nothing."""
    return float(value) if isinstance(value, int | float) else 0.0


def _nodes(request: Mapping[str, Any]) -> float:
    return max(_number(request.get("nodes")), 1)


def _gpus(request: Mapping[str, Any]) -> tuple[int, str]:
    """How many GPUs a job asks of a node, and of which type."""
    parts = str(request.get("gres") or "").split(":")
    if parts[0] == "gpu" and parts[-1].isdecimal():
        return int(parts[-1]), parts[1] if len(parts) == 3 else ""
    count = ceil(_number(request.get("gpu")) / _nodes(request))
    return count, str(request.get("gpu_model") or "")


def _having(nodes: Nodes, model: str) -> int:
    return nodes.gpus.get(model, 0) if model else sum(nodes.gpus.values())
