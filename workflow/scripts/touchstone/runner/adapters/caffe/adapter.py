"""Caffe 1.0: the graph as a prototxt, trained step by step by Caffe's own solver."""

import ctypes
import os
import tempfile
from typing import Any, Dict, Iterator, Optional, Tuple

import caffe
import numpy as np
from caffe.proto import caffe_pb2
from google.protobuf import text_format

from touchstone import optimizers
from touchstone.runner.adapters.caffe.capabilities import CAPABILITIES
from touchstone.runner.adapters.caffe.inputs import Inputs, each_batch
from touchstone.runner.adapters.caffe.network import (
    Message,
    Prototxt,
    shares_of,
    training_network,
)
from touchstone.runner.job import Job
from touchstone.schema.events import Software
from touchstone.schema.types import Array

BLAS = ctypes.CDLL(caffe._caffe.__file__)
"""Caffe's library, which has its OpenBLAS inside."""
NATIVE = {
    "weight": ("", 0),
    "bias": ("", 1),
    "recurrent": ("", 2),
    "scale": ("/scale", 0),
    "offset": ("/scale", 1),
    "mean": ("", 0),
    "variance": ("", 1),
}
"""Where an array of the graph is: what follows the layer's name, and which of its blobs."""
BLOCK = 2**15
"""Numbers that an update in NumPy takes at once: what it needs of them stays in the cache."""
TINY = 1e-30
"""A gradient whose square is nothing beside any epsilon."""


def _sgd(own: Dict[str, Any]) -> Dict[str, Any]:
    return {"type": "Nesterov" if own["nesterov"] else "SGD", "momentum": own["momentum"]}


def _rmsprop(own: Dict[str, Any]) -> Dict[str, Any]:
    return {"type": "RMSProp", "rms_decay": own["rho"], "delta": own["epsilon"]}


SOLVERS = {"sgd": _sgd, "rmsprop": _rmsprop}
"""By name, what Caffe's solver gets that has the optimizer's equation; others are in NumPy."""


def _of_sgd(updates: Any) -> Dict[str, Any]:
    """Without decay: 1, m. Decay only: d."""
    first, second = updates(0, (1, 0))
    (decay,) = updates(1, (0,))
    momentum, decay = second / first, decay / first
    return dict(optimizer="sgd", nesterov=False, momentum=momentum, weight_decay=decay)


def _of_nesterov(updates: Any) -> Dict[str, Any]:
    """Without decay: 1 + m. Decay only: (1 + m) d."""
    (first,), (decay,) = updates(0, (1,)), updates(1, (0,))
    momentum, decay = first - 1, decay / first
    return dict(optimizer="sgd", nesterov=True, momentum=momentum, weight_decay=decay)


def _of_rmsprop(updates: Any) -> Dict[str, Any]:
    """A tiny gradient g: g / epsilon. One of 1: 1 / (sqrt(1 - rho) + epsilon). Decay of a tiny
    weight w only: d w / epsilon."""
    (tiny,), (first,), (decay,) = updates(0, (TINY,)), updates(0, (1,)), updates(TINY, (0,))
    epsilon = TINY / tiny
    rho, decay = 1 - (1 / first - epsilon) ** 2, decay / tiny
    return dict(optimizer="rmsprop", rho=rho, epsilon=epsilon, weight_decay=decay)


SOLVED = {
    caffe.SGDSolver: _of_sgd,
    caffe.NesterovSolver: _of_nesterov,
    caffe.RMSPropSolver: _of_rmsprop,
}
"""By the class of a solver, its settings from `updates(weight, gradients)`: what it takes off a
weight of that value, divided by the rate, when these gradients follow one another."""


