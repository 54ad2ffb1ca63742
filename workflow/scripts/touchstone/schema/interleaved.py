"""What is measured in turn: the answers of runners, and a set of processes that took turns.

Times are in s on the machine's monotonic clock.
"""

from math import inf
from typing import Dict, Iterable, List, NamedTuple, Optional

FORMAT = 2
QUIET = 0.1
"""Cores that other programs may use, on average over a slice, in a quiet round."""
APART = 70.0
"""How far above a machine's least core latency its cores are apart, ns (docs/measuring.md)."""


class SliceReport(NamedTuple):
    """What a runner did for one command.

    arrived: when it read the command
    begin: when the slice began; the first command has the first steps before it
    end: when all its steps were done
    steps: how many
    examples: of these steps; of an operation its calls
    cpu_before: CPU time of the process when the command came, s
    faults_before: its major page faults then
    cpu_after: CPU time when the steps were done, s
    faults_after: major page faults then
    """

    arrived: float
    begin: float
    end: float
    steps: int
    examples: int
    cpu_before: float
    faults_before: int
    cpu_after: float
    faults_after: int


class Slice(NamedTuple):
    """A slice of a cell's work.

    cell: the name of the cell
    begin: when its first step began
    seconds: until its last step was done
    examples: of its steps; of an operation its calls
    others: cores that other programs used on average, of those that the cells use
    core_latency: the larger round trip between neighbouring cores, right before or after it, ns;
        null where it was not measured, as for work on a GPU
    stood_still: seconds in it, or in the work before it, in which nothing could work, as the
        machine slept; such a slice is always repeated
    """

    cell: str
    begin: float
    seconds: float
    examples: int
    others: float
    core_latency: Optional[float] = None
    stood_still: float = 0.0

    @property
    def speed(self) -> float:
        """Examples/s."""
        return self.examples / self.seconds

    @property
    def quiet(self) -> bool:
        """Whether other programs used less than `QUIET` cores."""
        return self.others < QUIET

    def near(self, least: float) -> bool:
        """Whether the cores were as near as in the slice whose core latency, ns, is the least."""
        return self.core_latency is None or not cores_apart(self.core_latency, least)


class Round(NamedTuple):
    """One slice of each of the cells that took turns, in the order in which they were measured.

    slices: of the cells
    """

    slices: List[Slice]

    @property
    def quiet(self) -> bool:
        """Whether every slice was quiet."""
        return all(part.quiet for part in self.slices)

    def near(self, least: float) -> bool:
        """Whether the cores were near in every slice."""
        return all(part.near(least) for part in self.slices)


def cores_apart(latency: float, least: float) -> bool:
    """Whether a core latency, ns, shows cores further apart than the least of the machine."""
    return latency > least + APART


def least_latency(slices: Iterable[Slice]) -> float:
    """The least core latency of some slices, ns; infinite where none was measured."""
    latencies = (part.core_latency for part in slices)
    return min((value for value in latencies if value is not None), default=inf)


class Turns(NamedTuple):
    """Cells whose processes lived at the same time.

    cells: their names
    rounds: in order of time
    set_aside: slices that were repeated, since other programs used the cores, these were apart, or
        time passed in which nothing could work
    """

    cells: List[str]
    rounds: List[Round]
    set_aside: List[Slice]


class Waiting(NamedTuple):
    """What the process of a cell did while others had their turn.

    cores: that it used on average
    faults: major page faults
    """

    cores: float
    faults: int


class MeasuredSet(NamedTuple):
    """One set of processes: each cell had one.

    number: from 1
    started: UTC, ISO 8601
    seconds: that it took
    turns: all cells together, or where they do not fit into memory pairs with the first cell
    waiting: by cell, over the set
    """

    number: int
    started: str
    seconds: float
    turns: List[Turns]
    waiting: Dict[str, Waiting]

    @property
    def rounds(self) -> List[Round]:
        """Those of all turns."""
        return [r for turns in self.turns for r in turns.rounds]

    @property
    def set_aside(self) -> List[Slice]:
        """Those of all turns."""
        return [part for turns in self.turns for part in turns.set_aside]

    @property
    def slices(self) -> List[Slice]:
        """All that were measured: those of the rounds, and those that were set aside."""
        return [part for r in self.rounds for part in r.slices] + self.set_aside


class Interleaved(NamedTuple):
    """A group of cells that were measured in turn: `results/interleaved/<group>.json`.

    format: version of this file's format
    group: its name
    cells: in order of the plan, that were measured
    excluded: by cell, why it was not
    rounds: that a set was to have
    slice_seconds: that a slice was to last, s
    lead_seconds: of work before each slice that does not count, s
    paired: why there are pairs, not all cells together; empty where there are not
    sets: in order of time
    precision: the sets ended when all intervals reached at most so far beyond their ratios, as a
        share; null: their number was given
    """

    format: int
    group: str
    cells: List[str]
    excluded: Dict[str, str]
    rounds: int
    slice_seconds: float
    lead_seconds: float
    paired: str
    sets: List[MeasuredSet]
    precision: Optional[float] = None
