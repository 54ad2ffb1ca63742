"""Runs before or after which the cores were further apart than they are at best.

A hypervisor may move the cores of a virtual machine (docs/measuring.md).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from touchstone.schema.interleaved import Interleaved, cores_apart, least_latency

CORES_APART = "cores_apart"
"""The flag of such a run."""


def least_readings(
    runs: Iterable[tuple[str, Mapping[str, Any]]], interleaved: Iterable[Interleaved] = ()
) -> dict[str, float]:
    """By host name, the least core latency (ns) of all single readings: those before and after the
    runs of the machine, and those of the slices that took turns there.

    Args:
        runs: the cell and the provenance of each run.
        interleaved: turns of these cells. They are of a machine if all their cells ran only there.
    """
    least: dict[str, float] = {}
    hosts: dict[str, set[str]] = {}
    for cell, provenance in runs:
        host = provenance["machine"]["hostname"]
        hosts.setdefault(cell, set()).add(host)
        for reading in readings(provenance):
            least[host] = min(reading, least.get(host, reading))
    for group in interleaved:
        places = {host for cell in group.cells for host in hosts.get(cell, ())}
        reading = least_latency(part for set_ in group.sets for part in set_.slices)
        if len(places) == 1 and reading < float("inf"):
            (host,) = places
            least[host] = min(reading, least.get(host, reading))
    return least


def were_apart(provenance: Mapping[str, Any], least: Mapping[str, float]) -> bool:
    """Whether a reading of a run shows its cores apart; `least` as of `least_readings`."""
    host = provenance["machine"]["hostname"]
    return any(cores_apart(reading, least[host]) for reading in readings(provenance))


def readings(provenance: Mapping[str, Any]) -> list[float]:
    """The core latencies before and after a run, ns; none where they were not measured."""
    latencies = provenance["environment"].get("core_latency") or ()
    return [float(reading) for reading in latencies if reading is not None]
