"""A g++ that remembers: what torch.compile had it make once in tests, it does not make again.

PyTorch's adapter gives every run an empty folder for what it compiles, so that each run shows what
compiling takes. `conftest.py` writes this file, made executable, into a folder, and says by a
variable in which other one results are kept.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

KEPT = os.environ.get("KEPT_BY_COMPILER", "")


def compile_once(arguments: list[str], own: str) -> int:
    """The exit status of g++ with these arguments, of which `own` is the run's folder."""
    output = Path(arguments[arguments.index("-o") + 1])
    sources = [Path(each) for each in arguments if each.endswith(".cpp")]
    file = os.stat(shutil.which("g++") or "/")  # another compiler makes something else
    text = "\0".join([*arguments, *(source.read_text() for source in sources)])
    text += f"\0{file.st_size} {file.st_mtime_ns}"
    kept = Path(KEPT, hashlib.sha256(text.replace(own, "").encode()).hexdigest())
    if not kept.exists():
        if status := subprocess.run(["g++", *arguments]).returncode:
            return status
        with tempfile.TemporaryDirectory(dir=KEPT) as folder:
            shutil.copy(output, folder)
            os.replace(Path(folder, output.name), kept)
    shutil.copy(kept, output)
    return 0


if __name__ == "__main__":
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if KEPT and folder and any(each.startswith(folder) for each in sys.argv) and "-o" in sys.argv:
        sys.exit(compile_once(sys.argv[1:], folder))
    os.execvp("g++", ["g++", *sys.argv[1:]])
