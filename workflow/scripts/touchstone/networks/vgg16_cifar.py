"""A CIFAR-10 form of VGG16 (Simonyan and Zisserman 2014, arXiv:1409.1556): its thirteen
convolutions, each with batch normalisation, then one dense layer. The convolutions keep
their biases, which the normalisation makes idle, as in the form in common use.

14,728,266 parameters and 313,201,664 multiply-accumulates at 32 x 32 x 3, 10 classes.
"""

from touchstone.networks import _vgg
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """VGG16 for small images of `input_shape` (height, width, channels)."""
    graph = Graph("vgg16-cifar", input_shape)
    x = _vgg.base(graph, "input", _vgg.VGG16, batch_norm=True)
    graph.dense("logits", graph.flatten("flatten", x), units=classes)
    return graph
