"""TFRecord: `{stem}.tfrecord`, a sequence of `tf.train.Example` messages.

A record is the length (little-endian uint64), the masked CRC-32C of the length, the message,
the masked CRC-32C of the message (tensorflow/core/lib/io/record_writer.h). A message holds the
features `image` (bytes: uint8 pixels, height x width x channels) and `label` (int64), in this
order, encoded by the protocol buffer rules of tensorflow/core/example/feature.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import google_crc32c
import numpy as np

from datasets.formats import Example

_BYTES = 2  # the wire type of a length-delimited field


def write(stem: Path, examples: Iterable[Example]) -> list[Path]:
    """See `datasets.formats.Format`."""
    path = Path(f"{stem}.tfrecord")
    with path.open("wb") as file:
        for label, pixels in examples:
            message = _message(label, pixels.tobytes())
            length = struct.pack("<Q", len(message))
            file.write(length + _checksum(length) + message + _checksum(message))
    return [path]


def read(stem: Path, shape: list[int]) -> Iterator[Example]:
    """See `datasets.formats.Format`."""
    path = Path(f"{stem}.tfrecord")
    with path.open("rb") as file:
        while header := file.read(12):
            length, check = header[:8], header[8:]
            if check != _checksum(length):
                raise ValueError(f"{path}: wrong checksum of a length")
            message = file.read(int.from_bytes(length, "little"))
            if file.read(4) != _checksum(message):
                raise ValueError(f"{path}: wrong checksum of a message")
            label, pixels = _parse(message)
            yield label, np.frombuffer(pixels, np.uint8).reshape(shape)


def _checksum(data: bytes) -> bytes:
    """CRC-32C, rotated right by 15 bits, plus a constant (tensorflow/core/lib/hash/crc32c.h)."""
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _message(label: int, pixels: bytes) -> bytes:
    """A serialised Example: map entries of key (1) and value (2), features sorted by key."""
    image = _field(1, _field(1, pixels))  # Feature.bytes_list, BytesList.value
    index = _field(3, _field(1, _varint(label)))  # Feature.int64_list, packed Int64List.value
    entries = (
        _field(1, _field(1, key) + _field(2, feature))
        for key, feature in ((b"image", image), (b"label", index))
    )
    return _field(1, b"".join(entries))


def _parse(message: bytes) -> tuple[int, bytes]:
    """Label and pixels of a serialised Example of this module's form."""
    ((_, features),) = _fields(message)
    values = {}
    for _, entry in _fields(features):
        (_, key), (_, feature) = _fields(entry)
        ((_, items),) = _fields(feature)
        values[key] = items
    ((_, pixels),) = _fields(values[b"image"])
    ((_, index),) = _fields(values[b"label"])
    return _read_varint(index, 0)[0], pixels


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _fields(content: bytes) -> list[tuple[int, bytes]]:
    """Number and content of each field; raises ValueError if one is not length-delimited."""
    fields, position = [], 0
    while position < len(content):
        tag, position = _read_varint(content, position)
        if tag & 7 != _BYTES:
            raise ValueError(f"unexpected wire type {tag & 7} in an Example")
        length, position = _read_varint(content, position)
        fields.append((tag >> 3, content[position : position + length]))
        position += length
    return fields


def _varint(number: int) -> bytes:
    """Base 128, least significant digit first; the high bit says that more follow."""
    digits = []
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def _read_varint(content: bytes, position: int) -> tuple[int, int]:
    """The number at `position` and the position after it."""
    number = shift = 0
    while content[position] & 0x80:
        number |= (content[position] & 0x7F) << shift
        position, shift = position + 1, shift + 7
    return number | content[position] << shift, position + 1
