"""What the AlexNets share."""

from touchstone.networks.graph import Graph


def conv(
    graph: Graph,
    number: int,
    x: str,
    filters: int,
    kernel: int = 3,
    stride: int = 1,
    padding: int = 1,
    groups: int = 1,
) -> str:
    """Convolution `number` and its ReLU."""
    x = graph.conv(f"conv{number}", x, filters, kernel, stride, padding, groups=groups)
    return graph.relu(f"relu{number}", x)


def head(graph: Graph, x: str, units: int, classes: int) -> str:
    """Two dense layers of `units` after the images, with dropout before each, and the output."""
    x = graph.flatten("flatten", x)
    for number in (1, 2):
        x = graph.dropout(f"dropout{number}", x, rate=0.5)
        x = graph.dense(f"dense{number}", x, units=units)
        x = graph.relu(f"relu{5 + number}", x)
    return graph.dense("logits", x, units=classes)
