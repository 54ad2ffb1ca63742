"""A text classifier of bytes: two layers of the Transformer's encoder (Vaswani et al. 2017,
arXiv:1706.03762) with trained positions, and a dense layer on the mean over the steps. It
normalises in front of attention and dense layers, not after (Xiong et al. 2020,
arXiv:2002.04745), which trains without a warm-up of the rate. Four heads, 64 wide, the inner
dense layer four times as wide, as in the paper; the sizes are ours. No dropout.

120,836 parameters and 7,340,288 multiply-accumulates at 64 x 1 x 1, 4 classes.
"""

from touchstone.networks.graph import Graph

WIDTH = 64
HEADS = 4
LAYERS = 2


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """The classifier for texts of `input_shape` (steps, 1, 1)."""
    graph = Graph("transformer-text", input_shape)
    x = graph.position("position", graph.embedding("embedding", "input", WIDTH))
    for number in range(1, LAYERS + 1):
        at = f"layer{number}"
        y = graph.layer_norm(f"{at}_norm1", x)
        y = graph.attention(f"{at}_attention", graph.dense(f"{at}_qkv", y, 3 * WIDTH), HEADS)
        x = graph.add(f"{at}_add1", x, graph.dense(f"{at}_out", y, WIDTH))
        y = graph.layer_norm(f"{at}_norm2", x)
        y = graph.relu(f"{at}_relu", graph.dense(f"{at}_dense1", y, 4 * WIDTH))
        x = graph.add(f"{at}_add2", x, graph.dense(f"{at}_dense2", y, WIDTH))
    x = graph.mean_over_steps("mean", graph.layer_norm("norm", x))
    graph.dense("logits", x, units=classes)
    return graph
