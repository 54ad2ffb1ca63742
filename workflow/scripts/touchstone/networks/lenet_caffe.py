"""LeNet as Caffe's MNIST example has it (examples/mnist/lenet_train_test.prototxt), after
LeCun et al., Gradient-based learning applied to document recognition, Proceedings of the
IEEE 86(11), 1998: wider than LeNet-5, no padding, and one ReLU, after the 500 units. Weights
start as there (Caffe's `xavier`), except that the output layer's are small.

431,080 parameters and 2,293,000 multiply-accumulates at 28 x 28 x 1, 10 classes.
"""

from touchstone.networks.graph import Graph

INITIAL = {"logits.weight": "small_normal", "*.weight": "lecun_uniform"}


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """Caffe's LeNet for images of `input_shape` (height, width, channels)."""
    graph = Graph("lenet-caffe", input_shape, initial=INITIAL)
    x = graph.conv("conv1", "input", filters=20, kernel=5)
    x = graph.max_pool("pool1", x, size=2)
    x = graph.conv("conv2", x, filters=50, kernel=5)
    x = graph.max_pool("pool2", x, size=2)
    x = graph.flatten("flatten", x)
    x = graph.relu("relu1", graph.dense("dense1", x, units=500))
    graph.dense("logits", x, units=classes)
    return graph
