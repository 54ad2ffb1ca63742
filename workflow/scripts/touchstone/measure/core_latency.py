"""How far apart the cores are: the time in which a signal goes from one to another and back.

A hypervisor places virtual cores on the machine's cores, and moves them, mostly when one that had
nothing to do goes on. Cores that share a cache pass data several times as fast as cores that do
not. Frameworks whose threads wait for one another after every operation then run at another speed,
each in its own measure, and no counter of the guest shows it. So this is measured before and after
what is compared. It never looks at the speed of a framework (docs/measuring.md has figures).

The file is also a program of its own: it must not run beside the threads of its caller.
"""

import mmap
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache

CPUINFO = "/proc/cpuinfo"
TRIPS, BATCHES = 300, 20
"""Round trips of a batch, and batches. The least batch counts: anything else only slows it down."""
MOST_LOOKS = 10_000_000
"""At a signal that does not come, which takes about half a second."""
MOST_PAIRS = 8
"""Pairs of neighbouring cores that are measured, of however many there are."""
READING_SECONDS = 10.0
"""Seconds for all pairs, which take 2 ms each on idle cores."""

Read = Callable[[], float | None]


def core_latency(cores: Sequence[int]) -> float | None:
    """The round trip between neighbours among the cores, ns, as `reader` reads it."""
    with reader(cores) as read:
        return read() if read else None


@contextmanager
def reader(cores: Sequence[int]) -> Iterator[Read | None]:
    """A function that reads the round trip between neighbours among the cores, ns, on average over
    the pairs, by a program that sleeps between readings; None where there is one core only, or no
    hypervisor can move them.

    A reading includes what Python needs, some 70 ns. It is None where the cores are too busy or not
    ours.
    """
    if len(cores) < 2 or not cores_move():
        yield None
        return
    pairs = list(zip(sorted(cores), sorted(cores)[1:], strict=False))
    chosen = pairs[:: -(-len(pairs) // MOST_PAIRS)]
    command = [sys.executable, "-I", "-S", __file__, *(f"{a},{b}" for a, b in chosen)]
    pipe, none = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=none) as program:
        try:
            yield lambda: _read(program)
        finally:
            program.kill()


def _read(program: subprocess.Popen[bytes]) -> float | None:
    """Have the program measure; None if it does not, now and from then on."""
    assert program.stdin and program.stdout
    try:
        program.stdin.write(b"\n")
    except BrokenPipeError:
        return None
    if not select.select([program.stdout], [], [], READING_SECONDS)[0]:
        program.kill()
        return None
    line = program.stdout.readline()
    return round(float(line), 1) if line else None


@cache
def cores_move() -> bool:
    """Whether a hypervisor may move the cores. Only x86 CPUs say that there is none."""
    with open(CPUINFO) as file:
        flags = next((line for line in file if line.startswith("flags")), "hypervisor")
    return "hypervisor" in flags.split()


def _answer(pairs: Sequence[tuple[int, int]]) -> None:
    """For each line of standard input, print the mean round trip of the pairs, ns."""
    signal = mmap.mmap(-1, mmap.PAGESIZE)
    requests, ask = os.pipe()
    if not os.fork():
        os.close(ask)
        while request := os.read(requests, 1):
            os.sched_setaffinity(0, {pairs[request[0]][1]})
            for _ in range(TRIPS * BATCHES):
                _await(signal, 1)
                signal[0] = 0
        os._exit(0)
    for _ in sys.stdin:
        latencies = []
        for number, (first, _) in enumerate(pairs):
            os.sched_setaffinity(0, {first})
            os.write(ask, bytes([number]))
            latencies.append(_round_trip(signal))
        print(sum(latencies) / len(latencies), flush=True)


def _round_trip(signal: mmap.mmap) -> float:
    """The least mean round trip of a batch, ns."""
    batches = []
    for _ in range(BATCHES):
        begin = time.perf_counter_ns()
        for _ in range(TRIPS):
            signal[0] = 1
            _await(signal, 0)
        batches.append((time.perf_counter_ns() - begin) / TRIPS)
    return min(batches)


def _await(signal: mmap.mmap, value: int) -> None:
    """Spin until the other process has written the value; end this one if it does not."""
    for _ in range(MOST_LOOKS):
        if signal[0] == value:
            return
    os._exit(1)


if __name__ == "__main__":
    _answer([(int(a), int(b)) for a, b in (pair.split(",") for pair in sys.argv[1:])])
