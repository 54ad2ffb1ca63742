"""ResNet-20 for CIFAR-10: He et al., Deep residual learning for image recognition, 2015,
arXiv:1512.03385, section 4.2, with shortcuts of option B (1 x 1 convolutions where the shape
changes) where the paper's CIFAR-10 networks have option A, which has no parameters.

272,474 parameters and 40,813,184 multiply-accumulates at 32 x 32 x 3, 10 classes.
"""

from touchstone.networks import _resnet
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """ResNet-20 for images of `input_shape` (height, width, channels)."""
    graph = Graph("resnet20-cifar", input_shape)
    x = graph.relu("relu1", _resnet.conv(graph, "conv1", "input", 16, kernel=3))
    for stage, filters in enumerate((16, 32, 64), 1):
        for number in (1, 2, 3):
            at = f"stage{stage}_block{number}"
            stride = 2 if stage > 1 and number == 1 else 1
            y = _resnet.conv(graph, f"{at}_conv1", x, filters, 3, stride)
            y = _resnet.conv(graph, f"{at}_conv2", graph.relu(f"{at}_relu1", y), filters, 3)
            if stride > 1:
                x = _resnet.conv(graph, f"{at}_shortcut", x, filters, 1, stride)
            x = graph.relu(f"{at}_relu2", graph.add(f"{at}_add", x, y))
    graph.dense("logits", graph.global_avg_pool("pool4", x), units=classes)
    return graph
