"""What is checked and printed when an execution begins and when it ends."""

import os
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchstone.analysis.again import Kept
from touchstone.measure import folder_lock as lock
from touchstone.measure import progress, skip
from touchstone.measure.variables import dropped
from touchstone.plan.estimate import estimate
from touchstone.plan.slurm import (
    impossible,
    managed,
    node_cores,
    not_alone,
    orphans,
    partitions,
    profile_faults,
    refusal,
)
from touchstone.results import digests
from touchstone.results.files import InputError
from touchstone.results.interleaved import read_interleaved
from touchstone.schema.variables import PROFILE
from touchstone.workflow import interruption
from touchstone.workflow.context import Context
from touchstone.workflow.exit_status import ended, lines_of, status_of
from touchstone.workflow.resources import JobResources

if TYPE_CHECKING:
    from touchstone.analysis.findings_model import Findings

FINDINGS = Path("results/findings.json")
SHOWN_CELLS = 5
"""Cells that a dry run names."""
LONGEST_LINE = 100
"""Columns of a paragraph in a wide terminal."""


def is_of(job: Any, rule: str) -> bool:
    """Whether a job is of our rule of this name; a workflow that uses ours may give it a prefix."""
    return str(job.rule.name).endswith(rule)


def has_report(workflow: Any) -> bool:
    """Whether the report of the study is among what this execution was asked for."""
    return any(is_of(job, "report") for job in workflow.dag.jobs)


def check_lock(arguments: Sequence[str]) -> None:
    """Print what to do about the lock of an execution that was killed; see `lock`.

    Exits if the `arguments` of Snakemake would unlock the folder of a live execution.
    """
    if "--unlock" in arguments:
        if other := lock.driver():
            sys.exit(f"error: an execution runs in this folder, process {other}; end it first")
    elif lock.is_left():
        print(lock.left_text(), file=sys.stderr)


def check_profiles(arguments: Sequence[str]) -> None:
    """Exit where a given profile is one for an older Snakemake; print what has no effect."""
    for path in profiles(arguments):
        fault, note = profile_faults(path)
        if fault:
            sys.exit(f"error: {fault}")
        if note:
            print(f"note: {note}", file=sys.stderr)


def profiles(arguments: Sequence[str]) -> list[Path]:
    """The files of the profiles that Snakemake's arguments and its environment name."""
    names = [os.environ.get(PROFILE, "")]
    for i, word in enumerate(arguments):
        option, _, value = word.partition("=")
        if option in ("--profile", "--workflow-profile"):
            names.append(value or "".join(arguments[i + 1 : i + 2]))
    every = [Path(name).expanduser() for name in names if name]
    return [path / "config.yaml" if path.is_dir() else path for path in every]


def begin(workflow: Any, context: Context, resources: JobResources) -> None:
    """Check that the jobs of a Snakemake workflow can run, and print how long they take.

    Exits with one message if they cannot.
    """
    if workflow.is_main_process:
        interruption.prepare()
        lock.own()
    if left := orphans(Path.cwd()):
        sys.exit(f"error: {refusal(left)}")
    begun = list(workflow.dag.needrun_jobs())
    runs = [job for job in begun if is_of(job, "train")]
    if workflow.executor_plugin.name == "slurm":
        requests = [(job.rule.name, job.resources) for job in begun if not job.is_local]
        if faults := managed(requests):
            sys.exit("error: Slurm cannot run this study:\n  " + "\n  ".join(faults))
        refused, warned = not_alone(requests, node_cores())
        if refused:
            sys.exit(f"error: {refused}")
        if warned:
            print(f"warning: {warned}", file=sys.stderr)
        offered = partitions()
        if offered and (faults := impossible(requests, offered)):
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
    if runs and (names := dropped(os.environ)):
        print(
            f"note: no run gets your shell's {', '.join(names)}; a study sets what it needs with"
            " `variables` (docs/measuring.md)",
            file=sys.stderr,
        )
    # With its limit of jobs per second, Snakemake would search all waiting jobs once a second for
    # every job that has ended, during a measured run.
    workflow.scheduler.job_rate_limiter = None
    progress.start([job.wildcards.cell for job in runs], context.plan.cells)
    if workflow.is_main_process:
        every = sum(is_of(job, "train") for job in workflow.dag.jobs)
        interruption.expect(every, len(runs))
        for line in forecast(workflow, context):
            print(line, file=sys.stderr)


def forecast(workflow: Any, context: Context) -> list[str]:
    """What an execution measures and how long that takes, in lines; none if it measures nothing."""
    begun = list(workflow.dag.needrun_jobs())
    needed = Counter(job.wildcards.cell for job in begun if is_of(job, "train"))
    groups = [
        job for job in begun if is_of(job, "interleave") and not finds_its_sets(job, workflow)
    ]
    turns = [context.turns[job.wildcards.group] for job in groups]
    if not (needed or turns):
        return []
    # A run uses all cores unless its cell sets `threads`, whatever --cores says.
    folder = context.root / "config/datasets"
    expected = estimate(context.plan, needed, folder, os.cpu_count() or 1, turns)
    lines = (context.plan.unsupported_text, expected.text, claims_line(context))
    return list(filter(None, lines))


