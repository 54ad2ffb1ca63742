"""TFRecord: `{stem}.tfrecord`, a sequence of `tf.train.Example` messages.

A record is the length (little-endian uint64), the masked CRC-32C of the length, the message,
the masked CRC-32C of the message (tensorflow/core/lib/io/record_writer.h). A message holds the
features `image` (bytes: uint8 pixels, height x width x channels, or a JPEG file) and `label`
(int64), in this order, encoded by the protocol buffer rules of
tensorflow/core/example/feature.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import google_crc32c

from touchstone.datasets.formats import Example, content, restore

SHARDED = True
PHOTOS = True

_BYTES = 2  # the wire type of a length-delimited field
_BUFFER = 1 << 20


def write(stem: Path, examples: Iterable[Example]) -> list[Path]:
    """See `datasets.formats.Format`."""
    path = Path(f"{stem}.tfrecord")
    with path.open("wb", buffering=_BUFFER) as file:
        for label, image in examples:
            stored = content(image)
            head, before, begun, after = _around(label, len(stored))
            crc = google_crc32c.extend(google_crc32c.extend(begun, stored), after)
            file.write(b"".join((head, before, stored, after, _masked(crc))))
    return [path]


def read(stem: Path, shape: list[int] | None) -> Iterator[Example]:
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
            label, stored = _parse(message)
            yield label, restore(stored, shape)


def record_size(image: int) -> int:
    """See `datasets.formats.Format`."""
    return image + 96


def _checksum(data: bytes) -> bytes:
    return _masked(google_crc32c.value(data))


def _masked(crc: int) -> bytes:
    """CRC-32C, rotated right by 15 bits, plus a constant (tensorflow/core/lib/hash/crc32c.h)."""
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@lru_cache(4096)
def _around(label: int, size: int) -> tuple[bytes, bytes, int, bytes]:
    """All of a record that does not depend on the image's bytes.

    That is: length and its checksum, the message before the image, the CRC-32C of that, the
    message after the image. The message is a serialised Example: map entries of key (1) and
    value (2), features sorted by key.
    """
    value = _head(1, size)  # BytesList.value
    feature = _head(1, len(value) + size) + value  # Feature.bytes_list
    entry = field(1, b"image") + _head(2, len(feature) + size) + feature
    before = _head(1, len(entry) + size) + entry
    index = field(3, field(1, varint(label)))  # Feature.int64_list, packed Int64List.value
    after = field(1, field(1, b"label") + field(2, index))
    before = _head(1, len(before) + size + len(after)) + before
    length = struct.pack("<Q", len(before) + size + len(after))
    return length + _checksum(length), before, google_crc32c.value(before), after


def _parse(message: bytes) -> tuple[int, bytes]:
    """Label and image of a serialised Example of this module's form."""
    ((_, features),) = _fields(message)
    values = {}
    for _, entry in _fields(features):
        (_, key), (_, feature) = _fields(entry)
        ((_, items),) = _fields(feature)
        values[key] = items
    ((_, stored),) = _fields(values[b"image"])
    ((_, index),) = _fields(values[b"label"])
    return read_varint(index, 0)[0], stored


def field(number: int, data: bytes) -> bytes:
    """A length-delimited field of a protocol buffer message."""
    return _head(number, len(data)) + data


def _head(number: int, length: int) -> bytes:
    """What stands before the bytes of a length-delimited field."""
    return varint(number << 3 | _BYTES) + varint(length)


def _fields(message: bytes) -> list[tuple[int, bytes]]:
    """Number and content of each field; raises ValueError if one is not length-delimited."""
    fields, position = [], 0
    while position < len(message):
        tag, position = read_varint(message, position)
        if tag & 7 != _BYTES:
            raise ValueError(f"unexpected wire type {tag & 7} in an Example")
        length, position = read_varint(message, position)
        fields.append((tag >> 3, message[position : position + length]))
        position += length
    return fields


def varint(number: int) -> bytes:
    """Base 128, least significant digit first; the high bit says that more follow."""
    digits = []
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at `position` and the position after it."""
    number = shift = 0
    while data[position] & 0x80:
        number |= (data[position] & 0x7F) << shift
        position, shift = position + 1, shift + 7
    return number | data[position] << shift, position + 1
