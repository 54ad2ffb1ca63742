"""What the models of Vo, Hardware benchmark for deep learning capability, 2021 (Zenodo
4905213), share: the penalties on their dense layers, and model B over a ResNet of any depth."""

from touchstone.networks import _resnet_v2, _xception
from touchstone.networks.graph import Graph

L1 = 1e-5
L2 = 1e-4


def model_b(
    name: str, input_shape: tuple[int, int, int], classes: int, depths: tuple[int, ...]
) -> Graph:
    """Xception and a ResNet of `depths` on the same images, put together."""
    graph = Graph(name, input_shape)
    left = _xception.base(graph, "input", prefix="xception_")
    right = _resnet_v2.base(graph, "input", depths, prefix="resnet_")
    x = graph.concat("concat", left, right)
    x = graph.relu("relu1", graph.conv("conv1", x, filters=1024, kernel=3, padding=1))
    x = graph.dropout("dropout", graph.global_avg_pool("pool1", x), rate=0.5)
    x = graph.relu("relu2", graph.dense("dense1", x, units=1024, l1=L1, l2=L2))
    graph.dense("logits", x, units=classes)
    return graph
