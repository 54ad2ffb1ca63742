"""AlexNet as first published: Krizhevsky et al., ImageNet classification with deep
convolutional neural networks, NIPS 2012. Its two columns, one per GPU, are groups of 2 in
convolutions 2, 4 and 5; local response normalisation comes before the pooling. Weights
start from a normal distribution with standard deviation 0.01, the biases of convolutions 2, 4 and
5 and of the dense layers of 4096 at 1 (section 5). One thing is ours: dropout comes before these
dense layers (as in torchvision's AlexNet), where Caffe's has it after them. The smallest image is
67 x 67.

60,965,224 parameters and 724,406,816 multiply-accumulates at 227 x 227 x 3, 1000 classes.
"""

from touchstone.networks import _alexnet
from touchstone.networks.graph import Graph

INITIAL = {"*.weight": "normal_0.01", "conv[245].bias": "ones", "dense[12].bias": "ones"}


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """AlexNet in two columns for images of `input_shape` (height, width, channels)."""
    graph = Graph("alexnet-grouped", input_shape, initial=INITIAL)
    x = _alexnet.conv(graph, 1, "input", 96, kernel=11, stride=4, padding=0)
    x = _norm_and_pool(graph, 1, x)
    x = _alexnet.conv(graph, 2, x, 256, kernel=5, padding=2, groups=2)
    x = _norm_and_pool(graph, 2, x)
    x = _alexnet.conv(graph, 3, x, 384)
    x = _alexnet.conv(graph, 4, x, 384, groups=2)
    x = _alexnet.conv(graph, 5, x, 256, groups=2)
    x = graph.max_pool("pool5", x, size=3, stride=2)
    _alexnet.head(graph, x, 4096, classes)
    return graph


def _norm_and_pool(graph: Graph, number: int, x: str) -> str:
    # The paper's alpha of 1e-4 multiplies the sum; ours, the mean of 5.
    x = graph.lrn(f"lrn{number}", x, size=5, alpha=5e-4, beta=0.75, k=2)
    return graph.max_pool(f"pool{number}", x, size=3, stride=2)
