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
