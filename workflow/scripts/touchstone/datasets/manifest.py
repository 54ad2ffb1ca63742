"""The manifest of a converted data set, computed by reading the written files back."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from touchstone.datasets import formats
from touchstone.datasets.catalogue import Dataset, shard_names
from touchstone.datasets.errors import DatasetError
from touchstone.datasets.formats import Image, content


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
    manifest = {
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
    path.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def sha256(path: Path) -> str:
    """The digest of a file, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def faults(path: Path) -> list[DatasetError]:
    """Everything that is not as the manifest at `path` says, each file named; reads it all."""
    remedy = f"remove {path.parent} and run the study again"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        shape = manifest["shape"] if manifest["encoding"] == "raw" else None
        found = []
        for split, told in manifest["splits"].items():
            wrong = [
                DatasetError(path.parent / file["name"], cause, remedy)
                for file in told["files"]
                if (cause := _file_fault(path.parent / file["name"], file))
            ]
            found += wrong
            if not wrong:
                names = shard_names(split, manifest["shards"][split])
                found += _record_faults(path, names, shape, split, told, remedy)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        return [DatasetError(path, f"not a manifest of this version ({error!r})", remedy)]
    return found


def _file_fault(path: Path, told: dict[str, Any]) -> str | None:
    """Why the file is not the one of the manifest, or None."""
    if not path.is_file():
        return "the file is missing"
    if path.stat().st_size != told["bytes"]:
        return f"{path.stat().st_size} bytes, not {told['bytes']}"
    if sha256(path) != told["sha256"]:
        return "its SHA-256 is not the manifest's"
    return None


def _record_faults(
    path: Path, names: list[str], shape: list[int] | None, split: str, told: dict[str, Any],
    remedy: str,
) -> list[DatasetError]:  # fmt: skip
    """What is wrong with the records of a split whose files are the manifest's."""
    record_format = path.parent.name
    try:
        summaries = [
            summarise(path.parent / name, record_format, shape, len(told["histogram"]))
            for name in names
        ]
    except formats.DAMAGED as error:
        return [DatasetError(path.parent / split, f"it cannot be read ({error})", remedy)]
    found = merged([entry(summary, [], path.parent) for summary in summaries])
    return [
        DatasetError(path, f"{split}: {key} is {found[key]}, not {told[key]}", remedy)
        for key in ("examples", "histogram", "fingerprint")
        if found[key] != told[key]
    ]
