"""Model B of Vo, Hardware benchmark for deep learning capability, 2021 (Zenodo 4905213): the
convolutions of Xception and of ResNet152V2 (as the study's code has it; vo2021-b50 is the
ResNet50V2 of its text) on the same images, put together, a 3 x 3 convolution and a dense
layer with L1 and L2 penalties. Ours by choice, where our notes on the study say nothing: the
3 x 3 convolution pads by 1, the dense layer has ReLU, the output has no penalty, and the
images are 71 x 71, the smallest that Keras's Xception takes. Sizes of 1 to 6 above a multiple
of 32 give the two bases outputs of different sizes, which cannot be put together, and are
refused.

117,804,466 parameters and 2,270,087,976 multiply-accumulates at 71 x 71 x 3, 10 classes.
"""

from touchstone.networks import _resnet_v2
from touchstone.networks._vo2021 import model_b
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """Model B for images of `input_shape` (height, width, channels)."""
    return model_b("vo2021-b", input_shape, classes, _resnet_v2.RESNET152)
