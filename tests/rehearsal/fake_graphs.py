"""Stand-ins for CUDA graphs on a CPU, for PyTorch's adapter in the mode `compile_graphs`.

PyTorch compiles as for CUDA graphs. A pass is no graph, but has what makes graphs dangerous: the
memory of its inputs is fixed when it is recorded, other inputs are copied there, and its outputs
are always in the same memory, which the next step overwrites.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch._inductor import cudagraph_trees as trees
from torch._inductor import cudagraph_utils, output_code

from touchstone.runner.adapters.pytorch.adapter import Adapter

Arrays = list[Any]


class Manager:
    """What PyTorch's trees know of the passes that ran, by the names that they have there."""

    def __init__(self) -> None:
        self.current_node: Any = None
        self.id_to_mode: dict[int, Any] = {}
        self.step = 0
        self.outputs: Arrays = []

    def begin(self, mode: Any) -> None:
        """Overwrite what the step before gave, at the first pass of another one."""
        if mode == trees.CompilationMode.BACKWARD:
            return
        step = trees.MarkStepBox.mark_step_counter
        assert step != self.step, "a step begins without a mark"
        self.step, self.current_node = step, None
        for each in self.outputs:
            each.fill_(float("nan") if each.is_floating_point() else 0)
        self.outputs.clear()

    def ran(self, number: int) -> None:
        """Note that a graph ran after the others of this step."""
        node: Any = object.__new__(trees.CUDAGraphNode)
        before = self.current_node
        node.wrapped_function = SimpleNamespace(id=number)
        node._parent = None if before is None else lambda: before
        self.current_node = node


class Pass:
    """One compiled pass: it warms up, is recorded, and is then replayed.

    The addresses of its `fixed` inputs may not change.
    """

    def __init__(
        self, manager: Manager, call: Callable[[Arrays], Any], fixed: set[int], mode: Any
    ) -> None:
        self.manager, self.call, self.fixed, self.mode, self.runs = manager, call, fixed, mode, 0
        self.number = len(manager.id_to_mode)
        manager.id_to_mode[self.number] = mode

    def __call__(self, inputs: Arrays) -> Arrays:
        self.manager.begin(self.mode)
        self.runs += 1
        if self.runs == 1:
            return list(self.call(inputs))
        if self.runs == 2:
            self.inputs = [one if i in self.fixed else own(one) for i, one in enumerate(inputs)]
        for i, (kept, given) in enumerate(zip(self.inputs, inputs, strict=True)):
            if i in self.fixed:
                assert kept.data_ptr() == given.data_ptr(), f"the input {i} has moved"
            elif isinstance(kept, torch.Tensor):
                kept.copy_(given)
            else:
                assert kept == given, f"the graph keeps the number {kept}, not {given}"
        inputs.clear()
        found = list(self.call(list(self.inputs)))
        if self.runs == 2:
            self.outputs = found
        held = {one.data_ptr() for one in self.inputs if isinstance(one, torch.Tensor)}
        for kept, new in zip(self.outputs, found, strict=True):
            if isinstance(kept, torch.Tensor) and kept.data_ptr() not in held:
                kept.copy_(new)
                self.manager.outputs.append(kept)
        self.manager.ran(self.number)
        return list(self.outputs)


def own(given: Any) -> Any:
    """A copy, unless it is a number."""
    return given.clone() if isinstance(given, torch.Tensor) else given


@contextmanager
def fake_graphs(refused: bool) -> Iterator[None]:
    """Have PyTorch's adapter compile for CUDA graphs on a CPU; or find that there can be none."""
    manager = Manager()

    def graph_of(_: Any, compiled: Any, *others: Any) -> None:
        """In place of PyTorch's function that makes a graph of a compiled pass."""
        asked = compiled.fx_kwargs
        mutated, fixed = set(compiled.mutated_input_idxs), set(asked["static_input_idxs"])
        if refused or not mutated <= fixed:
            reason = cudagraph_utils.format_default_skip_message("mutated inputs (1 instances)")
            cudagraph_utils.log_cudagraph_skip_and_bump_counter(reason)
        mode = trees.CompilationMode.FORWARD
        if asked["is_backward"]:
            mode = trees.CompilationMode.BACKWARD
        elif asked["is_inference"]:
            mode = trees.CompilationMode.INFERENCE
        compiled.current_callable = Pass(manager, compiled.current_callable, fixed, mode)

    with ExitStack() as stack:
        for place, name, other in (
            (Adapter, "_require_compiler", lambda _: None),
            (cudagraph_utils, "check_lowering_disable_cudagraph", lambda _: None),
            (output_code, "cudagraph_post_compile", graph_of),
            (trees, "get_manager", lambda *_, **options: manager),
        ):
            stack.enter_context(mock.patch.object(place, name, other))
        yield
