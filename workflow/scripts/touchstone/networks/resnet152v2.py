"""ResNet152V2: He et al., Identity mappings in deep residual networks, 2016, arXiv:1603.05027,
in the form of Keras's applications: a stem with bias, stages that halve the image at their
end, a maximum pool of size 1 as the shortcut there. One difference: Keras pads the stem's
output with zeros before the first pool; no ReLU is between, so such a zero can be the
maximum there, while a padded pixel never is here.

60,236,904 parameters and 10,906,697,728 multiply-accumulates at 224 x 224 x 3, 1000 classes.
"""

from touchstone.networks import _resnet_v2
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """ResNet152V2 for images of `input_shape` (height, width, channels)."""
    graph = Graph("resnet152v2", input_shape)
    _resnet_v2.head(graph, _resnet_v2.base(graph, "input", _resnet_v2.RESNET152), classes)
    return graph
