"""The largest batches that were searched for, as tables and the report use them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from touchstone.results.files import REMAKE, InputError, not_of_this_version, read_object
from touchstone.schema.status import STATUSES

METRIC, UNIT = "max_batch_size", "images"


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Metric(_Model):
    value: int | None
    reason: str | None


class _Limit(_Model):
    host_memory_mib: float
    origin: str = Field(alias="from")


class _Search(_Model):
    """What `max-batch` writes."""

    settings: dict[str, str]
    max_batch_size: _Metric
    status: str
    limit: _Limit
    probes: list[dict[str, Any]]


class MaxBatch(NamedTuple):
    """What a search found: the largest batch size (None: no number, the reason says why)."""

    settings: dict[str, str]
    """What the cells that it holds for share, as plan.tsv spells it."""
    value: int | None
    status: str
    reason: str | None
    limit: str
    """Under which limit of host memory it was searched."""
    probes: list[dict[str, Any]]

    def holds_for(self, factors: dict[str, str]) -> bool:
        """Whether a cell with these factors is one of those searched for."""
        return self.settings.items() <= factors.items()


def read_max_batches(folder: Path | None) -> list[MaxBatch]:
    """What the searches in a folder found, none where there was no search (`folder` None).

    Raises:
        InputError: a file is damaged or of another version.
    """
    return [_read(path) for path in sorted(folder.glob("*.json"))] if folder else []


def of_cell(searches: Iterable[MaxBatch], factors: dict[str, str]) -> MaxBatch | None:
    """The search that holds for a cell with these factors."""
    return next((search for search in searches if search.holds_for(factors)), None)


def _read(path: Path) -> MaxBatch:
    try:
        search = _Search.model_validate(read_object(path, REMAKE))
    except ValidationError as error:
        raise not_of_this_version(path, "a search", error) from None
    if search.status not in STATUSES:
        raise InputError(path, f"unknown outcome {search.status!r}", REMAKE)
    size, limit = search.max_batch_size, search.limit
    under = f"{limit.host_memory_mib:,.0f} MiB of host memory ({limit.origin})"
    return MaxBatch(search.settings, size.value, search.status, size.reason, under, search.probes)
