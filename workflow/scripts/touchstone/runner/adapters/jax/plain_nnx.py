"""JAX as Flax's tutorials write it: a module of NNX, an optimiser of Optax, and a jitted step.

Layers are those of Flax, also where XLA is slow with them. What augments images is that of the
style `tuned`.
"""

import math
from typing import Any, Dict, List, Optional, Tuple

import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from optax import tree_utils

from touchstone import optimizers
from touchstone.runner.adapters.jax import adapter
from touchstone.runner.adapters.jax.network import pool_threads
from touchstone.runner.adapters.jax.nnx_layers import SPARED, Network, path_of
from touchstone.runner.channels_last import rows_last
from touchstone.runner.running_variance import unbiased
from touchstone.schema.events import Software
from touchstone.schema.types import Array, Arrays


def _sgd(own: Dict[str, Any]) -> List[Any]:
    return [optax.trace(own["momentum"], own["nesterov"])] if own["momentum"] else []


def _adam(own: Dict[str, Any]) -> List[Any]:
    return [optax.scale_by_adam(own["beta1"], own["beta2"], own["epsilon"])]


def _rmsprop(own: Dict[str, Any]) -> List[Any]:
    """Optax's own adds epsilon in the root unless it is asked not to."""
    return [optax.scale_by_rms(own["rho"], own["epsilon"], eps_in_sqrt=False)]


OPTIMIZERS = {"sgd": _sgd, "adam": _adam, "rmsprop": _rmsprop}
"""By name, what makes of Optax's parts the direction of a step."""
STATES = {"sgd": ["trace"], "adam": ["mu", "nu"], "rmsprop": ["nu"]}
"""What Optax calls the arrays that they keep, in the order of `optimizers/`."""


