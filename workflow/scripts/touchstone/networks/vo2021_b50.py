"""Model B of Vo, Hardware benchmark for deep learning capability, 2021 (Zenodo 4905213), as
its text has it: with ResNet50V2 where vo2021-b, as its code, has ResNet152V2.

83,135,922 parameters and 1,344,260,904 multiply-accumulates at 71 x 71 x 3, 10 classes.
"""

from touchstone.networks import _resnet_v2
from touchstone.networks._vo2021 import model_b
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """Model B for images of `input_shape` (height, width, channels)."""
    return model_b("vo2021-b50", input_shape, classes, _resnet_v2.RESNET50)
