"""How far apart the cores are: the time in which a signal goes from one to another and back.

A hypervisor places virtual cores on the machine's cores, and moves them while programs run. Cores
that share a cache pass data several times as fast as cores that do not. Frameworks whose threads
wait for one another after every operation then run at another speed, each in its own measure,
and no counter of the guest shows it. So this is measured before and after what is compared. It
never looks at the speed of a framework (docs/interleaving.md has figures).

The file is also a program of its own: it must not run beside the threads of its caller.
"""

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache

CPUINFO = "/proc/cpuinfo"
TRIPS, BATCHES = 300, 20
"""Round trips of a batch, and batches. The least batch counts: anything else only slows it down."""
MOST_LOOKS = 10_000_000
"""At a signal that does not come, which takes about half a second."""
MOST_PAIRS = 8
"""Pairs of neighbouring cores that are measured, of however many there are."""
PATIENCE = 10.0
"""Seconds for all pairs, which take 20 ms each on idle cores."""


def core_latency(cores: Sequence[int]) -> float | None:
    """The round trip between neighbours among the cores, ns, on average over the pairs.

    It includes what Python needs, some 70 ns. None where there is one core only, where no
    hypervisor can move them, or where they are too busy or not ours.
    """
    if len(cores) < 2 or not cores_move():
        return None
    pairs = list(zip(sorted(cores), sorted(cores)[1:], strict=False))
    chosen = pairs[:: -(-len(pairs) // MOST_PAIRS)]
    command = [sys.executable, "-I", "-S", __file__, *(f"{a},{b}" for a, b in chosen)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
        found = [float(line) for line in done.stdout.split()]
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return round(sum(found) / len(found), 1)


@cache
def cores_move() -> bool:
    """Whether a hypervisor may move the cores. Only x86 CPUs say that there is none."""
    with open(CPUINFO) as file:
        flags = next((line for line in file if line.startswith("flags")), "hypervisor")
    return "hypervisor" in flags.split()


def _round_trip(first: int, second: int) -> float:
    """The least mean round trip of a batch between two cores, ns. Raises OSError without them."""
    signal = mmap.mmap(-1, mmap.PAGESIZE)
    os.sched_setaffinity(0, {first})
    os.sched_setaffinity(0, {second})
    child = os.fork()
    if not child:
        for _ in range(TRIPS * BATCHES):
            _await(signal, 1)
            signal[0] = 0
        os._exit(0)
    os.sched_setaffinity(0, {first})
    batches = []
    for _ in range(BATCHES):
        begin = time.perf_counter_ns()
        for _ in range(TRIPS):
            signal[0] = 1
            _await(signal, 0)
        batches.append((time.perf_counter_ns() - begin) / TRIPS)
    os.waitpid(child, 0)
    return min(batches)


def _await(signal: mmap.mmap, value: int) -> None:
    """Spin until the other process has written the value; end this one if it does not."""
    for _ in range(MOST_LOOKS):
        if signal[0] == value:
            return
    os._exit(1)


if __name__ == "__main__":
    for pair in sys.argv[1:]:
        one, other = map(int, pair.split(","))
        print(_round_trip(one, other))
