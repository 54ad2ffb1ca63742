"""The adapters of the frameworks, one folder each, found by its name; see `base.py`."""

import importlib
import os
from typing import Any

from touchstone.runner.job import Job
from touchstone.schema.spec import PLAIN

UPDATING = ("training", "parity")
"""The kinds of jobs that update weights."""


def make_adapter(job: Job, threads: int) -> Any:
    """The adapter of the job's framework, its framework imported.

    Raises NotImplementedError with the reason if the adapter cannot do what the job asks for.
    """
    package, execution = "touchstone.runner.adapters." + job.framework, job.execution
    capabilities = importlib.import_module(package + ".capabilities").CAPABILITIES
    why = capabilities.why_no_optimizer(job.optimizer.name)
    if why and job.kind in UPDATING:
        raise NotImplementedError(why)
    variables = capabilities.variables
    for name, value in variables.get("", {}).items():
        os.environ.setdefault(name, value)
    for choice in (execution.mode, execution.wait_policy):
        os.environ.update(variables.get(choice, {}))
    plain = execution.style == PLAIN
    name = capabilities.plain.modes[execution.mode] if plain else "adapter"
    adapter = importlib.import_module(package + "." + name).Adapter(job, threads)
    if execution.deterministic:
        adapter.make_deterministic()
    return adapter
