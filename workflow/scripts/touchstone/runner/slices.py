"""A runner that works in slices, whenever the conductor of a set asks (measure/interleaving.py).

It builds what an ordinary run builds, and writes that and its first step to its events too. Then it
does slices (slicer.py), and at the end it proves its settings, as an ordinary run does.
"""

from typing import Any, Callable

from touchstone.runner import BEGIN
from touchstone.runner.adapters import make_adapter
from touchstone.runner.checks import software_of
from touchstone.runner.infer import predictions_of
from touchstone.runner.job import AdapterSpec, Job, job_of
from touchstone.runner.operate import calls_of
from touchstone.runner.outcome import raise_as_outcome
from touchstone.runner.slicer import Slicer
from touchstone.runner.train import training_of
from touchstone.runner.work import NoEvents, Work
from touchstone.schema.spec import InferenceSpec, TrainingSpec


def work_of(spec: AdapterSpec, adapter: Any, job: Job, threads: int, events: Any) -> Work:
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


def conducted(commands: int, answers: int) -> Callable[[AdapterSpec, Any, int], None]:
    """The work of a runner whose conductor has the other ends of these two pipes."""

    def work(spec: AdapterSpec, events: Any, threads: int) -> None:
        job = job_of(spec, threads=threads)
        adapter = make_adapter(job, threads)
        events.write(software_of(adapter))
        try:
            made = work_of(spec, adapter, job, threads, events)
            Slicer(made, spec.phases.chunk_seconds, events).serve(commands, answers)
            made.prove(events)
        except Exception as error:
            raise_as_outcome(adapter, error)
            raise

    return work
