"""The manifest of a converted data set, computed by reading the written files back."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from datasets import formats
from datasets.catalogue import Dataset
from datasets.errors import DatasetError
from datasets.formats import Pixels


class Summary:
    """Histogram and fingerprint of a set of examples, whatever their order."""

    def __init__(self, classes: int) -> None:
        """`classes`: number of classes; labels lie in [0, classes)."""
        self.histogram = [0] * classes
        self._sum = 0

    @property
    def examples(self) -> int:
        """Number of examples so far."""
        return sum(self.histogram)

    @property
    def fingerprint(self) -> str:
        """64 hex digits: the sum, modulo 2^256, of the examples' SHA-256.

        The digest of an example covers label, height, width and channels as little-endian
        uint32, then the pixels; it is read as a big-endian number.
        """
        return f"{self._sum % 2**256:064x}"

    def add(self, label: int, pixels: Pixels) -> None:
        """Count one example; `pixels` is height x width x channels, uint8."""
        self.histogram[label] += 1
        digest = hashlib.sha256(struct.pack("<4I", label, *pixels.shape))
        digest.update(pixels.tobytes())
        self._sum += int.from_bytes(digest.digest(), "big")


def summarise(stem: Path, record_format: str, dataset: Dataset) -> Summary:
    """Read the records at `stem` back; raises DatasetError if they cannot be read."""
    summary = Summary(len(dataset.classes))
    try:
        for label, pixels in formats.load(record_format).read(stem, dataset.shape):
            summary.add(label, pixels)
    except formats.DAMAGED as error:
        raise DatasetError(
            stem, f"what was written cannot be read back ({error})", "check the disk and try again"
        ) from error
    return summary


def write(path: Path, dataset: Dataset, record_format: str, splits: dict[str, Any]) -> None:
    """Write the manifest; `splits`: name -> `split_entry`."""
    content = {
        "format": 1,
        "dataset": dataset.name,
        "record_format": record_format,
        "shape": dataset.shape,
        "classes": dataset.classes,
        "splits": splits,
    }
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def split_entry(summary: Summary, files: list[Path]) -> dict[str, Any]:
    """The manifest's entry of one split: its summary, and size and hash of its files."""
    entries = []
    for path in files:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        entries.append({"name": path.name, "bytes": path.stat().st_size, "sha256": digest})
    return {
        "examples": summary.examples,
        "histogram": summary.histogram,
        "fingerprint": summary.fingerprint,
        "files": entries,
    }
