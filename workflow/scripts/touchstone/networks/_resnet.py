"""What the ResNets with the activation after the sum share: He et al. 2015,
arXiv:1512.03385."""

from touchstone.networks.graph import Graph


def conv(graph: Graph, name: str, x: str, filters: int, kernel: int, stride: int = 1) -> str:
    """A convolution without bias and its batch normalisation."""
    x = graph.conv(name, x, filters, kernel, stride, padding=kernel // 2, bias=False)
    return graph.batch_norm(f"{name}_bn", x)


def bottlenecks(graph: Graph, x: str, depths: tuple[int, ...]) -> str:
    """Stages of bottleneck blocks, `depths` in each, the stride in the 3 x 3 convolution."""
    for stage, depth in enumerate(depths, 1):
        filters = 64 * 2 ** (stage - 1)
        for number in range(1, depth + 1):
            at = f"stage{stage}_block{number}"
            stride = 2 if stage > 1 and number == 1 else 1
            y = graph.relu(f"{at}_relu1", conv(graph, f"{at}_conv1", x, filters, 1))
            y = graph.relu(f"{at}_relu2", conv(graph, f"{at}_conv2", y, filters, 3, stride))
            y = conv(graph, f"{at}_conv3", y, 4 * filters, 1)
            if number == 1:
                x = conv(graph, f"{at}_shortcut", x, 4 * filters, 1, stride)
            x = graph.relu(f"{at}_relu3", graph.add(f"{at}_add", x, y))
    return x
