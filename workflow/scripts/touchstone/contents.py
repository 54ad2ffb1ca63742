"""What is installed beside an interpreter: its packages, and which modules can be imported."""

import hashlib
import json
import subprocess
from functools import cache
from typing import NamedTuple

from touchstone.errors import TouchstoneError
from touchstone.schema.variables import IMAGE

SECONDS = 120.0
"""Longer than an interpreter on a slow network disk takes to list its packages."""
SCRIPT = """
import hashlib, importlib.util, json, os, re, sys
try:
    from importlib.metadata import distributions
    found = [(d.metadata["Name"], d.metadata["Version"], d.read_text("RECORD"))
             for d in distributions() if d.metadata]
except ImportError:  # before Python 3.8
    import pkg_resources
    found = [(d.project_name, d.version, None) for d in pkg_resources.working_set]
packages = {}
for name, version, record in found:
    if name:
        files = hashlib.sha256(record.encode()).hexdigest() if record else ""
        # The first one is imported.
        packages.setdefault(re.sub("[-_.]+", "-", name).lower(), [name, version or "", files])
lacking = [name for name in sys.argv[2:] if importlib.util.find_spec(name) is None]
listed = [packages[key] for key in sorted(packages)]
print(json.dumps([sys.version, listed, lacking, os.environ.get(sys.argv[1])]))
"""


class Unreadable(TouchstoneError):
    """An interpreter does not run, or does not say what is installed; the message says why."""


class Contents(NamedTuple):
    """What an interpreter sees.

    `version` is its own, as 3.12.4; `packages` are `name==version`, sorted; `lacking` are the
    modules that were asked for and are not there. `image` names the build of the image of the
    container in which the interpreter is, if it is in one of ours. `digest` (12 hex digits) changes
    with any of these but `lacking`, and where a package is installed again with other files.
    """

    version: str
    packages: list[str]
    lacking: list[str]
    digest: str
    image: str | None = None


@cache
def contents(python: str | tuple[str, ...], modules: tuple[str, ...] = ()) -> Contents:
    """What the interpreter `python`, or the one that this command reaches, sees of its own
    packages, without writing anything there.

    Neither the user's own packages nor `PYTHONPATH` count, which no run gets. An interpreter is
    read once in a process.

    Raises:
        Unreadable: it does not exist, does not run or does not answer.
    """
    reached = (python,) if isinstance(python, str) else python
    command = [*reached, "-I", "-B", "-c", SCRIPT, IMAGE, *modules]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS
        )
    except (OSError, UnicodeDecodeError) as fault:
        raise Unreadable(f"it does not run ({fault})") from None
    except subprocess.TimeoutExpired:
        raise Unreadable(f"it does not list its packages within {SECONDS:g} s") from None
    if ended.returncode:
        said = ended.stderr.strip().splitlines() or ["it says nothing"]
        raise Unreadable(f"it ends with exit status {ended.returncode} ({said[-1][:200]})")
    try:
        # A module that it imports by itself may print too.
        version, packages, lacking, image = json.loads(ended.stdout.splitlines()[-1])
        listed = [f"{name}=={number}" for name, number, _ in packages]
    except (ValueError, IndexError, TypeError):
        raise Unreadable("it does not list its packages; is it a Python?") from None
    named = [version, packages] if image is None else [version, packages, image]
    digest = hashlib.sha256(json.dumps(named).encode()).hexdigest()[:12]
    return Contents(version.split()[0], listed, lacking, digest, image)
