"""What a decoder knows of its data set."""

from __future__ import annotations

from typing import Annotated, Protocol

from pydantic import BaseModel, Field, PositiveInt


class Splits(BaseModel, extra="forbid", frozen=True, strict=True):
    """Number of examples of each split."""

    train: PositiveInt
    test: PositiveInt


class Photos(BaseModel, extra="forbid", frozen=True, strict=True):
    """How photos are kept, which are stored as JPEG files and not as pixels.

    Without `short_side` the original files are; else every photo is scaled once, so that its
    shorter side has that many pixels, and encoded with `quality`, which also holds for a photo
    that must be repaired.
    """

    short_side: PositiveInt | None = None
    quality: Annotated[int, Field(ge=1, le=100)] | None = None


class DatasetFacts(Protocol):
    """The part of a data set's entry in the catalogue that decoders use."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> list[int]:
        """Height, width, channels."""

    @property
    def classes(self) -> list[str]: ...
    @property
    def splits(self) -> Splits: ...
    @property
    def photos(self) -> Photos | None: ...
