"""PyTorch: the graph as a `torch.fx` module, run as it is or compiled, and a fused optimiser."""

import contextlib
import importlib.util
import operator
import os
import shutil
import socket
import sys
import sysconfig
import tempfile

import lmdb
import numpy as np
import simplejpeg
import torch
from torch import distributed, nn

MODES = ("eager_channels_last", "eager", "compile")
WAITS = True
"""Its threads are those of OpenMP (libgomp)."""
RECORD_FORMAT = "lmdb"
RELEASED = "2026-07"
REPLICAS = "processes"

LAYOUTS = {"NHWC": torch.channels_last, "NCHW": torch.contiguous_format}
"""How the numbers of images and filters follow one another in memory."""
AUTOCAST = {"bf16": torch.bfloat16, "fp16-amp": torch.float16}
"""What autocast has products compute in; weights, their updates and the loss stay in fp32."""
PRECISIONS = {
    (torch.float32, torch.float32): "fp32",
    (torch.float64, torch.float64): "fp64",
    (torch.float32, torch.bfloat16): "bf16",
    (torch.float32, torch.float16): "fp16-amp",
}
"""By the types of the weights and of the network's output in training."""
NATIVE = {
    "weight": "weight",
    "recurrent": "recurrent",
    "bias": "bias",
    "scale": "weight",
    "offset": "bias",
    "mean": "running_mean",
    "variance": "running_var",
}
"""What PyTorch's layers call an array of the graph."""


