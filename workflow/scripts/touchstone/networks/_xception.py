"""The convolutions of Xception: Chollet 2016, arXiv:1610.02357, figure 5, as Keras has them."""

from touchstone.networks.graph import Graph


def base(graph: Graph, x: str, prefix: str = "") -> str:
    """All before the mean over the image."""
    for number, (filters, stride) in enumerate(((32, 2), (64, 1)), 1):
        at = f"{prefix}block1_conv{number}"
        x = _norm(graph, at, graph.conv(at, x, filters, kernel=3, stride=stride, bias=False))
        x = graph.relu(f"{at}_relu", x)
    for block, filters in ((2, 128), (3, 256), (4, 728)):
        # The first block's input has just been through a ReLU.
        x = _halving(graph, f"{prefix}block{block}", x, filters, filters, relu_first=block > 2)
    for block in range(5, 13):
        at, y = f"{prefix}block{block}", x
        for number in (1, 2, 3):
            y = graph.relu(f"{at}_relu{number}", y)
            y = _separable(graph, f"{at}_sep{number}", y, 728)
        x = graph.add(f"{at}_add", x, y)
    x = _halving(graph, f"{prefix}block13", x, 728, 1024, relu_first=True)
    for number, filters in ((1, 1536), (2, 2048)):
        at = f"{prefix}block14_sep{number}"
        x = graph.relu(f"{at}_relu", _separable(graph, at, x, filters))
    return x


def _halving(graph: Graph, at: str, x: str, first: int, second: int, relu_first: bool) -> str:
    """Two separable convolutions and a pool beside a 1 x 1 convolution of stride 2."""
    shortcut = graph.conv(f"{at}_shortcut", x, second, kernel=1, stride=2, bias=False)
    shortcut = _norm(graph, f"{at}_shortcut", shortcut)
    if relu_first:
        x = graph.relu(f"{at}_relu1", x)
    x = _separable(graph, f"{at}_sep1", x, first)
    x = _separable(graph, f"{at}_sep2", graph.relu(f"{at}_relu2", x), second)
    x = graph.max_pool(f"{at}_pool", x, size=3, stride=2, padding="same")
    return graph.add(f"{at}_add", shortcut, x)


def _separable(graph: Graph, at: str, x: str, filters: int) -> str:
    """A convolution of every channel by itself, one of 1 x 1 over all, batch normalisation."""
    channels = graph.shape(x)[-1]
    x = graph.conv(
        f"{at}_depth", x, channels, kernel=3, padding="same", groups=channels, bias=False
    )
    return _norm(graph, at, graph.conv(f"{at}_point", x, filters, kernel=1, bias=False))


def _norm(graph: Graph, at: str, x: str) -> str:
    return graph.batch_norm(f"{at}_bn", x, epsilon=1e-3, momentum=0.99)
