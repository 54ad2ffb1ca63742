"""GPT-2 small: the language model of Radford et al. 2019 (`_gpt.py`), 768 wide, twelve layers of
twelve heads, a vocabulary of 50,257. The published 117 million parameters were corrected to 124
million in the authors' repository.

124,439,808 parameters and 145,824,153,600 multiply-accumulates at 1025 x 1 x 1, 2 classes.
"""

from touchstone.networks import _gpt
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """GPT-2 small for texts of `input_shape` (steps, 1, 1), whose classes do not matter."""
    return _gpt.build("gpt2-small", input_shape, vocabulary=50257, width=768, heads=12, layers=12)
