"""Files that are written whole or not at all."""

import os
from pathlib import Path


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write all of a file or nothing: a reader never sees a half-written one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def with_section(page: str, name: str, text: str) -> str:
    """A page of Markdown with `text` between its marks `<!-- name begin -->` and `name end`.

    Raises:
        ValueError: the page lacks one of the marks, or has one twice.
    """
    begin, end = (f"<!-- {name} {edge} -->\n" for edge in ("begin", "end"))
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{text}\n{end}{after}"
