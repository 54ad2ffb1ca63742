"""What is read back from the live framework."""

from typing import Any, Dict, Tuple

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import config as internal_config
from tensorflow.python.util import _pywrap_util_port as port

from touchstone.runner.adapters import base
from touchstone.runner.adapters.tensorflow.network import (
    compiled_graph,
    constant_of,
    has_condition,
    one_of_all,
    with_branches,
)
from touchstone.runner.adapters.tensorflow.optimizers import solved
from touchstone.runner.job import Job
from touchstone.schema.events import Software
from touchstone.schema.types import Array

PRECISIONS = {
    (tf.float32, tf.float32): "fp32",
    (tf.float64, tf.float64): "fp64",
    (tf.float32, tf.bfloat16): "bf16",
    (tf.float32, tf.float16): "fp16-amp",
}
"""By the types of the variables and of the products."""
PRODUCTS = ("MatMul", "Conv2D", "DepthwiseConv2dNative")
UPDATES: Dict[str, Any] = {
    "ResourceApplyGradientDescent": lambda op: {
        "optimizer": "sgd",
        "momentum": 0.0,
        "nesterov": False,
    },
    "ResourceApplyMomentum": lambda op: {
        "optimizer": "sgd",
        "momentum": constant_of(op, 4),
        "nesterov": op.get_attr("use_nesterov"),
    },
    "ResourceApplyAdam": lambda op: {
        "optimizer": "adam",
        "beta1": constant_of(op, 6),
        "beta2": constant_of(op, 7),
    },
}
"""What the kernels of the update equations were built with, by their types."""


class Settings(base.TrainingAdapter):
    """What is read back from the live framework."""

    chunk: Any
    computed: Any
    dtype: Any
    last_scalars: Any
    last_size: Any
    optimizer: Any
    predicted: Any
    predictor: Any
    replicas: Any
    job: Job
    steps: Any
    strategy: Any
    trained: Any
    variables: Any
    with_onednn: Any

    def inference_settings(self) -> Dict[str, Any]:
        seen = tf.TensorSpec(self.predicted.shape, self.dtype)
        graph = self.predictor.get_concrete_function(seen).graph
        compiled = compiled_graph(graph)
        layouts = {
            op.get_attr("data_format").decode()
            for op in (compiled or graph).get_operations()
            if "data_format" in op.node_def.attr
        }
        variables = list(self.variables.values())
        return {
            "batch_size": int(graph.inputs[0].shape[0]),
            "threads": tf.config.threading.get_intra_op_parallelism_threads(),
            "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads()
            or "automatic",
            "deterministic": internal_config.is_op_determinism_enabled(),
            "layout": ", ".join(sorted(layouts)),
            "precision": self._precision((compiled or graph).get_operations()),
            "device": "gpu" if "GPU" in variables[0].device else "cpu",
            "mode": self._mode(compiled),
            "onednn": port.IsMklEnabled(),
            "parameters": sum(int(np.prod(self.variables[n].shape)) for n in self.trained),
        }

    def matrix_products(self, a: Array, b: Array) -> Tuple[Array, Array]:
        xla = self.job.execution.mode == "xla"

        @tf.function(jit_compile=xla, autograph=False)
        def both(a: Any, b: Any) -> Any:
            a, b = tf.cast(a, self.computed), tf.cast(b, self.computed)
            convolved = tf.nn.conv2d(a[:, None, None], b[None, None], 1, "VALID")[:, 0, 0]
            return tf.cast(tf.matmul(a, b), self.dtype), tf.cast(convolved, self.dtype)

        return tuple(p.numpy() for p in both(*(tf.constant(x, self.dtype) for x in (a, b))))

    def settings(self) -> Dict[str, Any]:
        variables = list(self.variables.values())
        step = self.chunk.get_concrete_function()
        loops = [op for op in step.graph.get_operations() if op.type in ("While", "StatelessWhile")]
        body = step.graph._get_function(loops[0].get_attr("body").name).graph
        compiled = compiled_graph(body)
        operations = with_branches(compiled or body)
        updates = [op for op in operations if op.type in UPDATES]
        layouts = {
            op.get_attr("data_format").decode()
            for op in operations
            if "data_format" in op.node_def.attr
        }
        rate, *numbers = map(float, self.last_scalars.numpy())
        if updates:
            settings = one_of_all([UPDATES[op.type](op) for op in updates])
        else:  # the equation is written in operations
            optimizer = self.optimizer
            settings = solved(optimizer.name, optimizer.settings, self.dtype)
            updates = [op for op in operations if op.type == "AssignSubVariableOp"]
        if self.strategy:
            settings["replicas"] = len({op.device for op in updates})
        if settings["optimizer"] == "adam":
            correction = (1 - self.optimizer.settings["beta2"] ** self.steps) ** 0.5
            settings["epsilon"] = numbers[1] / correction
        return {
            **settings,
            "learning_rate": rate,
            "weight_decay": self.optimizer.weight_decay,
            "batch_size": int(step.inputs[0].shape[1] or self.last_size.numpy()),
            "threads": tf.config.threading.get_intra_op_parallelism_threads() // self.replicas,
            "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads()
            or "automatic",
            # TensorFlow's public interface only sets it.
            "deterministic": internal_config.is_op_determinism_enabled(),
            "layout": ", ".join(sorted(layouts)),
            **({"loss_scaling": "dynamic"} if has_condition(operations) else {}),
            "precision": self._precision(operations),
            "device": "gpu" if "GPU" in variables[0].device else "cpu",
            "mode": self._mode(compiled),
            "onednn": port.IsMklEnabled(),
            "parameters": sum(int(np.prod(self.variables[n].shape)) for n in self.trained),
        }

    def _mode(self, compiled: Any) -> Any:
        """The mode that is in effect."""
        if compiled:
            return "xla"
        return "function_onednn" if self.with_onednn and port.IsMklEnabled() else "function"

    def _precision(self, operations: Any) -> Any:
        """That of the variables and of a step's products, and whether TF32 is allowed."""
        types = {variable.dtype for variable in self.variables.values()}
        products = {op.get_attr("T") for op in operations if op.type in PRODUCTS}
        precision = PRECISIONS.get((*types, *products), str([*types, *products]))
        allowed = tf.config.experimental.tensor_float_32_execution_enabled()
        return "tf32" if precision == "fp32" and allowed else precision

    def software(self) -> Software:
        build = tf.sysconfig.get_build_info()
        return Software(
            "tensorflow",
            tf.__version__,
            {
                "cuda": build.get("cuda_version"),
                "cudnn": build.get("cudnn_version"),
            },
        )