class Adapter:
    """See runtime.py. The training set lies in the order of the mode's memory format."""

    DIFFERS = {
        "gpu": (
            "cuDNN tries its algorithms before the first step (cudnn.benchmark); by itself PyTorch"
            " lets it choose without trying",
        ),
    }

    def __init__(self, spec, threads):
        self.spec = spec
        device = spec["execution"]["device"]
        if device == "gpu" and not torch.cuda.is_available():
            raise NotImplementedError("PyTorch sees no CUDA device")
        self.group = spec.get("group")
        if self.group:
            self._take_place()
        self.device = torch.device("cuda" if device == "gpu" else "cpu")
        torch.set_num_threads(threads)
        precision = spec["execution"]["precision"]
        self._require_precision(precision)
        # fp32 means IEEE single precision: no TF32 in products or convolutions.
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.benchmark = True
        self.dtype = torch.float64 if precision == "fp64" else torch.float32
        self.computed = AUTOCAST.get(precision, self.dtype)
        # Where it is not enabled it passes on what it is given.
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=precision == "fp16-amp")
        self.layout = "NCHW" if spec["execution"]["mode"] == "eager" else "NHWC"
        self.channels_last = self.layout == "NHWC"
        if spec["execution"]["mode"] == "compile":
            self._require_compiler()
            # A cache of its own: every run compiles all it needs, in its first step.
            self.cache = tempfile.TemporaryDirectory(prefix="touchstone-inductor-")
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = self.cache.name
        self.batch_size = None

    def _take_place(self):
        """Keep to this replica's own device; raises NotImplementedError where there is none."""
        if self.spec["execution"]["mode"] == "compile":
            raise NotImplementedError(
                "loss and network are compiled as one graph here, which replicas would have to"
                " leave to exchange gradients"
            )
        if self.spec["execution"]["device"] == "gpu":
            found = torch.cuda.device_count()
            if found < self.group["local_size"]:
                message = "PyTorch sees {} CUDA devices of the {} asked for"
                raise NotImplementedError(message.format(found, self.group["local_size"]))
            torch.cuda.set_device(self.group["local_rank"])

    def _require_precision(self, precision):
        """Raise NotImplementedError where device or optimiser cannot do with that precision."""
        if precision == "tf32" and self.device.type == "cpu":
            raise NotImplementedError("TF32 is arithmetic of NVIDIA's GPUs, which no CPU has")
        if precision in ("tf32", "bf16") and self.device.type == "cuda":
            capability = torch.cuda.get_device_capability()
            if capability < (8, 0):
                message = "{} takes a GPU of compute capability 8.0, this one has {}.{}"
                raise NotImplementedError(message.format(precision, *capability))
        asked = self.spec["optimizer"]
        if precision == "fp16-amp" and asked.get("decoupled") and asked["name"] == "sgd":
            # Such a decay is no part of PyTorch's SGD, whose steps the loss scaling leaves out.
            raise NotImplementedError(
                "fp16-amp with decoupled weight decay is there for adam alone"
            )

    def _autocast(self):
        """The context in which the network is computed."""
        if self.computed == self.dtype:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, self.computed)

    def _require_compiler(self):
        """Raise NotImplementedError where torch.compile's Inductor cannot make machine code."""
        if self.device.type == "cuda":
            if importlib.util.find_spec("triton") is None:
                raise NotImplementedError("torch.compile needs Triton for a GPU, which is missing")
            return
        compiler = os.environ.get("CXX", "g++")
        if shutil.which(compiler) is None:
            message = "torch.compile needs a C++ compiler, and there is no {}"
            raise NotImplementedError(message.format(compiler))
        header = os.path.join(sysconfig.get_path("include"), "Python.h")
        if not os.path.exists(header):
            raise NotImplementedError("torch.compile needs Python's headers: no " + header)

    def make_deterministic(self):
        # What cuBLAS wants for it (its documentation, "Results reproducibility").
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.manual_seed(self.spec["seed"])
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(True)

    def asked(self):
        scaling = {"loss_scaling": "dynamic"}
        return {
            "inter_op_threads": None,
            "layout": self.layout,
            "cudnn_benchmark": not self.spec["execution"]["deterministic"],
            **(scaling if self.spec["execution"]["precision"] == "fp16-amp" else {}),
        }

    def read(self, stems, shape):
        parts = []
        for path in [stem + ".lmdb" for stem in stems]:
            with _opened(path) as environment, environment.begin(buffers=True) as transaction:
                records = _records(transaction, path, self._size())
                parts.append(_joined(records, None if self._size() else shape))
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
        size = int(np.prod(data["shape"]))
        rows = [np.tile(np.float32(data[key]), size // len(data[key])) for key in ("mean", "std")]
        self.mean, self.std = (torch.from_numpy(row).to(self.device) for row in rows)
        self.white = torch.tensor(float(data.get("white", 255)), device=self.device)
        return len(self.records)

    def fetch(self, indices):
        records = [self.records[i] for i in indices.ravel().tolist()]
        pixels, labels = _joined(records, None if self._size() else self.spec["data"]["shape"])
        pixels = pixels.reshape(*indices.shape, -1)
        return torch.from_numpy(pixels), torch.from_numpy(labels.reshape(indices.shape))

    def build(self, weights):
        compiled = self.spec["execution"]["mode"] == "compile"
        if compiled and any(layer["op"] == "lstm" for layer in self.spec["network"]["layers"]):
            raise NotImplementedError("torch.compile does not support LSTMs")
        supplied = self.spec["execution"].get("dropout") == "supplied"
        self.model = _module(self.spec["network"], Masked if supplied else nn.Dropout)
        memory_format = LAYOUTS[self.layout]
        self.model.to(device=self.device, dtype=self.dtype, memory_format=memory_format)
        self.arrays = {}
        for name in weights:
            layer, kind = name.split(".")
            self.arrays[name] = getattr(getattr(self.model, layer), NATIVE[kind])
        with torch.no_grad():
            for name, array in self.arrays.items():
                array.copy_(torch.from_numpy(weights[name]))
        parameters = [p for p in self.spec["network"]["parameters"] if p["trainable"]]
        frozen = set(self.arrays) - {parameter["name"] for parameter in parameters}
        for name in frozen:
            self.arrays[name].requires_grad_(False)
        self.penalised = [
            (self.arrays[p["name"]], p["l1"], p["l2"]) for p in parameters if p["l1"] or p["l2"]
        ]
        if "inference" not in self.spec:  # whose making takes seconds
            self._optimize([parameter["name"] for parameter in parameters])
        self.trained = self._replicated() if self.group else self.model
        # A module of torch.fx wraps its calls, which a single image feels.
        self.loss, self.predictor = self._loss, self.model.forward
        if compiled:
            self.loss = torch.compile(self._loss, fullgraph=True, dynamic=False)
            self.predictor = torch.compile(self.model, fullgraph=True, dynamic=False)

    def meet(self):
        """Make the process group of the replicas, once all of them ask for it."""
        if self.group["interface"]:
            # Gloo would look for the host's name, which not every machine can resolve.
            os.environ.setdefault("GLOO_SOCKET_IFNAME", self.group["interface"])
        distributed.init_process_group(
            "nccl" if self.device.type == "cuda" else "gloo", init_method=self.group["rendezvous"],
            rank=self.group["rank"], world_size=self.group["size"],
        )  # fmt: skip
        self.hosts = [None] * self.group["size"]
        if self.group["size"] > self.group["local_size"]:
            distributed.all_gather_object(self.hosts, socket.gethostname())

    def _replicated(self):
        """The network as all replicas train it: their gradients are averaged as they come."""
        self.meet()
        places = [self.group["local_rank"]] if self.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(self.model, places, gradient_as_bucket_view=True)

    def _loss(self, images, labels):
        """The mean loss, and the logits, which no gradient goes through."""
        with self._autocast():
            logits = self.trained(images)
            return nn.functional.cross_entropy(logits, labels), logits.detach()

    def _optimize(self, trained):
        asked = self.spec["optimizer"]
        decay = asked["weight_decay"]
        decayed = [name for name in trained if name.split(".")[1] not in asked["spared"]]
        spared = [name for name in trained if name not in decayed]
        groups = [
            {"params": [self.arrays[name] for name in names], "weight_decay": own}
            for names, own in ((decayed, decay), (spared, 0.0))
            if names
        ]
        rate = asked["learning_rate"]
        self.shrunk = []
        if asked["name"] == "adam":
            kind = torch.optim.AdamW if asked["decoupled"] else torch.optim.Adam
            betas = asked["beta1"], asked["beta2"]
            self.optimizer = kind(groups, rate, betas, asked["epsilon"], fused=True)
            return
        if asked["decoupled"] and decay:
            # PyTorch has no SGD with decoupled decay: the weights shrink before its step.
            self.shrunk = [group["params"] for group in groups if group["weight_decay"]]
            for group in groups:
                group["weight_decay"] = 0.0
        momentum, nesterov = asked["momentum"], asked["nesterov"]
        self.optimizer = torch.optim.SGD(groups, rate, momentum, nesterov=nesterov, fused=True)
        if self.scaler.is_enabled() and momentum:
            # PyTorch's first step makes them, of whatever is in memory if that step is left out.
            for name in trained:
                array = self.arrays[name]
                self.optimizer.state[array]["momentum_buffer"] = torch.zeros_like(array)

    def load(self, images, labels):
        if not self.channels_last:
            images = images.transpose(0, 3, 1, 2)
        # Rows are gathered flat, which copies each example in one piece in either order.
        self.images = torch.from_numpy(images.reshape(len(images), -1)).to(self.device, self.dtype)
        self.labels = torch.from_numpy(labels).to(self.device)

    def _batches(self, batches):
        """The images, as rows of pixels, and labels of every step."""
        if self.spec["factors"]["input"] == "synthetic":
            for batch in batches:
                first, size = int(batch[0]), len(batch)
                yield self.images.narrow(0, first, size), self.labels.narrow(0, first, size)
            return
        if isinstance(batches, np.ndarray):
            for batch in torch.from_numpy(batches).to(self.device, non_blocking=True):
                yield self.images.index_select(0, batch), self.labels.index_select(0, batch)
            return
        for part in batches:
            for pixels, labels in zip(*part, strict=True):
                rows = pixels.to(self.device, non_blocking=True).to(torch.float32)
                rows.div_(self.white).sub_(self.mean).div_(self.std)
                if not self.channels_last:
                    rows = rows.view(len(rows), -1, self.spec["data"]["shape"][2])
                    rows = rows.transpose(1, 2).flatten(1)
                yield rows.to(self.dtype), labels.to(self.device, non_blocking=True)

    def train(self, batches, rates, draws):
        losses = []
        if draws is not None:
            draws = torch.from_numpy(draws).to(self.device, torch.int64, non_blocking=True)
        for i, (rows, labels) in enumerate(self._batches(batches)):
            images = self._images(rows)
            if draws is not None:
                images = self._augmented(images, draws[i])
            loss, logits = self.loss(images, labels)
            self.optimizer.zero_grad(set_to_none=True)
            self.scaler.scale(loss).backward()
            self._update(float(rates[i]))
            losses.append(loss.detach())
        self.batch_size = len(labels)
        self.backward, self.output = type(loss.grad_fn).__name__, logits.dtype
        self.images_fit = _layouts([images])
        if self.group:
            means = torch.stack(losses)
            distributed.all_reduce(means)
            losses = list(means / self.group["size"])
        return losses

    def _update(self, rate):
        self.scaler.unscale_(self.optimizer)
        with torch.no_grad():
            for array, l1, l2 in self.penalised:
                array.grad.add_(array.sign(), alpha=l1).add_(array, alpha=2 * l2)
            for arrays in self.shrunk:
                torch._foreach_mul_(arrays, 1 - rate * self.spec["optimizer"]["weight_decay"])
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def _augmented(self, images, draws):
        """A batch cut out of itself with zeros around, and mirrored, as its draws say."""
        height, width, _ = self.spec["data"]["shape"]
        padded = nn.functional.pad(images, [self.spec["augmentation"]["crop_padding"]] * 4)
        top, left, mirrored = draws.unbind(1)
        columns = torch.arange(width, device=self.device)
        columns = torch.where(mirrored[:, None] > 0, width - 1 - columns, columns)
        rows = top[:, None] + torch.arange(height, device=self.device)
        columns = left[:, None] + columns
        examples = torch.arange(len(draws), device=self.device)[:, None, None]
        cut = padded.permute(0, 2, 3, 1)[examples, rows[:, :, None], columns[:, None, :]]
        cut = cut.permute(0, 3, 1, 2)
        return cut if self.channels_last else cut.contiguous()

    def _images(self, rows):
        """Rows of pixels as a batch (batch, channels, height, width) in the mode's layout."""
        height, width, channels = self.spec["data"]["shape"]
        if self.channels_last:
            return rows.view(-1, height, width, channels).permute(0, 3, 1, 2)
        return rows.view(-1, channels, height, width)

    def losses(self, handle):
        return torch.stack(handle).cpu().numpy()

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    @torch.no_grad()
    def logits(self, images):
        images = torch.from_numpy(images).permute(0, 3, 1, 2).to(self.device, self.dtype)
        self.model.eval()
        with self._autocast():
            logits = self.model(images)
        self.model.train()
        return logits.to(self.dtype).cpu().numpy()

    def prepare(self, images):
        images = torch.from_numpy(images).permute(0, 3, 1, 2).to(self.dtype)
        images = images if self.channels_last else images.contiguous()
        return images.pin_memory() if self.device.type == "cuda" else images

    def _infer(self):
        """Keep nothing for gradients from now on: said for each batch, a single image feels it."""
        self.model.eval()
        self.inferring = contextlib.ExitStack()
        self.inferring.enter_context(torch.inference_mode())
        self.inferring.enter_context(self._autocast())

    def predict(self, batch):
        if self.model.training:
            self._infer()
        self.predicted = batch.to(self.device, non_blocking=True)
        logits = self.predictor(self.predicted)
        self.output = logits.dtype
        return logits

    def fetched(self, handle):
        return handle.to(self.dtype).cpu().numpy()

    def predicting(self):
        self.images_fit = _layouts([self.predicted])
        layout = self._layout()
        # What the compiler tells of itself; it is not imported where nothing asks for it.
        compiler = sys.modules.get("torch._dynamo.utils")
        compiled = compiler is not None and compiler.counters["stats"]["unique_graphs"]
        eager = "eager_channels_last" if layout == "NHWC" else "eager"
        return {
            "batch_size": len(self.predicted),
            "threads": torch.get_num_threads(),
            "inter_op_threads": torch.get_num_interop_threads(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "precision": self._precision(),
            "device": "gpu" if self.predicted.is_cuda else "cpu",
            "layout": layout,
            "mode": "compile" if compiled else eager,
            "parameters": sum(p.numel() for p in self.model.parameters() if p.requires_grad),
        }

    def weights(self):
        return {name: array.detach().cpu().numpy().copy() for name, array in self.arrays.items()}

    def velocities(self):
        states = self.optimizer.state
        return {
            name: states[array]["momentum_buffer"].cpu().numpy().copy()
            for name, array in self.arrays.items()
            if array in states
        }

    def set_masks(self, masks):
        for name, mask in masks.items():
            mask = torch.from_numpy(mask).to(self.device, self.dtype)
            getattr(self.model, name).mask = mask.permute(0, 3, 1, 2) if mask.dim() == 4 else mask

    @torch.no_grad()
    def products(self, a, b):
        a, b = (torch.from_numpy(array).to(self.device, self.dtype) for array in (a, b))
        with self._autocast():
            convolved = nn.functional.conv2d(a[:, :, None, None], b.T[:, :, None, None])
            found = a @ b, convolved[:, :, 0, 0]
        return tuple(product.to(self.dtype).cpu().numpy() for product in found)

    def settings(self):
        group = self.optimizer.param_groups[0]
        settings = {"momentum": group.get("momentum"), "nesterov": group.get("nesterov")}
        if "betas" in group:
            settings = {"epsilon": group["eps"]}
            settings["beta1"], settings["beta2"] = group["betas"]
        if self.scaler.is_enabled():
            settings["loss_scaling"] = "dynamic"
        decay = self.spec["optimizer"]["weight_decay"] if self.shrunk else group["weight_decay"]
        replicas = 1
        if self.group:
            settings["replicas"] = replicas = distributed.get_world_size()
            if replicas > self.group["local_size"]:
                settings["nodes"] = len(set(self.hosts))
        return {
            **settings,
            "optimizer": "adam" if "betas" in group else "sgd",
            "learning_rate": group["lr"],
            "weight_decay": decay,
            "batch_size": self.batch_size * replicas,
            "threads": torch.get_num_threads(),
            "inter_op_threads": torch.get_num_interop_threads(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "precision": self._precision(),
            "device": "gpu" if next(self.model.parameters()).is_cuda else "cpu",
            "layout": self._layout(),
            "mode": self._mode(),
            "parameters": sum(p.numel() for p in self.model.parameters() if p.requires_grad),
        }

    def _precision(self):
        """That of the weights and of the last step's output, and whether TF32 is allowed."""
        types = {p.dtype for p in self.model.parameters()}
        found = PRECISIONS.get((*types, self.output), str([*types, self.output]))
        return "tf32" if found == "fp32" and torch.backends.cuda.matmul.allow_tf32 else found

    def _mode(self):
        """How the last step was run: a compiled graph has one backward function of its own."""
        if self.backward == "CompiledFunctionBackward":
            return "compile"
        return "eager_channels_last" if self._layout() == "NHWC" else "eager"

    def _layout(self):
        """That of the last images and of all filters; the asked one, where more than one fits."""
        filters = _layouts([p for p in self.model.parameters() if p.dim() == 4])
        fit = [name for name in filters if name in self.images_fit]
        return self.layout if self.layout in fit else (fit or ["mixed"])[0]

    def software(self):
        return {
            "framework": "pytorch",
            "version": torch.__version__,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "onednn": torch.backends.mkldnn.is_available(),
        }

    def device_memory_peak(self):
        if self.device.type == "cpu":
            return None
        return torch.cuda.max_memory_allocated() / 2**20

    def is_out_of_memory(self, error):
        text = str(error)
        return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in text

    def why_unsupported(self, error):
        text = str(error)
        missing = (
            "does not have a deterministic implementation",
            "not implemented for 'Half'",
            "not implemented for 'BFloat16'",
        )
        return text.splitlines()[0] if any(words in text for words in missing) else None


def _layouts(tensors):
    """The names of the layouts that all tensors are in; a single channel fits both."""
    return [
        name
        for name, kind in LAYOUTS.items()
        if all(tensor.is_contiguous(memory_format=kind) for tensor in tensors)
    ]


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
    return np.frombuffer(b"".join([record[:4] for record in records]), "<u4")


def _joined(records, photos):
    """Records as uint8 rows of pixels, and labels; `photos` is the shape of their cut, or None."""
    if photos:
        rows = np.stack([_photo(record[4:], photos).ravel() for record in records])
        return rows, _labels(records).astype(np.int64)
    rows = np.frombuffer(bytearray().join(records), np.uint8).reshape(len(records), -1)
    labels = np.ascontiguousarray(rows[:, :4]).view("<u4")[:, 0]
    return rows[:, 4:], labels.astype(np.int64)


def _photo(encoded, shape):
    """The middle of a JPEG file, uint8 of `shape`; raises ValueError if it is smaller."""
    colours = "GRAY" if shape[2] == 1 else "RGB"
    image = simplejpeg.decode_jpeg(encoded, colours)
    top, left = ((have - want) // 2 for have, want in zip(image.shape, shape[:2]))
    if min(top, left) < 0:
        raise ValueError("a photo of {} is smaller than {}".format(image.shape, shape))
    return image[top : top + shape[0], left : left + shape[1]]


class Average(nn.Module):
    """Average pooling with any padding, whose pixels do not count."""

    def __init__(self, sides, size, stride):
        super().__init__()
        self.sides, self.size, self.stride = sides, size, stride

    def forward(self, x):
        ones = self._mean(torch.ones_like(x[:1, :1]))
        return self._mean(x) / ones

    def _mean(self, x):
        x = nn.functional.pad(x, self.sides)
        return nn.functional.avg_pool2d(x, self.size, self.stride)


class Masked(nn.Module):
    """Dropout that multiplies by a given mask."""

    def __init__(self, rate):
        super().__init__()
        self.mask = None

    def forward(self, x):
        return x * self.mask if self.training else x


class Embedding(nn.Embedding):
    """The rows of the tokens, which come as images (batch, 1, steps, 1)."""

    def __init__(self, layer, shape):
        super().__init__(layer["vocabulary"], layer["width"])

    def forward(self, x):
        return super().forward(x.flatten(1).long())


class Position(nn.Module):
    """A sequence plus an array of its shape."""

    def __init__(self, layer, shape):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(*shape))

    def forward(self, x):
        return x + self.weight


class Attention(nn.Module):
    """Self-attention of queries, keys and values that lie side by side."""

    def __init__(self, layer, shape):
        super().__init__()
        self.heads = layer["heads"]

    def forward(self, x):
        parts = x.view(x.shape[0], x.shape[1], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        found = nn.functional.scaled_dot_product_attention(*parts.unbind(0))
        return found.transpose(1, 2).flatten(2)


class Lstm(nn.Module):
    """PyTorch's own LSTM, of whose two biases the second stays 0: the graph has one."""

    def __init__(self, layer, shape):
        super().__init__()
        self.sequence = layer["sequence"]
        self.lstm = nn.LSTM(shape[-1], layer["units"], batch_first=True)
        nn.init.zeros_(self.lstm.bias_hh_l0).requires_grad_(False)

    weight = property(lambda self: self.lstm.weight_ih_l0)
    recurrent = property(lambda self: self.lstm.weight_hh_l0)
    bias = property(lambda self: self.lstm.bias_ih_l0)

    def forward(self, x):
        states, (last, _) = self.lstm(x)
        return states if self.sequence else last[0]


def _layer_norm(layer, shape):
    return nn.LayerNorm(shape[-1], layer["epsilon"])


TEXT = {
    "embedding": Embedding,
    "position": Position,
    "layer_norm": _layer_norm,
    "attention": Attention,
    "lstm": Lstm,
}
"""What makes the layers of a sequence, of a layer of the graph and the shape it is given."""


def _module(network, dropout):
    """The graph as a torch.fx GraphModule: its generated forward costs what a written one does."""
    modules, graph = {}, torch.fx.Graph()
    values = {"input": graph.placeholder("images")}
    shapes = {"input": network["input"]}
    shapes.update({layer["name"]: layer["shape"] for layer in network["layers"]})
    sources = [source for layer in network["layers"] for source in layer["inputs"]]
    ops = {layer["name"]: layer["op"] for layer in network["layers"]}
    for layer in network["layers"]:
        name, op, source = layer["name"], layer["op"], layer["inputs"][0]
        inputs = [values[each] for each in layer["inputs"]]
        if op == "add":
            # Into what nobody else reads, where there is such an input.
            free = [s for s in layer["inputs"] if _free(ops.get(s)) and sources.count(s) == 1]
            first = layer["inputs"].index(free[0]) if free else 0
            value = inputs.pop(first)
            for other in inputs:
                value = graph.call_function(operator.iadd if free else operator.add, (value, other))
        elif op == "concat":
            value = graph.call_function(torch.cat, (inputs, 1))
        elif op == "global_avg_pool":
            value = graph.call_method("mean", (inputs[0], (2, 3)))
        elif op == "mean_over_steps":
            value = graph.call_method("mean", (inputs[0], 1))
        else:
            # Nobody else reads what these give, nor do their own gradients.
            inplace = _free(ops.get(source)) and sources.count(source) == 1
            value = inputs[0]
            padding, module = _layer(layer, shapes[source], dropout, inplace)
            if padding is not None:
                modules[name + "_padding"] = padding
                value = graph.call_module(name + "_padding", (value,))
            modules[name] = module
            value = graph.call_module(name, (value,))
        values[name] = value
    graph.output(values[network["output"]])
    return torch.fx.GraphModule(modules, graph)


def _free(op):
    """Whether the gradient of such a layer does without its output."""
    return op in ("conv", "dense", "batch_norm", "add", "concat")


def _layer(layer, shape, dropout, inplace):
    """One layer as a module, and the module that pads before it or None."""
    op = layer["op"]
    if op == "conv":
        top, bottom, left, right = layer["padding"]
        even = top == bottom and left == right
        module = nn.Conv2d(
            shape[-1], layer["filters"], layer["kernel"], layer["stride"],
            (top, left) if even else 0, layer["dilation"], layer["groups"], layer["bias"],
        )  # fmt: skip
        return None if even else nn.ZeroPad2d((left, right, top, bottom)), module
    if op in ("max_pool", "avg_pool"):
        return _pool(layer, shape)
    if op == "dense":
        return None, nn.Linear(shape[-1], layer["units"], layer["bias"])
    if op == "batch_norm":
        return None, nn.BatchNorm2d(shape[-1], layer["epsilon"], 1 - layer["momentum"])
    if op == "lrn":
        settings = layer["size"], layer["alpha"], layer["beta"], layer["k"]
        return None, nn.LocalResponseNorm(*settings)
    if op == "relu":
        return None, nn.ReLU(inplace)
    if op == "dropout":
        return None, dropout(layer["rate"])
    if op == "flatten":
        return None, nn.Flatten()
    if op in TEXT:
        return None, TEXT[op](layer, shape)
    raise NotImplementedError("PyTorch's adapter has no layer " + op)


def _pool(layer, shape):
    """A pooling layer; PyTorch's ceiling mode is up to a stride more at the bottom and right."""
    top, bottom, left, right = layer["padding"]
    size, stride = layer["size"], layer["stride"]
    ceil = (bottom, right) != (top, left)
    native = top == left and 2 * top <= size
    if native and ceil:
        out = [-((size - length - 2 * top) // stride) + 1 for length in shape[:2]]
        native = out == layer["shape"][:2]
    if layer["op"] == "avg_pool":
        if not native:
            return None, Average((left, right, top, bottom), size, stride)
        return None, nn.AvgPool2d(size, stride, top, ceil, count_include_pad=False)
    if native:
        return None, nn.MaxPool2d(size, stride, top, ceil_mode=ceil)
    return nn.ConstantPad2d((left, right, top, bottom), float("-inf")), nn.MaxPool2d(size, stride)
