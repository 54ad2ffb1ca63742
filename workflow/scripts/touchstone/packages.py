"""Install a list of pinned packages beside an interpreter: by uv where it can, otherwise by pip.

uv gets pip's settings: where packages come from is asked of `pip config`. Where pip has a setting
that uv has no equal of, and where uv fails, pip installs. If the folder `wheels/` is there, which
`make wheels` fills, packages come from it only. Only the standard library is imported: this module
installs the base environment.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from touchstone.paths import ROOT

MARKER = "      # resolved from the pins above by `make pin`"
"""The line of an environment's file between the pins of a person and those of `make pin`."""
WHEELS = ROOT / "wheels"
"""The folder of packages for a machine without a network."""
TRANSLATED = {
    "index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "no-index": "UV_NO_INDEX",
    "find-links": "UV_FIND_LINKS", "trusted-host": "UV_INSECURE_HOST", "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY", "timeout": "UV_HTTP_TIMEOUT", "default-timeout": "UV_HTTP_TIMEOUT",
    "no-cache-dir": "UV_NO_CACHE", "constraint": "UV_CONSTRAINT",
}  # fmt: skip
"""pip's settings, and uv's variables of the same meaning."""
WITHOUT_EFFECT = {
    "break-system-packages", "cache-dir", "debug", "disable-pip-version-check", "log", "no-color",
    "no-input", "prefer-binary", "progress-bar", "quiet", "require-virtualenv", "retries",
    "root-user-action", "verbose",
}  # fmt: skip
"""pip's settings that choose no file of an exact version."""
KEPT = {"UV_CACHE_DIR", "UV_CONCURRENT_DOWNLOADS", "UV_HTTP_TIMEOUT", "UV_NO_CACHE", "UV_OFFLINE"}
"""The user's own variables of uv that choose no package."""
OLDEST = (3, 8)
"""The oldest Python for which uv installs."""
BUILD = re.compile(r"^[^\s;]+==[^\s;]*\+")
"""A pin of one build of a version, as torch==2.13.0+cpu, which only an index of builds has."""

_YES = {"1", "true", "yes", "on", "y", "t"}


class NotTranslated(Exception):
    """pip has a setting that uv has no equal of."""


_FAULTS = (NotTranslated, OSError, subprocess.CalledProcessError, SyntaxError, ValueError)
"""Why uv is not even started."""


