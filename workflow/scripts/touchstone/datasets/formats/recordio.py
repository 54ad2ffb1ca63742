"""RecordIO: `{stem}.rec` and its index `{stem}.idx`, read by MXNet's ImageRecordIter.

A part of a record is the magic number, the flag (3 bits) with the length (29 bits), and the
payload padded with zeros to 4 bytes, all little-endian (dmlc-core, include/dmlc/recordio.h).
Flag 0 marks a whole record. Where the payload has the magic number at a multiple of 4 bytes,
the record is split there and the magic number left out: flag 1 marks the first part, 2 a
middle one, 3 the last.

A payload is the image header (flag 0 as uint32, label as float32, index and a zero as uint64;
MXNet, python/mxnet/recordio.py) and an image file: a photo's JPEG, or else pixels as BMP, which
every decoder restores exactly and fast: bottom row first, rows padded to 4 bytes, 8-bit indices
of a grey palette for one channel, 24-bit blue, green, red for three. A line of the index: number,
tab, offset in bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from touchstone.datasets.formats import Example, Image, Pixels

SHARDED = True
PHOTOS = True

_BUFFER = 1 << 20
_BATCH = 4 << 20  # bytes of pixels that are written at once
_MAGIC = struct.pack("<I", 0xCED7230A)
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_IMAGE_HEADER = struct.Struct("<IfQQ")
# BITMAPFILEHEADER (14 bytes) and BITMAPINFOHEADER (40 bytes).
_BMP_HEADER = struct.Struct("<2sIHHI" + "IiiHHIIiiII")
_GREY_PALETTE = bytes(byte for grey in range(256) for byte in (grey, grey, grey, 0))


def write(stem: Path, examples: Iterable[Example]) -> list[Path]:
    """See `datasets.formats.Format`."""
    paths = [Path(f"{stem}.rec"), Path(f"{stem}.idx")]
    remaining = iter(examples)
    number = offset = 0
    with (
        paths[0].open("wb", buffering=_BUFFER) as file,
        paths[1].open("w", encoding="ascii") as index,
    ):
        for first in remaining:
            size = 0 if isinstance(first[1], bytes) else max(1, _BATCH // first[1].nbytes)
            for record in _records(number, [first, *islice(remaining, max(0, size - 1))]):
                file.write(record)
                index.write(f"{number}\t{offset}\n")
                number, offset = number + 1, offset + len(record)
    return paths


def read(stem: Path, shape: list[int] | None) -> Iterator[Example]:
    """See `datasets.formats.Format`. The index is checked against the records."""
    path = Path(f"{stem}.rec")
    with path.open("rb") as records, Path(f"{stem}.idx").open(encoding="ascii") as index:
        for number, line in enumerate(index):
            if line != f"{number}\t{records.tell()}\n":
                raise ValueError(f"{path}: record {number} is not where the index says")
            payload = _read_record(records, path)
            _, label, identity, _ = _IMAGE_HEADER.unpack_from(payload)
            image: Image = payload[_IMAGE_HEADER.size :]
            if shape is not None:
                image = decode_bmp(payload[_IMAGE_HEADER.size :])
                if list(image.shape) != list(shape):
                    raise ValueError(f"{path}: record {identity} of shape {image.shape}")
            if identity != number:
                raise ValueError(f"{path}: record {identity} at the place of {number}")
            yield int(label), image
        if records.read(1):
            raise ValueError(f"{path}: records that are not in the index")


def record_size(image: int) -> int:
    """See `datasets.formats.Format`: frame, headers, palette; rows padded by up to 3 bytes.

    A line of the index is counted too.
    """
    return image + image // 16 + 1200


def _records(first: int, batch: list[Example]) -> Iterator[bytes | memoryview]:
    """The records of `batch`, numbered from `first`; pixels are laid out all at once."""
    pixels = [image for _, image in batch if not isinstance(image, bytes)]
    labels = [label for label, _ in batch]
    laid_out = _lay_out(first, labels, np.stack(pixels)) if pixels else None
    if laid_out is not None:
        for row in laid_out:
            yield row.data
        return
    for number, (label, image) in enumerate(batch, first):
        file = image if isinstance(image, bytes) else encode_bmp(image)
        yield _record(_IMAGE_HEADER.pack(0, label, number, 0) + file)


def _lay_out(first: int, labels: list[int], images: Pixels) -> Pixels | None:
    """Whole records of `images` (N x H x W x C), one a row, or None if one must be split."""
    count, height, width, channels = images.shape
    head = _bmp_head(height, width, channels)
    row = width * channels + -width * channels % 4
    length = _IMAGE_HEADER.size + len(head) + height * row
    begin = 8 + _IMAGE_HEADER.size
    records = np.zeros((count, 8 + length + -length % 4), np.uint8)
    template = _MAGIC + struct.pack("<I", length) + bytes(_IMAGE_HEADER.size) + head
    records[:, : len(template)] = np.frombuffer(template, np.uint8)
    records[:, 12:16] = np.array(labels, "<f4")[:, None].view(np.uint8)
    records[:, 16:24] = np.arange(first, first + count, dtype="<u8")[:, None].view(np.uint8)
    rows = records[:, begin + len(head) : 8 + length].reshape(count, height, row)
    stored = rows[:, :, : width * channels].reshape(count, height, width, channels)
    for channel in range(channels):
        stored[..., channel] = images[:, ::-1, :, channels - 1 - channel]
    words = records.view("<u4")[:, 2:]
    return None if (words == int.from_bytes(_MAGIC, "little")).any() else records


def _record(payload: bytes) -> bytes:
    """The record of `payload`, in one part or more."""
    cuts = []
    position = payload.find(_MAGIC)
    while position >= 0:
        aligned = position % 4 == 0
        if aligned:
            cuts.append(position)
        position = payload.find(_MAGIC, position + (4 if aligned else 1))
    begins, ends = [0, *(cut + 4 for cut in cuts)], [*cuts, len(payload)]
    flags = [_FIRST, *[_MIDDLE] * (len(cuts) - 1), _LAST] if cuts else [_WHOLE]
    return b"".join(
        _MAGIC
        + struct.pack("<I", flag << 29 | end - begin)
        + payload[begin:end]
        + bytes((begin - end) % 4)
        for flag, begin, end in zip(flags, begins, ends, strict=True)
    )


def _read_record(records: BinaryIO, path: Path) -> bytes:
    """The payload of the next record, its parts joined by the magic number."""
    parts = []
    flag = _FIRST
    while flag in (_FIRST, _MIDDLE):
        header = records.read(8)
        if len(header) != 8 or header[:4] != _MAGIC:
            raise ValueError(f"{path}: no record at byte {records.tell() - len(header)}")
        flag, length = divmod(int.from_bytes(header[4:], "little"), 1 << 29)
        part = records.read(length + -length % 4)
        parts.append(part[:length])
    return _MAGIC.join(parts)


def encode_bmp(pixels: Pixels) -> bytes:
    """BMP file of an image, height x width x 1 (grey) or 3 (red, green, blue)."""
    height, width, channels = pixels.shape
    row = width * channels + -width * channels % 4
    rows = np.zeros((height, row), np.uint8)
    rows[:, : width * channels] = pixels[::-1, :, ::-1].reshape(height, -1)
    return _bmp_head(height, width, channels) + rows.tobytes()


def _bmp_head(height: int, width: int, channels: int) -> bytes:
    """What stands before the rows of a BMP file: headers and, for one channel, the palette."""
    size = height * (width * channels + -width * channels % 4)
    palette = _GREY_PALETTE if channels == 1 else b""
    offset = _BMP_HEADER.size + len(palette)
    header = _BMP_HEADER.pack(
        *(b"BM", offset + size, 0, 0, offset),
        *(40, width, height, 1, 8 * channels, 0, size, 0, 0, len(palette) // 4, 0),
    )
    return header + palette


def decode_bmp(content: bytes) -> Pixels:
    """The image of a BMP file that `encode_bmp` wrote; raises ValueError for any other."""
    fields = _BMP_HEADER.unpack_from(content)
    offset, width, height, channels = fields[4], fields[6], fields[7], fields[9] // 8
    row = width * channels + -width * channels % 4
    rows = np.frombuffer(content, np.uint8, offset=offset).reshape(height, row)
    pixels = rows[::-1, : width * channels].reshape(height, width, channels)[:, :, ::-1]
    return np.ascontiguousarray(pixels)
