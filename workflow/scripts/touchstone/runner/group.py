"""This process among those that train one model together."""

import os
from typing import Any

from touchstone.runner import replicas
from touchstone.schema.types import Spec

FOLLOWS = "TOUCHSTONE_REPLICA" in os.environ
"""Whether this process trains beside another, which tells it what to do (`_replicas.py`)."""


def group_of(spec: Spec, events: Any) -> Any:
    """This process among those that train one model together; None where it trains alone.

    Replicas that are devices of one process are the adapter's own matter: where there are several
    nodes, each has one. Raises NotImplementedError where the adapter has none.
    """
    execution = spec["execution"]
    if "replicas" not in execution:
        return None
    if execution["replicas_are"] is None:
        raise NotImplementedError(execution["why_no_replicas"])
    if execution["replicas_are"] == "devices" and "nodes" not in execution:
        return None
    return replicas.join(execution, events)


def grouped(spec: Spec, group: Any) -> Any:
    """The spec with what an adapter must know of its process's place among the replicas."""
    if not group:
        return spec
    local = group.local_size
    told = {"rank": group.rank, "size": group.size, "rendezvous": group.rendezvous}
    told.update(local_rank=group.rank % local, local_size=local, interface=group.interface)
    return dict(spec, group=told)


def threads_of_replica(spec: Spec, threads: int) -> Any:
    """The threads of each replica, of the run's: also in the variables that libraries read."""
    replicas = spec["execution"].get("replicas", 1)
    if replicas == 1:
        return threads
    own = max(1, threads // replicas)
    for name in os.environ:
        if name.endswith("_NUM_THREADS"):
            os.environ[name] = str(own)
    return own
