"""Decode a data set and write it in a record format, checked at both ends."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from datasets import formats, manifest, verify
from datasets.catalogue import Dataset
from datasets.errors import DatasetError
from datasets.formats import Example


def convert(dataset: Dataset, source: Path, record_format: str, output: Path) -> None:
    """Convert the files in the folder `source` into `output`, manifest.json last.

    Everything is written into a folder beside `output` and renamed when it is whole, so that
    nothing half-written ever has its final name. Raises DatasetError and OSError.
    """
    for file in dataset.sources:
        verify.require(source / file.name, file)
    work = output.resolve().parent / f".{output.resolve().name}.part"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        splits = {}
        for split, count in dataset.splits:
            decoded = manifest.Summary(len(dataset.classes))
            examples = _checked(dataset, split, source, decoded)
            files = formats.load(record_format).write(work / split, examples)
            if decoded.examples != count:
                raise DatasetError(
                    source,
                    f"{decoded.examples} {split} examples, not {count}",
                    f"correct splits in the catalogue of {dataset.name}",
                )
            written = manifest.summarise(work / split, record_format, dataset)
            if written.fingerprint != decoded.fingerprint:
                raise DatasetError(
                    output / split,
                    "what was read back is not what was written",
                    "check the disk and try again",
                )
            splits[split] = manifest.split_entry(written, files)
        manifest.write(work / "manifest.json", dataset, record_format, splits)
        _publish(work, output)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _checked(
    dataset: Dataset, split: str, source: Path, summary: manifest.Summary
) -> Iterator[Example]:
    """Pass the decoded examples on, counted in `summary`; raises DatasetError for a bad one."""
    remedy = f"correct shape and classes in the catalogue of {dataset.name}"
    for index, (label, pixels) in enumerate(dataset.decoder.decode(dataset, split, source)):
        if list(pixels.shape) != dataset.shape:
            cause = f"{split} example {index} has the shape {list(pixels.shape)}"
            raise DatasetError(source, f"{cause}, not {dataset.shape}", remedy)
        if not 0 <= label < len(dataset.classes):
            cause = f"{split} example {index} has the label {label}"
            raise DatasetError(
                source, f"{cause}, outside the {len(dataset.classes)} classes", remedy
            )
        summary.add(label, pixels)
        yield label, pixels


def _publish(work: Path, output: Path) -> None:
    """Move the files of `work` into `output`: the old manifest goes first, the new comes last."""
    output.mkdir(exist_ok=True)
    (output / "manifest.json").unlink(missing_ok=True)
    for path in sorted(work.iterdir(), key=lambda path: (path.name == "manifest.json", path.name)):
        path.replace(output / path.name)
