"""Canonical arrays in the layout of frameworks that keep channels last."""

from typing import Any

from touchstone.schema.spec import Layer


def rows_last(array: Any, image: Any) -> Any:
    """Vectors of a flattened image, (channel, row, column), in the order (row, column, channel)."""
    if not image:
        return array
    height, width, channels = image
    array = array.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
    return array.reshape(len(array), -1)


def native(layer: Layer, array: Any) -> Any:
    """A canonical array of a layer with its channels last."""
    if layer["op"] in ("embedding", "position"):
        return array
    if layer["op"] == "lstm":
        return array.T
    if array.ndim == 4:
        if layer.get("groups", 1) > 1 and array.shape[1] == 1:
            filters, _, height, width = array.shape
            array = array.reshape(layer["groups"], -1, height, width)
            return array.transpose(2, 3, 0, 1)
        return array.transpose(2, 3, 1, 0)
    if array.ndim == 2:
        return rows_last(array, layer["image"]).T
    return array


def canonical(layer: Layer, array: Any) -> Any:
    """What `native` was made from."""
    if layer["op"] in ("embedding", "position"):
        return array
    if layer["op"] == "lstm":
        return array.T
    if array.ndim == 4:
        if layer.get("groups", 1) > 1 and array.shape[2] == layer["groups"]:
            height, width = array.shape[:2]
            return array.transpose(2, 3, 0, 1).reshape(-1, 1, height, width)
        return array.transpose(3, 2, 0, 1)
    if array.ndim == 2:
        array = array.T
        if layer["image"]:
            height, width, channels = layer["image"]
            array = array.reshape(-1, height, width, channels).transpose(0, 3, 1, 2)
        return array.reshape(len(array), -1)
    return array
