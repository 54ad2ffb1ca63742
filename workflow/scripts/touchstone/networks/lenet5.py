"""LeNet-5 in its modern form: LeCun et al., Gradient-based learning applied to document
recognition, Proceedings of the IEEE 86(11), 1998, with ReLU for the squashing function,
maximum pooling for subsampling, full connections between the maps, and a dense output.

61,706 parameters and 416,520 multiply-accumulates at 28 x 28 x 1, 10 classes.
"""

from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """LeNet-5 for images of `input_shape` (height, width, channels)."""
    graph = Graph("lenet5", input_shape)
    x = graph.conv("conv1", "input", filters=6, kernel=5, padding=2)
    x = graph.max_pool("pool1", graph.relu("relu1", x), size=2)
    x = graph.conv("conv2", x, filters=16, kernel=5)
    x = graph.max_pool("pool2", graph.relu("relu2", x), size=2)
    x = graph.flatten("flatten", x)
    x = graph.relu("relu3", graph.dense("dense1", x, units=120))
    x = graph.relu("relu4", graph.dense("dense2", x, units=84))
    graph.dense("logits", x, units=classes)
    return graph
