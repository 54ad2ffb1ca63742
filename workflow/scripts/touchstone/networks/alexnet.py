"""AlexNet in one column: Krizhevsky, One weird trick for parallelizing convolutional neural
networks, 2014, arXiv:1404.5997, with torchvision's filters and its dropout before the dense
layers. Torchvision's adaptive pool to 6 x 6, which changes nothing at 224 x 224, is left out:
the dense layers take what the images come to.

61,100,840 parameters and 714,188,480 multiply-accumulates at 224 x 224 x 3, 1000 classes.
"""

from touchstone.networks import _alexnet
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """AlexNet, one column, for images of `input_shape` (height, width, channels)."""
    graph = Graph("alexnet", input_shape)
    x = _alexnet.conv(graph, 1, "input", 64, kernel=11, stride=4, padding=2)
    x = graph.max_pool("pool1", x, size=3, stride=2)
    x = _alexnet.conv(graph, 2, x, 192, kernel=5, padding=2)
    x = graph.max_pool("pool2", x, size=3, stride=2)
    x = _alexnet.conv(graph, 3, x, 384)
    x = _alexnet.conv(graph, 4, x, 256)
    x = _alexnet.conv(graph, 5, x, 256)
    x = graph.max_pool("pool5", x, size=3, stride=2)
    _alexnet.head(graph, x, 4096, classes)
    return graph
