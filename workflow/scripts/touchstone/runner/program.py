"""A run of a program: a script of the user, which asks for the next step itself.

Other work is pushed: `Phases` and `Slicer` tell an adapter how many steps to do. A script pulls:
its loop is in the main thread, and `touchstone_steps` asks here how many steps it may do. So what
pushes has a thread of its own, and exactly one of the two threads goes on at any time: while a
script works, the other one waits for it.
"""

import os
import runpy
import sys
import threading
import time
import traceback
from typing import Any, Callable, Dict, Optional

from touchstone.runner import BEGIN
from touchstone.runner.events import json_number, sample_now
from touchstone.runner.outcome import EXIT_SECONDS, Failed, exit_now
from touchstone.runner.slicer import Slicer
from touchstone.runner.work import Extent, NoEvents, Phases, Work, extent_of
from touchstone.schema import status
from touchstone.schema.events import Chunk, Phase, Report, Result, Software
from touchstone.schema.spec import UNTIL_END, ProgramSpec

STEPS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "steps")
"""The folder of `touchstone_steps`."""
OUT_OF_MEMORY = ("out of memory", "RESOURCE_EXHAUSTED", "OutOfMemory")
MODULES = {"pytorch": "torch", "onnxruntime": "onnxruntime"}
"""By framework, the module that has its version, where its name is another one."""
USED = ("numpy", "torch", "tensorflow", "keras", "jax", "flax", "mxnet", "lightning")
"""Modules whose versions a record has, if the script has imported them."""
LOOP: Optional["Loop"] = None
"""The loop of this process, which `touchstone_steps` looks for."""


class Loop(Work):
    """The marked loop of a script, as `Work` that is done by another thread.

    Attributes:
        is_closed: whether the script is between two loops, or before the first.
        doing: steps that it has done since it last said how many.
        measured: steps of the measured phase.
    """

    def __init__(self, spec: ProgramSpec, events: Any, chunks: Any) -> None:
        self.spec, self.events, self.chunks = spec, events, chunks
        self.script, self.pusher = threading.Semaphore(0), threading.Semaphore(0)
        self.wait: Optional[Callable[[], Any]] = None
        self.is_closed, self.is_open, self.is_over = True, False, False
        self.fault: Optional[BaseException] = None
        self.wanted = self.measured = self.doing = 0
        self.end = BEGIN  # of the last step
        self.total_examples = 0
        self.examples_before: Dict[int, int] = {0: 0}  # by steps made, at edges of chunks

    # What the thread that pushes calls.

    def begin(self, phase: str, steps: int) -> int:
        """As `Work` has it: the script does them."""
        begin, first = time.monotonic(), self.made
        self.wanted = steps
        self._let_script_go_on()
        steps = self.made - first
        if steps:
            self.chunks.write(Chunk(phase, first, steps, begin, self.end, []))
        self.measured += steps * (phase == "measured")
        return steps

    def finish(self) -> None:
        """Wait until the device has done all steps."""
        (self.wait or synchronize)()

    def examples(self, first: int) -> int:
        """Those of the steps from number `first` on."""
        return self.total_examples - self.examples_before[first]

    def pause(self) -> float:
        """As `Work` has it: what a script does between two loops."""
        if not self.is_closed:
            return 0.0
        self.finish()  # which is work, not pause
        begin = time.monotonic()
        self._let_script_go_on()
        return time.monotonic() - begin

    def prove(self, events: Any) -> None:
        """Write what computed; nobody can read a script's settings back."""
        events.write(software_of(self.spec))

    def push(self, work: Callable[["Loop"], None]) -> None:
        """Do this work, once the script has come to its first loop."""
        self.pusher.acquire()
        try:
            self.events.phase("import", BEGIN)
            work(self)
        except BaseException as fault:  # the script's thread raises it
            self.fault = fault
        self.is_over = True
        self.script.release()

    def _let_script_go_on(self) -> None:
        self.script.release()
        self.pusher.acquire()

    # What the script's thread calls, by `touchstone_steps`.

    def open(self, wait: Optional[Callable[[], Any]]) -> int:
        """A loop begins; returns how many steps it may do before it calls `advance`."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("steps(...): iterate over it in the main thread of the script")
        if self.is_open:
            raise RuntimeError("steps(...): a loop is within another one; mark one of them")
        self.wait, self.is_open, self.is_closed = wait, True, False
        return self._next(0, 0)

    def advance(self, steps: int, examples: int) -> int:
        """So many steps were done, with so many examples; returns how many may follow."""
        return self._next(steps, examples)

    def close(self, steps: int, examples: int) -> None:
        """A loop has ended after so many more steps."""
        if not self.is_open:
            return
        self.is_open, self.is_closed = False, True
        self._next(steps, examples)

    def report(self, loss: Optional[float], accuracy: Optional[float]) -> None:
        """Write what the script says of itself, after so many steps."""
        numbers = (None if value is None else json_number(value) for value in (loss, accuracy))
        self.chunks.write(Report(self.made + self.doing, *numbers))

    def _next(self, steps: int, examples: int) -> int:
        """Let the other thread go on; returns the steps that it asks for."""
        self.end = time.monotonic()
        self.doing = 0
        self.made += steps
        self.total_examples += int(examples)
        self.examples_before[self.made] = self.total_examples
        self.pusher.release()
        self.script.acquire()
        if self.is_over:
            self._end()
        return self.wanted

    def _end(self) -> None:
        """End the process within the script, without what follows its loop."""
        if self.fault:
            traceback.print_exception(None, self.fault, self.fault.__traceback__)
            self.events.write(Result(status.ERROR, str(self.fault)))
        else:
            self.events.write(Result(status.OK, None))
        exit_now(EXIT_SECONDS)


class LoopPhases(Phases):
    """The phases of a run whose pauses are those of its script."""

    work: Loop

    def _is_due(self) -> bool:
        return self.work.is_closed


def synchronize() -> None:
    """Wait for the devices of the frameworks that the script has imported."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    mxnet, tensorflow = sys.modules.get("mxnet"), sys.modules.get("tensorflow")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    if mxnet is not None:
        mxnet.nd.waitall()
    if jax is not None:
        jax.block_until_ready(jax.live_arrays())
        (jax.numpy.zeros(()) + 1).block_until_ready()  # what was begun before and is not kept
    if tensorflow is not None and tensorflow.config.list_physical_devices("GPU"):
        tensorflow.test.experimental.sync_devices()


