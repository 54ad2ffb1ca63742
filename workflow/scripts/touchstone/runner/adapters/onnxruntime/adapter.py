"""ONNX Runtime: the graph as an ONNX model, which its session optimises. It predicts only."""

import os
from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from touchstone.runner.adapters import base
from touchstone.runner.adapters.onnxruntime.capabilities import CAPABILITIES
from touchstone.runner.adapters.onnxruntime.inputs import read_file
from touchstone.runner.adapters.onnxruntime.network import OPSET, exported, model_of, value_info
from touchstone.runner.job import Job
from touchstone.schema.events import Software
from touchstone.schema.types import Array

SPINNING = "session.intra_op.allow_spinning"
"""Whether an idle thread of its pool waits actively, which is its default: the key of a session's
configuration."""
ONE_PROVIDER = "session.disable_cpu_ep_fallback"
"""Whether a layer that the provider does not know is an error, and not computed on the CPU."""
PROVIDERS = {
    ("cpu", "optimized"): "CPUExecutionProvider",
    ("gpu", "optimized"): "CUDAExecutionProvider",
    ("gpu", "tensorrt"): "TensorrtExecutionProvider",
}


class Adapter(base.InferenceAdapter):
    """Images are (batch, channels, height, width)."""

    capabilities = CAPABILITIES

    def __init__(self, job: Job, threads: int) -> None:
        self.job, self.threads = job, threads
        if job.kind != "inference":
            raise NotImplementedError("ONNX Runtime does not train here: it predicts only")
        if job.execution.precision != "fp32":
            raise NotImplementedError("ONNX Runtime has convolutions in single precision only")
        device, mode = job.execution.device, job.execution.mode
        if (device, mode) not in PROVIDERS:
            raise NotImplementedError("TensorRT computes on NVIDIA's GPUs only")
        self.provider, self.one_provider = PROVIDERS[device, mode], "0"
        if device == "gpu":
            self.one_provider = "1"
            # TensorRT asks nobody else whether it may round to TF32.
            os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
            onnxruntime.preload_dlls()
        self.spinning = "0" if job.execution.wait_policy == "passive" else "1"

    def extra_settings(self) -> Dict[str, Any]:
        return {
            "layout": "NCHW",
            "one_provider": self.one_provider,
            "provider": self.provider,
            "spinning": self.spinning,
        }

    def read_records(self, shards: Sequence[str], shape: Tuple[int, ...]) -> Tuple[Array, Array]:
        parts = [read_file(shard + ".lmdb", shape, self.job.data.encoding) for shard in shards]
        images, labels = map(np.concatenate, zip(*parts))
        return images, labels

    def build(self, weights: Dict[str, Array]) -> None:
        batch_size = self.job.batch_size
        self.session = self._session(exported(self.job.network, weights, batch_size))
        self.parameters = self.job.network.parameters

    def _session(self, model: Any) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.add_session_config_entry(SPINNING, self.spinning)
        options.add_session_config_entry(ONE_PROVIDER, self.one_provider)
        settings = {"use_tf32": "0"} if self.provider == "CUDAExecutionProvider" else {}
        try:
            return onnxruntime.InferenceSession(
                model.SerializeToString(), options, [(self.provider, settings)],
                enable_fallback=False,
            )  # fmt: skip
        except RuntimeError as fault:
            if "install TensorRT" in str(fault):
                reason = "TensorRT's libraries (libnvinfer) are not on this machine"
                raise NotImplementedError(reason) from fault
            raise

    def prepare(self, images: Array) -> Any:
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))

    def predict(self, batch: Any) -> Any:
        return self.session.run(None, {"input": batch})[0]

    def synchronize(self) -> None:
        """Every call returns its results."""

    def fetch_outputs(self, handle: Any) -> Array:
        return handle

    def matrix_products(self, a: Array, b: Array) -> Tuple[Array, Array]:
        a, b = a.astype(np.float32), b.astype(np.float32)
        nodes = [
            helper.make_node("MatMul", ["a", "b"], ["product"]),
            helper.make_node("Conv", ["image", "filter"], ["convolved"]),
        ]
        given = {
            "a": a,
            "b": b,
            "image": a[:, :, None, None],
            "filter": np.ascontiguousarray(b.T)[:, :, None, None],
        }
        inputs = [value_info(name, array.shape) for name, array in given.items()]
        outputs = [value_info("product", None), value_info("convolved", None)]
        graph = helper.make_graph(nodes, "products", inputs, outputs)
        product, convolved = self._session(model_of(graph)).run(None, given)
        return product, convolved[:, :, 0, 0]

    def inference_settings(self) -> Dict[str, Any]:
        options, image = self.session.get_session_options(), self.session.get_inputs()[0]
        level = options.graph_optimization_level
        everything = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        trained = (p.shape for p in self.parameters if p.trainable)
        provider = self.session.get_providers()[0]  # the one that is asked first
        kinds = {name: kind for kind, name in PROVIDERS.items()}
        device, mode = kinds.get(provider, (provider, provider))
        return {
            "batch_size": image.shape[0],
            "threads": options.intra_op_num_threads,
            "spinning": options.get_session_config_entry(SPINNING),
            "one_provider": options.get_session_config_entry(ONE_PROVIDER),
            "provider": provider,
            "precision": {"tensor(float)": "fp32"}.get(image.type, image.type),
            "device": device,
            "layout": "NCHW" if image.shape[1:] == self._planes() else str(image.shape),
            "mode": mode if level == everything else str(level),
            "parameters": sum(int(np.prod(shape)) for shape in trained),
        }

    def _planes(self) -> Any:
        height, width, channels = self.job.network.input
        return [channels, height, width]

    def software(self) -> Software:
        return Software(
            "onnxruntime",
            onnxruntime.__version__,
            {
                "onnx": onnx.__version__,
                "opset": OPSET,
            },
        )

    def device_memory_peak(self) -> Optional[float]:
        return None

    def is_out_of_memory(self, error: Exception) -> bool:
        return "bad_alloc" in str(error) or "Failed to allocate memory" in str(error)
