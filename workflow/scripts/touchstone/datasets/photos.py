"""Images as files: what each holds, and the rules that make 8-bit grey or RGB pixels of it.

The rules are those of docs/datasets.md, "What becomes of an image". They hold for pixels and for
photos, when a folder is described and when a data set is converted.
"""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.ExifTags import Base

from touchstone.datasets.formats import Pixels

REPAIR_QUALITY = 95
"""JPEG quality of a photo that must be encoded again, where the catalogue gives none."""

SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"BM", b"GIF8", b"II*\0", b"MM\0*", b"RIFF")
"""First bytes of JPEG, PNG, BMP, GIF, TIFF (both byte orders) and WebP files."""
MOST_BITS = 16
"""Of a channel of an image that is accepted."""
LONGEST_SIDE = 65500
"""Pixels of a JPEG file's side that libjpeg writes (its JPEG_MAX_DIMENSION)."""

_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP")
_GREY_16 = ("I;16", "I;16L", "I;16B", "I;16N")
_GREY = ("1", "L", "LA", "La", *_GREY_16)
_COLOUR = ("P", "PA", "RGB", "RGBX", "RGBA", "RGBa", "CMYK", "YCbCr")
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What turns an image upright, by its EXIF orientation (CIPA DC-008, tag 274)."""
_NO_FRAME = {0xC4, 0xC8, 0xCC}  # DHT, JPG, DAC: between the codes of the frame headers
_BROKEN = (
    *(OSError, SyntaxError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError),
    *(EOFError, MemoryError, NotImplementedError, struct.error, zlib.error),
    Image.DecompressionBombError,
)
"""What Pillow raises for a file that is no whole image."""
_WHOLE = "replace it by a whole copy, or move it out of the folder of the class"
_SAVE = "save it as grey or RGB with 8 or 16 unsigned bits a channel, scaled as you choose"


class UnfitImage(ValueError):
    """An image that is damaged, or that no rule makes pixels of: why, and what to do about it."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.remedy = remedy


class UnknownDepth(UnfitImage):
    """An image of more than 8 bits, and nothing says how many its values use."""


@dataclass(frozen=True)
class ImageFacts:
    """What an image's headers say."""

    format: str
    """Pillow's name of it, `JPEG` or `PNG` for example."""
    mode: str
    """Pillow's name of the kind of its pixels, `RGB` or `I;16` for example."""
    bits: int
    """Of a channel, in the file."""
    size: tuple[int, int]
    """Width and height when it is upright, in pixels."""
    orientation: int
    """EXIF's: 1 is upright."""
    transparent: bool
    """Whether it has an alpha channel or a transparent colour."""
    frames: int
    """Frames of an animation, or pages."""
    profile: bool
    """Whether it has a colour profile."""
    white_is_zero: bool
    """Whether the values of a TIFF file are inverted."""

    @property
    def grey(self) -> bool:
        """Whether it has no colour."""
        return self.mode in _GREY


@dataclass(frozen=True)
class OpenImage:
    """An image whose headers were read."""

    image: Image.Image
    facts: ImageFacts

    @property
    def largest_value(self) -> int | None:
        """Of a grey image of more than 8 bits; None of any other. Raises UnfitImage."""
        if self.facts.mode not in _GREY_16:
            return None
        return int(np.asarray(_loaded(self.image)).max())


def opened(content: bytes) -> OpenImage:
    """The image with its headers read; raises UnfitImage if they are damaged."""
    image = _opened(content)
    return OpenImage(image, _facts(image, content))


def require_rule(facts: ImageFacts, bits: int | None) -> None:
    """Raise UnfitImage if no rule makes pixels of such an image."""
    named = f"{facts.format} of mode {facts.mode} with {facts.bits} bits a channel"
    if facts.mode not in (*_GREY, *_COLOUR) or facts.bits > MOST_BITS:
        raise UnfitImage(f"a {named}, of which no rule makes 8-bit pixels", _SAVE)
    if facts.bits <= 8:
        return
    if facts.mode in _GREY_16:
        if facts.white_is_zero:
            raise UnfitImage(f"a {named} where 0 is white", _SAVE)
    elif facts.transparent and facts.mode not in ("RGBA", "RGBa"):
        raise UnfitImage(f"a {named} with a transparent colour", _SAVE)
    elif bits not in (None, MOST_BITS):
        raise UnfitImage(f"a {named}, of whose colours 16 bits count, not {bits}", _SAVE)
    if bits is None:
        raise UnknownDepth(
            f"a {named}, and nothing says how many bits its values use",
            f"give --bits ({MOST_BITS} for values up to 65,535; in the catalogue: `bits` of the "
            "decoder); the 8 highest are kept",
        )


