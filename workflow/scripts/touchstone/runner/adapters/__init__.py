"""The adapters of the frameworks, one folder each, found by its name; see `base.py`."""

import importlib
import os
from typing import Any

from touchstone.schema.types import Spec


def make_adapter(spec: Spec, threads: int) -> Any:
    """The adapter of the spec's framework, its framework imported."""
    execution, package = (
        spec["execution"],
        "touchstone.runner.adapters." + spec["factors"]["framework"],
    )
    variables = importlib.import_module(package + ".capabilities").CAPABILITIES.variables
    for name, value in variables.get("", {}).items():
        os.environ.setdefault(name, value)
    for asked in (execution["mode"], execution.get("wait_policy")):
        os.environ.update(variables.get(asked, {}))
    adapter = importlib.import_module(package + ".adapter").Adapter(spec, threads)
    if execution["deterministic"]:
        adapter.make_deterministic()
    return adapter
