"""ViT-Ti/16, also called DeiT-Ti: the Vision Transformer of Dosovitskiy et al. 2020,
arXiv:2010.11929, 192 wide with three heads, as in Touvron et al. 2020, arXiv:2012.12877, table 1.
`_vit.py` says what is in it. Images of 32 x 32 pixels are four patches.

5,717,416 parameters and 1,253,683,200 multiply-accumulates at 224 x 224 x 3, 1000 classes.
"""

from touchstone.networks import _vit
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """ViT-Ti/16 for images of `input_shape` (height, width, channels)."""
    return _vit.build("vit-ti-16", input_shape, classes, width=192, heads=3)
