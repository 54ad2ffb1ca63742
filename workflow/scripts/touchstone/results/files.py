"""Reading and writing of files, with errors that a user can act on."""

import json
from pathlib import Path
from typing import Any, NoReturn

from touchstone.errors import TouchstoneError
from touchstone.files import write_atomic as write_atomic

FORMAT = 1
"""The only `format` number of spec, env and record files that this version reads."""

RERUN = "Delete the run's folder and run the workflow again"


class InputError(TouchstoneError):
    """An input that cannot be judged: which file, why, and what to do about it."""

    def __init__(self, file: Path | str, cause: str, remedy: str) -> None:
        super().__init__(f"{file}: {cause}. {remedy}.")


def _reject_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def parse_json(text: str) -> Any:
    """Strict JSON: `NaN` and `Infinity`, which Python would accept, raise ValueError."""
    return json.loads(text, parse_constant=_reject_constant)


def read_text(path: Path, remedy: str) -> str:
    """The UTF-8 text of a file; InputError when it is missing or unreadable."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(path, "the file is missing", remedy) from None
    except (OSError, UnicodeDecodeError) as error:
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
