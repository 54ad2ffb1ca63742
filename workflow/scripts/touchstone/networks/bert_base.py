"""BERT-base: the encoder of Devlin et al. 2018, arXiv:1810.04805 (`_bert.py`), 768 wide, twelve
layers of twelve heads, a vocabulary of 30,522. Without its head it has 1,536 parameters less than
the 109,482,240 of the authors' model, those of the two segments.

109,482,242 parameters and 48,318,973,440 multiply-accumulates at 512 x 1 x 1, 2 classes.
"""

from touchstone.networks import _bert
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """BERT-base for texts of `input_shape` (steps, 1, 1)."""
    return _bert.build(
        "bert-base", input_shape, classes, vocabulary=30522, width=768, heads=12, layers=12
    )  # fmt: skip
