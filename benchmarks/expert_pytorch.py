"""The networks as a PyTorch user would write and train them for speed: fused SGD, eager or
compiled, channels last or first; on a GPU also with a whole step as one CUDA graph."""

import contextlib

import program
import torch
from torch import nn
from torch.nn import functional as F
from transformers_pytorch import GPT, VisionTransformer


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.dense1 = nn.Linear(400, 120)
        self.dense2 = nn.Linear(120, 84)
        self.logits = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.dense1(x.flatten(1)))
        return self.logits(F.relu(self.dense2(x)))


def alexnet_cifar():
    return nn.Sequential(
        *(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        *(nn.Conv2d(64, 192, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(inplace=True)),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(inplace=True)),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.5), nn.Linear(4096, 1024), nn.ReLU(inplace=True)),
        *(nn.Dropout(0.5), nn.Linear(1024, 1024), nn.ReLU(inplace=True), nn.Linear(1024, 10)),
    )


def conv_norm(inputs, filters, kernel, stride=1):
    conv = nn.Conv2d(inputs, filters, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(filters))


class Residual(nn.Module):
    """`body(x)` added to `x`, which is projected where its shape changes, and a ReLU."""

    def __init__(self, body, shortcut):
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x):
        y = self.body(x)
        y += x if self.shortcut is None else self.shortcut(x)
        return F.relu(y, inplace=True)


def basic(inputs, filters, stride):
    body = nn.Sequential(
        *(conv_norm(inputs, filters, 3, stride), nn.ReLU(inplace=True)),
        conv_norm(filters, filters, 3),
    )
    return Residual(body, conv_norm(inputs, filters, 1, stride) if stride > 1 else None)


def bottleneck(inputs, filters, stride, first):
    body = nn.Sequential(
        *(conv_norm(inputs, filters, 1), nn.ReLU(inplace=True)),
        *(conv_norm(filters, filters, 3, stride), nn.ReLU(inplace=True)),
        conv_norm(filters, 4 * filters, 1),
    )
    return Residual(body, conv_norm(inputs, 4 * filters, 1, stride) if first else None)


def resnet20_cifar():
    layers, inputs = [conv_norm(3, 16, 3), nn.ReLU(inplace=True)], 16
    for filters in (16, 32, 64):
        for _ in range(3):
            layers.append(basic(inputs, filters, filters // inputs))
            inputs = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def resnet50(stem, classes):
    layers, inputs = list(stem), 64
    for filters, depth in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for number in range(depth):
            stride = 2 if number == 0 and filters > 64 else 1
            layers.append(bottleneck(inputs, filters, stride, number == 0))
            inputs = 4 * filters
    pool = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*layers, *pool, nn.Linear(2048, classes))


def vgg16_cifar():
    layers, inputs = [], 3
    for filters, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            conv = nn.Conv2d(inputs, filters, 3, padding=1)
            layers += [conv, nn.BatchNorm2d(filters), nn.ReLU(inplace=True)]
            inputs = filters
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


NETWORKS = {
    "lenet5": LeNet5,
    "alexnet-cifar": alexnet_cifar,
    "resnet20-cifar": resnet20_cifar,
    "resnet50-cifar": lambda: resnet50([conv_norm(3, 64, 3), nn.ReLU(inplace=True)], 10),
    "vgg16-cifar": vgg16_cifar,
    "resnet50": lambda: resnet50(
        [conv_norm(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 1000
    ),
    "vit-ti-16": lambda: VisionTransformer(32, 10, width=192, heads=3),
    "gpt-10m": lambda: GPT(256, 256, width=384, heads=6, layers=6),
}


GRAPH = "one CUDA graph"


def candidates(network, thorough, device="cpu", precision="fp32"):
    if network not in NETWORKS:
        return []
    compiled = ["channels last, compiled"] if thorough else []
    found = ["channels last", "channels first", *compiled]
    if device == "gpu":
        found += [f"{way}, {GRAPH}" for way in ("channels last", *compiled)]
    return found


class Training:
    def __init__(
        self, network, batch_size, batches, threads, candidate, device="cpu", precision="fp32"
    ):
        torch.set_num_threads(threads)
        height, width, channels, self.classes = program.shape(network)
        layout = torch.channels_last if "channels last" in candidate else torch.contiguous_format
        place = torch.device("cuda" if device == "gpu" else "cpu")
        self.mixed = contextlib.nullcontext()
        if device == "gpu":
            allowed = precision != "fp32"
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
            torch.backends.cudnn.benchmark = True
        if precision == "bf16":
            self.mixed = torch.autocast(place.type, torch.bfloat16)
        self.graph, self.in_graph = None, GRAPH in candidate
        self.model = NETWORKS[network]().to(place, memory_format=layout)
        self.forward = torch.compile(self.model) if "compiled" in candidate else self.model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9, fused=True)
        shape = batch_size, channels, height, width
        if network == "gpt-10m":
            texts = [
                torch.randint(0, self.classes, shape[::2], device=place) for _ in range(batches)
            ]
            self.batches = [(text[:, :-1], text[:, 1:]) for text in texts]
            return
        self.batches = [
            (
                torch.randn(shape, device=place).to(memory_format=layout),
                torch.randint(0, self.classes, (batch_size,), device=place),
            )
            for _ in range(batches)
        ]

    def step(self, images, labels):
        with self.mixed:
            logits = self.forward(images)
            loss = F.cross_entropy(logits.flatten(0, -2), labels.flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss

    def capture(self):
        """Record a step as a graph, which always reads the same batch, after steps on another
        stream, as PyTorch's notes on CUDA graphs have it."""
        self.batch = [each.clone() for each in self.batches[0]]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step(*self.batch)
        torch.cuda.current_stream().wait_stream(stream)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.step(*self.batch)

    def replay(self, images, labels):
        if not self.graph:
            self.capture()
        for kept, given in zip(self.batch, (images, labels), strict=True):
            kept.copy_(given)
        self.graph.replay()
        return self.loss

    def steps(self, number):
        step = self.replay if self.in_graph else self.step
        for i in range(number):
            loss = step(*self.batches[i % len(self.batches)])
        loss.item()  # which waits for all that was begun before

    @torch.no_grad()
    def size(self):
        macs = []

        def count(layer, _, output):
            macs.append(output[0].numel() * layer.weight[0].numel())

        for layer in self.model.modules():
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                layer.register_forward_hook(count)
        self.model(self.batches[0][0][:1])
        macs += [layer.macs for layer in self.model.modules() if hasattr(layer, "macs")]
        return sum(p.numel() for p in self.model.parameters()), sum(macs)


if __name__ == "__main__":
    program.expert(candidates, Training)
