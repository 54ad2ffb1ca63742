"""ConvNeXt-T: Liu et al., A ConvNet for the 2020s, 2022, arXiv:2201.03545, section 2.
`_convnext.py` says what is in it.

28,589,128 parameters and 4,455,531,264 multiply-accumulates at 224 x 224 x 3, 1000 classes.
"""

from touchstone.networks import _convnext
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """ConvNeXt-T for images of `input_shape` (height, width, channels)."""
    widths, depths = (96, 192, 384, 768), (3, 3, 9, 3)
    return _convnext.build("convnext-t", input_shape, classes, widths, depths, depth_rate=0.1)
