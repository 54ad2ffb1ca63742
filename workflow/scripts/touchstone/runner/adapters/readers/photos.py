"""The middle of a photo."""

from typing import Any


def middle(image: Any, shape: Any) -> Any:
    """The middle of an image (height, width, channels), of `shape`.

    Raises ValueError if the image is smaller.
    """
    top, left = ((have - want) // 2 for have, want in zip(image.shape, shape[:2]))
    if min(top, left) < 0:
        raise ValueError("a photo of {} is smaller than {}".format(image.shape, shape))
    return image[top : top + shape[0], left : left + shape[1]]
