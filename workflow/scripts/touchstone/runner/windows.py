"""Windows of images that are resized to the size of the image: random resized crops.

Their sizes are those of Szegedy et al. 2014, arXiv:1409.4842, section 6, and their corners uniform.
Pixels are interpolated between their four neighbours; what lies beyond the outermost pixels of a
window has their values.
"""

from typing import Any, Sequence, Tuple

import numpy as np

from touchstone.schema.types import Array

ASPECTS = (3 / 4, 4 / 3)
"""The narrowest and the widest window: width / height."""


def columns(least_area: float) -> int:
    """How many numbers an image's draws are: top, left, mirrored; height and width of a window."""
    return 5 if least_area else 3


def draw_window(random: Any, examples: int, image: Sequence[int], least_area: float) -> Array:
    """Windows of images (height, width), int64 (examples, 4): top, left, height, width.

    The share of the area is uniform from `least_area` to 1, the logarithm of the aspect between
    those of `ASPECTS`; a side that is longer than the image's is cut.
    """
    area = random.uniform(least_area, 1, examples) * image[0] * image[1]
    aspect = np.exp(random.uniform(np.log(ASPECTS[0]), np.log(ASPECTS[1]), examples))
    sides = np.stack([np.sqrt(area / aspect), np.sqrt(area * aspect)], axis=1)
    sides = np.clip(np.round(sides).astype(np.int64), 1, np.array(image))
    corners = (random.random_sample((examples, 2)) * (np.array(image) - sides + 1)).astype(np.int64)
    return np.concatenate([corners, sides], axis=1)


def between(xp: Any, first: Array, count: Array, index: Array) -> Tuple[Any, Any, Any]:
    """Between which two pixels of an image each pixel of its window lies along an axis.

    The arithmetic is that of integers, so that every framework finds the same.

    Args:
        xp: the module whose arrays these are: NumPy or one with its functions.
        first, count: the window's pixels, (batch,).
        index: places in the resized window, (size,) or (batch, size).

    Returns:
        The pixels, and how far the second one counts, in parts of 2 size; integers (batch, size).
    """
    size, last = index.shape[-1], (count - 1)[:, None]
    # (index + 1/2) count / size - 1/2, in parts of 2 size
    place = xp.clip((2 * index + 1) * count[:, None] - size, 0, 2 * size * last)
    low = place // (2 * size)
    high = first[:, None] + xp.minimum(low + 1, last)
    return first[:, None] + low, high, place - 2 * size * low


def resized(images: Array, draws: Array) -> Array:
    """The windows of a batch, (batch, height, width, channels), in NumPy.

    `draws` are top, left, mirrored, height and width of each, integers (batch, 5).
    """
    top, left, mirrored, height, width = draws.T
    rows, columns = np.arange(images.shape[1]), np.arange(images.shape[2])
    columns = np.where(mirrored[:, None], len(columns) - 1 - columns, columns)
    examples = np.arange(len(images))[:, None]
    for first, count, index in ((top, height, rows), (left, width, columns)):
        low, high, parts = between(np, first, count, index)
        weight = parts.astype(images.dtype)[:, :, None, None] / (2 * index.shape[-1])
        images = images[examples, low] * (1 - weight) + images[examples, high] * weight
        images = images.transpose(0, 2, 1, 3)
    return images