class Adapter(adapter.Adapter):
    barriers = False

    def differs(self, device: str) -> Tuple[str, ...]:
        return super().differs(device) if device == "gpu" else ()

    def build(self, weights: Arrays) -> None:
        network, schedule = self.job.network, self.job.schedule
        self.layers = network.layers
        self.by_name = {layer["name"]: layer for layer in self.layers}
        self.parameters = {p.name: p for p in network.parameters}
        self.trained = [name for name, p in self.parameters.items() if p.trainable]
        self.start, self.steps, self.batch_size = weights, 0, 0
        self.network = Network(network, nnx.Rngs(self.job.seed), self.dtype, self.computed)
        self.paths = {}
        for name, array in weights.items():
            layer, kind = name.split(".")
            self.paths[name] = path_of(self.by_name[layer], kind)
            native = jnp.asarray(self._native(name, array), self.dtype)
            self._variable(name).set_value(native)
        self.masks: Dict[str, Any] = {}
        trained = {self.paths[name] for name in self.trained}
        self.wrt = nnx.All(nnx.Param, lambda path, variable: path in trained)
        self.varies = schedule.name != "constant" or schedule.lr_warmup_epochs > 0
        self.updates = nnx.Optimizer(self.network, self._transformation(), wrt=self.wrt)
        self.step = nnx.jit(self._train_step)
        self.forward = nnx.jit(lambda network, images: network(images))

    def _variable(self, name: str) -> Any:
        """The variable of NNX that holds an array of the graph."""
        _, layer, *rest = self.paths[name]
        part = self.network.modules[layer]
        for attribute in rest:
            part = getattr(part, attribute)
        return part

    def _transformation(self) -> Any:
        """The update equation, of Optax's parts; its rate is a state where it changes."""
        if self.varies:
            return optax.inject_hyperparams(self._at_rate)(self.optimizer.learning_rate)
        return self._at_rate(self.optimizer.learning_rate)

    def _at_rate(self, learning_rate: Any) -> Any:
        optimizer, decay = self.optimizer, self._decay()
        parts = OPTIMIZERS[optimizer.name](optimizer.settings)
        if optimizer.weight_decay:
            parts = [*parts, decay] if optimizer.decoupled else [decay, *parts]
        return optax.chain(*parts, optax.scale_by_learning_rate(learning_rate))

    def _decay(self) -> Any:
        return optax.add_decayed_weights(self.optimizer.weight_decay, self._decayed)

    def _decayed(self, arrays: Any) -> Any:
        """Of every array, whether weight decay shrinks it."""
        spares = bool(self.optimizer.spared)
        return jax.tree_util.tree_map_with_path(
            lambda path, _: not (spares and any(getattr(k, "key", "") in SPARED for k in path)),
            arrays,
        )

    def _penalty(self, network: Any) -> Any:
        """The penalties of a loss."""
        total = 0.0
        for name, parameter in self.parameters.items():
            if parameter.l1 or parameter.l2:
                _, layer, kind = self.paths[name]
                weight = getattr(network.modules[layer], kind)[...]
                total += parameter.l1 * jnp.abs(weight).sum() + parameter.l2 * (weight**2).sum()
        return total

    def _train_step(
        self, network: Any, updates: Any, images: Array, labels: Array, masks: Any, draws: Any
    ) -> Any:
        if draws is not None:
            images = self._augmented(images, draws)

        def loss_fn(network: Any) -> Any:
            logits = network(images, masks)
            loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
            return loss + self._penalty(network), loss

        differentiated = nnx.value_and_grad(
            loss_fn, argnums=nnx.DiffState(0, self.wrt), has_aux=True
        )
        (_, loss), gradients = differentiated(network)
        updates.update(network, gradients)
        return loss

    def load_examples(self, images: Array, labels: Array) -> None:
        self.images, self.labels = images.astype(self.dtype), labels.astype(np.int32)

    def why_no_profile(self) -> Optional[str]:
        return "of plain code only PyTorch's has a profile of layers"

    def train_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> Any:
        losses = []
        self.network.train()
        for i, batch in enumerate(batches):
            if self.varies:
                rate = self.updates.opt_state.hyperparams["learning_rate"]
                rate.set_value(jnp.asarray(rates[i], self.dtype))
            loss = self.step(
                self.network, self.updates, self.images[batch], self.labels[batch], self.masks,
                None if draws is None else draws[i],
            )  # fmt: skip
            losses.append(loss)
        self.steps += len(rates)
        self.batch_size = len(batch)
        return losses

    def synchronize(self) -> None:
        jax.block_until_ready(nnx.state(self.network))

    def _biased(self) -> Any:
        """The running variances, which are biased in Flax, as the graph defines them."""
        for layer in self.layers:
            if layer["op"] == "batch_norm":
                name = layer["name"] + ".variance"
                count = self.job.batch_size * int(np.prod(layer["shape"][:2]))
                now = np.array(self._variable(name)[...])
                yield (
                    name,
                    now,
                    unbiased(self.start[name], now, layer["momentum"], self.steps, count),
                )

    def logits(self, images: Array) -> Array:
        biased = list(self._biased())
        for name, _, own in biased:
            self._variable(name).set_value(jnp.asarray(own, self.dtype))
        self.network.eval()
        logits = np.array(self.forward(self.network, images.astype(self.dtype)))
        for name, now, _ in biased:
            self._variable(name).set_value(jnp.asarray(now))
        return logits

    def weights(self) -> Dict[str, Array]:
        arrays = {name: np.array(self._variable(name)[...]) for name in self.paths}
        arrays.update({name: own for name, _, own in self._biased()})
        return {name: self._canonical(name, array) for name, array in arrays.items()}

    def velocities(self) -> Dict[str, Array]:
        moments, velocities = tree_utils.tree_get(self.updates.opt_state, "trace"), {}
        for name in self.trained:
            kept = moments
            for key in self.paths[name]:
                kept = kept[key]
            velocities[name] = self._canonical(name, kept[...])
        return velocities

    def set_masks(self, masks: Dict[str, Array]) -> None:
        self.masks = {
            name: jnp.asarray(rows_last(mask, self.by_name[name]["image"]), self.dtype)
            for name, mask in masks.items()
        }

    def settings(self) -> Dict[str, Any]:
        arrays = {name: self._variable(name)[...] for name in self.paths}
        self.output = self.network.held.computed
        platforms = {device.platform for array in arrays.values() for device in array.devices()}
        return {
            **self._probed(),
            "batch_size": self.batch_size,
            "threads": pool_threads(self.started),
            "precision": self._precision({array.dtype.name for array in arrays.values()}),
            "device": platforms.pop() if len(platforms) == 1 else str(platforms),
            "mode": "nnx" if isinstance(self.network, nnx.Module) else "",
            "parameters": sum(arrays[name].size for name in self.trained),
        }

    def _probed(self) -> Any:
        """The settings of the update equation, from what it makes of single numbers."""
        unit, names = self._at_rate(1.0), STATES[self.optimizer.name]
        first = unit.init(self._single(0.0))
        kept = [name for name in names if tree_utils.tree_get(first, name) is not None]
        count = {} if tree_utils.tree_get(first, "count") is None else {"count": np.int32(2**30)}

        def stepped(gradient: float, states: Any) -> Any:
            """A step that is late enough for all corrections to be 1."""
            given = {name: self._single(state) for name, state in zip(kept, states)}
            state = tree_utils.tree_set(first, **given, **count)
            moved, state = unit.update(self._single(gradient), state, self._single(0.0))
            left = [float(tree_utils.tree_get(state, name)["kernel"]) for name in kept]
            return -float(moved["kernel"]), left

        return {
            **optimizers.load(self.optimizer.name).solved(stepped, len(kept)),
            "optimizer": self.optimizer.name,
            "learning_rate": self._moved(self._rate(), 1.0, 0.0) / self._moved(1.0, 1.0, 0.0),
            "weight_decay": self._probed_decay(),
        }

    def _single(self, value: float) -> Any:
        """One number as the arrays of a network that has no other."""
        return {"kernel": np.array(value, self.dtype)}

    def _moved(self, rate: float, gradient: float, weight: float) -> float:
        """By how much a first step at a rate moves a weight that has this gradient."""
        updates, array = self._at_rate(rate), self._single(weight)
        moved, _ = updates.update(self._single(gradient), updates.init(array), array)
        return float(moved["kernel"])

    def _probed_decay(self) -> float:
        """The weight decay, if a weight of 1 moves by it, or as a gradient of its size would."""
        part, weight = self._decay(), self._single(1.0)
        added, _ = part.update(self._single(0.0), part.init(weight), weight)
        decay, moved = float(added["kernel"]), self._moved(1.0, 0.0, 1.0)
        expected = -decay if self.optimizer.decoupled else self._moved(1.0, decay, 0.0)
        return decay if math.isclose(moved, expected, rel_tol=1e-5) else -moved

    def _rate(self) -> float:
        """The rate of the last step."""
        if not self.varies:
            return self.optimizer.learning_rate
        return float(self.updates.opt_state.hyperparams["learning_rate"][...])

    def software(self) -> Software:
        software = super().software()
        more = {"flax": flax.__version__, "optax": optax.__version__}
        return software._replace(others={**software.others, **more})
