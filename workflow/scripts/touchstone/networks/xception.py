"""Xception: Chollet, Xception: deep learning with depthwise separable convolutions, 2016,
arXiv:1610.02357, in the form of Keras's applications. A depthwise convolution has as many
groups as channels and no bias; a 1 x 1 convolution without bias follows it at once. Both pad
"same", as the pools do; the two convolutions of the stem do not pad.

22,855,952 parameters and 8,357,403,496 multiply-accumulates at 299 x 299 x 3, 1000 classes.
"""

from touchstone.networks import _xception
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """Xception for images of `input_shape` (height, width, channels)."""
    graph = Graph("xception", input_shape)
    x = graph.global_avg_pool("pool5", _xception.base(graph, "input"))
    graph.dense("logits", x, units=classes)
    return graph
