"""EfficientNet-B0: Tan and Le, EfficientNet: rethinking model scaling for convolutional neural
networks, 2019, arXiv:1905.11946, table 1: inverted residuals with SiLU, whose channels are weighed
by squeeze-and-excitation. Padding and the settings of batch normalisation are those of the
authors' implementation, as are the rates of stochastic depth, which grow to nearly 0.2.

5,288,548 parameters and 385,814,752 multiply-accumulates at 224 x 224 x 3, 1000 classes.
"""

from touchstone.networks._inverted_residuals import Stage, Style
from touchstone.networks._inverted_residuals import build as residuals
from touchstone.networks.graph import Graph

STYLE = Style(activation="silu", momentum=0.99, squeezes=True, depth_rate=0.2)
STAGES = (
    Stage(expansion=1, filters=16, depth=1, stride=1),
    Stage(expansion=6, filters=24, depth=2, stride=2),
    Stage(expansion=6, filters=40, depth=2, stride=2, kernel=5),
    Stage(expansion=6, filters=80, depth=3, stride=2),
    Stage(expansion=6, filters=112, depth=3, stride=1, kernel=5),
    Stage(expansion=6, filters=192, depth=4, stride=2, kernel=5),
    Stage(expansion=6, filters=320, depth=1, stride=1),
)


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """EfficientNet-B0 for images of `input_shape` (height, width, channels)."""
    return residuals("efficientnet-b0", input_shape, classes, STYLE, STAGES)