def preview(workflow: Any, context: Context) -> None:
    """Print what an execution would do, in a line each: what it measures, with the time, and its
    other steps by number."""
    jobs = [job for job in workflow.dag.needrun_jobs() if not is_of(job, "all")]
    measuring = ("train", "interleave")
    rules = Counter(str(job.rule.name).replace("_", " ") for job in jobs
                    if not any(is_of(job, rule) for rule in measuring))  # fmt: skip
    others = ", ".join(f"{name} {n}" if n > 1 else name for name, n in sorted(rules.items()))
    cells = dict.fromkeys(job.wildcards.cell for job in jobs if is_of(job, "train"))
    more = f" and {len(cells) - SHOWN_CELLS} more" * (len(cells) > SHOWN_CELLS)
    study = context.plan.study
    lines = [f"{study.study}: {study.title}", *forecast(workflow, context)]
    lines += [f"  {cell}" for cell in list(cells)[:SHOWN_CELLS]]
    lines += [f" {more}"] * bool(more) + [f"Other steps: {others}"] * bool(others)
    print(*lines, "Nothing was done: -n only shows.", sep="\n", file=sys.stderr)


def finds_its_sets(job: Any, workflow: Any) -> bool:
    """Whether a job that measures in turn is begun only because first runs are repeated: their
    cells have taken turns, and the sets are kept."""
    reason = workflow.dag.reason(job)
    if reason.missing_output or reason.forced or reason.is_provenance_triggered():
        return False
    try:
        (turns,) = read_interleaved([Path(str(job.output[0]))])
    except InputError:
        return False
    return not turns.excluded


def claims_line(context: Context) -> str:
    """How many claims of a published study this machine can decide; empty for another study."""
    if not context.pages:
        return ""
    # It takes a second, and only a published study needs it.
    from touchstone.published.forecast import forecast_of

    return forecast_of(context.plan, context.plan.resolved(), context.root, skip.no_device)


def succeed(workflow: Any, context: Context) -> None:
    """Print how long the execution took, whether other programs disturbed it, and its answer.

    Exits as `finish`.
    """
    if line := progress.closing():
        print(line, file=sys.stderr)
    if not has_report(workflow):
        return  # a bundle, say, whose command has said what there is to say
    if workflow.is_main_process and (line := disturbance_of(FINDINGS, context.kept)):
        print(f"warning: {line}", file=sys.stderr)
    print_answer(workflow, context)
    finish(workflow, context)


def print_answer(workflow: Any, context: Context) -> None:
    """Print the study's answer and the paths of its pages, if this execution has the report."""
    if not has_report(workflow):
        return
    width = min(shutil.get_terminal_size().columns, LONGEST_LINE)
    pages = [f"Page of the study: {Path(page).absolute()}" for page in context.pages]
    answer = [*answer_of(FINDINGS), *claims_of(context)]
    lines = [line for text in answer for line in textwrap.wrap(text, width)]
    print("", *lines, sep="\n", file=sys.stderr)
    report = Path(context.report).absolute() / "index.html"
    print(f"Report: {report}", *pages, sep="\n", file=sys.stderr)


def up_to_date(workflow: Any, context: Context) -> None:
    """Print the answer where nothing was to be done. Exits as `finish`."""
    print_answer(workflow, context)
    finish(workflow, context)


def finish(workflow: Any, context: Context) -> None:
    """Print which files of the study were changed, and which planned runs have no result, if this
    execution has the report.

    Exits with an `exit_status` if there are such runs and the study is strict.
    """
    if not (workflow.is_main_process and has_report(workflow)):
        return
    if not (findings := _findings(FINDINGS)):
        return
    plan = context.plan
    shared = list(map(Path, context.shared))
    sources = digests.Sources(plan.study.study, plan.cells, shared)
    from touchstone.report.sections.warnings import of_changed

    for alert in of_changed(sources.changed(FINDINGS.parent)):
        print(f"warning: {alert.fault} {alert.remedy} {alert.command}", file=sys.stderr)
    failed = list(ended(findings.failures, FINDINGS.parent / "runs"))
    for line in lines_of(failed, len(plan.order)):
        print(line, file=sys.stderr)
    if plan.study.strict and (status := status_of(failed, len(plan.order))):
        sys.exit(status)


def disturbance_of(path: Path, kept: Kept) -> str:
    """The warning that other programs disturbed the study of these findings; empty without one."""
    findings = _findings(path)
    return findings.disturbed.line(kept) if findings and findings.disturbed else ""


def answer_of(path: Path) -> list[str]:
    """The answer that findings hold, and how far to trust it, in paragraphs; empty without any."""
    from touchstone.report.sections.answer import answer

    findings = _findings(path)
    return answer(findings) if findings else []


def claims_of(context: Context) -> list[str]:
    """How many claims of a published study hold here, in a sentence; none of another study."""
    path = Path("results/studies", Path(context.report).name, "claims.csv")
    if not (context.pages and path.exists()):
        return []
    # It takes a second, and only a published study needs it.
    from touchstone.published.verdicts import summary_of_csv

    return list(filter(None, [summary_of_csv(path.read_text(encoding="utf-8"))]))


@cache
def _findings(path: Path) -> "Findings | None":
    """The findings of a study; None if it has none yet, or those of another version."""
    # It takes a second, and only the end of an execution needs it.
    from touchstone.analysis.findings_file import read_findings

    try:
        return read_findings(path) if path.exists() else None
    except InputError as fault:
        print(f"warning: {fault}", file=sys.stderr)
        return None
