"""What the ResNets with the activation before the convolutions share: He et al. 2016,
arXiv:1603.05027, in the form of Keras's applications (resnet_v2)."""

from touchstone.networks.graph import Graph

RESNET50 = (3, 4, 6, 3)
RESNET152 = (3, 8, 36, 3)


def base(graph: Graph, x: str, depths: tuple[int, ...], prefix: str = "") -> str:
    """All before the mean over the image, `depths` blocks in each of the four stages.

    The last block of each stage but the fourth halves the image, in its 3 x 3 convolution.
    """
    x = graph.conv(f"{prefix}conv1", x, 64, kernel=7, stride=2, padding=3)
    x = graph.max_pool(f"{prefix}pool1", x, size=3, stride=2, padding=1)
    for stage, depth in enumerate(depths, 1):
        for number in range(1, depth + 1):
            at = f"{prefix}stage{stage}_block{number}"
            stride = 2 if stage < len(depths) and number == depth else 1
            x = _block(graph, at, x, 64 * 2 ** (stage - 1), stride, project=number == 1)
    return _norm(graph, f"{prefix}post", x)


def head(graph: Graph, x: str, classes: int) -> str:
    """The mean over the image and the output."""
    return graph.dense("logits", graph.global_avg_pool("pool5", x), units=classes)


def _block(graph: Graph, at: str, x: str, filters: int, stride: int, project: bool) -> str:
    before = _norm(graph, f"{at}_pre", x)
    if project:
        x = graph.conv(f"{at}_shortcut", before, 4 * filters, kernel=1, stride=stride)
    elif stride > 1:
        x = graph.max_pool(f"{at}_shortcut", x, size=1, stride=stride)
    y = graph.conv(f"{at}_conv1", before, filters, kernel=1, bias=False)
    y = _norm(graph, f"{at}_conv1", y)
    y = graph.conv(f"{at}_conv2", y, filters, kernel=3, stride=stride, padding=1, bias=False)
    y = _norm(graph, f"{at}_conv2", y)
    y = graph.conv(f"{at}_conv3", y, 4 * filters, kernel=1)
    return graph.add(f"{at}_add", x, y)


def _norm(graph: Graph, at: str, x: str) -> str:
    x = graph.batch_norm(f"{at}_bn", x, epsilon=1.001e-5, momentum=0.99)
    return graph.relu(f"{at}_relu", x)
