"""Work of known size on a device, in the framework's own Python: `python probe.py NAME JSON`.

It imports nothing of ours. The last line that it prints is its answer as JSON.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

Answer = dict[str, Any]


def load(device: str, size: int, seconds: float) -> Answer:
    """Products of two matrices for so long: how many, their FLOP, the process's CPU seconds."""
    import torch

    place = torch.device("cuda" if device == "gpu" else "cpu")
    kind = torch.bfloat16 if device == "gpu" else torch.float32
    a = torch.randn(size, size, device=place, dtype=kind)
    b = torch.randn(size, size, device=place, dtype=kind)
    torch.mm(a, b)
    wait = torch.cuda.synchronize if device == "gpu" else lambda: None
    wait()
    print(json.dumps({"begin": time.monotonic()}), flush=True)
    begin, cpu, products = time.monotonic(), time.process_time(), 0
    while time.monotonic() - begin < seconds:
        for _ in range(8):
            torch.mm(a, b)
        wait()
        products += 8
    took = time.monotonic() - begin
    memory = torch.cuda.memory_reserved() if device == "gpu" else 0
    return {
        "products": products,
        "seconds": took,
        "end": begin + took,
        "tflops": 2.0 * size**3 * products / took / 1e12,
        "cpu_seconds": time.process_time() - cpu,
        "reserved_mib": memory / 2**20,
    }


def fill(device: str, share: float) -> Answer:
    """Hold so much of a GPU's memory until standard input ends."""
    import torch

    free, total = torch.cuda.mem_get_info()
    wanted = int(free - (1 - share) * total)
    held = torch.empty(wanted, device="cuda", dtype=torch.uint8)
    free = torch.cuda.mem_get_info()[0]
    print(json.dumps({"held_mib": held.numel() / 2**20, "free_mib": free / 2**20}), flush=True)
    sys.stdin.read()
    return {}


def rounding(device: str, size: int) -> Answer:
    """How far a product in single precision is from double precision, relative to the largest,
    with TF32 off and on: some 1e-7 and some 1e-4 where the switch works."""
    import torch

    place = torch.device("cuda" if device == "gpu" else "cpu")
    a = torch.randn(size, size, device=place, dtype=torch.float64)
    b = torch.randn(size, size, device=place, dtype=torch.float64)
    exact = a @ b
    errors = {}
    for name, allowed in (("tf32_off", False), ("tf32_on", True)):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        product = (a.float() @ b.float()).double()
        errors[name] = float((product - exact).abs().max() / exact.abs().max())
    return errors


def facts(device: str) -> Answer:
    """Versions, and what the framework says of the device."""
    import torch

    answer = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": sys.version}
    if device == "gpu":
        properties = torch.cuda.get_device_properties(0)
        answer["name"] = properties.name
        answer["capability"] = ".".join(map(str, torch.cuda.get_device_capability(0)))
        answer["memory_mib"] = properties.total_memory / 2**20
        answer["multiprocessors"] = properties.multi_processor_count
        answer["cudnn"] = torch.backends.cudnn.version()
    return answer


if __name__ == "__main__":
    functions: dict[str, Callable[..., Answer]] = {
        "load": load, "fill": fill, "rounding": rounding, "facts": facts,
    }  # fmt: skip
    print(json.dumps(functions[sys.argv[1]](**json.loads(sys.argv[2]))), flush=True)
