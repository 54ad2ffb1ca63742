"""What the catalogue says of a data set that only its images can tell."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from touchstone.datasets import manifest, photos
from touchstone.datasets.catalogue import Dataset
from touchstone.datasets.decoders.image_folder import scan
from touchstone.datasets.errors import DatasetError, DatasetErrors
from touchstone.datasets.formats import Example


def statistics(
    examples: Sequence[Example], shape: list[int], classes: int
) -> tuple[list[float], list[float], str]:
    """Mean and standard deviation per channel of pixel / 255, and the fingerprint.

    Photos are scaled until they cover `shape`, and cut to their middle. Raises DatasetErrors
    with every example that does not decode.
    """
    summary = manifest.Summary(classes)
    total, squares, count = np.zeros(shape[2]), np.zeros(shape[2]), 0
    faults = []
    for index in range(len(examples)):
        try:
            label, image = examples[index]
        except DatasetError as fault:
            faults.append(fault)
            continue
        summary.add(label, image)
        pixels = photos.as_pixels(image, shape) if isinstance(image, bytes) else image
        numbers = pixels.reshape(-1, shape[2]).astype(np.int64)
        total += numbers.sum(axis=0)
        squares += (numbers**2).sum(axis=0)
        count += len(numbers)
    if faults:
        raise DatasetErrors(faults)
    mean = total / max(1, count)
    std = np.sqrt(np.maximum(0, squares / max(1, count) - mean**2))
    return (mean / 255).tolist(), (std / 255).tolist(), summary.fingerprint


def common_shape(root: Path) -> list[int]:
    """Height, width, channels of the images of a folder; raises DatasetError if they differ."""
    sizes: dict[tuple[int, int], Path] = {}
    grey = True
    for path in (path for paths in scan(root).values() for path in paths):
        try:
            with Image.open(io.BytesIO(path.read_bytes())) as image:
                sizes.setdefault(image.size, path)
                grey = grey and image.mode in ("1", "L", "I;16")
        except OSError as error:
            cause = "it does not decode (not an image)"
            raise DatasetError(path, cause, "replace or remove the file") from error
    if len(sizes) > 1:
        (one, first), (other, second) = list(sizes.items())[:2]
        raise DatasetError(
            root,
            f"its images have several sizes: {first.name} {one[0]} x {one[1]}, {second.name} "
            f"{other[0]} x {other[1]} (width x height)",
            "say with --shape which size they are to be brought to",
        )
    ((width, height),) = sizes
    return [height, width, 1 if grey else 3]


def folder_entry(options: dict[str, Any], shape: list[int] | None, kept: Any) -> dict[str, Any]:
    """The catalogue's entry of an image folder, which reads every image of it.

    `options` are the decoder's, `kept` the catalogue's `photos` or None. Raises DatasetError.
    """
    from touchstone.datasets.decoders import place

    root = place(options["folder"])
    classes = list(scan(root))
    shape = shape or ([224, 224, 3] if kept is not None else common_shape(root))
    entry: dict[str, Any] = {
        "title": f"Images of {root.name}",
        "licence": "unknown; write it here",
        "citation": "unknown; write it here",
        "shape": shape,
        "classes": classes,
        "splits": {"train": 1, "test": 1},
        "mean": [0.5] * shape[2],
        "std": [0.5] * shape[2],
        "decoder": {"name": "image-folder", **options},
    }
    if kept is not None:
        entry["photos"] = kept
    draft = Dataset.model_validate({**entry, "name": "draft"})
    fingerprints = {}
    for split in ("train", "test"):
        examples = draft.decoder.examples(draft, split, root)
        if not len(examples):
            raise DatasetError(root, f"no {split} examples", "give more images or another share")
        mean, std, fingerprints[split] = statistics(examples, shape, len(classes))
        entry["splits"][split] = len(examples)
        if split == "train":
            if min(std) < 5e-5:
                raise DatasetError(root, "a channel has one value only", "give other images")
            entry["mean"] = [round(value, 4) for value in mean]
            entry["std"] = [round(value, 4) for value in std]
    return {**entry, "fingerprints": fingerprints}
