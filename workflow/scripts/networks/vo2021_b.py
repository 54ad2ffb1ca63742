"""Model B of Vo, Hardware benchmark for deep learning capability, 2021 (Zenodo 4905213): the
convolutions of Xception and of ResNet152V2 (as the study's code has it; its text says
ResNet50V2) on the same images, put together, a 3 x 3 convolution and a dense layer. The L1
and L2 penalties on the dense layers are not here: a graph cannot say them yet. Ours by
choice, where our notes on the study say nothing: the 3 x 3 convolution pads by 1, the dense
layer has ReLU, and the images are 71 x 71, the smallest that Keras's Xception takes. Sizes
of 1 to 6 above a multiple of 32 give the two bases outputs of different sizes, which cannot
be put together, and are refused.

117,804,466 parameters and 2,270,087,976 multiply-accumulates at 71 x 71 x 3, 10 classes.
"""

from networks import _resnet_v2, _xception
from networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """Model B for images of `input_shape` (height, width, channels)."""
    graph = Graph("vo2021-b", input_shape)
    left = _xception.base(graph, "input", prefix="xception_")
    right = _resnet_v2.base(graph, "input", _resnet_v2.RESNET152, prefix="resnet_")
    x = graph.concat("concat", left, right)
    x = graph.relu("relu1", graph.conv("conv1", x, filters=1024, kernel=3, padding=1))
    x = graph.dropout("dropout", graph.global_avg_pool("pool1", x), rate=0.5)
    x = graph.relu("relu2", graph.dense("dense1", x, units=1024))
    graph.dense("logits", x, units=classes)
    return graph
