"""The adapters of the frameworks, one folder each, found by its name; see `base.py`."""

import importlib
import os
from typing import Any

from touchstone.runner.job import Job
from touchstone.schema.spec import PLAIN, TUNED

MODULES = {TUNED: "adapter", PLAIN: "plain"}
"""The module of a framework's folder that has the class `Adapter` of a style."""


def make_adapter(job: Job, threads: int) -> Any:
    """The adapter of the job's framework, its framework imported."""
    package, execution = "touchstone.runner.adapters." + job.framework, job.execution
    variables = importlib.import_module(package + ".capabilities").CAPABILITIES.variables
    for name, value in variables.get("", {}).items():
        os.environ.setdefault(name, value)
    for choice in (execution.mode, execution.wait_policy):
        os.environ.update(variables.get(choice, {}))
    module = importlib.import_module("{}.{}".format(package, MODULES[execution.style]))
    adapter = module.Adapter(job, threads)
    if execution.deterministic:
        adapter.make_deterministic()
    return adapter
