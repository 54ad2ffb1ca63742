"""Steps under jax.profiler, its records by layer of the graph.

The profiler says how long XLA was busy with each operation of the compiled step. The text of that
step says which operations of JAX it came from, and their names say the layer: `jvp(layer.conv1)`,
and `transpose(jvp(layer.conv1))` where gradients are computed.
"""

import glob
import os
import re
import tempfile
import time
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

import jax.profiler

from touchstone.schema.profile import Span, StepTrace

SCOPE = "layer."
UNREAD = "JAX {} has no jax.profiler.ProfileData, which reads the profiler's records"
COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$")
INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = (?:\([^=]*?\)|\S+) ([\w-]+)\((.*)$")
CALLED = re.compile(r"(?:calls|to_apply|body|condition)=%?([\w.-]+)")
BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
OPERAND = re.compile(r"%([\w.-]+)")
NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
LAYER = re.compile(r"layer\.([^/()]+)")
ARRAY = re.compile(r"state\[\\?['\"]arrays\\?['\"]\]\[\\?['\"]([^.\]]+)\.")
"""The layer whose array a parameter of the step is."""
IDLE = {"parameter", "constant", "bitcast", "broadcast", "tuple", "get-tuple-element", "reshape"}
"""Operations that compute nothing: fusions have those of any layer in them."""
PASSED_ON = {"bitcast", "reshape", "broadcast"}
"""Those of them through which the users of an operation are found."""

Label = Tuple[str, bool]
"""A layer, and whether its gradients are computed."""


class Instruction(NamedTuple):
    """An operation of the compiled step.

    opcode: what it does
    operands: the names of what it reads
    called: the names of the computations in it
    op_name: the operation of JAX that it comes from; empty where XLA kept none
    """

    opcode: str
    operands: List[str]
    called: List[str]
    op_name: str


def why_unread() -> Optional[str]:
    """Why the profiler's records cannot be read here; None where they can."""
    there = getattr(jax.profiler, "ProfileData", None)  # None in some releases
    return None if there else UNREAD.format(jax.__version__)


def profiled_steps(adapter: Any, batches: Any, rates: Any, draws: Any) -> StepTrace:
    """What jax.profiler recorded of these steps of an adapter."""
    if not hasattr(adapter, "profiled_step"):
        adapter.profiled_step = Compiled(adapter.step)
    usual, adapter.step = adapter.step, adapter.profiled_step
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level, options.host_tracer_level = 0, 1
    try:
        with tempfile.TemporaryDirectory(prefix="touchstone-profile-") as folder:
            jax.profiler.start_trace(folder, profiler_options=options)
            begin = time.monotonic()
            adapter.losses(adapter.train_steps(batches, rates, draws))
            adapter.synchronize()
            seconds = time.monotonic() - begin
            jax.profiler.stop_trace()
            (path,) = glob.glob(os.path.join(folder, "plugins/profile/*/*.xplane.pb"))
            data = jax.profiler.ProfileData.from_file(path)
    finally:
        adapter.step = usual
    return StepTrace("jax.profiler", seconds, spans_of(data, adapter.profiled_step.owners))


class Compiled:
    """The step, compiled when it is first called, and what its operations compute."""

    def __init__(self, step: Any) -> None:
        self.step = step
        self.compiled: Any = None
        self.owners: Dict[str, Tuple[Tuple[str, ...], bool]] = {}

    def __call__(self, *arguments: Any) -> Any:
        if self.compiled is None:
            self.compiled = self.step.lower(*arguments).compile()
            self.owners = owners_of(self.compiled.as_text())
        return self.compiled(*arguments)


def spans_of(data: Any, owners: Dict[str, Tuple[Tuple[str, ...], bool]]) -> List[Span]:
    """The spans of layers among the records of all threads.

    An operation that others finish has a second record, its end, on whatever thread that was.
    """
    begun, ends = [], {}
    for plane in data.planes:
        for line in plane.lines:
            for event in line.events:
                stats = dict(event.stats)
                if event.name.startswith("end: "):
                    ends[stats.get("_c")] = event.start_ns
                elif stats.get("hlo_op") in owners:
                    begun.append((event.start_ns, event.duration_ns, stats))
    spans = []
    for start, duration, stats in begun:
        end = max(start + duration, ends.get(stats.get("_p"), 0))
        layers, backward = owners[stats["hlo_op"]]
        spans.append(Span(start * 1e-9, end * 1e-9, layers, backward))
    return spans


def instructions_of(text: str) -> Dict[str, Dict[str, Instruction]]:
    """The instructions of every computation in the text of a compiled step, in their order."""
    computations: Dict[str, Dict[str, Instruction]] = {}
    current: Dict[str, Instruction] = {}
    for line in text.splitlines():
        header = COMPUTATION.match(line)
        if header:
            current = computations.setdefault(header.group(1), {})
            continue
        match = INSTRUCTION.match(line)
        if match:
            name, opcode, rest = match.groups()
            operands = OPERAND.findall(rest.split("), ")[0])
            branches = BRANCHES.search(rest)
            called = CALLED.findall(rest) + (OPERAND.findall(branches.group(1)) if branches else [])
            op_name = NAME.search(rest)
            current[name] = Instruction(
                opcode, operands, called, op_name.group(1) if op_name else ""
            )
    return computations


def owners_of(text: str) -> Dict[str, Tuple[Tuple[str, ...], bool]]:
    """By instruction of a compiled step, the layers that it computes, and whether gradients.

    An instruction in which XLA kept no name is one of those that use its result; a gradient of
    arrays, which their update uses, is one of their layer. What is computed forward again
    within a gradient belongs to the gradient, and what a gradient will need to what computes it.
    """
    computations = instructions_of(text)
    inside: Dict[str, Set[str]] = {}

    def names_in(computation: str) -> Set[str]:
        """The names of all that a computation computes."""
        if computation not in inside:
            inside[computation] = set()
            for op in computations.get(computation, {}).values():
                inside[computation] |= names_of(op)
        return inside[computation]

    def names_of(op: Instruction) -> Set[str]:
        own = {op.op_name} if op.op_name and op.opcode not in IDLE else set()
        return own.union(*map(names_in, op.called))

    owners: Dict[str, Tuple[Tuple[str, ...], bool]] = {}
    for instructions in computations.values():
        users: Dict[str, List[str]] = {}
        for name, instruction in instructions.items():
            for operand in instruction.operands:
                users.setdefault(operand, []).append(name)
        labels: Dict[str, FrozenSet[Label]] = {}
        for name in reversed(list(instructions)):
            instruction = instructions[name]
            names = names_of(instruction)
            labels[name] = frozenset(filter(None, map(_label, names)))
            if instruction.opcode in PASSED_ON or not names and instruction.opcode not in IDLE:
                for user in users.get(name, []):
                    labels[name] |= labels[user] or _updated(user, instructions)
            if labels[name] and instruction.opcode not in IDLE:
                whole = _label(instruction.op_name)
                backward = whole[1] if whole else any(back for _, back in labels[name])
                layers = sorted({layer for layer, back in labels[name] if back == backward})
                owners[name] = tuple(layers), backward
    return owners


def _label(op_name: str) -> Optional[Label]:
    match = LAYER.search(op_name)
    return (match.group(1), "transpose(" in op_name) if match else None


def _updated(name: str, instructions: Dict[str, Instruction]) -> FrozenSet[Label]:
    """The layers whose arrays an instruction updates, as what computes their gradients."""
    read = [instructions[n].op_name for n in instructions[name].operands if n in instructions]
    return frozenset((layer, True) for text in read for layer in ARRAY.findall(text))
