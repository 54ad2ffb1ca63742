"""Snakemake's messages in the terminal: errors, and one line for each long step.

Snakemake's `--quiet rules` would hide the errors of jobs too, with their logs, and a logger plugin
would have to be installed wherever Snakemake is. So a filter on Snakemake's own handler hides what
only repeats the plan. `.snakemake/log` still gets everything.
"""

import logging
import sys
from collections.abc import Callable
from typing import Any

from snakemake.logging import logger
from snakemake_interface_logger_plugins.common import LogEvent

from touchstone.measure import attempts
from touchstone.workflow import interruption

HIDDEN_EVENTS = {
    LogEvent.GROUP_INFO,
    LogEvent.JOB_FINISHED,
    LogEvent.JOB_INFO,
    LogEvent.JOB_STARTED,
    LogEvent.PROGRESS,
    LogEvent.RESOURCES_INFO,
    LogEvent.RUN_INFO,
    LogEvent.SHELLCMD,
}
HIDDEN_BEGINS = (
    "Assuming unrestricted shared filesystem usage",
    "Building DAG of jobs",
    "Conda environments: ignored",
    "Config file ",
    "Select jobs to execute",
    "Storing output in storage",
    "Touching output file ",
    "Using shell: ",
)
"""How messages begin that have no event and say nothing about the study."""
ONLY_AFTER_ERRORS = ("Complete log(s): ", "Elapsed time: ")
NOTHING_TO_DO = "Nothing to be done"
STEPS = {"parity_steps": "checking that the frameworks compute {network} equally"}
"""Rules that take long and print nothing; their start is announced."""


class Filter(logging.Filter):
    """Lets errors, warnings and rare messages through, but none after an interruption."""

    failed = False

    def filter(self, record: logging.LogRecord) -> bool:
        if interruption.happened() or str(record.msg).startswith(HIDDEN_BEGINS):
            return False
        if record.levelno > logging.INFO:
            self.failed = self.failed or record.levelno >= logging.ERROR
            return True
        if getattr(record, "event", None) in HIDDEN_EVENTS:
            return False
        text = str(record.msg)
        if text.startswith(ONLY_AFTER_ERRORS):
            return self.failed
        return True


class Steps(logging.Handler):
    """Announces long steps, each once."""

    def __init__(self) -> None:
        super().__init__()
        self.announced: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "event", None) == LogEvent.JOB_INFO:
            rule = getattr(record, "rule_name", "")
            step = next((text for name, text in STEPS.items() if rule.endswith(name)), "")
            line = step.format(**getattr(record, "wildcards", {}))
            if line and line not in self.announced:
                self.announced.add(line)
                print(line, file=sys.stderr, flush=True)


class Finished(logging.Handler):
    """Counts the runs that have finished and that no later execution repeats, for the line of an
    interruption."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: dict[int, tuple[str, int]] = {}
        """By job, the folder of its run, and how many faults were recorded for that."""

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        if event == LogEvent.JOB_INFO and getattr(record, "rule_name", "").endswith("train"):
            wildcards = getattr(record, "wildcards", {})
            folder = f"results/runs/{wildcards['cell']}/rep{wildcards['repeat']}"
            self.begun[getattr(record, "jobid", 0)] = folder, attempts.faults(folder)
        elif event == LogEvent.JOB_FINISHED:
            folder, faults = self.begun.pop(getattr(record, "job_id", 0), ("", 0))
            if folder and attempts.faults(folder) == faults:
                interruption.finished(folder)


class NothingToDo(logging.Handler):
    """Calls `up_to_date` where there is nothing to do: Snakemake has no hook for that. It may end
    the execution."""

    def __init__(self, up_to_date: Callable[[], None]) -> None:
        super().__init__()
        self.up_to_date = up_to_date

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith(NOTHING_TO_DO):
            self.up_to_date()


class Preview(logging.Handler):
    """Calls `preview` in place of Snakemake's list of all jobs of a dry run, once."""

    def __init__(self, preview: Callable[[], None]) -> None:
        super().__init__()
        self.preview: Callable[[], None] | None = preview

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "event", None) == LogEvent.RUN_INFO and self.preview:
            self.preview()
            self.preview = None


class DryFilter(Filter):
    """Hides what Snakemake says of a dry run besides faults."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno > logging.INFO:
            return super().filter(record)
        return str(record.msg).startswith(NOTHING_TO_DO)


def quieten(
    workflow: Any, up_to_date: Callable[[], None], preview: Callable[[], None] | None = None
) -> None:
    """Make the terminal of a Snakemake workflow quiet, and call `up_to_date` where there is nothing
    to do. Of a dry run it has Snakemake's list of jobs, or what `preview` prints.

    The jobs of a cluster stay as they are. The terminal does where the user asks for
    details or has chosen a logger plugin.
    """
    settings = workflow.output_settings
    if not workflow.is_main_process:
        return
    if settings.dryrun:
        if preview and not (settings.verbose or settings.printshellcmds) and _filter(DryFilter()):
            logger.addHandler(Preview(preview))
        return
    logger.addHandler(NothingToDo(up_to_date))
    logger.addHandler(Finished())
    if settings.verbose or settings.printshellcmds:
        return
    if _filter(Filter()):
        logger.addHandler(Steps())


def _filter(chosen: Filter) -> bool:
    """Add a filter to Snakemake's own handler; says whether there is one."""
    for handler in logger.handlers:
        if handler.get_name() == "DefaultStreamHandler":
            handler.addFilter(chosen)
            return True
    return False
