"""TensorFlow: the graph as raw operations in one `tf.function` that loops over a chunk.

Images stay in TensorFlow's own order (batch, height, width, channels); weights are
reordered from the canonical layout once, when the network is built.
"""

from typing import Any, Dict, List, Optional

import numpy as np
import tensorflow as tf
from tensorflow.python.util import _pywrap_util_port as port

from touchstone import optimizers
from touchstone.runner.adapters.tensorflow.capabilities import CAPABILITIES
from touchstone.runner.adapters.tensorflow.inputs import Inputs
from touchstone.runner.adapters.tensorflow.network import (
    Layers,
)
from touchstone.runner.adapters.tensorflow.optimizers import OPTIMIZERS
from touchstone.runner.adapters.tensorflow.profile import NOT_OF_XLA, profiled_steps
from touchstone.runner.adapters.tensorflow.settings import Settings
from touchstone.runner.job import Job
from touchstone.runner.windows import columns
from touchstone.schema.profile import StepTrace
from touchstone.schema.types import Array, Arrays

COMPUTED = {"fp64": tf.float64, "bf16": tf.bfloat16, "fp16-amp": tf.float16}
"""What the layers compute in, where it is not single precision."""
FIRST_SCALE, GROWTH = 2.0**15, 2000
"""Of the dynamic loss scaling, as in Keras's LossScaleOptimizer: where it begins, and after how
many finite steps it doubles; it halves after every other one."""


