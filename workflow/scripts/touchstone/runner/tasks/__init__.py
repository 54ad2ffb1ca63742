"""Tasks in which an example has several labels: one file each, found by its name.

A file has one function, `labels_of(images, labels, data)`: from the images as the network takes
them, float32 (examples, height, width, channels), and the label of each record, int64
(examples,), the labels that the network's output is compared with, int64 (examples, labels).
The loss is the mean cross-entropy over all of them. A network names its task (`Graph.task`).
It may have a class `Overlap`, which is given predictions and labels and has their `mean_iou()`.
"""

import importlib
from typing import Any

from touchstone.schema.spec import Data, Network
from touchstone.schema.types import Array


def overlap_of(network: Network) -> Any:
    """The `Overlap` of a network's task; None where it has none."""
    kind = getattr(_task(network.task), "Overlap", None) if network.task else None
    return kind() if kind else None


def labels_of(network: Network, images: Array, labels: Array, data: Data) -> Array:
    """The labels of a network's task; those of the records where it has one for each example."""
    if network.task is None:
        return labels
    task_labels: Array = _task(network.task).labels_of(images, labels, data)
    return task_labels


def _task(name: str) -> Any:
    return importlib.import_module("touchstone.runner.tasks." + name)
