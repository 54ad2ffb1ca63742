"""What is checked and printed when an execution begins and when it ends."""

import os
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from touchstone.analysis.disturbed import of_table
from touchstone.measure import progress, skip
from touchstone.plan.estimate import estimate
from touchstone.plan.slurm import impossible, orphans, partitions, refusal
from touchstone.workflow import lock
from touchstone.workflow.context import Context
from touchstone.workflow.resources import JobResources

FINDINGS, REPORT = Path("results/findings.json"), Path("results/report/index.html")
LONGEST_LINE = 100
"""Columns of a paragraph in a wide terminal."""


def check_lock(arguments: Sequence[str]) -> None:
    """Print what to do about the lock of an execution that was killed; see `lock`.

    Exits if the `arguments` of Snakemake would unlock the folder of a live execution.
    """
    if "--unlock" in arguments:
        if other := lock.driver():
            sys.exit(f"error: an execution runs in this folder, process {other}; end it first")
    elif lock.is_left():
        print(lock.LEFT, file=sys.stderr)


def begin(workflow: Any, context: Context, resources: JobResources) -> None:
    """Check that the jobs of a Snakemake workflow can run, and print how long they take.

    Exits with one message if they cannot.
    """
    if left := orphans(Path.cwd()):
        sys.exit(f"error: {refusal(left)}")
    begun = list(workflow.dag.needrun_jobs())
    runs = [job for job in begun if job.rule.name == "train"]
    if workflow.executor_plugin.name == "slurm":
        asked = [(job.rule.name, job.resources) for job in begun if not job.is_local]
        known = partitions()
        if known and (faults := impossible(asked, known)):
            sys.exit("error: Slurm cannot run this study:\n  " + "\n  ".join(faults))
    else:
        several = [job.wildcards.cell for job in runs if resources.nodes(job.wildcards) > 1]
        if several:
            sys.exit(
                f"error: nodes: {several[0]} trains on several nodes, which Slurm has to give; use "
                "`snakemake --profile profiles/slurm` (docs/slurm.md), or leave `nodes` out"
            )
    if workflow.local_exec and (why := skip.no_device("gpu")):
        without = sum((resources.gpus(job.wildcards) or 0) > 0 for job in runs)
        if without:
            print(f"warning: {without} runs want a GPU, and there is {why}", file=sys.stderr)
    # With its limit of jobs per second, Snakemake would search all waiting jobs once a second for
    # every job that has ended, during a measured run.
    workflow.scheduler.job_rate_limiter = None
    needed = Counter(job.wildcards.cell for job in runs)
    # The number of runs, for the remaining time in the lines of progress.
    progress.start(needed.total())
    if needed and workflow.is_main_process:
        # A run uses all cores unless its cell sets `threads`, whatever --cores says.
        folder = context.root / "config/datasets"
        print(estimate(context.plan, needed, folder, os.cpu_count() or 1).text, file=sys.stderr)


def succeed(workflow: Any, context: Context) -> None:
    """Print how long the execution took, whether other programs disturbed it, and its answer."""
    if line := progress.closing():
        print(line, file=sys.stderr)
    if workflow.is_main_process and (found := of_table(Path("results/tables/measurements.csv"))):
        print(f"warning: {found.line}", file=sys.stderr)
    print_answer(workflow, context)


def print_answer(workflow: Any, context: Context) -> None:
    """Print the study's answer and the paths of its pages, if this execution has the report."""
    if not any(job.rule.name == "report" for job in workflow.dag.jobs):
        return
    width = min(shutil.get_terminal_size().columns, LONGEST_LINE)
    pages = [f"Page of the study: {Path(page).absolute()}" for page in context.pages]
    print("", *textwrap.wrap(answer_of(FINDINGS), width), sep="\n", file=sys.stderr)
    print(f"Report: {REPORT.absolute()}", *pages, sep="\n", file=sys.stderr)


def answer_of(path: Path) -> str:
    """The answer that the findings of a study hold, in words; empty without findings."""
    # It takes a second, and only the end of an execution needs it.
    from touchstone.analysis.findings_file import read_findings
    from touchstone.report.sections.answer import answer

    return answer(read_findings(path)) if path.exists() else ""
