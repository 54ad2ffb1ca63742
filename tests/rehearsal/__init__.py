"""Programs that run in a framework's own Python: its adapter's work for a GPU, without one.

Each reads cases and writes answers as JSON: `PROGRAM CASES OUTPUT`. A case is a spec of parity
steps, and a mapping with other values for the fields of its job.
"""

import json
import multiprocessing
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from touchstone.runner.job import Job, parity_job
from touchstone.schema.spec import ParitySpec, spec_from_json

Answer = dict[str, Any]


def job_of(spec: ParitySpec, changes: dict[str, Any]) -> Job:
    """The job of the first parity steps as one that trains on a GPU."""
    job = parity_job(spec, next(iter(spec.parity_steps.values())))
    execution = job.execution._replace(device="gpu", **changes.get("execution", {}))
    others = {name: value for name, value in changes.items() if name != "execution"}
    return job._replace(kind="training", supplied_masks=False, execution=execution, **others)


def answers(rehearse: Callable[[Job], Answer]) -> None:
    """Write what `rehearse` finds of every case.

    What the adapter refuses is `unsupported` with its reason, other exceptions are `failed`. A case
    has a process of its own, since an adapter sets up its framework for the whole process.
    """
    cases = json.loads(Path(sys.argv[1]).read_text())
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        found = pool.imap(partial(_answer, rehearse), cases.values())
        named = dict(zip(cases, found, strict=True))
    Path(sys.argv[2]).write_text(json.dumps(named))


def _answer(rehearse: Callable[[Job], Answer], case: Any) -> Answer:
    spec, changes = case
    try:
        return rehearse(job_of(spec_from_json(spec), changes))
    except NotImplementedError as reason:
        return {"unsupported": str(reason)}
    except Exception:
        return {"failed": traceback.format_exc()}
