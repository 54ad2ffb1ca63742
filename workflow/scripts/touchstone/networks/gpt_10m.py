"""A language model of bytes with some ten million parameters: GPT-2 (`_gpt.py`), 384 wide, six
layers of six heads, the vocabulary that of bytes. The sizes are ours.

10,844,160 parameters and 3,045,064,704 multiply-accumulates at 257 x 1 x 1, 2 classes.
"""

from touchstone.networks import _gpt
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """The model for texts of `input_shape` (steps, 1, 1), whose classes do not matter."""
    return _gpt.build("gpt-10m", input_shape, vocabulary=256, width=384, heads=6, layers=6)
