"""The manifest of a converted data set, computed by reading the written files back."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from touchstone.datasets import formats
from touchstone.datasets.catalogue import Dataset, shard_names
from touchstone.datasets.formats import Image, content
from touchstone.datasets.manifest_file import Damage, Manifest, digest_of, file_damage, sha256


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
        uint32, then the pixels; it is read as a big-endian number. For a JPEG file, whose
        bytes are covered instead of pixels, height, width and channels count as 0.
        """
        return f"{self._sum % 2**256:064x}"

    def add(self, label: int, image: Image) -> None:
        """Count one example; raises IndexError for a label outside the classes."""
        self.histogram[label] += 1
        shape = (0, 0, 0) if isinstance(image, bytes) else image.shape
        digest = hashlib.sha256(struct.pack("<4I", label, *shape))
        digest.update(content(image))
        self._sum += int.from_bytes(digest.digest(), "big")


def summarise(stem: Path, record_format: str, shape: list[int] | None, classes: int) -> Summary:
    """Read the records at `stem` back; raises one of `formats.DAMAGED` or OSError."""
    summary = Summary(classes)
    for label, image in formats.load(record_format).read(stem, shape):
        summary.add(label, image)
    return summary


def entry(summary: Summary, files: list[Path], folder: Path) -> dict[str, Any]:
    """What a manifest says of a split or a shard: its summary, and its files below `folder`."""
    entries = [
        {
            "name": str(path.relative_to(folder)),
            "bytes": path.stat().st_size,
            "sha256": sha256(path),
        }
        for path in files
    ]
    return {
        "examples": summary.examples,
        "histogram": summary.histogram,
        "fingerprint": summary.fingerprint,
        "files": entries,
    }


def merged(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The entry of a split from those of its shards: fingerprints add up."""
    histograms = zip(*(entry["histogram"] for entry in entries), strict=True)
    total = sum(int(entry["fingerprint"], 16) for entry in entries)
    return {
        "examples": sum(entry["examples"] for entry in entries),
        "histogram": [sum(counts) for counts in histograms],
        "fingerprint": f"{total % 2**256:064x}",
        "files": [file for entry in entries for file in entry["files"]],
    }


def write(path: Path, dataset: Dataset, record_format: str, splits: dict[str, Any]) -> None:
    """Write the manifest; `splits`: name -> `entry`."""
    manifest: dict[str, Any] = {
        "format": 1,
        "dataset": dataset.name,
        "record_format": record_format,
        "encoding": "raw" if dataset.photos is None else "jpeg",
        "shape": dataset.shape,
        "classes": dataset.classes,
        "shards": {
            split: 1 if not formats.load(record_format).SHARDED else getattr(dataset.shards, split)
            for split in splits
        },
        "splits": splits,
    }
    manifest["digest"] = digest_of(manifest)
    path.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def faults(path: Path, manifest: Manifest) -> list[Damage]:
    """Everything that is not as the manifest read from `path` says; reads all files.

    A damage of the manifest itself is one of `path`.
    """
    damages = []
    for split, entry in manifest.splits.items():
        wrong = [damage for file in entry.files if (damage := file_damage(path.parent, file))]
        damages += wrong or _record_faults(path, manifest, split)
    return damages


def _record_faults(path: Path, manifest: Manifest, split: str) -> list[Damage]:
    """What is wrong with the records of a split whose files are the manifest's."""
    shape = manifest.shape if manifest.encoding == "raw" else None
    written = manifest.splits[split]
    try:
        summaries = [
            summarise(path.parent / name, manifest.record_format, shape, len(written.histogram))
            for name in shard_names(split, manifest.shards[split])
        ]
    except formats.DAMAGED as error:
        return [Damage(path.parent / split, f"it cannot be read ({error})")]
    facts = merged([entry(summary, [], path.parent) for summary in summaries])
    return [
        Damage(path, f"{split}: {key} is {facts[key]}, not {getattr(written, key)}")
        for key in ("examples", "histogram", "fingerprint")
        if facts[key] != getattr(written, key)
    ]
