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
"""By name; the default partition is there once more, as the empty name."""


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
    found: Partitions = {}
    for line in text.splitlines():
        name, size, memory, limit, resources = line.split("|", 4)
        gpus: dict[str, int] = {}
        for kind, count in re.findall(r"\bgpu(?::([^:,()]+))??(?::(\d+))?(?=[,(]|$)", resources):
            gpus[kind] = gpus.get(kind, 0) + int(count or 1)
        # A site that does not count memory leaves it at 1 MiB.
        each = inf if memory == "1" else int(memory.rstrip("+"))
        nodes = Nodes(int(size), gpus, each, minutes(limit))
        found.setdefault(name.rstrip("*"), []).append(nodes)
        if name.endswith("*"):
            found.setdefault("", []).append(nodes)
    return found


def minutes(limit: str) -> float:
    """A time limit as Slurm prints it: `30:00`, `2:00:00`, `1-00:00:00`, `infinite`."""
    days, _, clock = limit.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdecimal() for part in parts):
        return inf
    seconds = sum(int(part) * 60.0**i for i, part in enumerate(reversed(parts)))
    return (int(days or 0) * 86400 + seconds) / 60


def impossible(jobs: Iterable[tuple[str, Mapping[str, Any]]], known: Partitions) -> list[str]:
    """What of these jobs (rule, resources) no node of their partitions can ever give, each once."""
    return list(
        dict.fromkeys(fault for rule, asked in jobs for fault in _lacks(rule, asked, known))
    )


def _lacks(rule: str, asked: Mapping[str, Any], known: Partitions) -> list[str]:
    if asked.get("clusters"):
        return []  # sinfo listed this cluster only
    names = str(asked.get("slurm_partition") or "").split(",")
    if unknown := [name for name in names if name not in known]:
        if unknown == [""]:
            return []  # no default partition: sbatch may have one from elsewhere
        have = ", ".join(sorted(filter(None, known)))
        return [
            f"{rule}: slurm_partition: there is no {name!r}; there are: {have}" for name in unknown
        ]
    where = ", ".join(filter(None, names)) or "the default partition"
    nodes = [one for name in names for one in known[name]]
    gpus, model = _gpus(asked)
    for key, value, unit, most in (
        ("gpu", gpus, f" {model}" * bool(model), lambda one: _having(one, model)),
        ("mem_mb", _number(asked.get("mem_mb")), " MiB", lambda one: one.memory),
        ("runtime", _number(asked.get("runtime")), " min", lambda one: one.minutes),
    ):
        best = max(map(most, nodes), default=0)
        if value > best:
            return [
                f"{rule}: {key}: {value:.9g}{unit} asked of a node, {where} has at most {best:.9g}"
            ]
        nodes = [one for one in nodes if most(one) >= value]
    count = max(sum(one.number for one in known[name] if one in nodes) for name in names)
    if (several := _nodes(asked)) > count:
        return [f"{rule}: nodes: {several:.9g} asked, {where} has {count} that can give it"]
    return []


def _number(value: Any) -> float:
    """A resource that is not known before the job starts counts as nothing."""
    return float(value) if isinstance(value, int | float) else 0.0


def _nodes(asked: Mapping[str, Any]) -> float:
    return max(_number(asked.get("nodes")), 1)


def _gpus(asked: Mapping[str, Any]) -> tuple[int, str]:
    """How many GPUs a job asks of a node, and of which type."""
    parts = str(asked.get("gres") or "").split(":")
    if parts[0] == "gpu" and parts[-1].isdecimal():
        return int(parts[-1]), parts[1] if len(parts) == 3 else ""
    count = ceil(_number(asked.get("gpu")) / _nodes(asked))
    return count, str(asked.get("gpu_model") or "")


def _having(nodes: Nodes, model: str) -> int:
    return nodes.gpus.get(model, 0) if model else sum(nodes.gpus.values())
