"""A CIFAR-10 form of the one-column AlexNet (Krizhevsky 2014, arXiv:1404.5997): its five
convolutions with as many filters, all 3 x 3 with padding 1 and stride 1, 2 x 2 pooling, and
dense layers of 1024 for 4096. No paper defines it; it is one of many such reductions.

7,506,762 parameters and 172,173,312 multiply-accumulates at 32 x 32 x 3, 10 classes.
"""

from touchstone.networks import _alexnet
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """AlexNet for small images of `input_shape` (height, width, channels)."""
    graph = Graph("alexnet-cifar", input_shape)
    x = graph.max_pool("pool1", _alexnet.conv(graph, 1, "input", 64), size=2)
    x = graph.max_pool("pool2", _alexnet.conv(graph, 2, x, 192), size=2)
    x = _alexnet.conv(graph, 3, x, 384)
    x = _alexnet.conv(graph, 4, x, 256)
    x = graph.max_pool("pool5", _alexnet.conv(graph, 5, x, 256), size=2)
    _alexnet.head(graph, x, 1024, classes)
    return graph
