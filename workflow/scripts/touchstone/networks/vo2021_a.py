"""Model A of Vo, Hardware benchmark for deep learning capability, 2021 (Zenodo 4905213): the
convolutions of VGG19, frozen, four more, and dense layers with L1 and L2 penalties. The
study's frozen convolutions were trained on ImageNet; ours keep their random start, which
costs the same and learns less. Ours by choice, where our notes on the study say nothing: the
four convolutions pad by 1, the dense layers have ReLU, the output has no penalty, and the
images are 32 x 32, the smallest that VGG19 takes.

10,215,306 parameters and 408,339,712 multiply-accumulates at 32 x 32 x 3, 10 classes.
With the frozen ones they are 30,239,690.
"""

from touchstone.networks import _vgg
from touchstone.networks._vo2021 import L1, L2
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """Model A for images of `input_shape` (height, width, channels)."""
    graph = Graph("vo2021-a", input_shape)
    with graph.frozen():
        x = _vgg.base(graph, "input", _vgg.VGG19)
    for number in (1, 2, 3, 4):
        x = graph.conv(f"conv6_{number}", x, filters=128, kernel=3, padding=1)
        x = graph.relu(f"relu6_{number}", x)
    x = graph.global_avg_pool("pool6", x)
    x = graph.relu("relu7", graph.dense("dense1", x, units=4096, l1=L1, l2=L2))
    x = graph.dropout("dropout1", x, rate=0.5)
    x = graph.relu("relu8", graph.dense("dense2", x, units=2048, l1=L1, l2=L2))
    x = graph.dropout("dropout2", x, rate=0.5)
    x = graph.relu("relu9", graph.dense("dense3", x, units=128, l1=L1, l2=L2))
    graph.dense("logits", x, units=classes)
    return graph
