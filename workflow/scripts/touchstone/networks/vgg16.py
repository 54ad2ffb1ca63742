"""VGG16: Simonyan and Zisserman, Very deep convolutional networks for large-scale image
recognition, 2014, arXiv:1409.1556, configuration D. Torchvision's adaptive pool to 7 x 7,
which changes nothing at 224 x 224, is left out: the dense layers take what the images
come to.

138,357,544 parameters and 15,470,264,320 multiply-accumulates at 224 x 224 x 3, 1000 classes.
"""

from touchstone.networks import _vgg
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """VGG16 for images of `input_shape` (height, width, channels)."""
    graph = Graph("vgg16", input_shape, initial=_vgg.INITIAL)
    _vgg.head(graph, _vgg.base(graph, "input", _vgg.VGG16), classes)
    return graph
