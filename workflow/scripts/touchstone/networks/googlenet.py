"""GoogLeNet: Szegedy et al., Going deeper with convolutions, 2014, arXiv:1409.4842, without
the two auxiliary outputs, with Caffe's local response normalisation and its pooling, which
keeps windows that end outside the image. The last pool is the mean over the whole image,
7 x 7 at 224 x 224.

6,998,552 parameters and 1,582,671,872 multiply-accumulates at 224 x 224 x 3, 1000 classes.
"""

from touchstone.networks import _googlenet
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """GoogLeNet for images of `input_shape` (height, width, channels)."""
    graph = Graph("googlenet", input_shape)
    x = _googlenet.modules(graph, _googlenet.stem(graph, batch_norm=False), batch_norm=False)
    _googlenet.head(graph, x, classes)
    return graph
