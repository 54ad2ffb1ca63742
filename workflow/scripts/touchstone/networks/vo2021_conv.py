"""The convolution stack among the basic operations of Vo, Hardware benchmark for deep learning
capability, 2021 (Zenodo 4905213), for Fashion-MNIST. Three times a 3 x 3 convolution of
stride 2 and a 2 x 2 mean: 28 x 28 is too small for that without padding, so all are padded
("same"). Our notes on the study name no activation; there is none.

2,454,346 parameters and 41,435,776 multiply-accumulates at 28 x 28 x 1, 10 classes.
"""

from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """The stack for images of `input_shape` (height, width, channels)."""
    graph = Graph("vo2021-conv", input_shape)
    x = "input"
    for number, filters in ((1, 2048), (2, 128), (3, 64)):
        x = graph.conv(f"conv{number}", x, filters, kernel=3, stride=2, padding="same")
        x = graph.avg_pool(f"pool{number}", x, size=2, padding="same")
    graph.dense("logits", graph.flatten("flatten", x), units=classes)
    return graph
