"""PNG files with a map file, for CNTK's ImageDeserializer.

The images are `{stem}/00000000.png`, ...; `{stem}.map` has a line for each: its path, a tab, its
label. The three dots at the beginning of a path stand for the folder of the map file (CNTK,
ImageDataDeserializer). Beside the training split lies `mean.xml`, the mean image as CNTK's mean
transform reads it through OpenCV: height x width x channels, blue, green, red.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from touchstone.datasets.formats import Example

SHARDED = False
PHOTOS = False


def write(stem: Path, examples: Iterable[Example]) -> list[Path]:
    """See `datasets.formats.Format`. zlib's level 1: most of the saving at little time."""
    shutil.rmtree(stem, ignore_errors=True)
    stem.mkdir()
    paths = [Path(f"{stem}.map")]
    total: np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None = None
    with paths[0].open("w", encoding="ascii") as lines:
        for index, (label, pixels) in enumerate(examples):
            if isinstance(pixels, bytes):
                raise ValueError("a photo cannot be a PNG record")
            path = stem / f"{index:08d}.png"
            plane = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
            Image.fromarray(plane).save(path, "PNG", compress_level=1)
            lines.write(f".../{stem.name}/{path.name}\t{label}\n")
            paths.append(path)
            total = pixels.astype(np.int64) if total is None else total + pixels
    if stem.name == "train" and total is not None:
        paths.append(stem.parent / "mean.xml")
        paths[-1].write_text(_mean_file(total / (len(paths) - 2)), encoding="ascii")
    return paths


def read(stem: Path, shape: list[int] | None) -> Iterator[Example]:
    """See `datasets.formats.Format`."""
    if shape is None:
        raise ValueError("PNG records hold no photos")
    with Path(f"{stem}.map").open(encoding="ascii") as lines:
        for line in lines:
            name, label = line.rstrip("\n").split("\t")
            path = stem.parent / name.removeprefix(".../")
            try:
                with Image.open(path, formats=["PNG"]) as image:
                    pixels = np.asarray(image)
            except (OSError, SyntaxError) as error:
                raise ValueError(f"{path}: {error}") from error
            if pixels.shape != (tuple(shape[:2]) if shape[2] == 1 else tuple(shape)):
                raise ValueError(f"{path}: pixels of shape {pixels.shape}")
            yield int(label), pixels.reshape(shape)


def record_size(image: int) -> int:
    """See `datasets.formats.Format`: a file takes whole blocks of the disk, and an inode."""
    return -(-(image + image // 64 + 128) // 4096) * 4096 + 512


def _mean_file(mean: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    """`mean` (height x width x channels, red, green, blue) as an OpenCV storage file."""
    height, width, channels = mean.shape
    values = mean[:, :, ::-1].reshape(height, -1)
    data = "\n".join(" ".join(f"{value:.6e}" for value in row) for row in values)
    return (
        '<?xml version="1.0"?>\n<opencv_storage>\n'
        f"<Channel>{channels}</Channel>\n<Row>{height}</Row>\n<Col>{width}</Col>\n"
        f'<MeanImg type_id="opencv-matrix">\n<rows>1</rows>\n<cols>{mean.size}</cols>\n'
        f"<dt>f</dt>\n<data>\n{data}\n</data>\n</MeanImg>\n</opencv_storage>\n"
    )
