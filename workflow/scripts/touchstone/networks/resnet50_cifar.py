"""A CIFAR-10 form of ResNet-50 v1.5 (He et al. 2015, arXiv:1512.03385): its bottleneck stages
after a 3 x 3 convolution of stride 1, with no first pooling. The paper has no ResNet-50
for CIFAR-10; this is the form in common use.

23,520,842 parameters and 1,297,829,888 multiply-accumulates at 32 x 32 x 3, 10 classes.
"""

from touchstone.networks import _resnet
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """ResNet-50 for small images of `input_shape` (height, width, channels)."""
    graph = Graph("resnet50-cifar", input_shape)
    x = graph.relu("relu1", _resnet.conv(graph, "conv1", "input", 64, kernel=3))
    x = _resnet.bottlenecks(graph, x, (3, 4, 6, 3))
    graph.dense("logits", graph.global_avg_pool("pool5", x), units=classes)
    return graph
