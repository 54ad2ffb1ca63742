"""A text classifier of bytes: an embedding of 64, one LSTM of 128 units, and a dense layer on
its last state. The LSTM is that of Hochreiter and Schmidhuber 1997 with forget gates (Gers et
al. 2000); the sizes are ours, half of an embedding and all of the units that Keras's IMDB
example (imdb_lstm.py) has. No dropout.

115,716 parameters and 6,291,968 multiply-accumulates at 64 x 1 x 1, 4 classes.
"""

from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """The classifier for texts of `input_shape` (steps, 1, 1)."""
    graph = Graph("lstm-text", input_shape)
    x = graph.embedding("embedding", "input", width=64)
    x = graph.lstm("lstm", x, units=128)
    graph.dense("logits", x, units=classes)
    return graph
