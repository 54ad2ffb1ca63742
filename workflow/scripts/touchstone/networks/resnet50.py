"""ResNet-50: He et al., Deep residual learning for image recognition, 2015, arXiv:1512.03385,
in the form called v1.5: stages 2 to 4 halve the image in their first 3 x 3 convolution, not
in the 1 x 1 before it.

25,557,032 parameters and 4,089,184,256 multiply-accumulates at 224 x 224 x 3, 1000 classes.
"""

from touchstone.networks import _resnet
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """ResNet-50 v1.5 for images of `input_shape` (height, width, channels)."""
    graph = Graph("resnet50", input_shape)
    x = graph.relu("relu1", _resnet.conv(graph, "conv1", "input", 64, kernel=7, stride=2))
    x = graph.max_pool("pool1", x, size=3, stride=2, padding=1)
    x = _resnet.bottlenecks(graph, x, (3, 4, 6, 3))
    graph.dense("logits", graph.global_avg_pool("pool5", x), units=classes)
    return graph
