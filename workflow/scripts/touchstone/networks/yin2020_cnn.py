"""The small CNN that stands for Yin et al. 2020's on CIFAR-10. The source does not name its
network; its accuracy and memory fit one of the tutorial kind, as TensorFlow's "Convolutional
Neural Network (CNN)" tutorial has it: three 3 x 3 convolutions without padding, pooling
after the first two, and a dense layer of 64.

122,570 parameters and 4,548,608 multiply-accumulates at 32 x 32 x 3, 10 classes.
"""

from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """The tutorial CNN for images of `input_shape` (height, width, channels)."""
    graph = Graph("yin2020-cnn", input_shape)
    x = graph.relu("relu1", graph.conv("conv1", "input", filters=32, kernel=3))
    x = graph.max_pool("pool1", x, size=2)
    x = graph.relu("relu2", graph.conv("conv2", x, filters=64, kernel=3))
    x = graph.max_pool("pool2", x, size=2)
    x = graph.relu("relu3", graph.conv("conv3", x, filters=64, kernel=3))
    x = graph.flatten("flatten", x)
    x = graph.relu("relu4", graph.dense("dense1", x, units=64))
    graph.dense("logits", x, units=classes)
    return graph
