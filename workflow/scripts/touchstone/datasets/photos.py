"""Images as files: what decodes, what must be repaired, and resizing, by Pillow."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from touchstone.datasets.formats import Pixels

REPAIR_QUALITY = 95
"""JPEG quality of a photo that must be encoded again, where the catalogue gives none."""

SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"BM", b"GIF8", b"II*\0", b"MM\0*", b"RIFF")
"""First bytes of JPEG, PNG, BMP, GIF, TIFF (both byte orders) and WebP files."""

_NO_FRAME = {0xC4, 0xC8, 0xCC}  # DHT, JPG, DAC: between the codes of the frame headers


def as_jpeg(content: bytes, short_side: int | None, quality: int | None) -> bytes:
    """The photo as a JPEG file with grey or RGB pixels that every framework decodes.

    Without `short_side` a good file is passed on byte for byte, and only CMYK images and files
    of another kind are encoded again. With it, every photo is scaled so that its shorter side has
    that many pixels. A good file is known by its headers and its end marker, since decoding
    each would cost ten times as much as the conversion; one that looks odd is decoded. Raises
    ValueError with the cause if it does not decode.
    """
    components = _components(content)
    if components in (1, 3) and short_side is None:
        return content
    image = _decode(content)
    if image.format == "JPEG" and image.mode in ("L", "RGB") and short_side is None:
        return content
    if image.mode != "L":
        image = image.convert("RGB")
    if short_side is not None:
        scale = short_side / min(image.size)
        width, height = (max(short_side, round(side * scale)) for side in image.size)
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality or REPAIR_QUALITY)
    return file.getvalue()


def as_pixels(content: bytes, shape: list[int]) -> Pixels:
    """The image as uint8 pixels of `shape` (height, width, channels).

    One of another size is scaled bilinearly until it covers the shape, and cut to its middle.
    Raises ValueError with the cause if it does not decode.
    """
    height, width, channels = shape
    image = _decode(content).convert("L" if channels == 1 else "RGB")
    if image.size != (width, height):
        image = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(shape)


def resized(pixels: Pixels, side: int) -> Pixels:
    """Bilinearly to `side` x `side`; pixels are height x width x channels, uint8."""
    channels = pixels.shape[2]
    image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    image = image.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(side, side, channels)


def _decode(content: bytes) -> Image.Image:
    """The decoded image; raises ValueError."""
    try:
        image = Image.open(io.BytesIO(content))
        image.load()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        cause = "not an image" if isinstance(error, UnidentifiedImageError) else str(error)
        raise ValueError(f"it does not decode ({cause})") from error
    return image


def _components(content: bytes) -> int:
    """Colour components of a whole JPEG file, or 0 if it looks odd (ITU-T T.81, annex B)."""
    if content[:3] != b"\xff\xd8\xff" or content[-2:] != b"\xff\xd9":
        return 0
    position, components = 2, 0
    while position + 4 <= len(content) and content[position] == 0xFF:
        marker = content[position + 1]
        if marker == 0xFF:  # a fill byte
            position += 1
            continue
        if marker == 0xDA:  # start of scan: the headers are over
            return components
        length = int.from_bytes(content[position + 2 : position + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            frame = content[position + 4 : position + 10]
            if len(frame) < 6 or frame[0] != 8 or b"\0\0" in (frame[1:3], frame[3:5]):
                return 0
            components = frame[5]
        position += 2 + max(2, length)
    return 0
