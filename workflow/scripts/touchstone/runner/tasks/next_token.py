"""The next token: the labels of a text are its own tokens but the first."""

import numpy as np

from touchstone.schema.spec import Data
from touchstone.schema.types import Array


def labels_of(images: Array, labels: Array, data: Data) -> Array:
    """For each token but the last the one after it, int64 (texts, steps - 1)."""
    return np.ascontiguousarray(images[:, 1:, 0, 0], np.int64)
