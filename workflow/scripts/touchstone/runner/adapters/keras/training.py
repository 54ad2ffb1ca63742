"""Training as Keras's tutorials write it: a functional model of `keras.layers`, compiled with an
optimiser and a loss.

Steps are those of `train_on_batch`, which runs what `fit` runs for a batch (docs/styles.md). What
augments images is that of the style `tuned`.
"""

from abc import abstractmethod
from typing import Any, Dict, List, Optional

import keras
import numpy as np

from touchstone.runner.adapters import base
from touchstone.runner.adapters.keras.layers import arrays_of, layer_of
from touchstone.runner.channels_last import canonical, native, rows_last
from touchstone.runner.job import Job
from touchstone.runner.running_variance import unbiased
from touchstone.schema.types import Array, Arrays

POLICIES = {"fp64": "float64", "bf16": "mixed_bfloat16", "fp16-amp": "mixed_float16"}
PRECISIONS = {
    ("float32", "float32"): "fp32",
    ("float64", "float64"): "fp64",
    ("float32", "bfloat16"): "bf16",
    ("float32", "float16"): "fp16-amp",
}
"""By the types of a layer's variables and of its products."""
LAYOUTS = {"channels_last": "NHWC", "channels_first": "NCHW"}


class RMSprop(keras.optimizers.RMSprop):
    """Keras's own adds epsilon in the root."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        ops = keras.ops
        rate, gradient = (ops.cast(x, variable.dtype) for x in (learning_rate, gradient))
        square = self._velocities[self._get_variable_index(variable)]
        self.assign(square, self.rho * square + (1 - self.rho) * ops.square(gradient))
        self.assign_sub(variable, rate * gradient / (ops.sqrt(square) + self.epsilon))


def _sgd(own: Dict[str, Any], common: Dict[str, Any]) -> Any:
    return keras.optimizers.SGD(momentum=own["momentum"], nesterov=own["nesterov"], **common)


def _adam(own: Dict[str, Any], common: Dict[str, Any]) -> Any:
    return keras.optimizers.Adam(
        beta_1=own["beta1"], beta_2=own["beta2"], epsilon=own["epsilon"], **common
    )


def _rmsprop(own: Dict[str, Any], common: Dict[str, Any]) -> Any:
    return RMSprop(rho=own["rho"], epsilon=own["epsilon"], **common)


OPTIMIZERS = {"sgd": _sgd, "adam": _adam, "rmsprop": _rmsprop}
"""By name, what makes Keras's optimiser of its own settings and of those that all have."""


def _of_sgd(updates: Any, config: Dict[str, Any], steps: int) -> Dict[str, Any]:
    return {"optimizer": "sgd", "momentum": config["momentum"], "nesterov": config["nesterov"]}


def _of_adam(updates: Any, config: Dict[str, Any], steps: int) -> Dict[str, Any]:
    beta1, beta2 = config["beta_1"], config["beta_2"]
    epsilon = float(updates.epsilon) / (1 - beta2**steps) ** 0.5
    return {"optimizer": "adam", "beta1": beta1, "beta2": beta2, "epsilon": epsilon}


def _of_rmsprop(updates: Any, config: Dict[str, Any], steps: int) -> Dict[str, Any]:
    return {"optimizer": "rmsprop", "rho": config["rho"], "epsilon": config["epsilon"]}


SETTINGS = {
    keras.optimizers.SGD: _of_sgd,
    keras.optimizers.Adam: _of_adam,
    RMSprop: _of_rmsprop,
}
"""By the class of an optimiser, what reads its own settings after so many steps."""


