"""MXNet: the graph and its loss as one Gluon HybridBlock, updated by a Gluon Trainer."""

import contextlib
import ctypes
import os
from typing import Any, Dict, Iterator, Optional, Tuple

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.contrib import amp
from mxnet.gluon import nn

from touchstone.runner.adapters.mxnet.capabilities import CAPABILITIES
from touchstone.runner.adapters.mxnet.inputs import (
    LACKING,
    Inputs,
)
from touchstone.runner.adapters.mxnet.network import (
    DTYPES,
    PIECE,
    Network,
    Training,
    has_avx512,
    to_numpy,
)
from touchstone.runner.adapters.mxnet.optimizers import OPTIMIZERS
from touchstone.runner.adapters.mxnet.profile import NOT_IMPERATIVE, profiled_steps
from touchstone.runner.job import Job
from touchstone.runner.running_variance import unbiased
from touchstone.schema.events import Software
from touchstone.schema.profile import StepTrace
from touchstone.schema.types import Array

NATIVE = {
    "weight": "weight",
    "recurrent": "recurrent",
    "bias": "bias",
    "scale": "gamma",
    "offset": "beta",
    "mean": "running_mean",
    "variance": "running_var",
}
"""What MXNet's layers call an array of the graph."""


class Adapter(Inputs):
    capabilities = CAPABILITIES

    def __init__(self, job: Job, threads: int) -> None:
        self.job = job
        gpu = job.execution.device == "gpu"
        if gpu and not mx.context.num_gpus():
            raise NotImplementedError("MXNet sees no GPU")
        self.replicas = job.execution.replicas
        if gpu and mx.context.num_gpus() < self.replicas:
            message = "MXNet sees {} GPUs of the {} asked for"
            raise NotImplementedError(message.format(mx.context.num_gpus(), self.replicas))
        # One context for each replica: those of the CPU have a thread of MXNet's engine each.
        self.contexts = [(mx.gpu if gpu else mx.cpu)(i) for i in range(self.replicas)]
        self.context = self.contexts[0]
        precision = job.execution.precision
        if precision in LACKING:
            raise NotImplementedError(LACKING[precision])
        if precision == "bf16" and not gpu and not has_avx512():
            raise NotImplementedError("MXNet has bf16 only on processors with AVX-512")
        if job.rest and any(layer["op"] == "batch_norm" for layer in job.network.layers):
            raise NotImplementedError(
                "MXNet's running variances are biased, and what corrects them here takes batches of"
                " one size"
            )
        self.dtype = DTYPES[precision]
        self.mixed = precision == "bf16"
        if self.mixed:  # before there is a network, since it replaces the operators
            amp.init("bfloat16")

    def make_deterministic(self) -> None:
        if self.context.device_type == "cpu":
            raise NotImplementedError("MXNet can ask cuDNN only for deterministic algorithms")
        mx.random.seed(self.job.seed)
        os.environ["MXNET_ENFORCE_DETERMINISM"] = "1"
        os.environ["MXNET_CUDNN_AUTOTUNE_DEFAULT"] = "0"

    def extra_settings(self) -> Dict[str, Any]:
        convolves = any(layer["op"] == "conv" for layer in self.job.network.layers)
        return {"inter_op_threads": None, "layout": "NCHW" if convolves else ""}

    def array(self, values: Any, dtype: str = "float32", context: Any = None) -> Any:
        """MXNet's array of these values, copied in pieces."""
        whole = nd.empty(np.shape(values), context or self.context, dtype)
        flat, values = whole.reshape((-1,)), np.ravel(values)
        for first in range(0, values.size, PIECE):
            piece = values[first : first + PIECE]
            flat[first : first + piece.size]._sync_copyfrom(piece)
        return whole

    def build(self, weights: Dict[str, Array]) -> None:
        supplied = self.job.supplied_masks
        batch_size = self.job.batch_size
        self.network = Network(self.job.network, batch_size, supplied, self.job.execution.precision)
        self.training = self.block = Training(self.network)
        self.training.initialize(mx.init.Zero(), ctx=self.contexts)
        self.training.cast(self.dtype)
        self.parameters = {}
        for name in weights:
            layer, kind = name.split(".")
            self.parameters[name] = getattr(self.network.blocks[layer], NATIVE[kind])
        for name, parameter in self.parameters.items():
            parameter.set_data(self.array(weights[name], self.dtype))
        self.trained, self.penalised = {}, []
        for described in self.job.network.parameters:
            parameter = self.parameters[described.name]
            if not described.trainable:
                parameter.grad_req = "null"
                continue
            self.trained[described.name] = parameter
            if described.l1 or described.l2:
                self.penalised.append((parameter, described.l1, described.l2))
        shapes = {layer["name"]: layer["shape"] for layer in self.job.network.layers}
        # Running variances: their start, and the numbers of each channel in a batch.
        self.variances = [
            (
                layer,
                self.array(weights[layer["name"] + ".variance"], self.dtype),
                batch_size // self.replicas * int(np.prod(shapes[layer["name"]][:2])),
            )
            for layer in self.job.network.layers
            if layer["op"] == "batch_norm"
        ]
        self.steps = 0
        self._hybridize()
        self._optimize()

    def _hybridize(self) -> None:
        static = self.job.execution.mode == "static"
        if self.job.execution.mode != "imperative":
            self.block.hybridize(static_alloc=static, static_shape=static)

    def _optimize(self) -> None:
        optimizer = self.job.optimizer
        self.updates = OPTIMIZERS[optimizer.name]
        common = {"learning_rate": optimizer.learning_rate, "wd": optimizer.weight_decay}
        decayed = {n: p for n, p in self.trained.items() if n.split(".")[1] not in optimizer.spared}
        for name, parameter in self.trained.items():
            parameter.wd_mult = float(name in decayed and not optimizer.decoupled)
        # MXNet's optimisers know coupled decay only: else the weights shrink before their step.
        self.shrunk = []
        if optimizer.decoupled and optimizer.weight_decay:
            self.shrunk = list(decayed.values())
        kind = "device" if self.context.device_type == "gpu" else "local"
        self.trainer = gluon.Trainer(
            list(self.trained.values()), self.updates.made(optimizer, common),
            kvstore=kind if self.replicas > 1 else None, update_on_kvstore=False,
        )  # fmt: skip

    def train_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> Any:
        rows = batches if isinstance(batches, np.ndarray) else batches[0][1]
        size = rows.shape[1] // self.replicas
        shares = [slice(i * size, (i + 1) * size) for i in range(self.replicas)]
        parts = [
            self._prepared(batches, draws, context, share)
            for context, share in zip(self.contexts, shares)
        ]
        losses = []
        # MXNet hands rates to its kernels as text, which NumPy's numbers are slow to become.
        for i, rate in enumerate(rates.tolist()):
            with autograd.record():
                step_losses = [self.training(images[i], labels[i]) for images, labels in parts]
            autograd.backward(step_losses)
            # Losses are means already, and the gradients of all replicas are added.
            self._update(rate, self.replicas)
            losses.append(step_losses)
        self.last: Any = [images[0] for images, _ in parts]
        return losses

    def _update(self, rate: Any, count: int) -> None:
        """One step of the update equation, with gradients that are sums of `count`; MXNet's own
        differs from it where the rate changes."""
        optimizer = self.job.optimizer
        self.steps += 1
        for parameter, l1, l2 in self.penalised:
            for data, gradient in zip(parameter.list_data(), parameter.list_grad()):
                gradient += (l1 * nd.sign(data) + 2 * l2 * data) * (count // self.replicas)
        for parameter in self.shrunk:
            for data in parameter.list_data():
                data *= 1 - rate * optimizer.weight_decay
        ratio = rate / self.trainer.learning_rate
        with self.updates.changed(self.trainer, optimizer, self.steps, ratio):
            self.trainer.set_learning_rate(rate)
            self.trainer.step(count)

    def why_no_profile(self) -> Optional[str]:
        return NOT_IMPERATIVE if self.job.execution.mode == "imperative" else None

    def profile_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> StepTrace:
        return profiled_steps(self, batches, rates, draws)

    def losses(self, handle: Any) -> Array:
        replicas = [nd.concat(*losses, dim=0).asnumpy() for losses in zip(*handle)]
        return np.mean(replicas, axis=0, dtype=np.float64)

    def synchronize(self) -> None:
        nd.waitall()

    def logits(self, images: Array) -> Array:
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        for mask in self.network._reg_params.values():
            mask.set_data(nd.ones(mask.shape, ctx=self.context, dtype=self.dtype))
        with self._unbiased_variances():
            images = self.array(images, self.dtype)
            return self._host(self.network(images))

    @contextlib.contextmanager
    def _unbiased_variances(self) -> Iterator[Any]:
        """The running variances as the graph defines them, put back afterwards.

        MXNet's kernel averages biased variances.
        """
        # The kernel's backward pass writes the statistics unknown to MXNet's engine.
        nd.waitall()
        kept = []
        for layer, first, count in self.variances:
            parameter = self.parameters[layer["name"] + ".variance"]
            data = parameter.data(self.context).copy()
            kept.append((parameter, data))
            parameter.set_data(unbiased(first, data, layer["momentum"], self.steps, count))
        yield
        for parameter, data in kept:
            parameter.set_data(data)
        nd.waitall()

    def set_masks(self, masks: Dict[str, Array]) -> None:
        for name, mask in masks.items():
            mask = mask.transpose(0, 3, 1, 2) if mask.ndim == 4 else mask
            self.network._reg_params[name].set_data(self.array(mask, self.dtype))

    def prepare(self, images: Array) -> Any:
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2), self.dtype)

    def predict(self, batch: Any) -> Any:
        self.last = self.array(batch, self.dtype)
        return self.network(self.last)

    def fetch_outputs(self, handle: Any) -> Array:
        return self._host(handle)

    def inference_settings(self) -> Dict[str, Any]:
        blocks = self.network.blocks.values()
        mode = "imperative"
        if self.network._cached_op is not None:
            mode = "static" if dict(self.network._flags).get("static_shape") else "hybrid"
        return {
            "batch_size": self.last.shape[0],
            "threads": ctypes.CDLL("libgomp.so.1").omp_get_max_threads(),
            "inter_op_threads": int(mx.util.getenv("MXNET_CPU_WORKER_NTHREADS") or 1),
            "deterministic": mx.util.getenv("MXNET_ENFORCE_DETERMINISM") in ("1", "true"),
            "precision": self._precision(self.last),
            "layout": ", ".join(
                sorted({b._kwargs["layout"] for b in blocks if isinstance(b, nn.Conv2D)})
            ),
            "device": self.last.context.device_type,
            "mode": mode,
            "parameters": sum(int(np.prod(p.shape)) for p in self.trained.values()),
        }

    def weights(self) -> Dict[str, Array]:
        with self._unbiased_variances():
            return {n: to_numpy(p.data(self.context)) for n, p in self.parameters.items()}

    def velocities(self) -> Dict[str, Array]:
        # MXNet keeps -rate v, one state per trained parameter in the trainer's order; its
        # kernels take the rate in single precision.
        states = self.trainer._updaters[0].states
        rate = float(np.float32(self.trainer.learning_rate))
        return {name: -to_numpy(states[i]) / rate for i, name in enumerate(self.trained)}

    def matrix_products(self, a: Array, b: Array) -> Tuple[Array, Array]:
        a, b = (self.array(array, self.dtype) for array in (a, b))
        images, filters = a.reshape(0, 0, 1, 1), b.T.reshape(0, 0, 1, 1)
        convolved = nd.Convolution(
            images, filters, kernel=(1, 1), num_filter=b.shape[1], no_bias=True
        )
        # The product of dense layers: mixed precision leaves the bare one alone.
        product = nd.FullyConnected(a, b.T, num_hidden=b.shape[1], no_bias=True)
        return self._host(product), self._host(convolved)[:, :, 0, 0]

    def _host(self, array: Any) -> Any:
        """A network's result as NumPy's array, in the type of the weights."""
        return to_numpy(nd.amp_cast(array, dtype=self.dtype) if self.mixed else array)

    def settings(self) -> Dict[str, Any]:
        optimizer = self.trainer.optimizer
        decays = {optimizer._get_wd(i) for i in range(len(self.trained))} - {0.0}
        if self.shrunk:
            decays = {self.job.optimizer.weight_decay}
        own = self.updates.settings(optimizer, self.steps)
        if self.replicas > 1:
            own["replicas"] = len({images.context for images in self.last})
        return {
            **own,
            "learning_rate": self.trainer.learning_rate,
            "weight_decay": decays.pop() if len(decays) == 1 else float(max(decays, default=0)),
            "batch_size": sum(images.shape[0] for images in self.last),
            # The OpenMP library that MXNet's operators run on, asked itself.
            "threads": ctypes.CDLL("libgomp.so.1").omp_get_max_threads(),
            "precision": self._precision(self.last[0]),
            # As its engine asked the C library when it started; 1 where nobody sets it.
            "inter_op_threads": int(mx.util.getenv("MXNET_CPU_WORKER_NTHREADS") or 1),
            "deterministic": mx.util.getenv("MXNET_ENFORCE_DETERMINISM") in ("1", "true")
            and mx.util.getenv("MXNET_CUDNN_AUTOTUNE_DEFAULT") == "0",
            "layout": ", ".join(
                sorted(
                    {
                        b._kwargs["layout"]
                        for b in self.network.blocks.values()
                        if isinstance(b, nn.Conv2D)
                    }
                )
            ),
            "device": self.last[0].context.device_type,
            "mode": self._mode(),
            "parameters": sum(int(np.prod(p.shape)) for p in self.trained.values()),
        }

    def _precision(self, images: Array) -> Any:
        """That of the weights, and where it is mixed that of the network's output for `images`."""
        types = {np.dtype(p.dtype) for p in self.parameters.values()}
        kept = types.pop().name.replace("float", "fp") if len(types) == 1 else str(types)
        if not self.mixed:
            return kept
        output = self.network(images).dtype  # NumPy has no name for MXNet's bfloat16
        both = kept == "fp32" and np.dtype(output).names == ("bfloat16",)
        return "bf16" if both else "{} with {}".format(kept, output)

    def _mode(self) -> Any:
        """How the block that was trained is run: as its cached graph was made."""
        if self.block._cached_op is None:
            return "imperative"
        return "static" if dict(self.block._flags).get("static_shape") else "hybrid"

    def software(self) -> Software:
        features = mx.runtime.Features()
        return Software(
            "mxnet",
            mx.__version__,
            {
                "cuda": features.is_enabled("CUDA"),
                "onednn": features.is_enabled("MKLDNN"),
            },
        )

    def device_memory_peak(self) -> Optional[float]:
        return None

    def is_out_of_memory(self, error: Exception) -> bool:
        text = str(error)
        return "out of memory" in text or "bad_alloc" in text
