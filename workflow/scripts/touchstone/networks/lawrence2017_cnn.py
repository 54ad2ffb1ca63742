"""The CNN of Lawrence et al. 2017: TensorFlow's "Deep MNIST" tutorial network on grey images
of 64 x 64, which give its first dense layer 16 x 16 x 64 x 1024 weights; 16.8 million
parameters in all, the study's figure. The dropout rate, 0.5, is the tutorial's.

16,840,586 parameters and 72,493,056 multiply-accumulates at 64 x 64 x 1, 10 classes.
"""

from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """The Deep MNIST network for images of `input_shape` (height, width, channels)."""
    graph = Graph("lawrence2017-cnn", input_shape)
    x = graph.conv("conv1", "input", filters=32, kernel=5, padding=2)
    x = graph.max_pool("pool1", graph.relu("relu1", x), size=2)
    x = graph.conv("conv2", x, filters=64, kernel=5, padding=2)
    x = graph.max_pool("pool2", graph.relu("relu2", x), size=2)
    x = graph.flatten("flatten", x)
    x = graph.relu("relu3", graph.dense("dense1", x, units=1024))
    x = graph.dropout("dropout", x, rate=0.5)
    graph.dense("logits", x, units=classes)
    return graph
