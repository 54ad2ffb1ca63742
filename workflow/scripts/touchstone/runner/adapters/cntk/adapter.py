"""CNTK: the graph as one CNTK function, updated by a Trainer with a learner of its own."""

import ctypes
import math
import os
from typing import Any, Dict, List, Optional, Tuple

import cntk as C
import numpy as np

from touchstone import optimizers
from touchstone.runner.adapters.cntk.capabilities import CAPABILITIES
from touchstone.runner.adapters.cntk.inputs import Inputs
from touchstone.runner.adapters.cntk.network import (
    ACTIVATIONS,
    covered,
    depthwise,
    dilated_filter,
    dropped,
    has_avx2,
    is_another,
    mask_shape,
    require_able,
    with_padding,
)
from touchstone.runner.job import Job
from touchstone.schema.events import Software
from touchstone.schema.spec import Layer, Network
from touchstone.schema.types import Array

OWN_LEARNERS = {"sgd"}
"""The optimizers that CNTK has learners of, where `is_another` finds their equation to be ours; all
are written in its operations too."""
LARGE = 2.0**30
"""A number beside which a weight is rounding."""
AVX2 = 5
"""What MKL's own variable calls AVX2, and its library tells of itself."""
PRECISIONS = {"fp32": np.float32, "fp64": np.float64}


