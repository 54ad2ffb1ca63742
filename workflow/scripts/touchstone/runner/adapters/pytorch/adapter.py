"""PyTorch: the graph as a `torch.fx` module, run as it is or compiled, and a fused optimiser."""

import contextlib
import importlib.util
import os
import shutil
import socket
import sys
import sysconfig
import tempfile
import zlib
from typing import Any, Dict, Optional, Tuple

import torch
from torch import distributed, nn
from torch.distributed.constants import default_pg_timeout

from touchstone.runner.adapters.pytorch.capabilities import CAPABILITIES
from touchstone.runner.adapters.pytorch.graphs import passes_in_graphs
from touchstone.runner.adapters.pytorch.inputs import Inputs
from touchstone.runner.adapters.pytorch.network import LAYOUTS, layouts_of, module_of
from touchstone.runner.adapters.pytorch.optimizers import OPTIMIZERS, SETTINGS
from touchstone.runner.adapters.pytorch.profile import NOT_COMPILED, profiled_steps
from touchstone.runner.job import Job
from touchstone.schema.events import Software
from touchstone.schema.profile import StepTrace
from touchstone.schema.types import Array

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


class Adapter(Inputs):
    """The training set lies in the order of the mode's memory format."""

    capabilities = CAPABILITIES
    fused: Optional[bool] = True
    """Whether the optimiser is one kernel; None leaves it to PyTorch."""

    def __init__(self, job: Job, threads: int) -> None:
        self.job = job
        device = job.execution.device
        self.graphs = job.execution.mode == "compile_graphs"
        self.compiled = self.graphs or job.execution.mode == "compile"
        if device == "gpu" and not torch.cuda.is_available():
            raise NotImplementedError("PyTorch sees no CUDA device")
        self.group: Any = job.group
        if self.group:
            self._take_place()
        self.device = torch.device("cuda" if device == "gpu" else "cpu")
        torch.set_num_threads(threads)
        precision = job.execution.precision
        self._require_precision(precision)
        # fp32 means IEEE single precision: no TF32 in products or convolutions.
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.benchmark = True
        self.dtype = torch.float64 if precision == "fp64" else torch.float32
        self.computed = AUTOCAST.get(precision, self.dtype)
        # Where it is not enabled it passes on what it is given.
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=precision == "fp16-amp")
        self.layout = "NCHW" if job.execution.mode == "eager" else "NHWC"
        self.channels_last = self.layout == "NHWC"
        if self.compiled:
            self._require_compiler()
            # A cache of its own: every run compiles all it needs, in its first step.
            self.cache = tempfile.TemporaryDirectory(prefix="touchstone-inductor-")
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = self.cache.name
        self.batch_size = 0

    def _take_place(self) -> None:
        """Keep to this replica's own device; raises NotImplementedError where there is none."""
        if self.compiled:
            raise NotImplementedError(
                "loss and network are compiled as one graph here, which replicas would have to"
                " leave to exchange gradients"
            )
        if self.job.execution.device == "gpu":
            count = torch.cuda.device_count()
            if count < self.group.local_size:
                message = "PyTorch sees {} CUDA devices of the {} asked for"
                raise NotImplementedError(message.format(count, self.group.local_size))
            torch.cuda.set_device(self.group.local_rank)

    def _require_precision(self, precision: str) -> None:
        """Raise NotImplementedError where device or optimiser cannot do with that precision."""
        if precision == "tf32" and self.device.type == "cpu":
            raise NotImplementedError("TF32 is arithmetic of NVIDIA's GPUs, which no CPU has")
        if precision in ("tf32", "bf16") and self.device.type == "cuda":
            capability = torch.cuda.get_device_capability()
            if capability < (8, 0):
                message = "{} takes a GPU of compute capability 8.0, this one has {}.{}"
                raise NotImplementedError(message.format(precision, *capability))
        optimizer = self.job.optimizer
        if precision == "fp16-amp" and optimizer.decoupled and optimizer.name != "adam":
            # Such a decay is no part of PyTorch's other optimisers, whose steps the loss scaling
            # leaves out.
            raise NotImplementedError("fp16-amp with decoupled weight decay is there for adam only")

    def _autocast(self) -> Any:
        """The context in which the network is computed."""
        if self.computed == self.dtype:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, self.computed)

    def _require_compiler(self) -> None:
        """Raise NotImplementedError where torch.compile's Inductor cannot make machine code, or
        would make it for two batch sizes."""
        if self.job.rest:
            raise NotImplementedError(
                "torch.compile compiles for one batch size here, and would do so again for the"
                " partial batch in the measured phase"
            )
        if self.device.type == "cuda":
            if importlib.util.find_spec("triton") is None:
                raise NotImplementedError("torch.compile needs Triton for a GPU, which is missing")
            return
        if self.graphs:
            raise NotImplementedError("CUDA graphs run on NVIDIA's GPUs only")
        compiler = os.environ.get("CXX", "g++")
        if shutil.which(compiler) is None:
            message = "torch.compile needs a C++ compiler, and there is no {}"
            raise NotImplementedError(message.format(compiler))
        header = os.path.join(sysconfig.get_path("include"), "Python.h")
        if not os.path.exists(header):
            raise NotImplementedError("torch.compile needs Python's headers: no " + header)

    def make_deterministic(self) -> None:
        # What cuBLAS wants for it (its documentation, "Results reproducibility").
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.manual_seed(self.job.seed)
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(True)

    def extra_settings(self) -> Dict[str, Any]:
        scaling = {"loss_scaling": "dynamic"}
        return {
            "inter_op_threads": None,
            "layout": self.layout,
            "cudnn_benchmark": not self.job.execution.deterministic,
            **(scaling if self.job.execution.precision == "fp16-amp" else {}),
        }

    def build(self, weights: Dict[str, Array]) -> None:
        if self.compiled and any(layer["op"] == "lstm" for layer in self.job.network.layers):
            raise NotImplementedError("torch.compile does not support LSTMs")
        self.model = self._module()
        memory_format = LAYOUTS[self.layout]
        self.model.to(device=self.device, dtype=self.dtype, memory_format=memory_format)
        self.arrays = {}
        for name in weights:
            layer, kind = name.split(".")
            self.arrays[name] = getattr(getattr(self.model, layer), NATIVE[kind])
        with torch.no_grad():
            for name, array in self.arrays.items():
                array.copy_(torch.from_numpy(weights[name]))
        parameters = [p for p in self.job.network.parameters if p.trainable]
        frozen = set(self.arrays) - {parameter.name for parameter in parameters}
        for name in frozen:
            self.arrays[name].requires_grad_(False)
        self.penalised = [(self.arrays[p.name], p.l1, p.l2) for p in parameters if p.l1 or p.l2]
        if self.job.kind != "inference":  # whose making takes seconds
            self._optimize([parameter.name for parameter in parameters])
        self.trained = self._replicated() if self.group else self.model
        # A module of torch.fx wraps its calls, which a single image feels.
        self.loss, self.predictor = self._loss, self.model.forward
        if self.compiled:
            # The optimiser stays outside, so that no graph keeps a learning rate.
            how = "reduce-overhead" if self.graphs else None
            self.loss = torch.compile(self._loss, fullgraph=True, dynamic=False, mode=how)
            self.predictor = torch.compile(self.model, fullgraph=True, dynamic=False, mode=how)

    def _module(self) -> Any:
        return module_of(self.job.network, self.job.supplied_masks)

    def meet(self) -> None:
        """Make the process group of the replicas, once all of them ask for it."""
        if self.group.interface:
            # Gloo would look for the host's name, which not every machine can resolve.
            os.environ.setdefault("GLOO_SOCKET_IFNAME", self.group.interface)
        store = distributed.FileStore(self.group.rendezvous, self.group.size)
        store.set_timeout(default_pg_timeout)
        distributed.init_process_group(
            "nccl" if self.device.type == "cuda" else "gloo", store=store,
            rank=self.group.rank, world_size=self.group.size,
        )  # fmt: skip
        self.hosts = {0}
        if self.group.size > self.group.local_size:
            # As numbers: objects would be unpickled.
            own = torch.tensor([zlib.crc32(socket.gethostname().encode())], device=self.device)
            hosts = [torch.empty_like(own) for _ in range(self.group.size)]
            distributed.all_gather(hosts, own)
            self.hosts = set(map(int, hosts))

    def _replicated(self) -> Any:
        """The network as all replicas train it: their gradients are averaged as they come."""
        self.meet()
        places = [self.group.local_rank] if self.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(self.model, places, gradient_as_bucket_view=True)

    def _loss(self, images: Array, labels: Array) -> Any:
        """The mean loss, and the logits, which no gradient goes through."""
        with self._autocast():
            logits = self.trained(images)
            rows = logits if labels.dim() == 1 else logits.flatten(0, 1)
            return nn.functional.cross_entropy(rows, labels.flatten()), logits.detach()

    def _optimize(self, trained: Any) -> None:
        optimizer = self.job.optimizer
        decay = optimizer.weight_decay
        decayed = [name for name in trained if name.split(".")[1] not in optimizer.spared]
        spared = [name for name in trained if name not in decayed]
        groups = [
            {"params": [self.arrays[name] for name in names], "weight_decay": own}
            for names, own in ((decayed, decay), (spared, 0.0))
            if names
        ]
        self.shrunk = []
        if optimizer.decoupled and decay and optimizer.name != "adam":
            # Of PyTorch's, AdamW alone has decoupled decay: else weights shrink before the step.
            self.shrunk = [group["params"] for group in groups if group["weight_decay"]]
            for group in groups:
                group["weight_decay"] = 0.0
        self.optimizer = OPTIMIZERS[optimizer.name](groups, optimizer, self.fused)
        if self.scaler.is_enabled() and optimizer.settings.get("momentum"):
            # PyTorch's first step makes them, of whatever is in memory if that step is left out.
            for name in trained:
                array = self.arrays[name]
                self.optimizer.state[array]["momentum_buffer"] = torch.zeros_like(array)

    def train_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> Any:
        losses = []
        if draws is not None:
            draws = torch.from_numpy(draws).to(self.device, torch.int64, non_blocking=True)
        for i, (rows, labels) in enumerate(self._batches(batches)):
            images = self._images(rows)
            if draws is not None:
                images = self._augmented(images, draws[i])
            self._begin_step()
            loss, logits = self.loss(images, labels)
            self.optimizer.zero_grad(set_to_none=True)
            self.scaler.scale(loss).backward()
            self._update(float(rates[i]))
            losses.append(self._kept(loss.detach()))
        self._note(images, labels, loss, logits)
        if self.group:
            means = torch.stack(losses)
            distributed.all_reduce(means)
            losses = list(means / self.group.size)
        return losses

    def _begin_step(self) -> None:
        """Let CUDA graphs write over what the last step gave, gradients included."""
        if self.graphs:
            torch.compiler.cudagraph_mark_step_begin()

    def _kept(self, given: Any) -> Any:
        """What a step gave, in memory that the next step does not write over."""
        return given.clone() if self.graphs else given

    def _note(self, images: Any, labels: Any, loss: Any, logits: Any) -> None:
        """Keep of the last step what settings are read back from."""
        self.batch_size = len(labels)
        self.backward, self.output = type(loss.grad_fn).__name__, logits.dtype
        self.images_fit = layouts_of([images])
        self.in_graphs = passes_in_graphs(self.device)

    def _update(self, rate: Any) -> None:
        self.scaler.unscale_(self.optimizer)
        with torch.no_grad():
            for array, l1, l2 in self.penalised:
                array.grad.add_(array.sign(), alpha=l1).add_(array, alpha=2 * l2)
            for arrays in self.shrunk:
                torch._foreach_mul_(arrays, 1 - rate * self.job.optimizer.weight_decay)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def why_no_profile(self) -> Optional[str]:
        return NOT_COMPILED if self.compiled else None

    def profile_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> StepTrace:
        return profiled_steps(self, batches, rates, draws)

    def losses(self, handle: Any) -> Array:
        return torch.stack(handle).cpu().numpy()

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    @torch.no_grad()
    def logits(self, images: Array) -> Array:
        images = torch.from_numpy(images).permute(0, 3, 1, 2).to(self.device, self.dtype)
        self.model.eval()
        with self._autocast():
            logits = self.model(images)
        self.model.train()
        return logits.to(self.dtype).cpu().numpy()

    def prepare(self, images: Array) -> Any:
        images = torch.from_numpy(images).permute(0, 3, 1, 2).to(self.dtype)
        images = images if self.channels_last else images.contiguous()
        return images.pin_memory() if self.device.type == "cuda" else images

    def _infer(self) -> None:
        """Keep nothing for gradients from now on: said for each batch, a single image feels it."""
        self.model.eval()
        self.inferring = contextlib.ExitStack()
        self.inferring.enter_context(torch.inference_mode())
        self.inferring.enter_context(self._autocast())

    def predict(self, batch: Any) -> Any:
        if self.model.training:
            self._infer()
        self.predicted = batch.to(self.device, non_blocking=True)
        self._begin_step()
        logits = self.predictor(self.predicted)
        self.output = logits.dtype
        return self._kept(logits)

    def fetch_outputs(self, handle: Any) -> Array:
        return handle.to(self.dtype).cpu().numpy()

    def inference_settings(self) -> Dict[str, Any]:
        self.images_fit = layouts_of([self.predicted])
        layout = self._layout()
        # What the compiler tells of itself; it is not imported where nothing asks for it.
        compiler = sys.modules.get("torch._dynamo.utils")
        compiled = compiler is not None and compiler.counters["stats"]["unique_graphs"]
        in_graphs = passes_in_graphs(self.device) == {"INFERENCE"}
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
            "mode": ("compile_graphs" if in_graphs else "compile") if compiled else eager,
            "parameters": sum(p.numel() for p in self.model.parameters() if p.requires_grad),
        }

    def weights(self) -> Dict[str, Array]:
        return {name: array.detach().cpu().numpy().copy() for name, array in self.arrays.items()}

    def velocities(self) -> Dict[str, Array]:
        states = self.optimizer.state
        return {
            name: states[array]["momentum_buffer"].cpu().numpy().copy()
            for name, array in self.arrays.items()
            if array in states
        }

    def set_masks(self, masks: Dict[str, Array]) -> None:
        for name, mask in masks.items():
            mask = torch.from_numpy(mask).to(self.device, self.dtype)
            getattr(self.model, name).mask = mask.permute(0, 3, 1, 2) if mask.dim() == 4 else mask

    @torch.no_grad()
    def matrix_products(self, a: Array, b: Array) -> Tuple[Array, Array]:
        a, b = (torch.from_numpy(array).to(self.device, self.dtype) for array in (a, b))
        with self._autocast():
            convolved = nn.functional.conv2d(a[:, :, None, None], b.T[:, :, None, None])
            products = a @ b, convolved[:, :, 0, 0]
        return tuple(product.to(self.dtype).cpu().numpy() for product in products)

    def settings(self) -> Dict[str, Any]:
        group = self.optimizer.param_groups[0]
        settings = SETTINGS[type(self.optimizer)](group)
        if self.scaler.is_enabled():
            settings["loss_scaling"] = "dynamic"
        decay = self.job.optimizer.weight_decay if self.shrunk else group["weight_decay"]
        replicas = 1
        if self.group:
            settings["replicas"] = replicas = distributed.get_world_size()
            if replicas > self.group.local_size:
                settings["nodes"] = len(self.hosts)
        return {
            **settings,
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

    def _precision(self) -> Any:
        """That of the weights and of the last step's output, and whether TF32 is allowed."""
        types = {p.dtype for p in self.model.parameters()}
        name = PRECISIONS.get((*types, self.output), str([*types, self.output]))
        return "tf32" if name == "fp32" and torch.backends.cuda.matmul.allow_tf32 else name

    def _mode(self) -> Any:
        """How the last step was run: a compiled graph has one backward function of its own."""
        if self.backward == "CompiledFunctionBackward":
            return "compile_graphs" if self.in_graphs == {"FORWARD", "BACKWARD"} else "compile"
        return "eager_channels_last" if self._layout() == "NHWC" else "eager"

    def _layout(self) -> Any:
        """That of the last images and of all filters; the asked one, where more than one fits."""
        filters = layouts_of([p for p in self.model.parameters() if p.dim() == 4])
        fit = [name for name in filters if name in self.images_fit]
        return self.layout if self.layout in fit else (fit or ["mixed"])[0]

    def software(self) -> Software:
        return Software(
            "pytorch",
            torch.__version__,
            {
                "cuda": torch.version.cuda,
                "cudnn": torch.backends.cudnn.version(),
                "onednn": torch.backends.mkldnn.is_available(),
            },
        )

    def device_memory_peak(self) -> Optional[float]:
        if self.device.type == "cpu":
            return None
        return float(torch.cuda.max_memory_allocated()) / 2**20

    def is_out_of_memory(self, error: Exception) -> bool:
        text = str(error)
        return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in text

    def unsupported_reason(self, error: Exception) -> Optional[str]:
        text = str(error)
        missing = (
            "does not have a deterministic implementation",
            "not implemented for 'Half'",
            "not implemented for 'BFloat16'",
            "skipping cudagraph",  # an error in the mode compile_graphs, by its variables
        )
        said = (line for line in text.splitlines() if any(words in line for words in missing))
        return next(said, None)
