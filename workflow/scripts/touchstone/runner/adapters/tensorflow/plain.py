"""TensorFlow as Keras's tutorials write it: a functional model of `keras.layers`, compiled with an
optimiser and a loss.

Steps are those of `train_on_batch`, which runs what `fit` runs for a batch (docs/styles.md). What
augments images is that of the style `tuned`.
"""

from typing import Any, Dict, List, Optional, Tuple

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import config as internal_config
from tensorflow.python.util import _pywrap_util_port as port

from touchstone.runner.adapters.tensorflow import adapter
from touchstone.runner.adapters.tensorflow.network import rows_last
from touchstone.runner.adapters.tensorflow.plain_layers import arrays_of, layer_of
from touchstone.runner.running_variance import unbiased
from touchstone.schema.profile import StepTrace
from touchstone.schema.types import Array, Arrays

POLICIES = {"fp64": "float64", "bf16": "mixed_bfloat16", "fp16-amp": "mixed_float16"}
PRECISIONS = {
    ("float32", "float32"): "fp32",
    ("float64", "float64"): "fp64",
    ("float32", "bfloat16"): "bf16",
    ("float32", "float16"): "fp16-amp",
}
"""By the types of a layer's variables and of its products."""


class Adapter(adapter.Adapter):
    def hints(self) -> List[str]:
        return []

    def build(self, weights: Arrays) -> None:
        job = self.job
        keras.config.set_dtype_policy(POLICIES.get(job.execution.precision, "float32"))
        keras.config.set_floatx(self.dtype.name)
        self.layers = job.network.layers
        self.by_name = {layer["name"]: layer for layer in self.layers}
        self.parameters = {p.name: p for p in job.network.parameters}
        self.trained = [name for name, p in self.parameters.items() if p.trainable]
        self.start, self.steps, self.batch_size = weights, 0, 0
        values = {"input": keras.Input(job.network.input, dtype=self.dtype.name)}
        built: Dict[str, Any] = {}
        for layer in self.layers:
            inputs = [values[source] for source in layer["inputs"]]
            value, built[layer["name"]] = layer_of(layer, inputs, built, job.supplied_masks)
            values[layer["name"]] = value
        logits = values[job.network.output]
        if self.computed != self.dtype:
            logits = keras.layers.Activation("linear", dtype=self.dtype.name)(logits)
        self.model = keras.Model(values["input"], logits)
        self.built, self.arrays = built, {}
        for name, array in weights.items():
            layer, kind = name.split(".")
            self.arrays[name] = arrays_of(self.by_name[layer], built[layer])[kind]
            self.arrays[name].assign(self._native(name, array))
        self._penalise()
        for name, parameter in self.parameters.items():
            if not parameter.trainable and self.arrays[name].trainable:
                self.arrays[name].trainable = False
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        metrics = None
        if self.penalised:  # which the loss has, and its record has not
            metrics = [keras.metrics.SparseCategoricalCrossentropy(from_logits=True)]
        self.model.compile(self._optimizer(), self.loss, metrics=metrics)

    def _penalise(self) -> None:
        """Coupled weight decay and penalties are regularisers in Keras."""
        asked, self.penalised = self.optimizer, False
        self.coupled_decay = 0.0 if asked.decoupled else asked.weight_decay
        for name in self.trained:
            parameter = self.parameters[name]
            decay = 0.0 if name.split(".")[1] in asked.spared else self.coupled_decay
            if decay or parameter.l1 or parameter.l2:
                self.penalised = True
                l1, l2 = parameter.l1, parameter.l2 + decay / 2
                self.arrays[name].regularizer = keras.regularizers.L1L2(l1, l2)

    def _optimizer(self) -> Any:
        asked = self.optimizer
        own: Dict[str, Any] = {"learning_rate": asked.learning_rate}
        if asked.decoupled and asked.weight_decay:
            own["weight_decay"] = asked.weight_decay
        if asked.name == "adam":
            made = keras.optimizers.Adam(
                beta_1=asked.beta1, beta_2=asked.beta2, epsilon=asked.epsilon, **own
            )
            # Keras adds epsilon before the correction of the square root.
            made.epsilon = tf.Variable(asked.epsilon, trainable=False, dtype=self.dtype)
        else:
            made = keras.optimizers.SGD(momentum=asked.momentum, nesterov=asked.nesterov, **own)
        if asked.decoupled and asked.weight_decay and asked.spared:
            spared = [name for name in self.trained if name.split(".")[1] in asked.spared]
            made.exclude_from_weight_decay([self.arrays[name] for name in spared])
        self.updates = made
        return made

    def load_examples(self, images: Array, labels: Array) -> None:
        self.images, self.labels = images.astype(self.dtype.as_numpy_dtype, copy=False), labels

    def profile_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> StepTrace:
        raise NotImplementedError("of plain code only PyTorch's has a profile of layers")

    def train_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> Any:
        losses = []
        for i, batch in enumerate(batches):
            images, labels = self.images[batch], self.labels[batch]
            if draws is not None:
                images = self._augmented(tf.constant(images), draws[i])
            self._set_rate(float(rates[i]))
            self.steps += 1
            loss, *pure = np.atleast_1d(self.model.train_on_batch(images, labels))
            losses.append(pure[0] if pure else loss)
            self.model.reset_metrics()
        self.batch_size = len(labels)
        return losses

    def _set_rate(self, rate: float) -> None:
        """Keras keeps -rate v, of the rate before, and adds epsilon before Adam's correction."""
        asked, updates = self.optimizer, self.updates
        before = float(updates.learning_rate)
        if np.float32(rate) != np.float32(before):
            if asked.name == "sgd" and asked.momentum and self.steps:
                for momentum in updates.momentums:
                    momentum.assign(momentum * (rate / before))
            updates.learning_rate = rate
        if asked.name == "adam":
            updates.epsilon.assign(asked.epsilon * (1 - asked.beta2 ** (self.steps + 1)) ** 0.5)

    def losses(self, handle: Any) -> Array:
        return np.array(handle)

    def _variances(self) -> Any:
        """The layers of batch normalisation, and the numbers of each channel in a batch."""
        for layer in self.layers:
            if layer["op"] == "batch_norm":
                yield layer, self.job.batch_size * int(np.prod(layer["shape"][:2]))

    def logits(self, images: Array) -> Array:
        kept = {}
        for layer, count in self._variances():  # Keras's are biased
            name = layer["name"] + ".variance"
            kept[name] = self.arrays[name].numpy()
            self.arrays[name].assign(self._unbiased(layer, count, kept[name]))
        logits = self.model.predict_on_batch(images.astype(self.dtype.as_numpy_dtype))
        for name, array in kept.items():
            self.arrays[name].assign(array)
        return np.asarray(logits)

    def _unbiased(self, layer: Any, count: int, now: Array) -> Any:
        start = self.start[layer["name"] + ".variance"]
        return unbiased(start, now, layer["momentum"], self.steps, count)

    def weights(self) -> Dict[str, Array]:
        arrays = {name: v.numpy() for name, v in self.arrays.items()}
        for layer, count in self._variances():
            name = layer["name"] + ".variance"
            arrays[name] = self._unbiased(layer, count, arrays[name])
        return {name: self._canonical(name, array) for name, array in arrays.items()}

    def velocities(self) -> Dict[str, Array]:
        rate, found = float(self.updates.learning_rate), {}
        kept = {id(v): m for v, m in zip(self.model.trainable_variables, self.updates.momentums)}
        for name in self.trained:
            found[name] = self._canonical(name, -kept[id(self.arrays[name])].numpy() / rate)
        return found

    def set_masks(self, masks: Dict[str, Array]) -> None:
        for name, mask in masks.items():
            image = self.by_name[name]["image"]
            self.built[name].take(rows_last(mask, image))

    def settings(self) -> Dict[str, Any]:
        model, updates = self.model, self.updates
        config = updates.get_config()
        if isinstance(updates, keras.optimizers.Adam):
            corrected = (1 - self.optimizer.beta2**self.steps) ** 0.5
            own: Dict[str, Any] = {"optimizer": "adam", "beta1": config["beta_1"]}
            own.update(beta2=config["beta_2"], epsilon=float(updates.epsilon) / corrected)
        else:
            own = {"optimizer": "sgd", "momentum": config["momentum"]}
            own["nesterov"] = config["nesterov"]
        decays = {2 * (v.regularizer.l2 - self.parameters[n].l2) for n, v in self._regularised()}
        decay = config["weight_decay"] or max(map(float, decays), default=0.0)
        if isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
            own["loss_scaling"] = "dynamic"
        variables = model.trainable_variables
        layouts = {"channels_last": "NHWC", "channels_first": "NCHW"}
        return {
            **own,
            "learning_rate": float(updates.learning_rate),
            "weight_decay": decay,
            "batch_size": self.batch_size,
            "threads": tf.config.threading.get_intra_op_parallelism_threads(),
            "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads()
            or "automatic",
            "deterministic": internal_config.is_op_determinism_enabled(),
            "layout": layouts[keras.config.image_data_format()],
            "precision": self._policy(),
            "device": "gpu" if "GPU" in variables[0].value.device else "cpu",
            "mode": "keras" if model.train_function and not model.run_eagerly else "eager",
            "onednn": port.IsMklEnabled(),
            "parameters": sum(int(np.prod(v.shape)) for v in variables),
        }

    def _regularised(self) -> List[Tuple[str, Any]]:
        return [(name, v) for name, v in self.arrays.items() if v.regularizer is not None]

    def _policy(self) -> Any:
        """The precision of the layers that have products."""
        types = {
            (layer.dtype_policy.variable_dtype, layer.dtype_policy.compute_dtype)
            for layer in self.model.layers
            if layer.trainable_variables
        }
        found = PRECISIONS.get(types.pop(), "") if len(types) == 1 else str(sorted(types))
        allowed = tf.config.experimental.tensor_float_32_execution_enabled()
        return "tf32" if found == "fp32" and allowed else found
