"""The largest batches that were searched for, as tables and the report use them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from touchstone.results.files import InputError, read_object
from touchstone.schema.status import STATUSES

METRIC, UNIT = "max_batch_size", "images"
REMEDY = "Delete it and run the workflow again"


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


def of_cell(found: Iterable[MaxBatch], factors: dict[str, str]) -> MaxBatch | None:
    """The search that holds for a cell with these factors."""
    return next((one for one in found if one.holds_for(factors)), None)


def _read(path: Path) -> MaxBatch:
    result = read_object(path, REMEDY)
    try:
        metric, limit = result["max_batch_size"], result["limit"]
        found = MaxBatch(
            result["settings"], metric["value"], result["status"], metric["reason"],
            f"{limit['host_memory_mib']:,.0f} MiB of host memory ({limit['from']})",
            result["probes"],
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as fault:
        raise InputError(path, f"not a search of this version ({fault!r})", REMEDY) from None
    if found.status not in STATUSES:
        raise InputError(path, f"unknown outcome {found.status!r}", REMEDY)
    return found
