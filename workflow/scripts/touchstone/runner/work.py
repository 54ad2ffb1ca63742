"""What a run does in steps, and its phases: first step, warm-up, measured steps.

Training, inference and operations are done by the same loops, and so are the slices of a comparison
in turns (slices.py): a run differs from another in its `Work`.
"""

import sys
import time
from typing import Any, Callable, NamedTuple, Optional

from touchstone.runner.chunk_size import ChunkSize
from touchstone.runner.events import sample_now
from touchstone.schema.spec import TimedPhases


class Work:
    """Steps of training, predictions of batches, or calls of an operation.

    Attributes:
        made: steps begun so far.
        total: steps that it has at most.
    """

    made = 0
    total = sys.maxsize

    def begin(self, phase: str, steps: int) -> int:
        """Begin a chunk of so many steps, or of fewer before a pause, and wait for the chunk before
        it, so that at most one is queued, or for this one. Returns how many steps were waited
        for."""
        raise NotImplementedError

    def finish(self) -> None:
        """Wait for every step begun."""

    def examples(self, first: int) -> int:
        """The examples of the steps from number `first` on; a call of an operation counts as 1."""
        raise NotImplementedError

    def pause(self) -> float:
        """Wait until a pause is over that the work itself has begun; returns its seconds."""
        return 0.0

    def write(self) -> None:
        """Write the events that are due."""

    def prove(self, events: Any) -> None:
        """Write the settings of the live framework. Raises ValueError where they are not those
        that were asked for."""
        raise NotImplementedError


class NoEvents:
    """In the place of a run's events, where nobody reads them."""

    def write(self, event: Any) -> None:
        """Nothing."""

    def phase(self, name: str, begin: float, steps: int = 0, examples: int = 0) -> float:
        """The time."""
        return time.monotonic()


class Extent(NamedTuple):
    """How long a run lasts.

    every: the steps between two pauses; 0: it has none
    measured_steps: at which the measured phase ends
    measured_seconds: at which it ends
    longest_warmup: s, after which a run whose steps take so long is not warmed up any more
    """

    every: int = 0
    measured_steps: Optional[int] = None
    measured_seconds: Optional[float] = None
    longest_warmup: float = float("inf")


def extent_of(phases: TimedPhases) -> Extent:
    """How long inference or an operation lasts."""
    longest = phases.warmup_seconds + phases.seconds
    return Extent(measured_seconds=phases.seconds, longest_warmup=longest)


class Phases:
    """Does the phases of a run, and writes them.

    Args:
        phases: those of the spec, with the fewest steps and seconds of the warm-up.
        pause: is called at every pause with the time, and returns it when the pause has ended.
    """

    def __init__(
        self,
        work: Work,
        phases: Any,
        extent: Extent,
        events: Any,
        pause: Optional[Callable[[float], float]] = None,
    ) -> None:
        self.work, self.phases, self.extent, self.events = work, phases, extent, events
        self.pause = pause
        self.size = ChunkSize(phases.chunk_seconds)

    def first_step(self, begin: float) -> float:
        """The first step, which begins at the time `begin`; returns the time."""
        self.work.begin("first_step", 1)
        self.work.finish()
        begin = self._phase("first_step", begin, 0)
        return self._pause(begin) if self._is_due() else begin

    def warm_up(self, begin: float) -> float:
        """Steps until there are enough of them, of seconds, and of steps in a chunk; at most half
        of all steps."""
        work, phases, size, total = self.work, self.phases, self.size, self.work.total
        first, warm = work.made, begin
        start_of_part, paused = first, 0.0
        while work.made < (total + 1) // 2:
            seconds = time.monotonic() - warm - paused
            enough = work.made - first >= phases.warmup_steps and seconds >= phases.warmup_seconds
            if (enough and size.settled) or seconds >= self.extent.longest_warmup:
                break
            start, before = time.monotonic(), work.made
            steps = min(size.steps, self._left(), total // 2 - work.made) or 1
            work.begin("warmup", steps)
            work.finish()
            size.learn(work.made - before, time.monotonic() - start)
            size.settled |= steps == self.extent.every  # a chunk ends where a pause begins
            if self._is_due():
                end = self._phase("warmup", begin, start_of_part)
                begin, start_of_part = self._pause(end), work.made
                paused += begin - end
        if work.made > start_of_part or not paused:
            begin = self._phase("warmup", begin, start_of_part)
        return begin

    def measure(self, begin: float) -> float:
        """The measured steps; with pauses the phase has several parts."""
        work, first, most = self.work, self.work.made, self.extent.measured_seconds
        spent = 0.0  # in the parts before this one
        if self.extent.measured_steps is not None:
            work.total = min(work.total, first + self.extent.measured_steps)
        while work.made < work.total and (most is None or spent + time.monotonic() - begin < most):
            start = time.monotonic()
            awaited = work.begin("measured", min(self.size.steps, self._left()))
            self.size.learn(awaited, time.monotonic() - start)
            if self._is_due():
                work.finish()
                end = self._phase("measured", begin, first)
                spent += end - begin
                begin, first = self._pause(end), work.made
        work.finish()
        return self._phase("measured", begin, first)

    def do_all(self, name: str, begin: float, steps: int) -> float:
        """A phase of so many steps, one a chunk."""
        first = self.work.made
        for _ in range(steps):
            self.work.begin(name, 1)
        self.work.finish()
        return self._phase(name, begin, first)

    def wait_for_each(self, name: str, begin: float, seconds: float) -> float:
        """A phase of steps that are waited for one by one, for so long."""
        first = self.work.made
        while time.monotonic() - begin < seconds:
            self.work.begin(name, 1)
            self.work.finish()
        return self._phase(name, begin, first)

    def _phase(self, name: str, begin: float, first: int) -> float:
        """Write a phase that began at `begin` with step `first`; returns the time."""
        self.work.write()
        steps, examples = self.work.made - first, self.work.examples(first)
        end: float = self.events.phase(name, begin, steps=steps, examples=examples)
        return end

    def _left(self) -> int:
        """Steps until the next pause, or the end."""
        every, left = self.extent.every, self.work.total - self.work.made
        return min(every - self.work.made % every, left) if every else left

    def _is_due(self) -> bool:
        every = self.extent.every
        return every > 0 and self.work.made % every == 0 and self.work.made < self.work.total

    def _pause(self, begin: float) -> float:
        assert self.pause is not None
        end = self.pause(begin)
        sample_now()
        return end