def upright(opened_image: OpenImage, bits: int | None = None) -> Image.Image:
    """The image by the rules: 8 bits, grey (`L`) or RGB, turned upright, on white.

    `bits` is how many bits the values of an image of more than 8 use. Raises UnfitImage.
    """
    facts = opened_image.facts
    require_rule(facts, bits)
    image = _loaded(opened_image.image)
    left = _orientation(image)  # Pillow has turned a TIFF file by now
    if image.mode in _GREY_16:
        image = _eight_bits(image, bits or MOST_BITS)
    elif image.has_transparency_data:
        image = _on_white(image)
    image = image.convert("L" if facts.grey else "RGB")
    return image.transpose(_TURNS[left]) if left in _TURNS else image


def as_jpeg(
    content: bytes, short_side: int | None, quality: int | None, bits: int | None = None
) -> bytes:
    """The photo as a JPEG file with grey or RGB pixels that every framework decodes.

    Without `short_side` a good, upright file is passed on byte for byte; other files are decoded
    by the rules and encoded again. With it, every photo is scaled so that its shorter side has
    that many pixels. A good file is known by its headers and its end marker, since decoding
    each would cost ten times as much as the conversion; one that looks odd is decoded. Raises
    UnfitImage.
    """
    if short_side is None and kept_as_it_is(content):
        return content
    opened_image = opened(content)
    image = upright(opened_image, bits)
    if short_side is None and is_plain_jpeg(opened_image.facts):
        return content
    if short_side is not None:
        scale = short_side / min(image.size)
        width, height = (max(short_side, round(side * scale)) for side in image.size)
        _require_encodable(width, height)
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    _require_encodable(*image.size)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality or REPAIR_QUALITY)
    return file.getvalue()


def _require_encodable(width: int, height: int) -> None:
    if max(width, height) > LONGEST_SIDE:
        cause = f"{width} x {height} pixels, and a JPEG file has at most {LONGEST_SIDE} a side"
        raise UnfitImage(cause, "cut it, or give a smaller --short-side")


def as_pixels(content: bytes, shape: list[int], bits: int | None = None) -> Pixels:
    """The image as uint8 pixels of `shape` (height, width, channels), by the rules.

    One of another size is scaled bilinearly until it covers the shape, and cut to its middle.
    Raises UnfitImage.
    """
    height, width, channels = shape
    image = upright(opened(content), bits).convert("L" if channels == 1 else "RGB")
    if image.size != (width, height):
        image = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(shape)


def resized(pixels: Pixels, side: int) -> Pixels:
    """Bilinearly to `side` x `side`; pixels are height x width x channels, uint8."""
    channels = pixels.shape[2]
    image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    image = image.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(side, side, channels)


def _opened(content: bytes) -> Image.Image:
    """The image with its headers read; raises UnfitImage."""
    try:
        return Image.open(io.BytesIO(content), formats=_FORMATS)
    except Image.DecompressionBombError as error:
        raise UnfitImage(f"too many pixels ({error})", "scale it down, or cut it") from error
    except UnidentifiedImageError as error:
        has_signature = content.startswith(SIGNATURES)
        cause = "damaged, or a kind that Pillow does not know" if has_signature else "not an image"
        raise UnfitImage(f"it does not decode ({cause})", _WHOLE) from error
    except _BROKEN as error:
        raise UnfitImage(f"it does not decode ({error})", _WHOLE) from error


def _loaded(image: Image.Image) -> Image.Image:
    """The image with its pixels read; raises UnfitImage."""
    try:
        image.load()
    except _BROKEN as error:
        raise UnfitImage(f"it does not decode ({error})", _WHOLE) from error
    return image


