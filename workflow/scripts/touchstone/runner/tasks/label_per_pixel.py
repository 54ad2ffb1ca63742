"""A label for each pixel: the class of the record where the pixel is part of what it names, else
one class more, the background."""

from typing import Any

import numpy as np

from touchstone.schema.spec import Data
from touchstone.schema.types import Array


def labels_of(images: Array, labels: Array, data: Data) -> Array:
    """The labels of the pixels, row by row, int64 (images, height x width).

    A pixel is part of what the label names if one of its channels is at least `data.foreground`;
    of noise, which has none, if one is above 0.
    """
    least: Any = 0
    if data.foreground is not None:
        # Between two values of a pixel, so that no rounding matters.
        share = np.float32((data.foreground - 0.5) / data.pixel_maximum)
        least = (share - np.asarray(data.mean, np.float32)) / np.asarray(data.std, np.float32)
    inside = (images > least).any(axis=3).reshape(len(images), -1)
    return np.where(inside, labels[:, None], data.classes).astype(np.int64)


class Overlap:
    """How far the predicted pixels of each class are those that have its label."""

    def __init__(self) -> None:
        self.both = self.predicted = self.wanted = np.zeros(0, np.int64)

    def add(self, predicted: Array, wanted: Array, classes: int) -> None:
        """Count the pixels of a batch; both have any shape, the same."""
        counts = [
            np.bincount(pixels.ravel(), minlength=classes)
            for pixels in (predicted[predicted == wanted], predicted, wanted)
        ]
        if not self.wanted.size:
            self.both, self.predicted, self.wanted = counts
        else:
            totals = self.both, self.predicted, self.wanted
            self.both, self.predicted, self.wanted = (a + b for a, b in zip(totals, counts))

    def mean_iou(self) -> float:
        """The mean over the classes that occur of intersection / union (Everingham et al. 2015,
        "The PASCAL Visual Object Classes Challenge: A Retrospective", section 4.2.4)."""
        union = self.predicted + self.wanted - self.both
        occurs = union > 0
        return float((self.both[occurs] / union[occurs]).mean())
