"""What BERTs share: the encoder of Devlin et al. 2018, arXiv:1810.04805, as it is fine-tuned to
classify texts, without dropout.

Learned positions are added to an embedding and the sum is normalised. Each layer normalises after
attention and after the two dense layers, of which the inner one is four times as wide, with GELU.
The class follows from the first step, by a dense layer with tanh, the pooler. The embeddings of the
two segments are left out: a text has one, and its row would add to every position.

Tokens are bytes: of a larger vocabulary a text uses the first 256.
"""

from touchstone.networks.graph import Graph

EPSILON = 1e-12
INITIAL = {"*.weight": "normal_0.02"}


def build(
    name: str,
    input_shape: tuple[int, int, int],
    classes: int,
    vocabulary: int,
    width: int,
    heads: int,
    layers: int,
) -> Graph:
    """The classifier for texts of `input_shape` (steps, 1, 1)."""
    graph = Graph(name, input_shape, initial=INITIAL)
    x = graph.position("position", graph.embedding("embedding", "input", width, vocabulary))
    x = graph.layer_norm("norm", x, EPSILON)
    for number in range(1, layers + 1):
        at = f"layer{number}"
        y = graph.attention(f"{at}_attention", graph.dense(f"{at}_qkv", x, 3 * width), heads)
        x = graph.add(f"{at}_add1", x, graph.dense(f"{at}_out", y, width))
        x = graph.layer_norm(f"{at}_norm1", x, EPSILON)
        y = graph.gelu(f"{at}_gelu", graph.dense(f"{at}_dense1", x, 4 * width))
        x = graph.add(f"{at}_add2", x, graph.dense(f"{at}_dense2", y, width))
        x = graph.layer_norm(f"{at}_norm2", x, EPSILON)
    x = graph.tanh("pooler_tanh", graph.dense("pooler", graph.step("first", x, 0), width))
    graph.dense("logits", x, units=classes)
    return graph
