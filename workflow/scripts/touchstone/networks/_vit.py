"""What Vision Transformers share: Dosovitskiy et al. 2020, arXiv:2010.11929, as Touvron et al.
2020, arXiv:2012.12877, train them: with stochastic depth, without distillation, pre-training and
dropout.

A convolution makes a step of every patch of `PATCH` x `PATCH` pixels, which must divide the image;
a learned step comes first, and learned positions are added. Each layer normalises before attention
and before the two dense layers, of which the inner one is four times as wide. The class follows
from the first step.
"""

from touchstone.networks.graph import Graph, GraphError

PATCH = 16
EPSILON = 1e-6
INITIAL = {
    "patches.weight": "fan_in_uniform",
    "patches.bias": "fan_in_uniform",
    "*.weight": "normal_0.02",
}
"""As the authors' implementation: it cuts the normal distribution at a hundred deviations."""


def build(
    name: str,
    input_shape: tuple[int, int, int],
    classes: int,
    width: int,
    heads: int,
    layers: int = 12,
    depth_rate: float = 0.1,
) -> Graph:
    """The network for images of `input_shape` (height, width, channels). An example skips the two
    branches of a layer with a probability that grows from 0 in the first to `depth_rate` in the
    last.

    Raises GraphError if patches do not divide the image.
    """
    graph = Graph(name, input_shape, initial=INITIAL)
    height, across, _ = input_shape
    if height % PATCH or across % PATCH:
        raise GraphError(
            f"layer patches (conv) wants an image that patches of {PATCH} x {PATCH} pixels divide, "
            f"not one of {height} x {across}"
        )
    x = graph.conv("patches", "input", width, kernel=PATCH, stride=PATCH)
    x = graph.class_token("token", graph.to_sequence("sequence", x))
    x = graph.position("position", x)
    for number in range(1, layers + 1):
        at, rate = f"layer{number}", depth_rate * (number - 1) / (layers - 1)
        y = graph.layer_norm(f"{at}_norm1", x, EPSILON)
        y = graph.attention(f"{at}_attention", graph.dense(f"{at}_qkv", y, 3 * width), heads)
        y = graph.dense(f"{at}_out", y, width)
        x = graph.add(f"{at}_add1", x, graph.stochastic_depth(f"{at}_drop1", y, rate))
        y = graph.layer_norm(f"{at}_norm2", x, EPSILON)
        y = graph.gelu(f"{at}_gelu", graph.dense(f"{at}_dense1", y, 4 * width))
        y = graph.dense(f"{at}_dense2", y, width)
        x = graph.add(f"{at}_add2", x, graph.stochastic_depth(f"{at}_drop2", y, rate))
    x = graph.step("first", graph.layer_norm("norm", x, EPSILON), 0)
    graph.dense("logits", x, units=classes)
    return graph
