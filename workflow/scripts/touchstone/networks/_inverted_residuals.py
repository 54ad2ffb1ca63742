"""Networks of inverted residuals: Sandler et al. 2018, arXiv:1801.04381, table 1.

A block widens its input by a 1 x 1 convolution, filters every channel by itself, and narrows it by
another 1 x 1 convolution, after which there is no activation. Convolutions pad "same" and have no
bias; batch normalisation follows each. Where neither size nor channels change, the input is added.
"""

from typing import NamedTuple

from touchstone.networks.graph import Graph

EPSILON = 1e-3


class Stage(NamedTuple):
    """Blocks of one kind; only the first has the stride."""

    expansion: int
    filters: int
    depth: int
    stride: int
    kernel: int = 3


class Style(NamedTuple):
    """What differs between networks.

    activation: a method of `Graph`
    momentum: of the running statistics of batch normalisation
    squeezes: whether blocks weigh their channels (Hu et al. 2017, arXiv:1709.01507), by two dense
        layers, the first with a quarter of the block's input channels
    depth_rate: of stochastic depth in a block after all others; a block's own grows with its place
    """

    activation: str
    momentum: float
    squeezes: bool
    depth_rate: float = 0.0


def build(
    name: str,
    input_shape: tuple[int, int, int],
    classes: int,
    style: Style,
    stages: tuple[Stage, ...],
    last: int = 1280,
) -> Graph:
    """The network for images of `input_shape` (height, width, channels): a 3 x 3 convolution with
    stride 2, the stages, a 1 x 1 convolution with `last` filters, and dropout with rate 0.2."""
    graph = Graph(name, input_shape)
    x = _active(graph, style, "conv1", _conv(graph, style, "conv1", "input", 32, 3, 2))
    count, blocks = 0, sum(stage.depth for stage in stages)
    for number, stage in enumerate(stages, 1):
        for block in range(1, stage.depth + 1):
            stride = stage.stride if block == 1 else 1
            rate = style.depth_rate * count / blocks
            x = _block(graph, style, f"stage{number}_block{block}", x, stage, stride, rate)
            count += 1
    x = _active(graph, style, "conv2", _conv(graph, style, "conv2", x, last, 1))
    x = graph.dropout("dropout", graph.global_avg_pool("pool", x), 0.2)
    graph.dense("logits", x, units=classes)
    return graph


def _block(
    graph: Graph, style: Style, at: str, x: str, stage: Stage, stride: int, rate: float
) -> str:
    channels, y = graph.shape(x)[-1], x
    width = channels * stage.expansion
    if stage.expansion > 1:
        y = _active(graph, style, f"{at}_expand", _conv(graph, style, f"{at}_expand", y, width, 1))
    y = _conv(graph, style, f"{at}_depth", y, width, stage.kernel, stride, width)
    y = _active(graph, style, f"{at}_depth", y)
    if style.squeezes:
        gate = graph.dense(f"{at}_squeeze", graph.global_avg_pool(f"{at}_pool", y), channels // 4)
        gate = graph.dense(f"{at}_excite", _active(graph, style, f"{at}_squeeze", gate), width)
        y = graph.multiply(f"{at}_multiply", y, graph.sigmoid(f"{at}_gate", gate))
    y = _conv(graph, style, f"{at}_project", y, stage.filters, 1)
    if stride > 1 or channels != stage.filters:
        return y
    return graph.add(f"{at}_add", x, graph.stochastic_depth(f"{at}_drop", y, rate))


def _conv(
    graph: Graph,
    style: Style,
    at: str,
    x: str,
    filters: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
) -> str:
    """A convolution and its batch normalisation."""
    x = graph.conv(at, x, filters, kernel, stride, "same", groups=groups, bias=False)
    return graph.batch_norm(f"{at}_bn", x, EPSILON, style.momentum)


def _active(graph: Graph, style: Style, at: str, x: str) -> str:
    """The activation of the layer `at`."""
    name: str = getattr(graph, style.activation)(f"{at}_{style.activation}", x)
    return name