class KerasTraining(base.TrainingAdapter):
    """The part of an adapter that trains by Keras; the rest is the backend's.

    `why_no_fp64` is the reason where Keras has no double precision on a backend.
    """

    job: Job
    why_no_fp64 = ""

    @abstractmethod
    def _cut(self, images: Array, draws: Array) -> Any:
        """A batch (batch, height, width, channels), augmented as its draws say."""

    def hints(self) -> List[str]:
        return []

    def build(self, weights: Arrays) -> None:
        job = self.job
        if job.execution.precision == "fp64" and self.why_no_fp64:
            raise NotImplementedError(self.why_no_fp64)
        policy = POLICIES.get(job.execution.precision, "float32")
        kept = "float64" if policy == "float64" else "float32"
        keras.config.set_dtype_policy(policy)
        keras.config.set_floatx(kept)
        keras.config.set_image_data_format("channels_last")  # whatever the user's own is
        self.layers = job.network.layers
        self.by_name = {layer["name"]: layer for layer in self.layers}
        self.parameters = {p.name: p for p in job.network.parameters}
        self.trained = [name for name, p in self.parameters.items() if p.trainable]
        self.start, self.steps, self.batch_size, self.kept = weights, 0, 0, kept
        values = {"input": keras.Input(job.network.input, dtype=kept)}
        self.built: Dict[str, Any] = {}
        masked = job.batch_size if job.supplied_masks else None
        for layer in self.layers:
            inputs = [values[source] for source in layer["inputs"]]
            value, made = layer_of(layer, inputs, self.built, masked)
            values[layer["name"]], self.built[layer["name"]] = value, made
        logits = values[job.network.output]
        if policy.startswith("mixed"):
            logits = keras.layers.Activation("linear", dtype=kept)(logits)
        self.model = keras.Model(values["input"], logits)
        self.arrays = {}
        for name, array in weights.items():
            layer, kind = self.by_name[name.split(".")[0]], name.split(".")[1]
            self.arrays[name] = arrays_of(layer, self.built[layer["name"]])[kind]
            self.arrays[name].assign(native(layer, array))
        self._penalise()
        for name, parameter in self.parameters.items():
            if not parameter.trainable and self.arrays[name].trainable:
                self.arrays[name].trainable = False
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        metrics = None
        if self.penalties:  # which the loss has, and its record has not
            metrics = [keras.metrics.SparseCategoricalCrossentropy(from_logits=True)]
        self.updates = self._updates()
        self.model.compile(self.updates, loss, metrics=metrics)

    def _penalise(self) -> None:
        """Coupled weight decay and penalties are regularisers in Keras."""
        optimizer = self.job.optimizer
        self.penalties: Dict[str, Any] = {}
        for name in self.trained:
            parameter = self.parameters[name]
            coupled = not optimizer.decoupled and name.split(".")[1] not in optimizer.spared
            decay = optimizer.weight_decay if coupled else 0.0
            if decay or parameter.l1 or parameter.l2:
                penalty = keras.regularizers.L1L2(parameter.l1, parameter.l2 + decay / 2)
                self.penalties[name] = self.arrays[name].regularizer = penalty

    def _updates(self) -> Any:
        optimizer = self.job.optimizer
        own: Dict[str, Any] = {"learning_rate": optimizer.learning_rate}
        if optimizer.decoupled and optimizer.weight_decay:
            own["weight_decay"] = optimizer.weight_decay
        made = OPTIMIZERS[optimizer.name](optimizer.settings, own)
        if optimizer.name == "adam":
            # Keras adds epsilon before the correction of the square root.
            made.epsilon = made.add_variable((), "zeros", self.kept, name="epsilon")
        if optimizer.decoupled and optimizer.weight_decay and optimizer.spared:
            spared = [name for name in self.trained if name.split(".")[1] in optimizer.spared]
            made.exclude_from_weight_decay([self.arrays[name] for name in spared])
        return made

    def load_examples(self, images: Array, labels: Array) -> None:
        self.images, self.labels = images.astype(self.kept, copy=False), labels

    def why_no_profile(self) -> Optional[str]:
        return "of plain code only PyTorch's own has a profile of layers"

    def train_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> Any:
        losses = []
        for i, batch in enumerate(batches):
            images, labels = self.images[batch], self.labels[batch]
            if draws is not None:
                images = self._cut(images, draws[i])
            self._set_rate(float(rates[i]))
            self.steps += 1
            loss, *pure = np.atleast_1d(self.model.train_on_batch(images, labels))
            losses.append(pure[0] if pure else loss)
            self.model.reset_metrics()
        self.batch_size = len(labels)
        return losses

    def _set_rate(self, rate: float) -> None:
        """Keras keeps -rate v, of the rate before, and adds epsilon before Adam's correction."""
        optimizer, updates = self.job.optimizer, self.updates
        before = float(updates.learning_rate)
        if np.float32(rate) != np.float32(before):
            if optimizer.settings.get("momentum") and self.steps:
                for momentum in updates.momentums:
                    momentum.assign(momentum * (rate / before))
            updates.learning_rate = rate
        if optimizer.name == "adam":
            own = optimizer.settings
            correction = (1 - own["beta2"] ** (self.steps + 1)) ** 0.5
            updates.epsilon.assign(own["epsilon"] * correction)

    def losses(self, handle: Any) -> Array:
        return np.array(handle)

    def _biased(self) -> Any:
        """The running variances, which are biased in Keras, and as the graph defines them."""
        for layer in self.layers:
            if layer["op"] == "batch_norm":
                name = layer["name"] + ".variance"
                count = self.job.batch_size * int(np.prod(layer["shape"][:2]))
                now = self.arrays[name].numpy()
                momentum = layer["momentum"]
                yield name, now, unbiased(self.start[name], now, momentum, self.steps, count)

    def logits(self, images: Array) -> Array:
        biased = list(self._biased())
        for name, _, own in biased:
            self.arrays[name].assign(own)
        logits = self.model.predict_on_batch(images.astype(self.kept))
        for name, now, _ in biased:
            self.arrays[name].assign(now)
        return np.asarray(logits)

    def weights(self) -> Dict[str, Array]:
        arrays = {name: variable.numpy() for name, variable in self.arrays.items()}
        arrays.update({name: own for name, _, own in self._biased()})
        return {name: self._canonical_of(name, array) for name, array in arrays.items()}

    def velocities(self) -> Dict[str, Array]:
        rate = float(self.updates.learning_rate)
        kept = {id(v): m for v, m in zip(self.model.trainable_variables, self.updates.momentums)}
        return {
            name: self._canonical_of(name, -kept[id(self.arrays[name])].numpy() / rate)
            for name in self.trained
        }

    def _canonical_of(self, name: str, array: Array) -> Array:
        converted: Array = canonical(self.by_name[name.split(".")[0]], array)
        return converted

    def set_masks(self, masks: Dict[str, Array]) -> None:
        for name, mask in masks.items():
            self.built[name].mask.assign(rows_last(mask, self.by_name[name]["image"]))

    def keras_settings(self) -> Dict[str, Any]:
        """The effective settings that Keras has, read back."""
        model, updates = self.model, self.updates
        config = updates.get_config()
        # On some backends Keras's optimisers are classes of their own, below these.
        read = next(read for kind, read in SETTINGS.items() if isinstance(updates, kind))
        own = read(updates, config, self.steps)
        coupled = [2 * (p.l2 - self.parameters[n].l2) for n, p in self.penalties.items()]
        if isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
            own["loss_scaling"] = "dynamic"
        variables = model.trainable_variables
        return {
            **own,
            "learning_rate": float(updates.learning_rate),
            "weight_decay": config["weight_decay"] or float(max(coupled, default=0.0)),
            "batch_size": self.batch_size,
            "mode": "keras" if model.train_function and not model.run_eagerly else "eager",
            "parameters": sum(int(np.prod(v.shape)) for v in variables),
        }

    def precision(self) -> str:
        """That of the layers that have arrays."""
        types = {
            (layer.dtype_policy.variable_dtype, layer.dtype_policy.compute_dtype)
            for layer in self.model.layers
            if layer.trainable_variables
        }
        return PRECISIONS.get(types.pop(), "") if len(types) == 1 else str(sorted(types))
