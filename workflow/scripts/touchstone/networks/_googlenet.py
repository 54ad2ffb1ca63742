"""What the GoogLeNets share: Szegedy et al. 2014, arXiv:1409.4842, table 1."""

from touchstone.networks.graph import Graph

# By module: filters of the 1x1 branch, of the 3x3 branch (reduction, then convolution), of
# the 5x5 branch (the same two), and of the projection after the pooling.
MODULES = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


def conv(
    graph: Graph,
    name: str,
    x: str,
    filters: int,
    kernel: int,
    batch_norm: bool,
    stride: int = 1,
) -> str:
    """A convolution, its batch normalisation or else its bias, and ReLU."""
    x = graph.conv(name, x, filters, kernel, stride, padding=kernel // 2, bias=not batch_norm)
    if batch_norm:
        x = graph.batch_norm(f"{name}_bn", x, epsilon=1e-3)
    return graph.relu(f"{name}_relu", x)


def stem(graph: Graph, batch_norm: bool) -> str:
    """All before the first module. Local response normalisation if there is no other."""
    x = conv(graph, "conv1", "input", 64, 7, batch_norm, stride=2)
    x = graph.max_pool("pool1", x, size=3, stride=2, ceil=True)
    if not batch_norm:
        x = graph.lrn("lrn1", x, size=5, alpha=1e-4, beta=0.75, k=1)
    x = conv(graph, "conv2_reduce", x, 64, 1, batch_norm)
    x = conv(graph, "conv2", x, 192, 3, batch_norm)
    if not batch_norm:
        x = graph.lrn("lrn2", x, size=5, alpha=1e-4, beta=0.75, k=1)
    return graph.max_pool("pool2", x, size=3, stride=2, ceil=True)


def modules(graph: Graph, x: str, batch_norm: bool) -> str:
    """The nine inception modules, with pooling before 4a and 5a."""
    for name in MODULES:
        if name in ("4a", "5a"):
            x = graph.max_pool(f"pool{int(name[0]) - 1}", x, size=3, stride=2, ceil=True)
        x = _module(graph, name, x, batch_norm)
    return x


def head(graph: Graph, x: str, classes: int) -> str:
    """The mean over the image, dropout, and the output."""
    x = graph.dropout("dropout", graph.global_avg_pool("pool5", x), rate=0.4)
    return graph.dense("logits", x, units=classes)


def _module(graph: Graph, name: str, x: str, batch_norm: bool) -> str:
    by_1, reduce_3, by_3, reduce_5, by_5, pooled = MODULES[name]
    at = f"inception{name}"
    a = conv(graph, f"{at}_1x1", x, by_1, 1, batch_norm)
    b = conv(graph, f"{at}_3x3_reduce", x, reduce_3, 1, batch_norm)
    b = conv(graph, f"{at}_3x3", b, by_3, 3, batch_norm)
    c = conv(graph, f"{at}_5x5_reduce", x, reduce_5, 1, batch_norm)
    c = conv(graph, f"{at}_5x5", c, by_5, 5, batch_norm)
    d = graph.max_pool(f"{at}_pool", x, size=3, stride=1, padding=1)
    d = conv(graph, f"{at}_pool_1x1", d, pooled, 1, batch_norm)
    return graph.concat(f"{at}_concat", a, b, c, d)
