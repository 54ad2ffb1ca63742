"""The U-Net of Ronneberger et al. 2015, arXiv:1505.04597 (`_unet.py`): five levels of 64 to 1,024
filters. It labels each pixel with one of the classes or as background. Its 31,030,658 parameters
for one class are 1,027 less than those of Keras's usual form, which has one convolution more.

31,031,243 parameters and 752,091,136 multiply-accumulates at 32 x 32 x 1, 10 classes.
"""

from touchstone.networks import _unet
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """The U-Net for images of `input_shape` (height, width, channels)."""
    return _unet.build("unet", input_shape, classes, width=64, levels=5)
