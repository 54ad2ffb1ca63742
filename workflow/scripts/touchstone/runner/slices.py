"""A runner that works in slices, whenever the conductor of a set asks (measure/interleaving.py).

It builds what an ordinary run builds, and writes that and its first step to its events too. Then it
reads commands, one a line: the seconds that a slice lasts. For about so long it works in whole
chunks, and waits for the device at both ends. It answers with a line of JSON, an `Answer`
(schema/interleaved.py), and waits in read(2) for the next command, without using a core. At the
end of the commands it proves its settings, as an ordinary run does.
"""

import json
import os
import resource
import time
from typing import Any, Callable

from touchstone.runner import BEGIN
from touchstone.runner.adapters import make_adapter
from touchstone.runner.checks import software_of
from touchstone.runner.chunk_size import ChunkSize
from touchstone.runner.infer import predictions_of
from touchstone.runner.job import Job, job_of
from touchstone.runner.operate import calls_of
from touchstone.runner.outcome import raise_foreseen
from touchstone.runner.train import training_of
from touchstone.runner.work import NoEvents, Work
from touchstone.schema.interleaved import Answer
from touchstone.schema.spec import InferenceSpec, RunSpec, TrainingSpec


def work_of(spec: RunSpec, adapter: Any, job: Job, threads: int, events: Any) -> Work:
    """What slices do: what the run does, but training epoch after epoch without an evaluation.

    Raises what `training_of`, `predictions_of` and `calls_of` raise.
    """
    begin = events.phase("import", BEGIN)
    chunks = NoEvents()
    work: Work
    if isinstance(spec, TrainingSpec):
        work, _ = training_of(spec, adapter, job, threads, events, begin, chunks)
    elif isinstance(spec, InferenceSpec):
        work = predictions_of(spec, adapter, job, threads, events, begin, chunks, spec.weights)[0]
    else:
        work = calls_of(spec, adapter, job, events, begin, chunks)[0]
    return work


class Slicer:
    """Works for about as long as it is asked, in chunks of about `chunk_seconds`; 0: of one step.

    The first slice begins with the first step, and finds how many steps a chunk has. The others
    may double them.
    """

    def __init__(self, work: Work, chunk_seconds: float, events: Any) -> None:
        self.work, self.size, self.begun = work, ChunkSize(chunk_seconds), False
        self.events = events

    def slice(self, seconds: float) -> Answer:
        """Work for at least so long."""
        arrived, before = time.monotonic(), _usage()
        if not self.begun:
            self._first_steps()
        size = self.size.steps
        first, chunks, begin = self.work.made, 0, time.monotonic()
        while not chunks or time.monotonic() - begin < seconds:
            self.work.begin("slice", size)
            chunks += 1
        self.work.finish()
        end, after = time.monotonic(), _usage()
        self.size.learn(size, (end - begin) / chunks)
        examples = self.work.examples(first)
        return Answer(arrived, begin, end, chunks * size, examples, *before, *after)

    def _first_steps(self) -> None:
        """Do the first step, and chunks until one lasts half as long as it should."""
        begin = time.monotonic()
        self.work.begin("slice", 1)
        self.work.finish()
        self.events.phase("first_step", begin, steps=1, examples=self.work.examples(0))
        self.begun = True
        while not self.size.found:
            begin, size = time.monotonic(), self.size.steps
            self.work.begin("slice", size)
            self.work.finish()
            self.size.learn(size, time.monotonic() - begin)


def _usage() -> Any:
    """CPU time, s, and major page faults of this process so far."""
    return time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def conducted(commands: int, answers: int) -> Callable[[RunSpec, Any, int], None]:
    """The work of a runner whose conductor has the other ends of these two pipes."""

    def work(spec: RunSpec, events: Any, threads: int) -> None:
        job = job_of(spec, threads=threads)
        adapter = make_adapter(job, threads)
        events.write(software_of(adapter))
        try:
            made = work_of(spec, adapter, job, threads, events)
            slicer = Slicer(made, spec.phases.chunk_seconds, events)
            os.write(answers, b"{}\n")
            with open(commands, encoding="utf-8") as lines:
                for line in lines:
                    answer = slicer.slice(float(line))
                    os.write(answers, (json.dumps(answer._asdict()) + "\n").encode())
            made.prove(events)
        except Exception as error:
            raise_foreseen(adapter, error)
            raise

    return work