def _facts(image: Image.Image, content: bytes) -> ImageFacts:
    """Raises UnfitImage."""
    try:
        orientation = _orientation(image)
        lies = (
            orientation >= 5 and image.format != "TIFF"
        )  # Pillow gives a TIFF file's size upright
        return ImageFacts(
            format=str(image.format),
            mode=image.mode,
            bits=_bits(image, content),
            size=image.size[::-1] if lies else image.size,
            orientation=orientation,
            transparent=image.has_transparency_data,
            frames=getattr(image, "n_frames", 1),
            profile=bool(image.info.get("icc_profile")),
            white_is_zero=_tiff_tag(image, Base.PhotometricInterpretation, 1) == 0,
        )
    except _BROKEN as error:
        raise UnfitImage(f"it does not decode ({error})", _WHOLE) from error


def _tiff_tag(image: Image.Image, tag: int, default: int) -> int:
    """The largest value of a tag of a TIFF file; the default of any other file."""
    value = getattr(image, "tag_v2", {}).get(tag, default) if image.format == "TIFF" else default
    return max(value) if isinstance(value, tuple) else int(value)


def _bits(image: Image.Image, content: bytes) -> int:
    """Bits of a channel in the file, of which Pillow's mode does not tell for colours."""
    if image.format == "PNG":
        return content[24]  # in IHDR, which comes first (PNG specification, 11.2.1)
    if image.format == "TIFF":
        return _tiff_tag(image, Base.BitsPerSample, 1)
    return 1 if image.mode == "1" else 8


def _orientation(image: Image.Image) -> int:
    """EXIF's or XMP's; 1 where it is missing or damaged."""
    try:
        orientation = image.getexif().get(Base.Orientation, 1)
    except _BROKEN:
        return 1
    return orientation if orientation in _TURNS else 1


def _eight_bits(image: Image.Image, bits: int) -> Image.Image:
    """The 8 highest of the `bits` bits of a grey image; raises UnfitImage for larger values."""
    values = np.array(image, np.uint16)
    clear = image.info.get("transparency")
    if values.max() >= 1 << bits:
        needed = int(values.max()).bit_length()
        cause = f"mode {image.mode} with the value {values.max()}, which needs {needed} bits"
        raise UnfitImage(cause, f"give --bits {needed} or more (in the catalogue: `bits`)")
    if isinstance(clear, int):
        values[values == clear] = (1 << bits) - 1
    return Image.fromarray((values >> (bits - 8)).astype(np.uint8))


def _on_white(image: Image.Image) -> Image.Image:
    white = Image.new("RGBA", image.size, "white")
    white.alpha_composite(image.convert("RGBA"))
    return white.convert("RGB")


def is_plain_jpeg(facts: ImageFacts) -> bool:
    """Whether a photo is kept byte for byte: an upright JPEG file, grey or RGB."""
    plain = facts.mode in ("L", "RGB") and facts.orientation == 1
    return facts.format in ("JPEG", "MPO") and plain


def kept_as_it_is(content: bytes) -> bool:
    """Whether a file's headers say: a whole, upright JPEG file with 1 or 3 components."""
    components, described = _headers(content)
    return components in (1, 3) and not (described and opened(content).facts.orientation != 1)


def _headers(content: bytes) -> tuple[int, bool]:
    """Colour components of a whole JPEG file, or 0 if it looks odd; whether it has EXIF or XMP.

    ITU-T T.81, annex B.
    """
    if content[:3] != b"\xff\xd8\xff" or content[-2:] != b"\xff\xd9":
        return 0, False
    position, components, described = 2, 0, False
    while position + 4 <= len(content) and content[position] == 0xFF:
        marker = content[position + 1]
        if marker == 0xFF:  # a fill byte
            position += 1
            continue
        if marker == 0xDA:  # start of scan: the headers are over
            return components, described
        length = int.from_bytes(content[position + 2 : position + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            frame = content[position + 4 : position + 10]
            if len(frame) < 6 or frame[0] != 8 or b"\0\0" in (frame[1:3], frame[3:5]):
                return 0, False
            components = frame[5]
        described = described or marker == 0xE1  # APP1
        position += 2 + max(2, length)
    return 0, False
