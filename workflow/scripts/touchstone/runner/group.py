"""The place of this process among those that train one model together."""

import os
from typing import Any, Optional

from touchstone.runner import replicas
from touchstone.runner.job import Group
from touchstone.schema.spec import Execution
from touchstone.schema.variables import RANK

IS_FOLLOWER = RANK in os.environ
"""Whether this process trains with another one, which says what comes next (`replicas.py`)."""


def processes_of(execution: Execution, events: Any) -> Any:
    """This process among those that train one model together; None where there is only one.

    Replicas that are devices of one process are the adapter's own matter: on several nodes, each
    node has one such process. Raises NotImplementedError where the adapter has none.
    """
    if execution.world_size == 1:
        return None
    if execution.replicas_are is None:
        raise NotImplementedError(execution.why_no_replicas)
    if execution.replicas_are == "devices" and execution.nodes == 1:
        return None
    return replicas.join(execution, events)


def group_of(process: Any) -> Optional[Group]:
    """What an adapter must know of this process's place; None where there is only one."""
    if not process:
        return None
    return Group(
        process.rank, process.size, process.rendezvous, process.rank % process.local_size,
        process.local_size, process.interface, process.address,
    )  # fmt: skip


def threads_of_replica(execution: Execution, threads: int) -> int:
    """The threads of each replica, of the run's: also in the variables that libraries read."""
    if execution.replicas == 1:
        return threads
    own = max(1, threads // execution.replicas)
    for name in os.environ:
        if name.endswith("_NUM_THREADS"):
            os.environ[name] = str(own)
    return own