class Adapter(Inputs):
    """Images are (batch, channels, height, width)."""

    capabilities = CAPABILITIES

    def __init__(self, job: Job, threads: int) -> None:
        self.job = job
        if job.execution.device == "gpu":
            raise NotImplementedError("CNTK's wheel for CPUs sees no GPU")
        # MKL looks at this when it first computes, which is later than its import.
        os.environ.pop("MKL_DEBUG_CPU_TYPE", None)
        if job.execution.mode == "mkl_avx2":
            if not has_avx2():
                raise NotImplementedError("this processor has no AVX2, which mkl_avx2 means")
            os.environ["MKL_DEBUG_CPU_TYPE"] = str(AVX2)
        self.mkl = ctypes.CDLL("libmklml_intel.so")  # as CNTK has loaded it
        C.device.try_set_default_device(C.device.cpu())
        C.cntk_py.set_max_num_cputhreads(threads)
        precision = job.execution.precision
        if precision not in PRECISIONS:
            raise NotImplementedError("CNTK has only fp32 and fp64 on CPUs, not " + precision)
        self.dtype = PRECISIONS[precision]
        require_able(job)

    def build(self, weights: Dict[str, Array]) -> None:
        network = self.job.network
        trained = {p.name for p in network.parameters if p.trainable}
        self.layers = {layer["name"]: layer for layer in network.layers}
        self.arrays = {}
        for name, array in weights.items():
            array = self._native(name, array)
            self.arrays[name] = self._parameter(array) if name in trained else self._constant(array)
        height, width, channels = network.input
        self.image = C.input_variable((channels, height, width), dtype=self.dtype)
        self.label = C.input_variable(self.job.data.classes, dtype=self.dtype)
        self.one_hot = np.eye(self.job.data.classes, dtype=self.dtype)
        self.masks = {}
        if self.job.supplied_masks:
            self.masks = {
                name: C.input_variable(mask_shape(layer), dtype=self.dtype)
                for name, layer in self.layers.items()
                if layer["op"] in ("dropout", "stochastic_depth")
            }
        self.supplied: Dict[str, Any] = {}
        self.model = self._function(network)
        learners = self._learners()
        loss = C.cross_entropy_with_softmax(self.model, self.label)
        self.trainer = C.Trainer(self.model, (loss,), learners)

    def _parameter(self, array: Any) -> Any:
        return C.Parameter(array.shape, init=array, dtype=self.dtype)

    def _constant(self, array: Any) -> Any:
        return C.Constant(np.asarray(array, self.dtype), dtype=self.dtype)

    def _native(self, name: str, array: Any) -> Any:
        """A canonical array as CNTK's layer takes it; CNTK is given vectors from the left."""
        layer, kind = name.split(".")
        op = self.layers[layer]["op"]
        if op in ("dense", "lstm") and array.ndim == 2:
            array = array.T
        elif op == "conv" and kind == "bias":
            array = array.reshape(-1, 1, 1)
        return np.ascontiguousarray(array, self.dtype)

    def _canonical(self, name: str, array: Any) -> Any:
        layer, kind = name.split(".")
        if self.layers[layer]["op"] in ("dense", "lstm") and array.ndim == 2:
            return array.T
        return array.ravel() if kind == "bias" else array

    def _function(self, network: Network) -> Any:
        """The graph as a function of `self.image`."""
        values = {"input": self.image}
        shapes = {"input": network.input}
        shapes.update({layer["name"]: layer["shape"] for layer in network.layers})
        for layer in network.layers:
            inputs = [values[source] for source in layer["inputs"]]
            own = {
                name.split(".")[1]: array
                for name, array in self.arrays.items()
                if name.split(".")[0] == layer["name"]
            }
            shape = shapes[layer["inputs"][0]]
            values[layer["name"]] = self._layer(layer, inputs, shape, own)
        return values[network.output]

    def _layer(self, layer: Layer, inputs: Any, shape: Any, own: Any) -> Any:
        """What the layer makes of its inputs, of which the first has this shape."""
        op, x = layer["op"], inputs[0]
        if op == "conv":
            kernel, dilation = own["weight"], layer["dilation"]
            if dilation > 1:
                kernel = dilated_filter(kernel, dilation)
            if kernel.shape[:2] == (shape[2], 1):
                x = depthwise(x, kernel, layer)
            else:
                x, pads, _ = with_padding(x, layer, shape, kernel.shape[2:], 0)
                strides = (layer["stride"],) * 2
                x = C.convolution(kernel, x, strides, auto_padding=pads, groups=layer["groups"])
        elif op == "dense":
            x = C.times(x, own["weight"])
        if op in ("conv", "dense"):
            return x + own["bias"] if layer["bias"] else x
        if op in ("max_pool", "avg_pool"):
            return self._pooled(x, layer, shape)
        if op == "batch_norm":
            return self._normalised(x, layer, own)
        if op == "lrn" and layer["size"] % 2:
            # Its alpha is ours, divided by the size, whatever its own description says.
            settings = layer["size"] // 2, layer["k"], layer["alpha"], layer["beta"]
            return C.local_response_normalization(x, *settings)
        if op == "global_avg_pool":
            means = C.pooling(x, C.AVG_POOLING, tuple(shape[:2]))
            return C.reshape(means, (shape[2],))
        if op in ACTIVATIONS:
            return ACTIVATIONS[op](x)
        if op in ("dropout", "stochastic_depth"):
            return dropped(layer, x, self.masks.get(layer["name"]), self.job.seed)
        if op == "flatten":
            return C.reshape(x, (-1,))
        if op == "add":
            return sum(inputs[1:], x)
        if op == "multiply":
            return x * C.reshape(inputs[1], (-1, 1, 1))
        if op == "concat":
            return C.splice(*inputs, axis=0)
        if op == "embedding":
            return C.gather(own["weight"], C.reshape(x, (shape[0],)))
        if op == "position":
            return x + own["weight"]
        if op == "layer_norm" and len(shape) == 2:
            x = x - C.reduce_mean(x, 1)
            root = C.sqrt(C.reduce_mean(x * x, 1) + self._constant([layer["epsilon"]]))
            return x / root * own["scale"] + own["offset"]
        if op == "attention":
            return self._attention(x, shape, layer["heads"])
        if op == "lstm":
            return self._lstm(x, shape[0], layer, own)
        if op == "mean_over_steps":
            return C.reshape(C.reduce_mean(x, 0), (shape[1],))
        raise NotImplementedError("CNTK's adapter has no layer {} like {}".format(op, layer))

    def _attention(self, x: Any, shape: Any, heads: Any) -> Any:
        """Self-attention of queries, keys and values that lie side by side, head by head."""
        width = shape[1] // 3
        size = width // heads
        outputs = []
        for head in range(heads):
            begins = [part * width + head * size for part in range(3)]
            q, k, v = (C.slice(x, 1, begin, begin + size) for begin in begins)
            shares = C.times(q * self._constant([size**-0.5]), C.transpose(k, (1, 0)))
            outputs.append(C.times(C.softmax(shares, 1), v))
        return C.splice(*outputs, axis=1)

    def _lstm(self, x: Any, steps: int, layer: Layer, own: Any) -> Any:
        """An LSTM, step by step; the inputs of all steps are multiplied at once."""
        units = layer["units"]
        inputs = C.times(x, own["weight"]) + own["bias"]
        h = c = self._constant(np.zeros((1, units)))
        states = []
        for step in range(steps):
            gates = C.slice(inputs, 0, step, step + 1) + C.times(h, own["recurrent"])
            i, f, g, o = (C.slice(gates, 1, k * units, (k + 1) * units) for k in range(4))
            c = C.sigmoid(f) * c + C.sigmoid(i) * C.tanh(g)
            h = C.sigmoid(o) * C.tanh(c)
            states.append(h)
        return C.splice(*states, axis=0) if layer["sequence"] else C.reshape(h, (units,))

    def _pooled(self, x: Any, layer: Layer, shape: Any) -> Any:
        size, average = layer["size"], layer["op"] == "avg_pool"
        kind = C.AVG_POOLING if average else C.MAX_POOLING
        padded, pads, ceil = with_padding(x, layer, shape, (size, size), 0 if average else -3.4e38)
        pooled = C.pooling(padded, kind, (size, size), (layer["stride"],) * 2, pads, ceil)
        if average and padded is not x:
            # These zeros were counted: a window has fewer pixels than it is large.
            pixels = [covered(layer, shape, axis) for axis in (0, 1)]
            pooled = pooled * self._constant(size * size / np.outer(*pixels)[None])
        return pooled

    def _normalised(self, x: Any, layer: Layer, own: Any) -> Any:
        """Batch normalisation; CNTK has a time constant for the momentum of the statistics."""
        momentum = layer["momentum"]
        constant = -self.job.batch_size / math.log(momentum) if momentum else 0
        return C.batch_normalization(
            x, own["scale"], own["offset"], own["mean"], own["variance"], spatial=True,
            normalization_time_constant=constant, epsilon=layer["epsilon"],
            # With a count of 0 it would take the first batch's statistics for the running ones.
            running_count=self._constant(np.array(1)),
        )  # fmt: skip

    def _learners(self) -> Any:
        """CNTK's own learners where their equation is ours, else ours in its operations."""
        optimizer = self.job.optimizer
        self.trained = [p.name for p in self.job.network.parameters if p.trainable]
        decayed = [name for name in self.trained if name.split(".")[1] not in optimizer.spared]
        self.steps, self.rate = 0, optimizer.learning_rate
        self.equation = optimizers.load(optimizer.name)
        self.universal = optimizer.name not in OWN_LEARNERS or is_another(self.job)
        if self.universal:
            self.decayed = set(decayed if optimizer.weight_decay else ())
            # What changes from step to step.
            self.scalars = {
                key: self._parameter(np.array([value]))
                for key, value in (("learning_rate", self.rate), ("share", 1.0))
            }
            self.corrections = [
                self._parameter(np.array([1.0]))
                for _ in self.equation.corrections(1, optimizer.settings)
            ]
            self.states: Dict[str, Any] = {}
            arrays = [self.arrays[name] for name in self.trained]
            # A method will not do: CNTK counts `self` among its arguments.
            return [C.universal(lambda own, gradients: self._equation(own, gradients), arrays)]
        spared = [name for name in self.trained if name not in decayed]
        groups = [(decayed, optimizer.weight_decay), (spared, 0.0)]
        self.groups = [(names, decay) for names, decay in groups if names]
        momentum = optimizer.settings["momentum"]
        self.momentum = C.momentum_schedule(momentum, minibatch_size=self._reference())
        return [
            self._own_learner([self.arrays[name] for name in names], decay)
            for names, decay in self.groups
        ]

    def _reference(self) -> Any:
        """The batch size for which CNTK's learners take rates and momenta; where there are partial
        batches, that of each."""
        return C.learners.IGNORE if self.job.rest else self.job.batch_size

    def _own_learner(self, arrays: Any, decay: Any) -> Any:
        rate = self._schedule(self.rate)
        own = self.job.optimizer.settings
        if not own["momentum"]:
            return C.sgd(arrays, rate, l2_regularization_weight=decay)
        kind = C.nesterov if own["nesterov"] else C.momentum_sgd
        # Without unit gain v = m v + g, not m v + (1 - m) g.
        return kind(arrays, rate, self.momentum, unit_gain=False, l2_regularization_weight=decay)

    def _schedule(self, rate: Any) -> Any:
        """This rate for the mean gradient of a batch; CNTK's own would be for the sum."""
        return C.learning_parameter_schedule(rate, minibatch_size=self._reference())

    def _equation(self, parameters: List[Any], gradients: Any) -> Any:
        """One step of the spec's update equation (docs/parity.md), as assignments."""
        described = {p.name: p for p in self.job.network.parameters}
        scalars = self.scalars
        share = self._constant([1.0 / self.job.batch_size])
        share = scalars["share"] if self.job.rest else share
        updates = []
        for name, array, gradient in zip(self.trained, parameters, gradients):
            gradient = gradient * share  # it is a sum
            if described[name].l1:
                sign = C.greater(array, 0) - C.less(array, 0)
                gradient = gradient + self._constant([described[name].l1]) * sign
            if described[name].l2:
                gradient = gradient + self._constant([2 * described[name].l2]) * array
            rate, kept = scalars["learning_rate"], array
            if name in self.decayed:
                kept, gradient = self._with_decay(array, gradient, rate)
            count = self.equation.states(self.job.optimizer.settings)
            states = [self._parameter(np.zeros(gradient.shape)) for _ in range(count)]
            self.states[name] = states
            direction, new = self._direction(gradient, states, self.corrections)
            updates.append(C.assign(array, kept - rate * direction))
            updates += [C.assign(state, value) for state, value in zip(states, new)]
        return C.combine(updates)

    def _with_decay(self, array: Any, gradient: Any, rate: Any) -> Any:
        """An array and its gradient with weight decay."""
        decay = self._constant([self.job.optimizer.weight_decay])
        if self.job.optimizer.decoupled:
            return array * (1 - rate * decay), gradient
        return array, gradient + decay * array

    def _direction(self, gradient: Any, states: Any, corrections: Any) -> Any:
        """What a step takes off an array, divided by the rate, and the new states."""
        own = self.job.optimizer.settings
        return self.equation.direction(gradient, states, corrections, own, C.sqrt)

    def _set_rate(self, rate: Any, batch_size: int) -> None:
        """Make the next step one with this rate and batch size."""
        self.steps += 1
        if rate != self.rate and self.universal:
            self.scalars["learning_rate"].value = np.array([rate], self.dtype)
        elif rate != self.rate:
            for learner in self.trainer.parameter_learners:
                learner.reset_learning_rate(self._schedule(rate))
        self.rate = rate
        if self.universal and self.job.rest:
            self.scalars["share"].value = np.array([1.0 / batch_size], self.dtype)
        if self.universal:
            numbers = self.equation.corrections(self.steps, self.job.optimizer.settings)
            for correction, number in zip(self.corrections, numbers):
                correction.value = np.array([number], self.dtype)

    def train_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> Any:
        losses = []
        for i, (images, labels) in enumerate(self._batches(batches)):
            if draws is not None:
                images = self._augmented(images, draws[i])
            self._set_rate(float(rates[i]), len(labels))
            given = {self.image: images, self.label: self.one_hot[labels]}
            given.update((self.masks[name], mask) for name, mask in self.supplied.items())
            self.trainer.train_minibatch(given)
            losses.append(self.trainer.previous_minibatch_loss_average)
        return losses

    def losses(self, handle: Any) -> Array:
        return np.array(handle)

    def synchronize(self) -> None:
        """CNTK's steps end before they return."""

    def logits(self, images: Array) -> Array:
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2), self.dtype)
        given = {self.image: images}
        for mask in self.masks.values():
            given[mask] = np.ones((len(images),) + mask.shape, self.dtype)
        return self.model.eval(given)

    def set_masks(self, masks: Dict[str, Array]) -> None:
        self.supplied = {
            name: np.ascontiguousarray(
                mask.transpose(0, 3, 1, 2) if mask.ndim == 4 else mask, self.dtype
            )
            for name, mask in masks.items()
        }

    def prepare(self, images: Array) -> Any:
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2), self.dtype)

    def predict(self, batch: Any) -> Any:
        self.predicted = self.model.eval({self.image: batch})
        return self.predicted

    def fetch_outputs(self, handle: Any) -> Array:
        return handle

    def _computing(self) -> Any:
        """What training and predicting both read back."""
        parameters = self.model.parameters
        types = {np.dtype(parameter.dtype) for parameter in parameters}
        # On some of Intel's processors AVX2 is MKL's own choice too.
        cpu_type = os.environ.get("MKL_DEBUG_CPU_TYPE")
        avx2 = cpu_type and self.mkl.mkl_serv_get_cpu_type() == AVX2
        return dict(
            threads=C.cntk_py.get_max_num_cputhreads(),
            precision=types.pop().name.replace("float", "fp") if len(types) == 1 else str(types),
            device="cpu" if C.use_default_device().type() == 0 else "gpu",
            mode="mkl_avx2" if avx2 else "default",
            parameters=sum(int(np.prod(parameter.shape)) for parameter in parameters),
        )

    def inference_settings(self) -> Dict[str, Any]:
        return dict(batch_size=len(self.predicted), **self._computing())

    def weights(self) -> Dict[str, Array]:
        return {name: self._canonical(name, array.value) for name, array in self.arrays.items()}

    def velocities(self) -> Dict[str, Array]:
        if self.universal:
            velocities = {name: self.states[name][0].value for name in self.trained}
        else:
            # CNTK's own learners keep rate v.
            velocities = {}
            for learner, (names, _) in zip(self.trainer.parameter_learners, self.groups):
                states = learner.create_checkpoint()["smoothed_gradients"]
                rate = learner.learning_rate()
                velocities.update((name, state / rate) for name, state in zip(names, states))
        return {name: self._canonical(name, array) for name, array in velocities.items()}

    def matrix_products(self, a: Array, b: Array) -> Tuple[Array, Array]:
        a, b = a.astype(self.dtype), b.astype(self.dtype)
        images = C.input_variable((a.shape[1], 1, 1), dtype=self.dtype)
        filters = self._constant(np.ascontiguousarray(b.T)[:, :, None, None])
        convolved = C.convolution(filters, images, auto_padding=[False])
        product = C.times(self._constant(a), self._constant(b)).eval()
        return product, convolved.eval({images: a[:, :, None, None]})[:, :, 0, 0]

    def settings(self) -> Dict[str, Any]:
        if self.universal:
            own = self._probed()
        else:
            rates = {learner.learning_rate() for learner in self.trainer.parameter_learners}
            own = {
                "optimizer": "sgd",
                "learning_rate": rates.pop() if len(rates) == 1 else str(rates),
                "momentum": self.momentum[0],
                "nesterov": self._coasts_short(),
                "weight_decay": max(decay for _, decay in self.groups),
            }
        return dict(
            own,
            batch_size=self.trainer.previous_minibatch_sample_count,
            **self._computing(),
        )

    def _coasts_short(self) -> bool:
        """Whether CNTK's own learner is Nesterov's, which it does not tell: after a step of
        gradient 1, one of gradient 0 is m times as long, or m^2 / (1 + m) times."""
        momentum, array = self.momentum[0], self._parameter(np.zeros(1))
        learner, places = self._own_learner([array], 0.0), [0.0]
        for gradient in (1.0, 0.0):
            slope = C.NDArrayView.from_dense(np.array([gradient], self.dtype))
            learner.update({array: slope}, self.job.batch_size)
            places.append(float(array.value[0]))
        ratio = (places[2] - places[1]) / places[1]
        return bool(ratio < 0.75 * momentum)

    def _probed(self) -> Dict[str, Any]:
        """The settings of our own equation, from what it makes of single numbers."""
        count = len(self.states[self.trained[0]])
        gradient, *states = [C.input_variable(1, dtype=self.dtype) for _ in range(1 + count)]
        ones = [self._constant([1.0]) for _ in self.corrections]
        direction, new = self._direction(gradient, states, ones)
        outputs = [direction] + new

        def stepped(slope: float, kept: Any) -> Any:
            given = dict(zip([gradient] + states, (self._single(x) for x in [slope, *kept])))
            values = []
            for output in outputs:  # an optimizer without states is the gradient itself
                used = {variable: given[variable] for variable in output.arguments}
                values.append(float(output.eval(used).ravel()[0]))
            return values[0], values[1:]

        return dict(
            self.equation.solved(stepped, count),
            optimizer=self.job.optimizer.name,
            learning_rate=float(self.scalars["learning_rate"].value[0]),
            weight_decay=self._probed_decay(),
        )

    def _single(self, value: float) -> Any:
        return np.array([[value]], self.dtype)

    def _probed_decay(self) -> float:
        """What decay does to a weight of 1 at a large rate, or adds to a gradient of 0."""
        if not self.decayed:
            return 0.0
        weight, rate = (C.input_variable(1, dtype=self.dtype) for _ in range(2))
        shrunk, added = self._with_decay(weight, self._constant([0.0]), rate)
        unit, large = self._single(1.0), self._single(LARGE)
        if self.job.optimizer.decoupled:
            return (1 - float(shrunk.eval({weight: unit, rate: large}).ravel()[0])) / LARGE
        return float(added.eval({weight: unit}).ravel()[0])

    def software(self) -> Software:
        version = ctypes.create_string_buffer(200)
        self.mkl.MKL_Get_Version_String(version, len(version))
        return Software("cntk", C.__version__, {"mkl": version.value.decode()})

    def device_memory_peak(self) -> Optional[float]:
        return None

    def is_out_of_memory(self, error: Exception) -> bool:
        return "bad_alloc" in str(error) or "allocate" in str(error)
