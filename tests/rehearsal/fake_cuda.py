"""A CUDA device that has shapes and types only, for what PyTorch's adapter does on a GPU.

Tensors are PyTorch's own fake ones (`torch._subclasses.FakeTensorMode`): every operation checks its
arguments as on a device and computes no number. The functions of `torch.cuda` that need a driver
answer as an H100 would.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch._dynamo  # which the mode imports, in each fork unless it is there
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode

CAPABILITY = (9, 0)
"""Of an H100: NVIDIA's list of compute capabilities."""
DRIVER: dict[str, Callable[..., Any]] = {
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "is_initialized": lambda: False,
    "is_bf16_supported": lambda *_: True,
    "is_current_stream_capturing": lambda: False,
    "get_device_capability": lambda *_: CAPABILITY,
    "max_memory_allocated": lambda *_: 2**30,
    "synchronize": lambda *_: None,
}
"""What `torch.cuda` answers in place of a driver, by its functions' names."""

SHAPELESS = ("_fused_sgd_",)
"""Operations that return nothing, of which PyTorch keeps no form without numbers."""
LIBRARY = torch.library.Library("aten", "IMPL", "Meta")
for each in SHAPELESS:
    LIBRARY.impl(each, lambda *_, **options: None)


class Called(TorchDispatchMode):
    """Notes every operation: its name, and device, type and layout of the tensors it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[dict[str, Any]] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        if function is torch.ops.prim.device.default:  # a question, which calls nothing
            return function(*arguments)
        given = [
            {
                "device": tensor.device.type,
                "type": str(tensor.dtype).removeprefix("torch."),
                "shape": list(tensor.shape),
                "pinned": getattr(tensor, "pinned", False),
                "channels_last": tensor.dim() == 4
                and tensor.is_contiguous(memory_format=torch.channels_last),
            }
            for tensor in torch.utils._pytree.tree_leaves(arguments)
            if isinstance(tensor, torch.Tensor)
        ]
        self.calls.append({"operation": function.overloadpacket.__name__, "given": given})
        result = function(*arguments, **(options or {}))
        if function.is_view and any(one["pinned"] for one in given):
            for view in torch.utils._pytree.tree_leaves(result):
                view.pinned = True
        return result


def _as_numpy(tensor: Any, *_: Any) -> Any:
    """Zeros in place of the numbers that a fake tensor does not have."""
    if tensor.device.type != "cpu":
        raise TypeError("a CUDA tensor cannot be an array of NumPy; copy it to the CPU first")
    return np.zeros(tensor.shape, str(tensor.dtype).removeprefix("torch."))


def _pinned(tensor: Any) -> Any:
    """The tensor itself, noted as one of pinned memory, which fake tensors do not know."""
    if tensor.device.type != "cpu":
        raise RuntimeError("only tensors in host memory can be pinned")
    tensor.pinned = True
    return tensor


@contextlib.contextmanager
def fake_cuda() -> Iterator[Called]:
    """Have tensors on the device `cuda` without one; what is called in it is noted."""
    with contextlib.ExitStack() as stack:
        for name, answer in DRIVER.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer))
        stack.enter_context(mock.patch.object(FakeTensor, "numpy", _as_numpy))
        stack.enter_context(mock.patch.object(torch.Tensor, "pin_memory", _pinned))
        # By the answers above it would allocate memory of the device.
        stack.enter_context(mock.patch.object(FakeTensorMode, "avoid_device_init", True))
        stack.enter_context(
            FakeTensorMode(allow_fallback_kernels=False, allow_non_fake_inputs=True)
        )
        yield stack.enter_context(Called())


def real(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function outside of `fake_cuda`: PyTorch moves no module of fake tensors."""

    def call(*arguments: Any) -> Any:
        with unset_fake_temporarily():
            return function(*arguments)

    return call
