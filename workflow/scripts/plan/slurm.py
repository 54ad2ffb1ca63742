"""Jobs that a driver left in Slurm's queue when it was killed."""

import os
import shutil
import subprocess
from pathlib import Path


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