class Adapter(Inputs):
    """Caffe's layouts are the canonical ones, but for images and the gates of
    an LSTM."""

    capabilities = CAPABILITIES

    def __init__(self, job: Job, threads: int) -> None:
        self.job = job
        if job.execution.device == "gpu":
            raise NotImplementedError("Caffe sees no GPU: this build computes on CPUs only")
        if job.execution.precision != "fp32":
            raise NotImplementedError("Caffe's Python interface has single precision only")
        if job.rest and any(layer["op"] == "lstm" for layer in job.network.layers):
            raise NotImplementedError("Caffe's LSTM here has the batch size in its inputs")
        BLAS.openblas_set_num_threads(threads)
        caffe.set_mode_cpu()
        caffe.set_random_seed(job.seed)
        self.folder = tempfile.TemporaryDirectory()

    def build(self, weights: Dict[str, Array]) -> None:
        network, optimizer = self.job.network, self.job.optimizer
        batch_size = self.job.batch_size
        supplied = self.job.supplied_masks
        training = training_network(network, batch_size, supplied, optimizer.spared)
        self.solver: Any = None
        if optimizer.name in SOLVERS:
            self.solver = self._solver(training)
            self.net = self.solver.net
        else:
            self.net = caffe.Net(self._written(training), caffe.TRAIN)
        evaluation = Prototxt(network, batch_size).message
        self.evaluated = caffe.Net(self._written(evaluation), caffe.TEST)
        self.lstms = [layer["name"] for layer in network.layers if layer["op"] == "lstm"]
        for name in self.lstms:
            for net in (self.net, self.evaluated):
                # What multiplies the state before each step: every sequence begins again.
                net.blobs[name + "/goes on"].data[1:] = 1
        self.arrays, self.gradients = {}, {}
        for name in weights:
            owner, kind = name.split(".")
            suffix, place = NATIVE[kind]
            blob = self.net.params[owner + suffix][place]
            self.arrays[name], self.gradients[name] = blob.data, blob.diff
        for owner, share in shares_of(network).items():
            self.net.params[owner + "/share"][0].data[...] = share
        # Caffe's statistics are sums, with that of their weights beside: m s + 1. From this start
        # they are those of the graph, for m / (1 - m) + 1 = 1 / (1 - m).
        self.sums = {}
        for layer in network.layers:
            if layer["op"] == "batch_norm":
                total = self.net.params[layer["name"]][2].data
                total[...] = 1 / (1 - layer["momentum"])
                self.sums[layer["name"] + ".mean"] = self.sums[layer["name"] + ".variance"] = total
        for name, array in self.arrays.items():
            array[...] = self._ordered(name, weights[name]) * self.sums.get(name, np.float32(1))
        self.evaluated.share_with(self.net)
        self._resize(batch_size)
        self._optimize()

    def _resize(self, batch_size: int) -> None:
        """Have the network take batches of this size."""
        blobs = [self.net.blobs[name] for name in ("data", "label")]
        if blobs[0].shape[0] != batch_size:
            for blob in blobs:
                blob.reshape(batch_size, *blob.shape[1:])
            self.net.reshape()
        self.data, self.labelled = (blob.data for blob in blobs)

    def _ordered(self, name: str, array: Any) -> Any:
        """A canonical array in Caffe's order, or one of Caffe's in the canonical: Caffe's LSTM has
        the output gate before the cell's."""
        if name.split(".")[0] not in self.lstms:
            return array
        first, forget, third, fourth = np.split(array, 4)
        return np.concatenate([first, forget, fourth, third])

    def _written(self, message: str) -> Any:
        """The path of a file that holds this message as text."""
        path = os.path.join(
            self.folder.name, "{}.prototxt".format(len(os.listdir(self.folder.name)))
        )
        with open(path, "w") as file:
            file.write(text_format.MessageToString(message))
        return path

    def _solver(self, net: Any) -> Any:
        """Caffe's solver of the spec's optimizer for a network."""
        optimizer = self.job.optimizer
        message = caffe_pb2.SolverParameter(
            lr_policy="fixed", base_lr=optimizer.learning_rate,
            weight_decay=0 if optimizer.decoupled else optimizer.weight_decay,
            snapshot_prefix=os.path.join(self.folder.name, "state"), snapshot_after_train=False,
            train_net_param=net, **SOLVERS[optimizer.name](optimizer.settings),
        )  # fmt: skip
        return caffe.get_solver(self._written(message))

    def _optimize(self) -> None:
        optimizer = self.job.optimizer
        described = {p.name: p for p in self.job.network.parameters if p.trainable}
        self.trained = {name: (self.arrays[name], self.gradients[name]) for name in described}
        self.penalised = [
            self.trained[name] + (np.float32(p.l1), np.float32(2 * p.l2))
            for name, p in described.items()
            if p.l1 or p.l2
        ]
        decayed = [
            pair for name, pair in self.trained.items()
            if optimizer.weight_decay and name.split(".")[1] not in optimizer.spared
        ]  # fmt: skip
        # Caffe knows coupled decay only: else the weights shrink before their step.
        self.shrunk = decayed if optimizer.decoupled else []
        self.rate = optimizer.learning_rate
        # Its solver does coupled decay; what is written in NumPy is without a solver.
        self.decayed = [] if optimizer.decoupled or self.solver else decayed
        if not self.solver:
            self.steps = 0
            self.equation = optimizers.load(optimizer.name)
            count = self.equation.states(optimizer.settings)
            self.moments = [
                [np.zeros_like(array) for _ in range(count)] for array, _ in self.trained.values()
            ]

    def load_examples(self, images: Array, labels: Array) -> None:
        self.images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        self.labels = labels.astype(np.float32)

    def train_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> Any:
        losses, last = np.empty(len(rates), np.float32), len(self.net.layers) - 1
        steps = batches if isinstance(batches, np.ndarray) else each_batch(batches)
        self._resize((batches if isinstance(batches, np.ndarray) else batches[0][1]).shape[1])
        for i, batch in enumerate(steps):
            if isinstance(batch, tuple):
                self.data[...], self.labelled[...] = batch
            else:
                # With "clip" NumPy writes straight into Caffe's memory.
                self.images.take(batch, axis=0, out=self.data, mode="clip")
                self.labels.take(batch, out=self.labelled, mode="clip")
            if draws is not None:
                self.data[...] = self._augmented(self.data, draws[i])
            self.rate = float(rates[i])
            self.net.clear_param_diffs()
            losses[i] = self.net._forward(0, last)
            if not np.isfinite(losses[i]):
                # Where all of a window is nan, Caffe's backward pass writes beyond its memory.
                losses[i:] = losses[i]
                break
            self.net._backward(last, 0)
            self._update()
        return losses

    def _update(self) -> None:
        """One step of the update equation."""
        self._change_gradients()
        if not self.solver:
            self._step()
            return
        self.solver.apply_update()
        # Caffe's velocity is rate x v, so that its rate must stay the same. What it has just
        # taken from the weights is in the place of their gradients.
        rest = np.float32(1 - self.rate / self.job.optimizer.learning_rate)
        if rest:
            for array, update in self.trained.values():
                array += rest * update

    def _change_gradients(self) -> None:
        """Penalties and decays that Caffe's solver does not know."""
        for array, gradient, l1, l2 in self.penalised:
            gradient += l1 * np.sign(array) + l2 * array
        for array, _ in self.shrunk:
            array *= np.float32(1 - self.rate * self.job.optimizer.weight_decay)
        for array, gradient in self.decayed:
            gradient += np.float32(self.job.optimizer.weight_decay) * array

    def _step(self) -> None:
        """A step of the update equation in NumPy, block by block. Caffe's Adam adds epsilon before
        the correction, and is slower than this."""
        own = self.job.optimizer.settings
        self.steps += 1
        corrections = self.equation.corrections(self.steps, own)
        for (array, gradient), moments in zip(self.trained.values(), self.moments):
            flat: Any = [part.reshape(-1) for part in [array, gradient, *moments]]
            for start in range(0, array.size, BLOCK):
                weights, slope, *states = [part[start : start + BLOCK] for part in flat]
                taken, new = self.equation.direction(slope, states, corrections, own, np.sqrt)
                weights -= np.float32(self.rate) * taken
                for state, value in zip(states, new):
                    state[...] = value

    def losses(self, handle: Any) -> Array:
        return handle

    def synchronize(self) -> None:
        pass

    def logits(self, images: Array) -> Array:
        self.evaluated.blobs["data"].data[...] = images.transpose(0, 3, 1, 2)
        return next(iter(self.evaluated.forward().values())).copy()

    def prepare(self, images: Array) -> Any:
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))

    def predict(self, batch: Any) -> Any:
        self.evaluated.blobs["data"].data[...] = batch
        return next(iter(self.evaluated.forward().values())).copy()

    def fetch_outputs(self, handle: Any) -> Array:
        return handle

    def inference_settings(self) -> Dict[str, Any]:
        types = {array.dtype.name for array in self.arrays.values()}
        return {
            "batch_size": self.evaluated.blobs["data"].shape[0],
            "threads": BLAS.openblas_get_num_threads(),
            "precision": types.pop().replace("float", "fp") if len(types) == 1 else str(types),
            "device": "cpu",
            "mode": "solver",
            "parameters": sum(array.size for array, _ in self.trained.values()),
        }

    def weights(self) -> Dict[str, Array]:
        return {
            name: self._ordered(name, array) / self.sums.get(name, np.float32(1))
            for name, array in self.arrays.items()
        }

    def velocities(self) -> Dict[str, Array]:
        # Caffe shows its history in snapshots only, one blob per array that has a rate or not.
        self.solver.snapshot()
        path = os.path.join(self.folder.name, "state_iter_{}.".format(self.solver.iter))
        with open(path + "solverstate", "rb") as file:
            state = caffe_pb2.SolverState.FromString(file.read())
        os.remove(path + "solverstate")
        os.remove(path + "caffemodel")
        blobs = [blob for blobs in self.net.params.values() for blob in blobs]
        places = {blob.diff.ctypes.data: i for i, blob in enumerate(blobs)}
        velocities = {}
        for name, (array, gradient) in self.trained.items():
            history: Any = np.array(state.history[places[gradient.ctypes.data]].data, np.float32)
            history = history.reshape(array.shape) / np.float32(self.solver.lr)
            velocities[name] = self._ordered(name, history)
        return velocities

    def set_masks(self, masks: Dict[str, Array]) -> None:
        for name, mask in masks.items():
            mask = mask.transpose(0, 3, 1, 2) if mask.ndim == 4 else mask
            blob = self.net.blobs[name + "/mask"].data
            blob[...] = mask.reshape(blob.shape)

    def matrix_products(self, a: Array, b: Array) -> Tuple[Array, Array]:
        (rows, depth), columns = a.shape, b.shape[1]
        net = Message(caffe_pb2.NetParameter())
        net.given("data", (rows, depth, 1, 1))
        inner = dict(num_output=columns, bias_term=False)
        net.add("InnerProduct", "product", ["data"], inner_product_param=inner)
        convolution = dict(num_output=columns, bias_term=False, kernel_size=[1])
        net.add("Convolution", "convolved", ["data"], convolution_param=convolution)
        net = caffe.Net(self._written(net.message), caffe.TEST)
        net.blobs["data"].data[...] = a[:, :, None, None]
        for name in ("product", "convolved"):
            weight = net.params[name][0].data
            weight[...] = b.T.reshape(weight.shape)
        outputs = net.forward()
        return outputs["product"].copy(), outputs["convolved"][:, :, 0, 0].copy()

    def settings(self) -> Dict[str, Any]:
        optimizer = self.job.optimizer
        types = {array.dtype.name for array in self.arrays.values()}
        if self.solver:
            own = self._solver_settings()
        else:
            own = dict(optimizer.settings, optimizer=optimizer.name, learning_rate=self.rate)
            own["weight_decay"] = optimizer.weight_decay if self.decayed else 0.0
        if self.shrunk:
            own["weight_decay"] = optimizer.weight_decay
        return {
            **own,
            "batch_size": self.net.blobs["data"].shape[0],
            "threads": BLAS.openblas_get_num_threads(),
            "precision": types.pop().replace("float", "fp") if len(types) == 1 else str(types),
            "device": "cpu",
            "mode": "solver",
            "parameters": sum(array.size for array, _ in self.trained.values()),
        }

    def _solver_settings(self) -> Any:
        """Caffe tells its rate only: the other settings are what a solver that is made like that of
        the run does to a network of one weight."""
        net = Message(caffe_pb2.NetParameter())
        net.given("data", (1, 1))
        net.add("InnerProduct", "one", ["data"], inner_product_param=dict(num_output=1))
        net.message.layer[-1].inner_product_param.bias_term = False

        def updates(weight: Any, gradients: Any) -> Iterator[Any]:
            solver = self._solver(net.message)
            blob = solver.net.params["one"][0]
            for gradient in gradients:
                blob.data[...], blob.diff[...] = weight, gradient
                solver.apply_update()
                yield float(blob.diff) / solver.lr

        factor = self.rate / self.job.optimizer.learning_rate
        return dict(SOLVED[type(self.solver)](updates), learning_rate=self.solver.lr * factor)

    def software(self) -> Software:
        return Software("caffe", caffe.__version__, {"cuda": None})

    def device_memory_peak(self) -> Optional[float]:
        return None

    def is_out_of_memory(self, error: Exception) -> bool:
        return isinstance(error, MemoryError)