def surroundings() -> dict[str, str]:
    """The environment variables with which pip looks for packages where this project does."""
    if not WHEELS.is_dir():
        return dict(os.environ)
    return {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": WHEELS.as_uri()}


def uv() -> str | None:
    """Our own uv, which is pinned, otherwise the one on PATH."""
    own = Path(sys.executable).parent / "uv"
    return str(own) if os.access(own, os.X_OK) else shutil.which("uv")


def interpreter(version: str, folder: Path, say: Callable[[str], None]) -> str | None:
    """A `pythonX.Y` that uv has installed in `folder`, or installs there now; None if it cannot."""
    if (program := uv()) is None or tuple(map(int, version.split("."))) < OLDEST:
        return None
    surroundings = {**os.environ, "UV_PYTHON_INSTALL_DIR": str(folder), "UV_NO_CONFIG": "1"}
    find = [program, "python", "find", "--quiet", "--managed-python", "--no-project", version]
    get = [program, "python", "install", "--quiet", "--no-bin", version]
    for command in (find, get, find):
        if command is get:
            say(f"uv looks for Python {version}, which this machine lacks (once)")
        ended = subprocess.run(command, env=surroundings, capture_output=True, text=True)
        if command is find and ended.returncode == 0:
            return ended.stdout.strip()
        if command is get and ended.returncode:
            return None
    return None


def variables(configuration: str, environment: dict[str, str]) -> dict[str, str]:
    """The environment variables for uv that mean what `pip config list` printed.

    Raises NotTranslated where a setting of pip has no equal.
    """
    settings: dict[str, str] = {}
    lines = [line.partition("=") for line in configuration.splitlines() if "=" in line]
    for section in ("global.", "install.", ":env:."):  # as pip reads them: the last one counts
        for key, _, value in lines:
            if key.startswith(section):
                settings[key.removeprefix(section)] = str(ast.literal_eval(value))
    result = {k: v for k, v in environment.items() if not k.startswith("UV_") or k in KEPT}
    for key, value in settings.items():
        words = value.split()
        if key in WITHOUT_EFFECT or key == "config-file" or not words:
            continue
        if key not in TRANSLATED:
            raise NotTranslated(f"uv has no equal of pip's setting {key}")
        if key.startswith("no-"):
            value = "1" if value.lower() in _YES else "0"
        separator = "," if key == "find-links" else " "
        result[TRANSLATED[key]] = separator.join(words) if len(words) > 1 else value.strip()
    if (cache := settings.get("cache-dir")) and "UV_CACHE_DIR" not in result:
        result["UV_CACHE_DIR"] = str(Path(cache).expanduser() / "uv")
    if extra := result.get("UV_INDEX", "").split():
        # uv takes a package from the first index that has its name, and tries its default last.
        *first, last = [result.get("UV_DEFAULT_INDEX") or _usual_index(), *extra]
        result |= {"UV_INDEX": " ".join(first), "UV_DEFAULT_INDEX": last}
    return result | {"UV_NO_CONFIG": "1"}


@cache
def _usual_index() -> str:
    """The index that pip searches where it is given none. Raises CalledProcessError."""
    code = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def lacks_builds(python: Path, lines: Sequence[str]) -> bool:
    """Whether uv finds a build among these pins nowhere that it may search."""
    if not _builds(lines) or (program := uv()) is None:
        return False
    try:
        return not _install_builds(program, python, lines, _pips(), "--dry-run")
    except _FAULTS:
        return False


def install(
    python: Path,
    listed: Path,
    version: tuple[int, ...],
    say: Callable[[str], None],
    compiles: bool = True,
) -> None:
    """Install the requirements in `listed` beside `python`, of that version.

    uv compiles their modules only with `compiles`, pip always does. Where uv fails, `say` gets a
    line and pip installs, which is added to an environment without it. Raises CalledProcessError if
    pip fails.
    """
    lines = listed.read_text(encoding="utf-8").splitlines()
    if not lines:
        return
    program = uv()
    again: list[str] = []
    if program and version >= OLDEST:
        fault = _by_uv(program, python, listed, lines, compiles)
        if fault is None:
            return
        say(f"pip installs instead of uv: {fault}")
        again = ["--force-reinstall"]  # a package that uv left unfinished looks installed
    pip = pip_of(python)
    if subprocess.run([*pip, "--version"], capture_output=True).returncode:
        added = [str(python), "-m", "ensurepip", "--default-pip"]
        subprocess.run(added, check=True, stdout=sys.stderr)
    # An old Python's own pip may not know the wheels of the others, so a pinned pip is first.
    first = [line for line in lines if line.startswith("pip==")]
    for some in filter(None, (first, lines)):
        listed.write_text("\n".join(some) + "\n", encoding="utf-8")
        # Twice quiet: errors are still shown.
        command = [*pip, "install", "--quiet", "--quiet", *again, "--requirement", str(listed)]
        subprocess.run(command, env=surroundings(), check=True, stdout=sys.stderr)


def frozen(python: Path, version: tuple[int, ...]) -> str:
    """The packages beside `python`, of that version, and their versions: a line each.

    Raises CalledProcessError.
    """
    command = [*pip_of(python), "freeze", "--all"]
    if (program := uv()) and version >= OLDEST:
        command = [program, "pip", "freeze", "--no-config", "--quiet", "--python", str(python)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def pip_of(python: Path | str) -> list[str]:
    """The command of the pip beside a Python."""
    return [str(python), "-m", "pip", "--disable-pip-version-check"]


def _by_uv(
    program: str, python: Path, listed: Path, lines: Sequence[str], compiles: bool
) -> str | None:
    """Install the list of these lines by uv; says in one line why that was not possible, or gives
    None."""
    options = ["--compile-bytecode"] * compiles
    ended = None
    try:
        given = _pips()
        if _builds(lines):
            _install_builds(program, python, lines, given, *options)
        if "--hash=" in "".join(lines) and "UV_CONSTRAINT" in given:
            # uv wants hashes of constraints too. They choose no version of a pinned list, but may
            # refuse it.
            ended = _uv_install(program, python, listed, given, "--dry-run")
            del given["UV_CONSTRAINT"]
        if ended is None or ended.returncode == 0:
            options += ["--require-hashes"] * ("--hash=" in "".join(lines))
            # uv would take the file that once had a name.
            options += ["--refresh"] * ("--find-links" in "".join(lines))
            ended = _uv_install(program, python, listed, given, *options)
    except _FAULTS as why:
        return str(why)
    if ended.returncode:
        said = " ".join(ended.stderr.split())
        return said[:200] or f"uv ended with exit status {ended.returncode}"
    return None


def _builds(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if BUILD.match(line)]


def _install_builds(
    program: str, python: Path, lines: Sequence[str], given: dict[str, str], *options: str
) -> bool:
    """Install the pins of builds from the additional indexes, otherwise from all; says if it did.

    uv finds no build there itself if the first index has the same package.
    """
    some = {"UV_INDEX": " ".join(given.get("UV_INDEX", "").split()[1:])}
    environment = {name: value for name, value in given.items() if name != "UV_CONSTRAINT"}
    tries = [environment | some] * ("UV_INDEX" in given) + [environment]
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder, "list.txt")
        listed.write_text("".join(f"{line}\n" for line in _builds(lines)), encoding="utf-8")
        options = ("--no-deps", *["--require-hashes"] * ("--hash=" in "".join(lines)), *options)
        return any(
            _uv_install(program, python, listed, env, *options).returncode == 0 for env in tries
        )


def _pips() -> dict[str, str]:
    """The environment variables with which uv has pip's settings."""
    own = surroundings()
    command = [*pip_of(sys.executable), "config", "list"]
    configured = subprocess.run(command, env=own, capture_output=True, text=True, check=True)
    return variables(configured.stdout, own)


def _uv_install(
    program: str, python: Path, listed: Path, given: dict[str, str], *options: str
) -> subprocess.CompletedProcess[str]:
    command = [program, "pip", "install", "--quiet", "--python", str(python)]
    command += ["--requirement", str(listed), *options]
    command += ["--no-index"] * (given.get("UV_NO_INDEX", "0") == "1")
    environment = {name: value for name, value in given.items() if name != "UV_NO_INDEX"}
    return subprocess.run(command, env=environment, capture_output=True, text=True)
