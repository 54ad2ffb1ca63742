"""LMDB of Caffe's Datum messages: the folder `{stem}`, which Caffe's data layer opens.

Keys are as in `lmdb`. A value is a `Datum` (Caffe, src/caffe/proto/caffe.proto: channels 1,
height 2, width 3, data 4, label 5, encoded 7). Pixels are stored as Caffe's own tools do,
channels x height x width with three channels in the order blue, green, red; a photo is its JPEG
file, marked as `encoded` and without a shape. Caffe reads one LMDB a split, so there are no
shards.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from touchstone.datasets.formats import Example, Image, lmdb
from touchstone.datasets.formats.tfrecord import field, read_varint, varint

SHARDED = False
PHOTOS = True

_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _ENCODED = 1, 2, 3, 4, 5, 7


def write(stem: Path, examples: Iterable[Example]) -> list[Path]:
    """See `datasets.formats.Format`."""
    shutil.rmtree(stem, ignore_errors=True)
    stem.mkdir()
    lmdb.write_values(stem, (_datum(label, image) for label, image in examples), folder=True)
    return [stem / "data.mdb"]


def read(stem: Path, shape: list[int] | None) -> Iterator[Example]:
    """See `datasets.formats.Format`."""
    for value in lmdb.read_values(stem, folder=True):
        fields = _fields(value)
        data, label = fields[_DATA], fields[_LABEL]
        if not isinstance(data, bytes) or not isinstance(label, int):
            raise ValueError("a Datum whose data or label is of another type")
        if shape is None:
            if not fields.get(_ENCODED):
                raise ValueError("a Datum that holds no encoded image")
            yield label, data
            continue
        if [fields[_HEIGHT], fields[_WIDTH], fields[_CHANNELS]] != list(shape):
            raise ValueError("a Datum of another shape")
        planes = np.frombuffer(data, np.uint8).reshape(shape[2], *shape[:2])
        yield label, np.ascontiguousarray(planes[::-1].transpose(1, 2, 0))


def record_size(image: int) -> int:
    """See `datasets.formats.Format`."""
    return lmdb.record_size(image + 32)


def _datum(label: int, image: Image) -> bytes:
    """A serialised Datum, fields in the order of their numbers."""
    if isinstance(image, bytes):
        return field(_DATA, image) + _number(_LABEL, label) + _number(_ENCODED, 1)
    height, width, channels = image.shape
    shape = ((_CHANNELS, channels), (_HEIGHT, height), (_WIDTH, width))
    head = b"".join(_number(number, size) for number, size in shape)
    planes = image[:, :, ::-1].transpose(2, 0, 1).tobytes()
    return head + field(_DATA, planes) + _number(_LABEL, label)


def _number(number: int, value: int) -> bytes:
    """An integer field (wire type 0)."""
    return varint(number << 3) + varint(value)


def _fields(message: bytes) -> dict[int, int | bytes]:
    """The fields of a message by number; raises ValueError or IndexError if it is damaged."""
    fields: dict[int, int | bytes] = {}
    position = 0
    while position < len(message):
        tag, position = read_varint(message, position)
        value, position = read_varint(message, position)
        if tag & 7 == 0:
            fields[tag >> 3] = value
        elif tag & 7 == 2:
            fields[tag >> 3] = message[position : position + value]
            position += value
        else:
            raise ValueError(f"unexpected wire type {tag & 7} in a Datum")
    return fields
