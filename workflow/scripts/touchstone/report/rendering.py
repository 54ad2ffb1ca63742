"""The templates of the pages, and how they are filled."""

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

HERE = Path(__file__).parent
SCRIPT = "".join(
    (HERE / "static" / name).read_text(encoding="utf-8") for name in ("sortable.js", "chart.js")
)
POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{}';"
    " base-uri 'none'; form-action 'none'"
)
"""The content security policy of a page with `SCRIPT`."""


@cache  # with the templates that it compiles
def templates(*folders: Path) -> Environment:
    """The templates of these folders, then of this package; what they are given is escaped.

    A name that was not given raises jinja2.UndefinedError.
    """
    environment = Environment(
        loader=FileSystemLoader([*folders, HERE / "templates", HERE / "static"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    digest = hashlib.sha256(SCRIPT.encode()).digest()
    environment.globals["script"] = Markup(SCRIPT)
    environment.globals["policy"] = POLICY.format(base64.b64encode(digest).decode())
    return environment
