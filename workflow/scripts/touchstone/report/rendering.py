"""The templates of the pages, and how they are filled."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

HERE = Path(__file__).parent


@cache  # with the templates that it compiles
def templates(*folders: Path) -> Environment:
    """The templates of these folders, then of this package; what they are given is escaped.

    A name that was not given raises jinja2.UndefinedError.
    """
    return Environment(
        loader=FileSystemLoader([*folders, HERE / "templates", HERE / "static"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
