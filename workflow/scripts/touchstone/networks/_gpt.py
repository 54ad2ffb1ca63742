"""What GPTs share: the decoder of Radford et al. 2019, "Language Models are Unsupervised Multitask
Learners" (GPT-2), without dropout.

Every token but the last is predicted from those before it. Learned positions are added to an
embedding; each layer normalises before causal attention and before the two dense layers, of which
the inner one is four times as wide, with the approximation of GELU. The embedding's table also
gives the logits.

Tokens are bytes: of a larger vocabulary a text uses the first 256, and the others are computed.
"""

from touchstone.networks.graph import Graph

INITIAL = {"position.weight": "normal_0.01", "*.weight": "normal_0.02"}
"""As in the authors' code (model.py), which does not scale the residual layers."""


def build(
    name: str,
    input_shape: tuple[int, int, int],
    vocabulary: int,
    width: int,
    heads: int,
    layers: int,
) -> Graph:
    """The network for texts of `input_shape` (steps, 1, 1); its context is a token shorter."""
    graph = Graph(name, input_shape, initial=INITIAL, task="next_token")
    x = graph.embedding("embedding", graph.all_but_last("known", "input"), width, vocabulary)
    x = graph.position("position", x)
    for number in range(1, layers + 1):
        at = f"layer{number}"
        y = graph.dense(f"{at}_qkv", graph.layer_norm(f"{at}_norm1", x), 3 * width)
        y = graph.attention(f"{at}_attention", y, heads, causal=True)
        x = graph.add(f"{at}_add1", x, graph.dense(f"{at}_out", y, width))
        y = graph.layer_norm(f"{at}_norm2", x)
        y = graph.gelu_tanh(f"{at}_gelu", graph.dense(f"{at}_dense1", y, 4 * width))
        x = graph.add(f"{at}_add2", x, graph.dense(f"{at}_dense2", y, width))
    graph.unembedding("logits", graph.layer_norm("norm", x), "embedding")
    return graph
