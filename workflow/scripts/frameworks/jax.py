"""JAX: the graph as one pure function, whose training step is compiled once and donates its state.

Images stay in the order (batch, height, width, channels); weights are reordered from the
canonical layout once, when the network is built. XLA's CPU kernels are slow for some layers;
those are spelled out here in operations that it compiles well (docs/performance.md).
"""

import os
import socket
import zlib
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxlib
import lmdb
import numpy as np
import simplejpeg
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

MODES = ("jit",)
RECORD_FORMAT = "lmdb"
RELEASED = "2026-06"
REPLICAS = "devices"

PRECISIONS = {
    ("float32", "float32"): "fp32",
    ("float64", "float64"): "fp64",
    ("float32", "bfloat16"): "bf16",
}
"""By the types of the arrays and of the network's output in training."""
ORDER = ("NHWC", "HWIO", "NHWC")
AXIS = "replica"
"""The axis of the devices along which a batch is split."""


class Adapter:
    """See runtime.py."""

    DIFFERS = {
        "cpu": (
            "XLA keeps the optimisation barriers that the adapter sets"
            " (--xla_disable_hlo_passes=cse_barrier_expander)",
        ),
        "gpu": (
            "GPU memory is taken as it is needed; by itself JAX takes three quarters of it at once",
            "products in fp32 do not round to TF32; by itself JAX lets them",
        ),
    }

    def __init__(self, spec, threads):
        self.spec = spec
        device = spec["execution"]["device"]
        self.replicas = spec["execution"].get("replicas", 1)
        self.group = spec.get("group")  # of the nodes, one process on each
        self.world_size = self.replicas * (self.group["size"] if self.group else 1)
        # XLA makes its pool of threads, which all replicas share, when a device is first asked for.
        os.environ["NPROC"] = str(threads * self.replicas)
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        precision = spec["execution"]["precision"]
        if precision == "fp16-amp":
            raise NotImplementedError("JAX has no loss scaling of its own, which fp16 needs")
        if precision == "tf32" and device == "cpu":
            raise NotImplementedError("TF32 is arithmetic of NVIDIA's GPUs, which no CPU has")
        jax.config.update("jax_enable_x64", precision == "fp64")
        # fp32 means IEEE single precision: no TF32 in products or convolutions.
        products = "tensorfloat32" if precision == "tf32" else "highest"
        jax.config.update("jax_default_matmul_precision", products)
        jax.config.update("jax_platforms", "cpu" if device == "cpu" else "cuda,cpu")
        if device == "cpu":
            # XLA would remove the barriers of `_kept` before it joins operations into loops.
            os.environ["XLA_FLAGS"] = "--xla_disable_hlo_passes=cse_barrier_expander"
            if self.replicas > 1:
                jax.config.update("jax_num_cpu_devices", self.replicas)
        if self.group:
            self._join()
        try:
            devices = jax.devices("cpu" if device == "cpu" else "cuda")
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
        self.supplied = spec["execution"].get("dropout") == "supplied"
        self.optimizer = spec["optimizer"]

    def _join(self):
        """Find the processes of the other nodes."""
        address = self.group["rendezvous"].split("//")[1]
        bound = "0.0.0.0:" + address.split(":")[1]
        jax.distributed.initialize(
            address, self.group["size"], self.group["rank"], coordinator_bind_address=bound,
            cluster_detection_method="deactivate",
        )  # fmt: skip

    def read(self, stems, shape):
        parts = []
        for path in [stem + ".lmdb" for stem in stems]:
            with _opened(path) as environment, environment.begin(buffers=True) as transaction:
                records = _records(transaction, path, self._size())
                parts.append(self._joined(records))
        pixels, labels = map(np.concatenate, zip(*parts))
        return pixels.reshape(-1, *shape), labels

    def _size(self):
        """Bytes of pixels in a record; None where it holds a photo."""
        data = self.spec["data"]
        return int(np.prod(data["shape"])) if data["encoding"] == "raw" else None

    def open(self, stems):
        data = self.spec["data"]
        self.records, self.transactions = [], []
        for path in [stem + ".lmdb" for stem in stems]:
            # The records stay views of the file's map as long as this transaction lives.
            self.transactions.append(_opened(path).begin(buffers=True))
            records = _records(self.transactions[-1], path, self._size())
            labels = _labels(records)
            if labels.size and labels.max() >= data["classes"]:
                message = "{}: record {} has the label {}, the spec says {} classes"
                number = labels.argmax()
                raise ValueError(message.format(path, number, labels[number], data["classes"]))
            self.records += records
        # Arguments of the step: XLA turns division by a constant into multiplication by its
        # rounded inverse.
        scale = data.get("white", 255), data["mean"], data["std"]
        self.data = self._everywhere([np.float32(each) for each in scale])
        return len(self.records)

    def fetch(self, indices):
        pixels, labels = self._joined([self.records[i] for i in indices.ravel().tolist()])
        return pixels.reshape(*indices.shape, -1), labels.reshape(indices.shape)

    def _joined(self, records):
        """Records as uint8 rows of pixels, and labels."""
        if self._size() is None:
            shape = self.spec["data"]["shape"]
            rows = np.stack([_photo(record[4:], shape).ravel() for record in records])
            return rows, _labels(records)
        rows = np.frombuffer(bytearray().join(records), np.uint8).reshape(len(records), -1)
        labels = np.ascontiguousarray(rows[:, :4]).view("<u4")[:, 0]
        return rows[:, 4:], labels.astype(np.int64)

    def build(self, weights):
        self.layers = self.spec["network"]["layers"]
        self.by_name = {layer["name"]: layer for layer in self.layers}
        self.parameters = {p["name"]: p for p in self.spec["network"]["parameters"]}
        self.trained = [name for name, p in self.parameters.items() if p["trainable"]]
        arrays = {
            name: jnp.asarray(self._native(name, array), self.dtype)
            for name, array in weights.items()
        }
        moments = 2 if self.optimizer["name"] == "adam" else bool(self.optimizer["momentum"])
        self.state = {
            "arrays": arrays,
            "moments": {
                name: [jnp.zeros_like(arrays[name]) for _ in range(moments)]
                for name in self.trained
            },
            "scalars": jnp.zeros(3, self.dtype),
        }
        self.steps, self.batch_size, self.masks = 0, None, {}
        self.key = jax.random.key(self.spec["seed"], impl="rbg")
        step = self._step
        if self.world_size > 1:
            self.state = self._everywhere(self.state)
            same, split = PartitionSpec(), PartitionSpec(AXIS)
            step = jax.shard_map(
                step, mesh=self.mesh, in_specs=(same, same, split, split, same, same, same),
                # Running statistics are each replica's own, which no check would allow.
                out_specs=(same, same), check_vma=False,
            )  # fmt: skip
        self.step = jax.jit(step, donate_argnums=0)
        if self.group:
            from jax.experimental import multihost_utils

            name = np.uint32(zlib.crc32(socket.gethostname().encode()))
            self.hosts = set(multihost_utils.process_allgather(name).tolist())
        self.forward = jax.jit(lambda arrays, images: self._forward(arrays, images)[0])

    def _everywhere(self, arrays):
        """Arrays put on the device of every replica."""
        if self.world_size == 1:
            return jax.device_put(arrays)
        return self._spread(arrays, PartitionSpec())

    def _spread(self, arrays, spec):
        """Arrays put on all devices as `spec` says, of which every node has its own part."""
        sharding = NamedSharding(self.mesh, spec)
        if not self.group:
            return jax.device_put(arrays, sharding)
        return jax.tree.map(
            lambda part: jax.make_array_from_process_local_data(sharding, np.asarray(part)), arrays
        )

    def _native(self, name, array):
        """A canonical array in JAX's layout."""
        layer = self.by_name[name.split(".")[0]]
        if array.ndim == 4:
            return array.transpose(2, 3, 1, 0)
        if array.ndim == 2 and layer["op"] in ("dense", "lstm"):
            return _rows_last(array, layer.get("image")).T
        return array

    def _canonical(self, name, array):
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

    def set_masks(self, masks):
        self.masks = {
            name: jnp.asarray(_rows_last(mask, self.by_name[name]["image"]), self.dtype)
            for name, mask in masks.items()
        }

    def load(self, images, labels):
        arrays = jnp.asarray(images, self.dtype), jnp.asarray(labels, np.int32)
        self.data = arrays if self.world_size == 1 else self._everywhere(arrays)

    def _forward(self, arrays, images, drop=None):
        """The output, and the running statistics that a training step leaves.

        `drop(layer, x)` is dropout in a training step; None stands for evaluation.
        """
        # The bytes of a text stay exact.
        values, statistics = {"input": images.astype(self.computed)}, {}
        for layer in self.layers:
            name, op = layer["name"], layer["op"]
            inputs = [values[source] for source in layer["inputs"]]
            own = {
                kind: arrays[name + "." + kind]
                for kind in ("weight", "recurrent", "bias", "scale", "offset", "mean", "variance")
                if name + "." + kind in arrays
            }
            # What normalises stays as it is kept.
            for kind in own.keys() & {"weight", "recurrent", "bias"}:
                own[kind] = own[kind].astype(self.computed)
            if op == "dropout":
                value = drop(layer, inputs[0]) if drop else inputs[0]
            elif op == "batch_norm" and drop:
                value, mean, variance = _normalised(
                    layer["epsilon"], inputs[0].astype(self.dtype), own["scale"], own["offset"]
                )
                count = value.size // value.shape[3]
                batch = {"mean": mean, "variance": variance * (count / (count - 1))}
                for kind, fresh in batch.items():
                    kept = layer["momentum"] * own[kind]
                    statistics[name + "." + kind] = kept + (1 - layer["momentum"]) * fresh
            elif op == "conv" and self.device.platform != "cpu":
                value = _library_conv(layer, inputs[0], own["weight"])
            else:
                value = _layer(layer, inputs, own)
            if "bias" in own and op != "lstm":
                value = value + own["bias"]
            value = value.astype(self.computed)
            if self.device.platform == "cpu" and op in ("conv", "add"):
                value = _kept(value)
            values[name] = value
        output = values[self.spec["network"]["output"]]
        self.output = output.dtype.name
        return output.astype(self.dtype), statistics

    def _batch(self, data, batch):
        """Images and labels of a step."""
        if self.spec["factors"]["input"] == "synthetic":
            (rows,) = batch
            return [lax.dynamic_slice_in_dim(whole, rows[0], len(rows)) for whole in data]
        if self.spec["factors"]["input"] == "memory":
            return [whole.at[batch[0]].get(mode="promise_in_bounds") for whole in data]
        (white, mean, std), (pixels, labels) = data, batch
        images = pixels.reshape(-1, *self.spec["data"]["shape"]).astype(np.float32)
        return ((images / white - mean) / std).astype(self.dtype), labels

    def _step(self, state, data, batch, draws, masks, scalars, number):
        """One step: the new state and the mean loss; `scalars` as in `_scalars`."""
        images, labels = self._batch(data, batch)
        if self.spec["augmentation"]:
            images = self._augmented(images, draws)
        self.batch_size = len(labels)
        key = jax.random.fold_in(self.key, number)
        if self.world_size > 1:
            key = jax.random.fold_in(key, lax.axis_index(AXIS))

        def drop(layer, x):
            if self.supplied:
                return x * masks[layer["name"]]
            own = jax.random.fold_in(key, self.layers.index(layer))
            kept = jax.random.bernoulli(own, 1 - layer["rate"], x.shape)
            return jnp.where(kept, x / (1 - layer["rate"]), 0)

        def mean_loss(trained):
            logits, statistics = self._forward({**state["arrays"], **trained}, images, drop)
            right = jnp.sum(logits * jax.nn.one_hot(labels, logits.shape[1], dtype=self.dtype), 1)
            return jnp.mean(jax.nn.logsumexp(logits, 1) - right), statistics

        trained = {name: state["arrays"][name] for name in self.trained}
        (loss, statistics), gradients = jax.value_and_grad(mean_loss, has_aux=True)(trained)
        if self.world_size > 1:
            loss, gradients = lax.pmean((loss, gradients), AXIS)
        moments = {}
        for name, gradient in gradients.items():
            array, parameter = trained[name], self.parameters[name]
            if parameter["l1"]:
                gradient += parameter["l1"] * jnp.sign(array)
            if parameter["l2"]:
                gradient += 2 * parameter["l2"] * array
            decayed = name.split(".")[1] not in self.optimizer["spared"]
            trained[name], moments[name] = self._update(
                array, gradient, state["moments"][name], scalars, decayed
            )
        arrays = {**state["arrays"], **statistics, **trained}
        return {"arrays": arrays, "moments": moments, "scalars": scalars}, loss

    def _update(self, array, gradient, moments, scalars, decayed=True):
        """What the update equation makes of an array and its moments."""
        asked, rate = self.optimizer, scalars[0]
        if decayed and asked["weight_decay"]:
            if asked["decoupled"]:
                array = array * (1 - rate * asked["weight_decay"])
            else:
                gradient = gradient + asked["weight_decay"] * array
        if asked["name"] == "adam":
            first = asked["beta1"] * moments[0] + (1 - asked["beta1"]) * gradient
            second = asked["beta2"] * moments[1] + (1 - asked["beta2"]) * gradient**2
            root = jnp.sqrt(second) * scalars[2] + asked["epsilon"]
            return array - rate * (first * scalars[1]) / root, [first, second]
        if moments:
            moments = [asked["momentum"] * moments[0] + gradient]
            if asked["nesterov"]:
                gradient = gradient + asked["momentum"] * moments[0]
            else:
                gradient = moments[0]
        return array - rate * gradient, moments

    def _augmented(self, images, draws):
        """A batch cut out of itself with zeros around, and mirrored, as its draws say."""
        height, width, _ = self.spec["data"]["shape"]
        padding = [self.spec["augmentation"]["crop_padding"]] * 2
        images = jnp.pad(images, [(0, 0), padding, padding, (0, 0)])
        top, left, mirrored = draws[:, 0], draws[:, 1], draws[:, 2]
        columns = jnp.arange(width)
        columns = jnp.where(mirrored[:, None] > 0, width - 1 - columns, columns)
        rows = top[:, None] + jnp.arange(height)
        columns = left[:, None] + columns
        examples = jnp.arange(len(draws))[:, None, None]
        cut = images.at[examples, rows[:, :, None], columns[:, None, :]]
        return cut.get(mode="promise_in_bounds")

    def _scalars(self, rates):
        """Of every step the rate, and what corrects Adam's mean and the root of its squares."""
        scalars = np.ones((len(rates), 3))
        scalars[:, 0] = rates
        if self.optimizer["name"] == "adam":
            t = self.steps + 1 + np.arange(len(rates))
            scalars[:, 1] = 1 / (1 - self.optimizer["beta1"] ** t)
            scalars[:, 2] = 1 / np.sqrt(1 - self.optimizer["beta2"] ** t)
        return scalars.astype(self.dtype)

    def train(self, batches, rates, draws):
        if isinstance(batches, np.ndarray):
            batches = [(batches.astype(np.int32),)]
        every = [each for part in batches for each in zip(*part)]
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

    def losses(self, handle):
        return np.array(jax.device_get(handle))

    def synchronize(self):
        jax.block_until_ready(self.state)

    def logits(self, images):
        arrays = self.state["arrays"]
        if self.world_size > 1:
            arrays = {name: array.addressable_data(0) for name, array in arrays.items()}
        return np.array(self.forward(arrays, images.astype(self.dtype)))

    def prepare(self, images):
        return images.astype(self.dtype, copy=False)

    def predict(self, batch):
        self.predicted = self.forward(self.state["arrays"], batch)
        return self.predicted

    def fetched(self, handle):
        return np.asarray(handle)

    def predicting(self):
        arrays = self.state["arrays"]
        platforms = {device.platform for device in self.predicted.devices()}
        return {
            "batch_size": len(self.predicted),
            "threads": _pool(),
            "precision": self._precision(),
            "device": platforms.pop(),
            "mode": "jit" if self.forward._cache_size() else "not compiled",
            "parameters": sum(arrays[name].size for name in self.trained),
        }

    def weights(self):
        return {name: self._canonical(name, a) for name, a in self.state["arrays"].items()}

    def velocities(self):
        return {name: self._canonical(name, own[0]) for name, own in self.state["moments"].items()}

    def products(self, a, b):
        @jax.jit
        def both(a, b):
            a, b = a.astype(self.computed), b.astype(self.computed)
            convolved = lax.conv_general_dilated(
                a[:, None, None], b[None, None], (1, 1), "VALID", dimension_numbers=ORDER
            )
            return (a @ b).astype(self.dtype), convolved[:, 0, 0].astype(self.dtype)

        return tuple(map(np.array, both(a.astype(self.dtype), b.astype(self.dtype))))

    def settings(self):
        arrays = list(self.state["arrays"].values())
        devices = {device for array in arrays for device in array.devices()}
        platforms = {device.platform for device in devices}
        own = self._probed()
        if self.world_size > 1:
            own["replicas"] = len(devices)
        if self.group:
            own["nodes"] = len(self.hosts)
        return {
            **own,
            "batch_size": self.batch_size * self.world_size,
            "threads": _pool() // self.replicas,
            "precision": self._precision(),
            "device": platforms.pop() if len(platforms) == 1 else str(platforms),
            "mode": "jit" if self.step._cache_size() else "not compiled",
            "parameters": sum(self.state["arrays"][name].size for name in self.trained),
        }

    def _precision(self):
        """That of the arrays and of the network's output, and whether TF32 is allowed."""
        types = {array.dtype.name for array in self.state["arrays"].values()}
        found = PRECISIONS.get((*types, self.output), str([*types, self.output]))
        allowed = jax.config.jax_default_matmul_precision == "tensorfloat32"
        return "tf32" if found == "fp32" and allowed else found

    def _probed(self):
        """The settings of the update equation, from what it makes of single numbers.

        The rate is that of the last step. The probes have a large one, beside which the
        array's own 1 is rounding.
        """
        update, large = jax.jit(self._update), 2.0**30
        scalars = np.array([large, 1, 1], self.dtype)
        none = [0] * len(self.state["moments"][self.trained[0]])

        def made(array, gradient, *moments):
            """The array and its moments after a step."""
            array, gradient, *moments = np.array([array, gradient, *moments], self.dtype)
            array, moments = update(array, gradient, moments, scalars)
            return float(array), [float(moment) for moment in moments]

        pushed, answers = made(0, 1, *none)
        shrunk, coupled = made(1, 0, *none)
        told = {
            "learning_rate": float(self.state["scalars"][0]),
            "weight_decay": coupled[0] / answers[0] if any(coupled) else (1 - shrunk) / large,
        }
        if len(none) == 2:
            first, second = made(0, 0, 1, 1)[1]
            epsilon = large * first / -made(0, 0, 1, 0)[0]
            return dict(told, optimizer="adam", beta1=first, beta2=second, epsilon=epsilon)
        momentum = made(0, 0, 1)[1][0] if none else 0.0
        return dict(told, optimizer="sgd", momentum=momentum, nesterov=pushed != -large)

    def software(self):
        return {
            "framework": "jax",
            "version": jax.__version__,
            "jaxlib": jaxlib.__version__,
            "platform_version": self.device.client.platform_version,
        }

    def device_memory_peak(self):
        if self.device.platform == "cpu":
            return None
        return self.device.memory_stats()["peak_bytes_in_use"] / 2**20

    def is_out_of_memory(self, error):
        return isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)


