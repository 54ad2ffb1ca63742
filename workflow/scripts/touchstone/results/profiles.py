"""The profiles of a study's cells, as tables and the report use them."""

from collections.abc import Iterable
from pathlib import Path

from touchstone.results.files import REMAKE, InputError, read_object
from touchstone.schema.profile import Profile
from touchstone.schema.status import STATUSES
from touchstone.schema.values import WrongValue, from_json


def read_profiles(folder: Path | None, cells: Iterable[str]) -> dict[str, Profile]:
    """By cell, the profiles of these cells in a folder; of another cell there need be none.

    Args:
        folder: None where nothing was profiled.

    Raises:
        InputError: a file is damaged or of another version.
    """
    if folder is None:
        return {}
    paths = {cell: folder / f"{cell}.json" for cell in cells}
    return {cell: _read(cell, path) for cell, path in paths.items() if path.exists()}


def _read(cell: str, path: Path) -> Profile:
    try:
        profile = from_json(Profile, read_object(path, REMAKE))
    except WrongValue as fault:
        raise InputError(path, f"not a profile of this version ({fault})", REMAKE) from None
    if profile.cell != cell:
        raise InputError(path, f"it is of {profile.cell!r}", REMAKE)
    if profile.status not in STATUSES:
        raise InputError(path, f"unknown outcome {profile.status!r}", REMAKE)
    if unknown := [n for row in profile.layers for n in row.layers if n not in profile.ops]:
        raise InputError(path, f"it has a time of {unknown[0]!r}, and no such layer", REMAKE)
    return profile
