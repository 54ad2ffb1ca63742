"""JAX as Flax's tutorials write it: a module of NNX, an optimiser of Optax, and a jitted step.

Layers are those of Flax, also where XLA is slow with them. What augments images is that of the
style `tuned`.
"""

import math
from typing import Any, Dict, Optional, Tuple

import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from optax import tree_utils

from touchstone.runner.adapters.jax import adapter
from touchstone.runner.adapters.jax.network import pool_threads
from touchstone.runner.adapters.jax.nnx_layers import SPARED, Network, path_of
from touchstone.runner.channels_last import rows_last
from touchstone.runner.running_variance import unbiased
from touchstone.schema.events import Software
from touchstone.schema.types import Array, Arrays


class Adapter(adapter.Adapter):
    barriers = False

    def differs(self, device: str) -> Tuple[str, ...]:
        return super().differs(device) if device == "gpu" else ()

    def build(self, weights: Arrays) -> None:
        network, asked = self.job.network, self.job.schedule
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
        self.varies = asked.name != "constant" or asked.lr_warmup_epochs > 0
        self.updates = nnx.Optimizer(self.network, self._transformation(), wrt=self.wrt)
        self.step = nnx.jit(self._train_step)
        self.forward = nnx.jit(lambda network, images: network(images))

    def _variable(self, name: str) -> Any:
        """The variable of NNX that holds an array of the graph."""
        _, layer, *rest = self.paths[name]
        found = self.network.modules[layer]
        for attribute in rest:
            found = getattr(found, attribute)
        return found

    def _transformation(self) -> Any:
        """The update equation, of Optax's parts; its rate is a state where it changes."""
        if self.varies:
            return optax.inject_hyperparams(self._at_rate)(self.optimizer.learning_rate)
        return self._at_rate(self.optimizer.learning_rate)

    def _at_rate(self, learning_rate: Any) -> Any:
        asked = self.optimizer
        decay = optax.add_decayed_weights(asked.weight_decay, self._decayed)
        if asked.name == "adam":
            moments = optax.scale_by_adam(asked.beta1, asked.beta2, asked.epsilon)
        else:
            moments = optax.trace(asked.momentum, asked.nesterov)
        parts = [moments] if asked.name == "adam" or asked.momentum else []
        if asked.weight_decay:
            parts = [*parts, decay] if asked.decoupled else [decay, *parts]
        return optax.chain(*parts, optax.scale_by_learning_rate(learning_rate))

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
        moments, found = tree_utils.tree_get(self.updates.opt_state, "trace"), {}
        for name in self.trained:
            kept = moments
            for key in self.paths[name]:
                kept = kept[key]
            found[name] = self._canonical(name, kept[...])
        return found

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
        """The settings of the update equation, from what it makes of single numbers.

        The first step has a gradient and no weight, the second neither; another first step has a
        weight only.
        """
        made, zero = self._at_rate(self._rate()), {"kernel": np.zeros((), self.dtype)}
        one = {"kernel": np.ones((), self.dtype)}
        pushed, begun = made.update(one, made.init(zero), zero)
        coasted, state = made.update(zero, begun, zero)
        shrunk, coupled = made.update(zero, made.init(zero), one)
        first, second, decayed = (float(each["kernel"]) for each in (pushed, coasted, shrunk))

        def moment(state: Any, name: str) -> Any:
            found = tree_utils.tree_get(state, name)
            return None if found is None else float(found["kernel"])

        if self.optimizer.name == "adam":
            beta1, beta2 = 1 - moment(begun, "mu"), 1 - moment(begun, "nu")
            fast = tree_utils.tree_set(made.init(zero), mu=one, nu=zero)
            stepped = float(made.update(zero, fast, zero)[0]["kernel"])
            return {
                "optimizer": "adam",
                "learning_rate": self._rate(),
                "beta1": beta1,
                "beta2": beta2,
                "epsilon": -self._rate() * beta1 / (1 - beta1) / stepped,
                "weight_decay": moment(coupled, "mu") / (1 - beta1) or -decayed / self._rate(),
            }
        momentum = moment(state, "trace") or 0.0
        nesterov = momentum > 0 and not math.isclose(second / first, momentum, rel_tol=1e-3)
        rate = -first / (1 + momentum * nesterov)
        kept = moment(coupled, "trace")
        decay = kept if kept else -decayed / rate
        return {
            "optimizer": "sgd",
            "learning_rate": rate,
            "momentum": momentum,
            "nesterov": nesterov,
            "weight_decay": decay,
        }

    def _rate(self) -> float:
        """The rate of the last step."""
        if not self.varies:
            return self.optimizer.learning_rate
        return float(self.updates.opt_state.hyperparams["learning_rate"][...])

    def software(self) -> Software:
        found = super().software()
        more = {"flax": flax.__version__, "optax": optax.__version__}
        return found._replace(others={**found.others, **more})
