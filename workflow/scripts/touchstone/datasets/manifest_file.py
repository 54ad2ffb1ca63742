"""The file `manifest.json` of a converted data set, and the files that it names.

A manifest has a digest of its own, so that a change of it is found too. Nothing here imports NumPy:
every run reads its manifest.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    BaseModel,
    NonNegativeInt,
    PositiveInt,
    StringConstraints,
    ValidationError,
    model_validator,
)

from touchstone.datasets.catalogue import Sha256
from touchstone.datasets.errors import DatasetError, repair, unreadable
from touchstone.reading import parse_json, text_of

NAME = "manifest.json"
MOST_BYTES = 64 << 20
"""Of a manifest."""
FileName = Annotated[str, StringConstraints(pattern=r"^\w[\w.+-]*(/\w[\w.+-]*)?$")]
"""A path below the folder of the manifest, and never one that leads out of it."""


class ManifestPart(BaseModel, extra="forbid", strict=True, frozen=True):
    """A part of a manifest."""


class File(ManifestPart, frozen=True):
    """A record file: its path below the manifest's folder, its size and its digest."""

    name: FileName
    bytes: NonNegativeInt
    sha256: Sha256


class Split(ManifestPart, frozen=True):
    """A split: number of examples, in all and by class, fingerprint and files."""

    examples: NonNegativeInt
    histogram: list[NonNegativeInt]
    fingerprint: Sha256
    files: list[File]


class Manifest(ManifestPart, frozen=True):
    """What `manifest.json` says; `digest` is the SHA-256 of all other keys, see `digest_of`."""

    format: Literal[1]
    dataset: str
    record_format: Annotated[str, StringConstraints(pattern=r"^[a-z]+$")]
    encoding: Literal["raw", "jpeg"]
    shape: list[PositiveInt]
    classes: list[str]
    shards: dict[str, PositiveInt]
    splits: dict[str, Split]
    digest: Sha256

    @model_validator(mode="after")
    def _every_split_has_shards(self) -> Manifest:
        if self.shards.keys() != self.splits.keys():
            raise ValueError("`shards` and `splits` have different splits")
        return self

    @property
    def files(self) -> list[File]:
        """The record files of all splits."""
        return [file for split in self.splits.values() for file in split.files]


class Damage(NamedTuple):
    """What is wrong with a file: its path and the cause."""

    path: Path
    cause: str

    @property
    def error(self) -> DatasetError:
        """The error that says so, with the remedy."""
        return DatasetError(self.path, self.cause, repair())


def digest_of(manifest: dict[str, Any]) -> str:
    """The SHA-256 of a manifest without its key `digest`: of its JSON with sorted keys, no blanks
    and ASCII only."""
    rest = {key: value for key, value in manifest.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read(path: Path) -> Manifest:
    """The manifest at `path`.

    Raises:
        DatasetError: it is missing, damaged, of another version, or cannot be read.
    """
    result = read_or_damage(path)
    if isinstance(result, Damage):
        raise result.error
    return result


def read_or_damage(path: Path) -> Manifest | Damage:
    """The manifest at `path`, or why there is none that counts."""
    try:
        value = parse_json(text_of(path, MOST_BYTES))
        manifest = Manifest.model_validate(value)
    except OSError as error:
        return Damage(path, unreadable(error))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        return Damage(path, f"not a manifest of this version ({place}: {first['msg']})")
    except ValueError as error:
        return Damage(path, f"not a manifest of this version ({error})")
    if digest_of(value) != manifest.digest:
        return Damage(path, "its digest is not that of its content: it was changed")
    return manifest


def sha256(path: Path) -> str:
    """The digest of a file, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_damage(folder: Path, file: File) -> Damage | None:
    """Why the file in `folder` is not the one of the manifest, or None; reads all of it."""
    path = folder / file.name
    try:
        size = path.stat().st_size
        if size != file.bytes:
            return Damage(path, f"{size} bytes, not {file.bytes}")
        if sha256(path) != file.sha256:
            return Damage(path, "its SHA-256 is not the manifest's")
    except OSError as error:
        return Damage(path, unreadable(error))
    return None