def software_of(spec: ProgramSpec) -> Software:
    """The framework and the other libraries that the script has imported."""
    framework = spec.factors.framework
    own = sys.modules.get(MODULES.get(framework, framework))
    modules = {name: sys.modules[name] for name in USED if name in sys.modules}
    versions = {name: str(getattr(module, "__version__", "?")) for name, module in modules.items()}
    return Software(framework, str(getattr(own, "__version__", "not imported")), versions)


def measured(loop: Loop) -> None:
    """First step, warm-up and measured steps, as in every run."""
    spec = loop.spec
    extent = Extent() if spec.program.until == UNTIL_END else extent_of(spec.phases)

    def paused(begin: float) -> float:
        loop.pause()
        return time.monotonic()

    phases = LoopPhases(loop, spec.phases, extent, loop.events, paused)
    phases.measure(phases.warm_up(phases.first_step(time.monotonic())))
    loop.prove(loop.events)


def run_script(loop: Loop, work: Callable[[Loop], None]) -> None:
    """Run the script to its end, or as far as the work needs it. Raises Failed and MemoryError."""
    global LOOP
    program = loop.spec.program
    folder = os.path.dirname(os.path.abspath(program.file))
    sys.path[0] = STEPS
    import touchstone_steps  # noqa: F401  # also for a script that has a copy

    sys.path[0] = folder
    sys.argv = [program.file] + program.arguments
    # For processes that the script starts.
    paths = [STEPS] + [path for path in [os.environ.get("PYTHONPATH")] if path]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    LOOP = loop
    threading.Thread(target=loop.push, args=(work,), daemon=True).start()
    try:
        runpy.run_path(program.file, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            told = end.code if isinstance(end.code, str) else "exit status {}".format(end.code)
            raise Failed("{} ended with {}".format(program.file, told))
    except BaseException as fault:
        traceback.print_exc()
        name, (text, *_) = type(fault).__name__, str(fault).splitlines() or [""]
        said = "{}: {}".format(name, text) if text else name
        if isinstance(fault, MemoryError) or any(sign in said for sign in OUT_OF_MEMORY):
            raise MemoryError(said)
        raise Failed("{}: {}".format(program.file, said))


def program(spec: ProgramSpec, events: Any, threads: int) -> None:
    """The whole run but its outcome. Raises Failed where the script fails or does too little."""
    loop = Loop(spec, events, events)
    begin = time.monotonic()
    sample_now()
    run_script(loop, measured)
    file, seconds = spec.program.file, time.monotonic() - BEGIN
    if loop.made == 0 and spec.program.until == UNTIL_END:
        # Without a marked loop the whole script is one step.
        events.write(Phase("import", BEGIN, begin))
        events.write(Chunk("measured", 0, 1, begin, time.monotonic(), []))
        events.phase("measured", begin, steps=1, examples=1)
        loop.prove(events)
    elif loop.made == 0:
        message = "{} ended after {:.0f} s without a step: does its loop use `steps(...)`?"
        raise Failed(message.format(file, seconds))
    elif loop.measured == 0:
        message = "{} ended after {} steps, in the warm-up: let it loop longer, or warm up less"
        raise Failed(message.format(file, loop.made))
    else:
        if spec.program.until == UNTIL_END:
            events.phase("rest", loop.end)
        loop.prove(events)


def conducted(commands: int, answers: int) -> Callable[[ProgramSpec, Any, int], None]:
    """The work of a runner whose conductor has the other ends of these two pipes."""

    def work(spec: ProgramSpec, events: Any, threads: int) -> None:
        def slices(loop: Loop) -> None:
            Slicer(loop, spec.phases.chunk_seconds, events).serve(commands, answers)
            loop.prove(events)

        loop = Loop(spec, events, NoEvents())
        run_script(loop, slices)
        message = "{} ended after {} steps, while it took turns: let it loop longer"
        raise Failed(message.format(spec.program.file, loop.made))

    return work