def _pool():
    """The number of threads that XLA computes with on the CPU, by their name."""
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    return names.count("tf_XLAEigen")


def _opened(path):
    """The LMDB environment of a file; raises ValueError if it is damaged."""
    try:
        environment = lmdb.open(path, subdir=False, readonly=True, lock=False)
    except lmdb.Error as fault:
        raise ValueError("{}: {}".format(path, fault)) from None
    size = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    if os.path.getsize(path) < size:  # a look beyond its end would kill the process
        raise ValueError("{}: shorter than its {} bytes".format(path, size))
    return environment


def _records(transaction, path, size):
    """All records in stored order; raises ValueError if one has not `size` bytes of pixels.

    A `size` of None is that of photos, which are as long as they are.
    """
    try:
        records = [record for _, record in transaction.cursor()]
    except lmdb.Error as fault:
        raise ValueError("{}: {}".format(path, fault)) from None
    for number, record in enumerate(records):
        if size is not None and len(record) != 4 + size:
            message = "{}: record {} has {} bytes, not {}"
            raise ValueError(message.format(path, number, len(record), 4 + size))
    return records


def _labels(records):
    return np.frombuffer(b"".join([record[:4] for record in records]), "<u4").astype(np.int64)


def _photo(encoded, shape):
    """The middle of a JPEG file, uint8 of `shape`; raises ValueError if it is smaller."""
    image = simplejpeg.decode_jpeg(encoded, "GRAY" if shape[2] == 1 else "RGB")
    top, left = ((have - want) // 2 for have, want in zip(image.shape, shape[:2]))
    if min(top, left) < 0:
        raise ValueError("a photo of {} is smaller than {}".format(image.shape, shape))
    return image[top : top + shape[0], left : left + shape[1]]


def _rows_last(array, image):
    """Vectors of a flattened image, (channel, row, column), in JAX's order of pixels."""
    if not image:
        return array
    height, width, channels = image
    array = array.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
    return array.reshape(len(array), -1)


def _layer(layer, inputs, own):
    """What a layer without dropout or batch statistics makes of its inputs, its bias left out."""
    op, x = layer["op"], inputs[0]
    if op == "conv":
        return _conv(layer, x, own["weight"])
    if op == "dense":
        return x @ own["weight"]
    if op == "batch_norm":
        factor = own["scale"] * lax.rsqrt(own["variance"] + layer["epsilon"])
        return (x - own["mean"]) * factor + own["offset"]
    if op == "lrn":
        half = layer["size"] // 2
        squares = jnp.pad(x * x, [(0, 0), (0, 0), (0, 0), (half, half)])
        total = sum(squares[..., i : i + x.shape[3]] for i in range(layer["size"]))
        return x / (layer["k"] + layer["alpha"] / layer["size"] * total) ** layer["beta"]
    if op == "max_pool":
        return _max_pool(layer["size"], layer["stride"], _padded(x, layer["padding"], -np.inf))
    if op == "avg_pool":
        return _average(layer, x)
    if op == "global_avg_pool":
        return jnp.mean(x, (1, 2))
    if op == "relu":
        return jax.nn.relu(x)
    if op == "add":
        return sum(inputs[1:], x)
    if op == "concat":
        return jnp.concatenate(inputs, -1)
    if op == "flatten":
        return x.reshape(len(x), -1)
    if op == "embedding":
        tokens = x[:, :, 0, 0].astype(np.int32)
        return own["weight"].at[tokens].get(mode="promise_in_bounds")
    if op == "position":
        return x + own["weight"]
    if op == "layer_norm":
        mean = jnp.mean(x, 2, keepdims=True)
        variance = jnp.mean((x - mean) ** 2, 2, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + layer["epsilon"]) * own["scale"] + own["offset"]
    if op == "attention":
        return _attention(layer["heads"], x)
    if op == "lstm":
        return _lstm(layer, x, own)
    if op == "mean_over_steps":
        return jnp.mean(x, 1)
    raise NotImplementedError("JAX's adapter has no layer " + op)


def _attention(heads, x):
    """Self-attention of queries, keys and values that lie side by side."""
    batch, steps, features = x.shape
    q, k, v = jnp.moveaxis(x.reshape(batch, steps, 3, heads, -1), 2, 0)
    products = jnp.einsum("bqhd,bkhd->bhqk", q * q.shape[3] ** -0.5, k)
    found = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(products), v)
    return found.reshape(batch, steps, features // 3)


def _lstm(layer, x, own):
    """The states of an LSTM.

    On the CPU each step multiplies its own inputs: all products at once, and the gradients of all
    steps kept for one product, took twice the CPU time (docs/performance.md).
    """
    at_once = jax.default_backend() != "cpu"

    def gates(x):
        return x @ own["weight"] + own["bias"]

    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split((x if at_once else gates(x)) + h @ own["recurrent"], 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h if layer["sequence"] else None

    start = jnp.zeros((len(x), layer["units"]), x.dtype)
    inputs = jnp.moveaxis(gates(x) if at_once else x, 1, 0)
    (last, _), states = lax.scan(step, (start, start), inputs)
    return jnp.moveaxis(states, 0, 1) if layer["sequence"] else last


def _kept(x):
    """The array, computed once: XLA would compute it again for every reader, or for every place
    of a window that a reader looks through."""
    return lax.optimization_barrier(x)


def _padded(x, padding, value):
    top, bottom, left, right = padding
    if not any(padding):
        return x
    return jnp.pad(x, [(0, 0), (top, bottom), (left, right), (0, 0)], constant_values=value)


def _window(x, size, stride=(1, 1), dilation=1):
    """What each place of a window sees of an image, place by place."""
    height, width = (
        (length - (side - 1) * dilation - 1) // step * step + 1
        for length, side, step in zip(x.shape[1:3], size, stride)
    )
    for i in range(size[0]):
        for j in range(size[1]):
            top, left = i * dilation, j * dilation
            yield x[:, top : top + height : stride[0], left : left + width : stride[1]]


def _window_by_rows(x, size, stride, dilation=1):
    """The same row by row: its gradient adds up each row of a window before the column."""
    if max(size) <= stride:  # nothing overlaps, so nothing is added up
        yield from _window(x, size, (stride, stride), dilation)
        return
    for row in _window(x, (size[0], 1), (stride, 1), dilation):
        yield from _window(_kept(row), (1, size[1]), (1, stride), dilation)


def _library_conv(layer, x, weight):
    """A convolution by XLA's own operation."""
    top, bottom, left, right = layer["padding"]
    return lax.conv_general_dilated(
        x, weight, [layer["stride"]] * 2, [(top, bottom), (left, right)],
        rhs_dilation=[layer["dilation"]] * 2, dimension_numbers=ORDER,
        feature_group_count=layer["groups"],
    )  # fmt: skip


def _product_conv(layer, x, weight):
    """A convolution as one matrix product of all windows, without groups."""
    x = _padded(x, layer["padding"], 0)
    windows = _window_by_rows(x, weight.shape[:2], layer["stride"], layer["dilation"])
    windows = _kept(jnp.concatenate(list(windows), 3))
    return windows @ weight.reshape(-1, weight.shape[3])


def _single_conv(layer, x, weight):
    """A convolution whose filters see a single channel, as a sum of scaled images."""
    x = _padded(x, layer["padding"], 0)
    channels = x.shape[3]
    places = weight.reshape(-1, channels, weight.shape[3] // channels)
    images = _window(x, weight.shape[:2], [layer["stride"]] * 2, layer["dilation"])
    # A sum of bfloat16 is one of single precision, as in a matrix product.
    wide = jnp.promote_types(x.dtype, np.float32)
    total = sum(i[..., None].astype(wide) * p.astype(wide) for i, p in zip(images, places))
    return _kept(total.reshape(*total.shape[:3], -1).astype(x.dtype))


def _conv(layer, x, weight):
    """A convolution on the CPU, each of its three parts in the form that is fast for its shape.

    XLA's operation is slow with one channel, with groups, with few output channels (which the
    gradient of an image with few channels has) and where padding adds many windows (the
    gradient of an image behind a large filter without padding); in double precision it is a
    plain loop.
    """
    groups = layer["groups"]
    if 1 < groups and weight.shape[2] > 1:
        alone = dict(layer, groups=1)
        parts = zip(jnp.split(x, groups, 3), jnp.split(weight, groups, 3))
        return jnp.concatenate([_conv(alone, *part) for part in parts], 3)
    usual = _product_conv if x.dtype == np.float64 else _library_conv
    forward = by_image = by_weight = usual
    if weight.shape[2] == 1:
        forward = by_image = _single_conv
        if groups > 1:
            by_weight = _single_conv
    else:
        height, width, _ = layer["shape"]
        wasted = x.shape[1] * x.shape[2] > 1.5 * height * width * layer["stride"] ** 2
        if x.shape[3] < 16 or wasted:
            by_image = _product_conv
    parts = [partial(form, layer) for form in (forward, by_image, by_weight)]
    # Nobody asks for the gradient of what the network is given.
    wanted = layer["inputs"] != ["input"]
    return _assembled(*parts, wanted)(x, weight)


def _assembled(forward, by_image, by_weight, wanted):
    """The function `forward`, with the gradients of two others that compute the same; that of the
    images only where it is `wanted`."""

    @jax.custom_vjp
    def function(x, weight):
        return forward(x, weight)

    def backward(kept, gradient):
        x, weight = kept
        of_weight = jax.vjp(lambda weight: by_weight(x, weight), weight)[1](gradient)
        if not wanted:
            return (None, *of_weight)
        return jax.vjp(lambda x: by_image(x, weight), x)[1](gradient) + of_weight

    function.defvjp(lambda x, weight: (forward(x, weight), (x, weight)), backward)
    return function


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _max_pool(size, stride, x):
    """Maximum pooling without padding; the first of equal pixels has the gradient.

    XLA's own gradient goes through the windows one by one.
    """
    return _maximum(size, stride, x)[0]


def _maximum(size, stride, x):
    x = _kept(x)
    largest, *images = _window(x, (size, size), (stride, stride))
    for image in images:
        largest = jnp.maximum(largest, image)
    largest = _kept(largest)
    return largest, (x, largest)


def _maximum_gradient(size, stride, kept, gradient):
    x, largest = kept
    spread = jax.vjp(lambda x: list(_window_by_rows(x, (size, size), stride)), x)[1]
    parts, taken = [], False
    for image in _window(x, (size, size), (stride, stride)):
        first = (image == largest) & ~jnp.asarray(taken)
        parts.append(jnp.where(first, gradient, 0))
        taken = first | taken
    return _kept(spread(parts))


_max_pool.defvjp(_maximum, _maximum_gradient)


def _average(layer, x):
    """Average pooling in which padded pixels do not count."""
    size, stride, padding = layer["size"], layer["stride"], layer["padding"]
    counts = []
    for length, out, before in zip(x.shape[1:3], layer["shape"], padding[::2]):
        begin = np.arange(out) * stride - before
        counts.append(np.minimum(begin + size, length) - np.maximum(begin, 0))
    counted = np.multiply.outer(*counts)[..., None].astype(x.dtype)
    x = _padded(x, padding, 0)
    window, strides = (1, size, size, 1), (1, stride, stride, 1)
    return lax.reduce_window(x, np.zeros((), x.dtype), lax.add, window, strides, "VALID") / counted


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _normalised(epsilon, x, scale, offset):
    """Batch normalisation with the batch's statistics; its mean and biased variance.

    Its own gradient reads the images half as often as the one JAX derives. The statistics have
    none: only the running ones follow from them.
    """
    return _normalise(epsilon, x, scale, offset)[0]


def _normalise(epsilon, x, scale, offset):
    mean = jnp.mean(x, (0, 1, 2))
    variance = jnp.mean((x - mean) ** 2, (0, 1, 2))
    root = lax.rsqrt(variance + epsilon)
    return ((x - mean) * (scale * root) + offset, mean, variance), (x, mean, root, scale)


def _normalise_gradient(epsilon, kept, gradients):
    x, mean, root, scale = kept
    gradient, count = gradients[0], x.size // x.shape[3]
    white = (x - mean) * root
    of_offset = jnp.sum(gradient, (0, 1, 2))
    of_scale = jnp.sum(gradient * white, (0, 1, 2))
    of_x = scale * root * (gradient - of_offset / count - white * (of_scale / count))
    return of_x, of_scale, of_offset


_normalised.defvjp(_normalise, _normalise_gradient)