class Adapter(Inputs, Layers, Settings):
    capabilities = CAPABILITIES

    def __init__(self, job: Job, threads: int) -> None:
        self.job, self.replicas = job, job.execution.replicas
        threads *= self.replicas  # which share one pool
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        precision = job.execution.precision
        self.with_onednn = job.execution.mode == "function_onednn"
        if self.with_onednn and job.execution.device == "gpu":
            raise NotImplementedError("function_onednn chooses kernels for CPUs; use function")
        if self.with_onednn and not port.IsMklEnabled():
            raise NotImplementedError("this build of TensorFlow has no kernels of oneDNN")
        if precision == "tf32" and job.execution.device == "cpu":
            raise NotImplementedError("TF32 is arithmetic of NVIDIA's GPUs, which no CPU has")
        # fp32 means IEEE single precision: no TF32 in products or convolutions.
        tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
        if job.rest and job.execution.mode == "xla":
            raise NotImplementedError(
                "XLA compiles for one batch size, and would do so again for the partial batch in"
                " the measured phase"
            )
        devices = tf.config.list_physical_devices("GPU")
        if job.execution.device == "cpu":
            tf.config.set_visible_devices([], "GPU")
        elif not devices:
            raise NotImplementedError("TensorFlow sees no GPU")
        for device in devices:
            tf.config.experimental.set_memory_growth(device, True)
        self.strategy, self.places = None, [None]
        if self.replicas > 1:
            self.places = self._places(len(devices))
        self.supplied = job.supplied_masks
        self.optimizer = job.optimizer
        self.dtype = tf.float64 if precision == "fp64" else tf.float32
        self.computed = COMPUTED.get(precision, tf.float32)
        self.scaled = precision == "fp16-amp"

    def _places(self, gpus: Any) -> Any:
        """The devices of the replicas: GPUs, or as many logical devices of the CPU."""
        execution = self.job.execution
        if execution.mode == "xla":
            raise NotImplementedError(
                "XLA compiles a whole step here, which replicas would have to leave to exchange"
                " gradients"
            )
        if execution.precision == "fp16-amp":
            raise NotImplementedError("fp16-amp has one loss scale here, for one replica")
        if execution.device == "cpu":
            (cpu,) = tf.config.list_physical_devices("CPU")
            logical = [tf.config.LogicalDeviceConfiguration() for _ in range(self.replicas)]
            tf.config.set_logical_device_configuration(cpu, logical)
        elif gpus < self.replicas:
            message = "TensorFlow sees {} GPUs of the {} asked for"
            raise NotImplementedError(message.format(gpus, self.replicas))
        return [f"{execution.device.upper()}:{i}" for i in range(self.replicas)]

    def make_deterministic(self) -> None:
        tf.random.set_seed(self.job.seed)
        tf.config.experimental.enable_op_determinism()

    def extra_settings(self) -> Dict[str, Any]:
        scaling = {"loss_scaling": "dynamic"} if self.scaled else {}
        return {"inter_op_threads": None, "layout": "NHWC", "onednn": None, **scaling}

    def hints(self) -> List[str]:
        execution = self.job.execution
        if execution.device == "gpu" or execution.mode == "xla" or port.IsMklEnabled():
            return []
        return [
            "TensorFlow does not use oneDNN's kernels on this processor unless asked to; the mode "
            "function_onednn asks for them and may be much faster"
        ]

    def build(self, weights: Dict[str, Array]) -> None:
        self.layers = self.job.network.layers
        self.by_name = {layer["name"]: layer for layer in self.layers}
        self.parameters = {p.name: p for p in self.job.network.parameters}
        self.trained = [name for name, p in self.parameters.items() if p.trainable]
        if self.replicas > 1:
            self.strategy = tf.distribute.MirroredStrategy(self.places)
        self.copies = []
        for place in self.places:
            with tf.device(place):
                self.copies.append(self._copy(weights))
        self.steps = 0
        self.loss_scale = tf.Variable(FIRST_SCALE, trainable=False)
        self.finite_steps = tf.Variable(0, trainable=False)
        own = self.optimizer.settings
        self.update = OPTIMIZERS[self.optimizer.name]
        scalars = 1 + len(self.update.numbers(1, 1.0, own))
        self.last_scalars = tf.Variable(tf.zeros(scalars, self.dtype), trainable=False)
        self.last_size = tf.Variable(self.job.batch_size, trainable=False)
        self.masks = {}
        self.forward = tf.function(lambda images: self._forward(images, False), autograph=False)
        size = None if self.job.rest else self.job.batch_size
        batches = tf.TensorSpec([None, size], tf.int64)
        if self.job.input == "records":
            pixels = int(np.prod(self.job.data.shape))
            batches = tf.TensorSpec([None, size, pixels], tf.uint8), batches
        self.signature = [
            batches,
            tf.TensorSpec([None, scalars], self.dtype),
            tf.TensorSpec([None, size, columns(self.job.crop_area)], tf.int32),
        ]
        # XLA compiles for fixed shapes, and chunks differ in length: so a step, not a chunk.
        xla = self.job.execution.mode == "xla"
        self.dilates = self.computed == tf.float32 and (xla or self._dilates())
        compiled = tf.function(self._step, jit_compile=True, autograph=False)
        self.step = compiled if xla else self._step
        # Rewriting Python into a graph took longer than all else of the first step.
        self.chunk = tf.function(self._chunk, input_signature=self.signature, autograph=False)
        predictor = tf.function(self.forward.python_function, jit_compile=True, autograph=False)
        self.predictor = self.forward
        if xla:
            self.predictor = tf.function(lambda images: predictor(images), autograph=False)

    def _copy(self, weights: Arrays) -> Any:
        """The variables and the optimiser's states of a replica."""
        variables = {
            name: tf.Variable(
                self._native(name, array),
                self.parameters[name].trainable,
                name=name.replace(".", "_"),
                dtype=self.dtype,
            )
            for name, array in weights.items()
        }
        count = optimizers.load(self.optimizer.name).states(self.optimizer.settings)
        states = {
            name: [
                tf.Variable(tf.zeros_like(variables[name]), trainable=False) for _ in range(count)
            ]
            for name in self.trained
        }
        return variables, states

    def _replica(self) -> Any:
        """The number of the replica whose part of a step is being traced; 0 outside of one."""
        inside = tf.distribute.get_replica_context() if self.strategy else None
        return int(tf.get_static_value(inside.replica_id_in_sync_group)) if inside else 0

    @property
    def variables(self) -> Any:
        return self.copies[self._replica()][0]

    @property
    def states(self) -> Any:
        return self.copies[self._replica()][1]

    def _step(self, images: Array, labels: Array, scalars: Any, draws: Array) -> Any:
        if self.job.augmentation:
            images = self._augmented(images, draws)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self._losses(labels, self._forward(images, True)))
            target = loss * self.loss_scale if self.scaled else loss
        gradients = tape.gradient(target, [self.variables[name] for name in self.trained])
        if self.strategy:
            gradients = tf.distribute.get_replica_context().all_reduce("MEAN", gradients)
        if self.scaled:
            self._update_if_finite([g / self.loss_scale for g in gradients], scalars)
        else:
            self._update_all(gradients, scalars)
        return loss

    def _losses(self, labels: Array, logits: Any) -> Any:
        """The cross-entropy of every example."""
        if self.dtype == tf.float64 and self.job.execution.device == "gpu":
            # TensorFlow's sparse kernel for GPUs has no double precision: every step would copy
            # its logits to the CPU and back.
            right = tf.one_hot(labels, logits.shape[1], dtype=self.dtype)
            return tf.nn.softmax_cross_entropy_with_logits(right, logits)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    def _update_if_finite(self, gradients: Any, scalars: Any) -> None:
        """Leave the step out where a gradient is not finite; change the loss scale after it."""

        def taken() -> Any:
            self._update_all(gradients, scalars)
            steps = self.finite_steps + 1
            grows = steps >= GROWTH
            factor = tf.where(grows, 2.0, 1.0)
            return self.loss_scale * factor, tf.where(grows, 0, steps)

        def left_out() -> Any:
            return self.loss_scale / 2, tf.constant(0)

        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in gradients])
        scale, steps = tf.cond(finite, taken, left_out)
        self.loss_scale.assign(scale)
        self.finite_steps.assign(steps)

    def _update_all(self, gradients: Any, scalars: Any) -> None:
        for name, gradient in zip(self.trained, gradients):
            self._update(name, tf.convert_to_tensor(gradient), scalars)

    def _update(self, name: str, gradient: Any, scalars: Any) -> None:
        """The update equation; `scalars` as in `_scalars`."""
        optimizer, variable, parameter = self.optimizer, self.variables[name], self.parameters[name]
        if parameter.l1:
            gradient += parameter.l1 * tf.sign(variable)
        if parameter.l2:
            gradient += 2 * parameter.l2 * variable
        decay = optimizer.weight_decay
        if decay and name.split(".")[1] not in optimizer.spared:
            if optimizer.decoupled:
                variable.assign(variable * (1 - scalars[0] * decay))
            else:
                gradient += decay * variable
        self.update.take(variable, self.states[name], gradient, scalars, optimizer.settings)

    def _chunk(self, batches: Any, scalars: Any, draws: Array) -> Any:
        steps = tf.shape(scalars)[0]
        columns = tf.unstack(scalars, axis=1)
        indices = batches[1] if self.job.input == "records" else batches
        size = tf.shape(indices)[1] if self.job.rest else self.job.batch_size
        if self.job.input == "memory":
            batches = self._gathered(batches)

        def replica_losses(i: Any) -> Any:
            cut = self._share(draws[i]) if self.job.augmentation else None
            images, labels = self._batch(batches, i)
            return self.step(images, labels, [column[i] for column in columns], cut)

        def step(i: Any, losses: Any) -> Any:
            if not self.strategy:
                return i + 1, losses.write(i, replica_losses(i))
            parts = self.strategy.run(replica_losses, (i,))
            return i + 1, losses.write(i, self.strategy.reduce("MEAN", parts, axis=None))

        start = 0, tf.TensorArray(self.dtype, size=steps)
        _, losses = tf.while_loop(lambda i, _: i < steps, step, start)
        self.last_scalars.assign(scalars[steps - 1])
        if self.job.rest:
            self.last_size.assign(size)
        return losses.stack()

    def _scalars(self, rates: Array) -> Any:
        """What the update equation wants of every step: the rate, and its other numbers."""
        own = self.optimizer.settings
        scalars = [
            (rate, *self.update.numbers(self.steps + 1 + i, rate, own))
            for i, rate in enumerate(rates)
        ]
        return tf.constant(scalars, self.dtype)

    def train_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> Any:
        scalars = self._scalars(rates)
        self.steps += len(rates)
        if isinstance(batches, np.ndarray):
            batches = tf.constant(batches)
        else:
            batches = tuple(tf.concat(p, 0) if len(p) > 1 else p[0] for p in zip(*batches))
        if draws is None:
            draws = np.empty((0, self.job.batch_size, columns(self.job.crop_area)), np.int32)
        return self.chunk(batches, scalars, tf.constant(draws))

    def why_no_profile(self) -> Optional[str]:
        return NOT_OF_XLA if self.job.execution.mode == "xla" else None

    def profile_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> StepTrace:
        return profiled_steps(self, batches, rates, draws)

    def losses(self, handle: Any) -> Array:
        return handle.numpy()

    def synchronize(self) -> None:
        if self.job.execution.device == "gpu":
            tf.test.experimental.sync_devices()

    def logits(self, images: Array) -> Array:
        return self.forward(tf.constant(images, self.dtype)).numpy()

    def prepare(self, images: Array) -> Any:
        return images.astype(self.dtype.as_numpy_dtype, copy=False)

    def predict(self, batch: Any) -> Any:
        self.predicted = batch
        return self.predictor(tf.constant(batch))

    def fetch_outputs(self, handle: Any) -> Array:
        return handle.numpy()

    def weights(self) -> Dict[str, Array]:
        return {name: self._canonical(name, v.numpy()) for name, v in self.variables.items()}

    def velocities(self) -> Dict[str, Array]:
        return {name: self._canonical(name, own[0].numpy()) for name, own in self.states.items()}

    def device_memory_peak(self) -> Optional[float]:
        if self.job.execution.device == "cpu":
            return None
        return float(tf.config.experimental.get_memory_info("GPU:0")["peak"]) / 2**20

    def is_out_of_memory(self, error: Exception) -> bool:
        return isinstance(error, tf.errors.ResourceExhaustedError)

    def unsupported_reason(self, error: Exception) -> Optional[str]:
        # Determinism, where an operation or XLA has none; what XLA does not know at all.
        words = ("determinis", "Detected unsupported operations")
        lines = str(error).splitlines() if isinstance(error, tf.errors.OpError) else []
        return next((line for line in lines if any(word in line for word in words)), None)
