"""JAX: the graph as one pure function, whose training step is compiled once and donates its state.

Images stay in the order (batch, height, width, channels); weights are reordered from the
canonical layout once, when the network is built. XLA's CPU kernels are slow for some layers;
those are spelled out here in operations that it compiles well (docs/measured.md).
"""

import os
import socket
import zlib
from typing import Any, Dict, Optional, Tuple

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from touchstone import optimizers
from touchstone.runner.adapters.jax.capabilities import CAPABILITIES
from touchstone.runner.adapters.jax.inputs import Inputs
from touchstone.runner.adapters.jax.network import (
    ORDER,
    batch_normalised,
    computed_once,
    cross_entropy,
    dropped,
    first_devices,
    layer_of,
    library_conv,
    pool_threads,
)
from touchstone.runner.adapters.jax.profile import SCOPE, profiled_steps, why_unread
from touchstone.runner.adapters.jax.two_sizes import StepOfTwoSizes
from touchstone.runner.channels_last import rows_last
from touchstone.runner.job import Job
from touchstone.schema.events import Software
from touchstone.schema.profile import StepTrace
from touchstone.schema.spec import Layer
from touchstone.schema.types import Array, Arrays

PRECISIONS = {
    ("float32", "float32"): "fp32",
    ("float64", "float64"): "fp64",
    ("float32", "bfloat16"): "bf16",
}
"""By the types of the arrays and of the network's output in training."""
AXIS = "replica"
"""The axis of the devices along which a batch is split."""


