"""MobileNetV2: Sandler et al., MobileNetV2: inverted residuals and linear bottlenecks, 2018,
arXiv:1801.04381, table 2, with ReLU6. Padding, dropout before the last layer and the settings of
batch normalisation are those of the authors' implementation.

3,504,872 parameters and 300,774,272 multiply-accumulates at 224 x 224 x 3, 1000 classes.
"""

from touchstone.networks._inverted_residuals import Stage, Style
from touchstone.networks._inverted_residuals import build as residuals
from touchstone.networks.graph import Graph

STYLE = Style(activation="relu6", momentum=0.997, squeezes=False)
STAGES = (
    Stage(expansion=1, filters=16, depth=1, stride=1),
    Stage(expansion=6, filters=24, depth=2, stride=2),
    Stage(expansion=6, filters=32, depth=3, stride=2),
    Stage(expansion=6, filters=64, depth=4, stride=2),
    Stage(expansion=6, filters=96, depth=3, stride=1),
    Stage(expansion=6, filters=160, depth=3, stride=2),
    Stage(expansion=6, filters=320, depth=1, stride=1),
)


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """MobileNetV2 for images of `input_shape` (height, width, channels)."""
    return residuals("mobilenetv2", input_shape, classes, STYLE, STAGES)
