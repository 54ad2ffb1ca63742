"""A CIFAR-10 form of GoogLeNet with batch normalisation: the nine modules of Szegedy et al.
2014, arXiv:1409.4842, after one 3 x 3 convolution of 192 filters with no pooling, so that
the modules work on 32 x 32, 16 x 16 and 8 x 8. No paper defines it; forms in common use
have the same stem, and some make the 5 x 5 convolutions two of 3 x 3.

5,871,914 parameters and 1,447,241,728 multiply-accumulates at 32 x 32 x 3, 10 classes.
"""

from touchstone.networks import _googlenet
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """GoogLeNet for small images of `input_shape` (height, width, channels)."""
    graph = Graph("googlenet-cifar", input_shape)
    x = _googlenet.conv(graph, "conv1", "input", 192, 3, batch_norm=True)
    x = _googlenet.modules(graph, x, batch_norm=True)
    _googlenet.head(graph, x, classes)
    return graph
