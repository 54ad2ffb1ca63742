"""What the adapter of this framework can do."""

from touchstone.schema.capabilities import Capabilities

CAPABILITIES = Capabilities(
    # Its own kernels, for CPUs or in CUDA; or NVIDIA's TensorRT, where that is on the machine.
    modes=("optimized", "tensorrt"),
    modules={"onnxruntime": "onnxruntime", "onnx": "onnx", "numpy": "numpy"},
    record_format="lmdb",
    released="2026-10",
    only="inference",
    # A session may be asked whether idle threads spin (`SPINNING`).
    waits=True,
    differs={
        "gpu": ("nothing rounds to TF32; by itself ONNX Runtime lets it",),
    },
)