class Adapter(Inputs):
    capabilities = CAPABILITIES
    barriers = True
    """Whether XLA keeps the optimisation barriers of `computed_once`."""

    def __init__(self, job: Job, threads: int) -> None:
        self.job = job
        device = job.execution.device
        self.replicas = job.execution.replicas
        self.group: Any = job.group  # of the nodes, one process on each
        self.world_size = self.replicas * (self.group.size if self.group else 1)
        # XLA makes its pool of threads, which all replicas share, when a device is first asked for.
        os.environ["NPROC"] = str(threads * self.replicas)
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        precision = job.execution.precision
        if precision == "fp16-amp":
            raise NotImplementedError("JAX has no loss scaling of its own, which fp16 needs")
        if precision == "tf32" and device == "cpu":
            raise NotImplementedError("TF32 is arithmetic of NVIDIA's GPUs, which no CPU has")
        jax.config.update("jax_enable_x64", precision == "fp64")
        # fp32 means IEEE single precision: no TF32 in products or convolutions.
        products = "tensorfloat32" if precision == "tf32" else "highest"
        jax.config.update("jax_default_matmul_precision", products)
        jax.config.update("jax_platforms", "cpu" if device == "cpu" else "cuda,cpu")
        if device == "cpu" and self.barriers:
            # XLA would remove them before it fuses operations.
            flags = [
                os.environ.get("XLA_FLAGS", ""),
                "--xla_disable_hlo_passes=cse_barrier_expander",
            ]
            os.environ["XLA_FLAGS"] = " ".join(flags).strip()
        if device == "cpu" and self.replicas > 1:
            jax.config.update("jax_num_cpu_devices", self.replicas)
        if self.group:
            if job.rest:
                raise NotImplementedError("JAX's partial batches are not split over nodes here")
            self._join()
        try:
            devices, self.started = first_devices("cpu" if device == "cpu" else "cuda")
        except RuntimeError as fault:
            reason = str(fault).splitlines()[0]
            raise NotImplementedError("JAX sees no CUDA device: " + reason)
        chosen = []
        for process in range(jax.process_count()):
            own = [device for device in devices if device.process_index == process]
            if len(own) < self.replicas:
                message = "JAX sees {} CUDA devices of the {} asked for"
                raise NotImplementedError(message.format(len(own), self.replicas))
            chosen += own[: self.replicas]
        self.device = jax.local_devices()[0]
        self.mesh = Mesh(np.array(chosen), [AXIS])
        self.dtype = np.float64 if precision == "fp64" else np.float32
        self.computed = jnp.bfloat16 if precision == "bf16" else self.dtype
        self.supplied = job.supplied_masks
        self.optimizer = job.optimizer

    def _join(self) -> None:
        """Find the processes of the other nodes."""
        address = self.group.address
        jax.distributed.initialize(
            address, self.group.size, self.group.rank, coordinator_bind_address=address,
            cluster_detection_method="deactivate",
        )  # fmt: skip

    def build(self, weights: Dict[str, Array]) -> None:
        self.layers = self.job.network.layers
        self.by_name = {layer["name"]: layer for layer in self.layers}
        self.parameters = {p.name: p for p in self.job.network.parameters}
        self.trained = [name for name, p in self.parameters.items() if p.trainable]
        arrays = {
            name: jnp.asarray(self._native(name, array), self.dtype)
            for name, array in weights.items()
        }
        self.equation = optimizers.load(self.optimizer.name)
        own = self.optimizer.settings
        self.state = {
            "arrays": arrays,
            "moments": {
                name: [jnp.zeros_like(arrays[name]) for _ in range(self.equation.states(own))]
                for name in self.trained
            },
            "scalars": jnp.zeros(1 + len(self.equation.corrections(1, own)), self.dtype),
        }
        self.steps, self.batch_size = 0, 0
        self.masks: Dict[str, Any] = {}
        self.key = jax.random.key(self.job.seed, impl="rbg")
        step = self._step
        if self.world_size > 1:
            self.state = self._everywhere(self.state)
            same, split = PartitionSpec(), PartitionSpec(AXIS)
            step = jax.shard_map(
                step, mesh=self.mesh, in_specs=(same, same, split, split, same, same, same),
                # Running statistics are each replica's own, which no check would allow.
                out_specs=(same, same), check_vma=False,
            )  # fmt: skip
        jitted = jax.jit(step, donate_argnums=0)
        self.step: Any = StepOfTwoSizes(jitted, self.job.rest) if self.job.rest else jitted
        if self.group:
            from jax.experimental import multihost_utils

            name = np.uint32(zlib.crc32(socket.gethostname().encode()))
            self.hosts = set(multihost_utils.process_allgather(name).tolist())
        self.forward = jax.jit(lambda arrays, images: self._forward(arrays, images)[0])

    def _everywhere(self, arrays: Arrays) -> Any:
        """Arrays put on the device of every replica."""
        if self.world_size == 1:
            return jax.device_put(arrays)
        return self._spread(arrays, PartitionSpec())

    def _spread(self, arrays: Any, spec: Any) -> Any:
        """Arrays put on all devices as `spec` says, of which every node has its own part."""
        sharding = NamedSharding(self.mesh, spec)
        if not self.group:
            return jax.device_put(arrays, sharding)
        return jax.tree.map(
            lambda part: jax.make_array_from_process_local_data(sharding, np.asarray(part)), arrays
        )

    def _native(self, name: str, array: Any) -> Any:
        """A canonical array in JAX's layout."""
        layer = self.by_name[name.split(".")[0]]
        if array.ndim == 4:
            return array.transpose(2, 3, 1, 0)
        if array.ndim == 2 and layer["op"] in ("dense", "lstm"):
            return rows_last(array, layer.get("image")).T
        return array

    def _canonical(self, name: str, array: Any) -> Any:
        """What `_native` was made from, as NumPy's array."""
        array, layer = np.array(array), self.by_name[name.split(".")[0]]
        if array.ndim == 4:
            return array.transpose(3, 2, 0, 1)
        if array.ndim == 2 and layer["op"] in ("dense", "lstm"):
            array, image = array.T, layer.get("image")
            if image:
                height, width, channels = image
                array = array.reshape(-1, height, width, channels).transpose(0, 3, 1, 2)
            return array.reshape(len(array), -1)
        return array

    def set_masks(self, masks: Dict[str, Array]) -> None:
        self.masks = {
            name: jnp.asarray(rows_last(mask, self.by_name[name]["image"]), self.dtype)
            for name, mask in masks.items()
        }

    def _forward(self, arrays: Arrays, images: Array, drop: Any = None) -> Any:
        """The output, and the running statistics that a training step leaves.

        `drop(layer, x)` is dropout in a training step; None stands for evaluation.
        """
        # The bytes of a text stay exact.
        values, statistics = {"input": images.astype(self.computed)}, {}
        for layer in self.layers:
            name, op, at = layer["name"], layer["op"], layer.get("embedding", layer["name"])
            inputs = [values[source] for source in layer["inputs"]]
            own = {
                kind: arrays[at + "." + kind]
                for kind in ("weight", "recurrent", "bias", "scale", "offset", "mean", "variance")
                if at + "." + kind in arrays
            }
            # What normalises stays as it is kept.
            for kind in own.keys() & {"weight", "recurrent", "bias"}:
                own[kind] = own[kind].astype(self.computed)
            with jax.named_scope(SCOPE + name):
                if op in ("dropout", "stochastic_depth"):
                    value = drop(layer, inputs[0]) if drop else inputs[0]
                elif op == "batch_norm" and drop:
                    value, mean, variance = batch_normalised(
                        layer["epsilon"], inputs[0].astype(self.dtype), own["scale"], own["offset"]
                    )
                    count = value.size // value.shape[3]
                    batch = {"mean": mean, "variance": variance * (count / (count - 1))}
                    for kind, fresh in batch.items():
                        kept = layer["momentum"] * own[kind]
                        statistics[name + "." + kind] = kept + (1 - layer["momentum"]) * fresh
                elif op == "conv" and self.device.platform != "cpu":
                    value = library_conv(layer, inputs[0], own["weight"])
                else:
                    value = layer_of(layer, inputs, own)
                if "bias" in own and op != "lstm":
                    value = value + own["bias"]
                value = value.astype(self.computed)
                if self.device.platform == "cpu" and op in ("conv", "add"):
                    value = computed_once(value)
            values[name] = value
        output = values[self.job.network.output]
        self.output = output.dtype.name
        return output.astype(self.dtype), statistics

    def _step(
        self, state: Any, data: Any, batch: Any, draws: Array, masks: Any, scalars: Any, number: int
    ) -> Any:
        """One step: the new state and the mean loss; `scalars` as in `_scalars`."""
        images, labels = self._batch(data, batch)
        if self.job.augmentation:
            images = self._augmented(images, draws)
        self.batch_size = len(labels) * self.world_size
        key = jax.random.fold_in(self.key, number)
        if self.world_size > 1:
            key = jax.random.fold_in(key, lax.axis_index(AXIS))

        def drop(layer: Layer, x: Any) -> Any:
            if self.supplied:
                return x * masks[layer["name"]]
            return dropped(jax.random.fold_in(key, self.layers.index(layer)), layer, x)

        def mean_loss(trained: Any) -> Any:
            logits, statistics = self._forward({**state["arrays"], **trained}, images, drop)
            return cross_entropy(logits, labels), statistics

        trained = {name: state["arrays"][name] for name in self.trained}
        (loss, statistics), gradients = jax.value_and_grad(mean_loss, has_aux=True)(trained)
        if self.world_size > 1:
            loss, gradients = lax.pmean((loss, gradients), AXIS)
        moments = {}
        for name, gradient in gradients.items():
            array, parameter = trained[name], self.parameters[name]
            if parameter.l1:
                gradient += parameter.l1 * jnp.sign(array)
            if parameter.l2:
                gradient += 2 * parameter.l2 * array
            decayed = name.split(".")[1] not in self.optimizer.spared
            trained[name], moments[name] = self._update(
                array, gradient, state["moments"][name], scalars, decayed
            )
        arrays = {**state["arrays"], **statistics, **trained}
        return {"arrays": arrays, "moments": moments, "scalars": scalars}, loss

    def _update(
        self, array: Any, gradient: Any, moments: Any, scalars: Any, decayed: bool = True
    ) -> Any:
        """What the update equation makes of an array and its moments."""
        rate, own = scalars[0], self.optimizer.settings
        if decayed:
            array, gradient = self._with_decay(array, gradient, rate)
        direction, moments = self.equation.direction(gradient, moments, scalars[1:], own, jnp.sqrt)
        return array - rate * direction, moments

    def _with_decay(self, array: Any, gradient: Any, rate: Any) -> Any:
        """An array and its gradient with weight decay."""
        decay = self.optimizer.weight_decay
        if not decay:
            return array, gradient
        if self.optimizer.decoupled:
            return array * (1 - rate * decay), gradient
        return array, gradient + decay * array

    def _scalars(self, rates: Array) -> Any:
        """Of every step the rate, and the corrections of the update equation."""
        own = self.optimizer.settings
        scalars = [
            (rate, *self.equation.corrections(self.steps + 1 + i, own))
            for i, rate in enumerate(rates)
        ]
        return np.array(scalars, self.dtype)

    def train_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> Any:
        if isinstance(batches, np.ndarray):
            batches = [(batches.astype(np.int32),)]
        every = [arrays for part in batches for arrays in zip(*part)]
        losses = []
        for i, (batch, scalars) in enumerate(zip(every, self._scalars(rates))):
            cut = None if draws is None else draws[i]
            if self.group:
                batch, cut = self._spread((batch, cut), PartitionSpec(AXIS))
            number = np.uint32(self.steps + i)
            self.state, loss = self.step(
                self.state, self.data, batch, cut, self.masks, scalars, number
            )
            losses.append(loss)
        self.steps += len(rates)
        return losses

    def why_no_profile(self) -> Optional[str]:
        return why_unread()

    def profile_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> StepTrace:
        return profiled_steps(self, batches, rates, draws)

    def losses(self, handle: Any) -> Array:
        return np.array(jax.device_get(handle))

    def synchronize(self) -> None:
        jax.block_until_ready(self.state)

    def logits(self, images: Array) -> Array:
        arrays = self.state["arrays"]
        if self.world_size > 1:
            arrays = {name: array.addressable_data(0) for name, array in arrays.items()}
        return np.array(self.forward(arrays, images.astype(self.dtype)))

    def prepare(self, images: Array) -> Any:
        return images.astype(self.dtype, copy=False)

    def predict(self, batch: Any) -> Any:
        self.predicted = self.forward(self.state["arrays"], batch)
        return self.predicted

    def fetch_outputs(self, handle: Any) -> Array:
        return np.asarray(handle)

    def inference_settings(self) -> Dict[str, Any]:
        arrays = self.state["arrays"]
        platforms = {device.platform for device in self.predicted.devices()}
        return {
            "batch_size": len(self.predicted),
            "threads": pool_threads(self.started),
            "precision": self._precision(self._types()),
            "device": platforms.pop(),
            "mode": "jit" if self.forward._cache_size() else "not compiled",
            "parameters": sum(arrays[name].size for name in self.trained),
        }

    def weights(self) -> Dict[str, Array]:
        return {name: self._canonical(name, a) for name, a in self.state["arrays"].items()}

    def velocities(self) -> Dict[str, Array]:
        return {name: self._canonical(name, own[0]) for name, own in self.state["moments"].items()}

    def matrix_products(self, a: Array, b: Array) -> Tuple[Array, Array]:
        @jax.jit
        def both(a: Any, b: Any) -> Any:
            a, b = a.astype(self.computed), b.astype(self.computed)
            convolved = lax.conv_general_dilated(
                a[:, None, None], b[None, None], (1, 1), "VALID", dimension_numbers=ORDER
            )
            return (a @ b).astype(self.dtype), convolved[:, 0, 0].astype(self.dtype)

        product, convolved = both(a.astype(self.dtype), b.astype(self.dtype))
        return np.array(product), np.array(convolved)

    def settings(self) -> Dict[str, Any]:
        arrays = list(self.state["arrays"].values())
        devices = {device for array in arrays for device in array.devices()}
        platforms = {device.platform for device in devices}
        own = self._probed()
        own["batch_size"] = self.step.last_size if self.job.rest else self.batch_size
        if self.world_size > 1:
            own["replicas"] = len(devices)
        if self.group:
            own["nodes"] = len(self.hosts)
        return {
            **own,
            "threads": pool_threads(self.started) // self.replicas,
            "precision": self._precision(self._types()),
            "device": platforms.pop() if len(platforms) == 1 else str(platforms),
            "mode": "jit" if self.step._cache_size() else "not compiled",
            "parameters": sum(self.state["arrays"][name].size for name in self.trained),
        }

    def _types(self) -> Any:
        return {array.dtype.name for array in self.state["arrays"].values()}

    def _precision(self, types: Any) -> Any:
        """That of the arrays of these types and of the network's output, and whether TF32 is
        allowed."""
        precision = PRECISIONS.get((*types, self.output), str([*types, self.output]))
        allowed = jax.config.jax_default_matmul_precision == "tensorfloat32"
        return "tf32" if precision == "fp32" and allowed else precision

    def _probed(self) -> Any:
        """The settings of the update equation, from what it makes of single numbers.

        The rate is that of the last step. The probes have a large one, beside which the
        array's own 1 is rounding.
        """
        update, large = jax.jit(self._update), 2.0**30
        scalars = np.ones(self.state["scalars"].shape, self.dtype)
        scalars[0] = large
        unit, zero = np.ones((), self.dtype), np.zeros((), self.dtype)
        shrunk, added = jax.jit(self._with_decay)(unit, zero, scalars[0])
        none = [0.0] * len(self.state["moments"][self.trained[0]])

        def stepped(gradient: float, moments: Any) -> Any:
            slope, *kept = np.array([gradient, *moments], self.dtype)
            moved, kept = update(zero, slope, kept, scalars)
            return float(moved) / -large, [float(moment) for moment in kept]

        return {
            **self.equation.solved(stepped, len(none)),
            "optimizer": self.optimizer.name,
            "learning_rate": float(self.state["scalars"][0]),
            "weight_decay": float(added) or (1 - float(shrunk)) / large,
        }

    def software(self) -> Software:
        return Software(
            "jax",
            jax.__version__,
            {
                "jaxlib": jaxlib.__version__,
                "platform_version": self.device.client.platform_version,
            },
        )

    def device_memory_peak(self) -> Optional[float]:
        if self.device.platform == "cpu":
            return None
        return float(self.device.memory_stats()["peak_bytes_in_use"]) / 2**20

    def is_out_of_memory(self, error: Exception) -> bool:
        return isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
