"""PyTorch: the graph as a `torch.fx` module, eager execution, fused SGD."""

import lmdb
import numpy as np
import torch
from torch import nn

MODES = ("eager_channels_last", "eager")
RECORD_FORMAT = "lmdb"


class Adapter:
    """See runtime.py. The training set lies in the order of the mode's memory format."""

    def __init__(self, spec, threads):
        self.spec = spec
        device = spec["execution"]["device"]
        if device == "gpu" and not torch.cuda.is_available():
            raise NotImplementedError("PyTorch sees no CUDA device")
        self.device = torch.device("cuda" if device == "gpu" else "cpu")
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)
        # fp32 means IEEE single precision: no TF32 in products or convolutions.
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        self.channels_last = spec["execution"]["mode"] == "eager_channels_last"
        self.batch_size = None

    def read(self, stem, shape):
        environment = lmdb.open(stem + ".lmdb", subdir=False, readonly=True, lock=False)
        with environment.begin(buffers=True) as transaction:
            records = [bytes(value) for _, value in transaction.cursor()]
        environment.close()
        records = np.frombuffer(b"".join(records), np.uint8).reshape(len(records), -1)
        labels = np.ascontiguousarray(records[:, :4]).view("<u4")[:, 0]
        return records[:, 4:].reshape(-1, *shape), labels

    def build(self, weights):
        self.model = _module(self.spec["network"])
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(torch.from_numpy(weights[name]))
        memory_format = torch.channels_last if self.channels_last else torch.contiguous_format
        self.model.to(device=self.device, memory_format=memory_format)
        optimizer = self.spec["optimizer"]
        self.optimizer = torch.optim.SGD(
            self.model.parameters(),
            lr=optimizer["learning_rate"],
            momentum=optimizer["momentum"],
            weight_decay=optimizer["weight_decay"],
            fused=True,
        )

    def load(self, images, labels):
        if not self.channels_last:
            images = images.transpose(0, 3, 1, 2)
        # Rows are gathered flat, which copies each example in one piece in either order.
        self.images = torch.from_numpy(images.reshape(len(images), -1)).to(self.device)
        self.labels = torch.from_numpy(labels).to(self.device)

    def train(self, indices):
        losses = []
        for batch in torch.from_numpy(indices).to(self.device, non_blocking=True):
            images = self._images(self.images.index_select(0, batch))
            labels = self.labels.index_select(0, batch)
            loss = nn.functional.cross_entropy(self.model(images), labels)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            losses.append(loss.detach())
        self.batch_size = len(batch)
        return losses

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
        images = torch.from_numpy(images).permute(0, 3, 1, 2).to(self.device)
        self.model.eval()
        logits = self.model(images).cpu().numpy()
        self.model.train()
        return logits

    def weights(self):
        return {n: p.detach().cpu().numpy() for n, p in self.model.named_parameters()}

    def settings(self):
        group = self.optimizer.param_groups[0]
        convolutions = [p for p in self.model.parameters() if p.dim() == 4]
        wanted = torch.channels_last if self.channels_last else torch.contiguous_format
        kept = all(p.is_contiguous(memory_format=wanted) for p in convolutions)
        asked = self.spec["execution"]["mode"]
        types = {p.dtype for p in self.model.parameters()}
        return {
            "learning_rate": group["lr"],
            "momentum": group["momentum"],
            "weight_decay": group["weight_decay"],
            "batch_size": self.batch_size,
            "threads": torch.get_num_threads(),
            "precision": "fp32" if types == {torch.float32} else str(types),
            "device": "gpu" if next(self.model.parameters()).is_cuda else "cpu",
            "mode": asked if kept else "another memory format than " + asked,
            "parameters": sum(p.numel() for p in self.model.parameters()),
        }

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


def _module(network):
    """The graph as a torch.fx GraphModule: its generated forward costs what a written one does."""
    modules, graph = {}, torch.fx.Graph()
    values = {"input": graph.placeholder("images")}
    shapes = {"input": network["input"]}
    shapes.update({layer["name"]: layer["shape"] for layer in network["layers"]})
    for layer in network["layers"]:
        name, op, source = layer["name"], layer["op"], layer["inputs"][0]
        features = shapes[source][-1]
        if op == "conv":
            modules[name] = nn.Conv2d(
                features, layer["filters"], layer["kernel"], layer["stride"], layer["padding"]
            )
        elif op == "dense":
            modules[name] = nn.Linear(features, layer["units"])
        elif op == "max_pool":
            modules[name] = nn.MaxPool2d(layer["size"], layer["stride"])
        elif op == "relu":
            modules[name] = nn.ReLU()
        elif op == "flatten":
            modules[name] = nn.Flatten()
        else:
            raise NotImplementedError("PyTorch's adapter has no layer " + op)
        values[name] = graph.call_module(name, (values[source],))
    graph.output(values[network["output"]])
    return torch.fx.GraphModule(modules, graph)
