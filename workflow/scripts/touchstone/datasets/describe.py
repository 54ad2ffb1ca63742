"""What the catalogue says of a data set that only its images can tell."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from touchstone.datasets import data_report, manifest, photos
from touchstone.datasets.catalogue import Dataset
from touchstone.datasets.data_report import DataReport, Seen
from touchstone.datasets.decoders.image_folder import ImageFolder, class_fault, listing
from touchstone.datasets.errors import DatasetError, DatasetErrors, unreadable
from touchstone.datasets.facts import Photos
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


@dataclass(frozen=True)
class Inspection:
    """What the images of a folder are, and all that is wrong with them."""

    decoder: ImageFolder
    classes: list[str]
    seen: list[Seen]
    faults: list[DatasetError]
    report: DataReport


Listing = tuple[dict[str, list[Path]], list[DatasetError]]


def inspect(decoder: ImageFolder, kept: Photos | None) -> Inspection:
    """Read and decode every image of the decoder's folders; `kept` is the catalogue's `photos`."""
    roots = decoder.roots
    listings = dict(zip(("train", "test"), map(listing, roots), strict=False))
    classes = [list(files) for files, _ in listings.values()]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # decoding needs no interpreter
        files = _files(decoder, listings)
        seen = list(pool.map(lambda image: _looked_at(image, decoder.bits, kept), files))
    faults = [fault for _, problems in listings.values() for fault in problems]
    if not faults and (fault := class_fault(roots[-1], classes[-1], classes[0])):
        faults.append(fault)
    filled = {(image.split, image.label) for image in seen}
    empty = {
        split: [name for name in classes[0] if (split, name) not in filled]
        for split in ("train", "test")
    }
    faults += [image.fault for image in seen if image.fault and not image.wants_bits]
    faults += _unknown_depth(roots[0], [image for image in seen if image.wants_bits])
    report = data_report.report(seen, decoder.bits, empty)
    return Inspection(decoder, classes[0], seen, faults, report)


def _files(decoder: ImageFolder, listings: dict[str, Listing]) -> Iterator[Seen]:
    """Every image, not yet read."""
    common = Path(os.path.commonpath([root.absolute() for root in decoder.roots]))
    for split, (files, _) in listings.items():
        drawn = decoder.chosen(files, "test") if len(listings) == 1 else []
        tested = {path for _, path in drawn}
        for label, paths in files.items():
            for path in paths:
                name = str(path.absolute().relative_to(common))
                yield Seen(path, name, label, "test" if path in tested else split)


def _looked_at(seen: Seen, bits: int | None, kept: Photos | None) -> Seen:
    """The image, read and decoded."""
    try:
        content = seen.path.read_bytes()
        opened = photos.opened(content)
        seen = replace(seen, facts=opened.facts)
        seen = replace(seen, largest=opened.largest_value)
        image = photos.upright(opened, bits)
    except photos.UnfitImage as error:
        fault = DatasetError(seen.path, str(error), error.remedy)
        return replace(seen, fault=fault, wants_bits=isinstance(error, photos.UnknownDepth))
    except OSError as error:
        remedy = "check that you may read it"
        return replace(seen, fault=DatasetError(seen.path, unreadable(error), remedy))
    shape = f"{image.size}".encode()
    digest = hashlib.sha256(shape + image.convert("RGB").tobytes()).digest()
    whole = photos.is_plain_jpeg(opened.facts)
    again = kept is not None and kept.short_side is None and not whole
    return replace(seen, digest=digest, encoded_again=again)


def _unknown_depth(root: Path, seen: Sequence[Seen]) -> list[DatasetError]:
    """One fault for all images of more than 8 bits, if nothing says how many their values use."""
    facts = [image.facts for image in seen if image.facts is not None]
    if not facts:
        return []
    first, largest = facts[0], [image.largest for image in seen]
    values = [value for value in largest if value is not None]
    least = max(9, max(values).bit_length()) if len(values) == len(seen) else photos.MOST_BITS
    top = f"; their largest value is {max(values):,}" if values else ""
    cause = (
        "it has images with more than 8 bits a channel, and nothing says how many of them their "
        f"values use: {len(seen)}, such as {seen[0].name} ({first.format} of mode {first.mode}, "
        f"{first.bits} bits){top}"
    )
    more = (
        f", or up to {photos.MOST_BITS} if they can be larger" if least < photos.MOST_BITS else ""
    )
    remedy = f"give --bits {least}{more}; the 8 highest of these bits are kept"
    return [DatasetError(root, cause, remedy)]


def _common_shape(root: Path, seen: Sequence[Seen]) -> tuple[list[int], list[DatasetError]]:
    """Height, width and channels of all images, and a fault if they differ in size."""
    decoded = [(image, image.facts) for image in seen if image.facts is not None]
    sizes = Counter(facts.size for _, facts in decoded).most_common()
    faults = []
    if len(sizes) > 1:
        first = {facts.size: image.name for image, facts in reversed(decoded)}
        (size, _), (other, _) = sizes[:2]
        cause = (
            f"its images have {len(sizes)} sizes: {first[size]} {size[0]} x {size[1]}, "
            f"{first[other]} {other[0]} x {other[1]} (width x height)"
        )
        remedy = "say with --shape which size they are to be brought to"
        faults.append(DatasetError(root, cause, remedy))
    width, height = sizes[0][0] if sizes else (1, 1)
    return [height, width, 1 if all(facts.grey for _, facts in decoded) else 3], faults


def folder_entry(
    inspection: Inspection, shape: list[int] | None, kept: dict[str, Any] | None
) -> dict[str, Any]:
    """The catalogue's entry of an image folder.

    `shape` is that of a network's input, or None for that of the images; `kept` the catalogue's
    `photos`, or None. Raises DatasetErrors with all that is wrong with the folder.
    """
    root, faults = inspection.decoder.roots[0], list(inspection.faults)
    if shape is None and kept is not None:
        shape = [224, 224, 3]
    elif shape is None:
        shape, more = _common_shape(root, inspection.seen)
        faults += more
    if faults:
        raise DatasetErrors(faults)
    entry: dict[str, Any] = {
        "title": f"Images of {root.name}",
        "licence": "unknown; write it here",
        "citation": "unknown; write it here",
        "shape": shape,
        "classes": inspection.classes,
        "splits": {"train": 1, "test": 1},
        "mean": [0.5] * shape[2],
        "std": [0.5] * shape[2],
        "decoder": inspection.decoder.model_dump(exclude_none=True),
    }
    if kept is not None:
        entry["photos"] = kept
    draft = Dataset.model_validate({**entry, "name": "draft"})
    fingerprints = {}
    for split in ("train", "test"):
        examples = draft.decoder.examples(draft, split, root)
        if not len(examples):
            raise DatasetError(root, f"no {split} examples", "give more images or another share")
        mean, std, fingerprints[split] = statistics(examples, shape, len(inspection.classes))
        entry["splits"][split] = len(examples)
        if split == "train":
            if min(std) < 5e-5:
                raise DatasetError(root, "a channel has one value only", "give other images")
            entry["mean"] = [round(value, 4) for value in mean]
            entry["std"] = [round(value, 4) for value in std]
    return {**entry, "fingerprints": fingerprints}
