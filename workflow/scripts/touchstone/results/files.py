"""Reading and writing of files, with errors that a user can act on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchstone.errors import TouchstoneError
from touchstone.files import write_atomic as write_atomic
from touchstone.reading import parse_json as parse_json
from touchstone.reading import text_of

if TYPE_CHECKING:
    from pydantic import ValidationError

FORMAT = 1
"""The only `format` number of spec, env and record files that this version reads."""

RERUN = "Delete the run's folder and run the workflow again"
REMAKE = "Delete it and run the workflow again"
"""The remedy for a file that is made of others: finished runs are kept."""


class InputError(TouchstoneError):
    """An input that cannot be judged: which file, why, and what to do about it."""

    def __init__(self, file: Path | str, cause: str, remedy: str) -> None:
        super().__init__(f"{file}: {cause}. {remedy}.")
        self.file, self.cause = file, cause


def not_of_this_version(path: Path, what: str, error: ValidationError) -> InputError:
    """Why a file that Touchstone made is refused: the first fault that its model found."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"])) or "the file"
    return InputError(path, f"not {what} of this version ({place}: {first['msg']})", REMAKE)


def read_text(path: Path, remedy: str) -> str:
    """The UTF-8 text of a file; InputError when it is missing or unreadable."""
    try:
        return text_of(path)
    except FileNotFoundError:
        raise InputError(path, "the file is missing", remedy) from None
    except (OSError, ValueError) as error:
        raise InputError(path, f"cannot be read ({error})", remedy) from None


def read_object(path: Path, remedy: str = RERUN) -> dict[str, Any]:
    """A JSON object of this version's format; InputError otherwise."""
    try:
        value = parse_json(read_text(path, remedy))
    except ValueError as error:
        raise InputError(path, f"not valid JSON ({error})", remedy) from None
    if not isinstance(value, dict):
        raise InputError(path, "not a JSON object", remedy)
    if value.get("format") != FORMAT:
        cause = f"format {value.get('format')!r}, this version reads format {FORMAT}"
        raise InputError(path, cause, remedy)
    return value


def write_json(path: Path, value: Any) -> None:
    """Write JSON; raises ValueError for a number that is not finite."""
    write_atomic(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
