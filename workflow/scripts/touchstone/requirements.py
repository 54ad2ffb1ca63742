"""What a list of pip's requirements installs: its lines, and the content that they refer to.

As for pip and conda, a file that another one names lies beside that one, and all other paths begin
at the folder of the environment file.
"""

import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from touchstone.errors import TouchstoneError

ARCHIVES = (".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar")
MADE = ("build", "dist")
"""Folders at the top of a project that its build writes."""
OPTION = re.compile(
    r"(?:(-[rcef])\s*|(--requirement|--constraint|--editable|--find-links)(?:\s+|=))(.+)"
)
COMMENT = re.compile(r"(^|\s+)#.*$")
COMMIT = re.compile(r"@[0-9a-f]{40}([0-9a-f]{24})?(#|$)")
FILE_HASH = re.compile(r"[#&](sha256|sha384|sha512)=|--hash=")


class RequirementFaults(TouchstoneError):
    """Lines that cannot be read, or that can install something else tomorrow: one fault each."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = list(dict.fromkeys(faults))
        super().__init__("; ".join(self.faults))


class Requirements(NamedTuple):
    """What pip is given, and what names it.

    lines: without references to other lists; every path is absolute
    constraints: lines of pip's constraints, the same
    identity: changes with all that the lines install
    """

    lines: list[str]
    constraints: list[str]
    identity: list[str]
    refers: bool
    """Whether a line refers to a file or folder of this machine."""


def resolved(listed: Iterable[str], folder: Path) -> Requirements:
    """The requirements of an environment file in `folder`.

    Raises:
        RequirementFaults: a file is missing, or a line does not fix what is installed.
    """
    reader = _Reader(folder.absolute())
    reader.read(listed, folder.absolute(), constrains=False, above=())
    faults = [*reader.faults, *reader.not_pinned()]
    if faults:
        raise RequirementFaults(faults)
    return Requirements(reader.lines, reader.constraints, reader.identity, reader.refers)


class _Reader:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.lines: list[str] = []
        self.constraints: list[str] = []
        self.identity: list[str] = []
        self.faults: list[str] = []
        self.refers = False
        self._pinned: set[str] = set()
        self._open: dict[str, str] = {}

    def read(
        self, listed: Iterable[str], folder: Path, constrains: bool, above: tuple[Path, ...]
    ) -> None:
        """Add the lines of a list that lies in `folder`; `above` are the files that name it."""
        for line in _joined(listed):
            option = OPTION.fullmatch(line)
            try:
                if option is None:
                    self._add(line, *self._requirement(line), constrains)
                elif (kind := (option[1] or option[2]).lstrip("-")[0]) in "rc":
                    self._list(line, _value(option[3]), folder, constrains or kind == "c", above)
                elif kind == "e":
                    requirement, identity = self._requirement(_value(option[3]), editable=True)
                    self._add(line, f"-e {requirement}", f"-e {identity}", constrains)
                else:
                    self._add(line, *self._links(_value(option[3]), folder), constrains)
            except (OSError, ValueError, RequirementFaults) as fault:
                self.faults.append(f"{line}: {fault}")

    def not_pinned(self) -> list[str]:
        """A fault for each name whose version neither its line nor a constraint says."""
        return [
            f"{line}: it does not say which version; write {name}==VERSION, here or in a file of "
            "constraints (-c)"
            for name, line in self._open.items()
            if name not in self._pinned
        ]

    def _add(self, line: str, requirement: str, identity: str, constrains: bool) -> None:
        (self.constraints if constrains else self.lines).append(requirement)
        self.identity.append(f"-c {identity}" if constrains else identity)

    def _list(
        self, line: str, name: str, folder: Path, constrains: bool, above: tuple[Path, ...]
    ) -> None:
        if "://" in name and not name.startswith("file:"):
            raise ValueError("its content can change elsewhere; save it beside this file")
        path = _path(name, folder)
        if path in above:
            raise ValueError("it names itself")
        self.refers = True
        text = _existing(path).read_text(encoding="utf-8")
        self.read(text.splitlines(), path.parent, constrains, (*above, path))

    def _links(self, place: str, folder: Path) -> tuple[str, str]:
        """A place that pip searches for files."""
        if "://" in place and not place.startswith("file:"):
            return f"--find-links {place}", f"--find-links {place}"
        beside = _path(place, folder)
        path = _existing(beside if beside.exists() else _path(place, self.base))
        self.refers = True
        files = sorted(file for file in path.iterdir() if file.name.endswith(ARCHIVES))
        named = " ".join(f"{file.name} {_digest_of_file(file)}" for file in files)
        return f"--find-links {path.as_uri()}", f"--find-links {named}"

    def _requirement(self, line: str, editable: bool = False) -> tuple[str, str]:
        """What pip is given for a line, and what names it."""
        if line.startswith("-"):
            return line, line  # an option that names no file
        requirement, _, options = line.partition(" --")
        options = f" --{options}" if options else ""
        requirement, _, marker = requirement.partition(" ;")
        options = f" ;{marker}{options}" if marker else options
        name, _, place = requirement.partition(" @ ")
        if not place:
            name, place = "", requirement.strip()
        if re.match(r"(git|hg|svn|bzr)\+", place):
            return self._of_repository(line, place)
        if "://" in place and not place.startswith("file:"):
            if not FILE_HASH.search(line):
                raise ValueError(
                    "the file can change elsewhere; add #sha256=DIGEST, or save it beside this file"
                )
            return line, line
        if name or editable or _is_path(place):
            return self._local(name, place.strip(), options)
        self._note(line, requirement)
        return line, line.partition(" --hash")[0]

    @staticmethod
    def _of_repository(line: str, place: str) -> tuple[str, str]:
        if not COMMIT.search(place):
            raise ValueError(
                "a branch or tag can change elsewhere; write @ and the 40 digits of the commit"
            )
        return line, line

    def _local(self, name: str, place: str, options: str) -> tuple[str, str]:
        """A wheel, an archive or a folder of this machine."""
        bare, extras = _without_extras(place)
        path = _existing(_path(bare, self.base))
        self.refers = True
        named = path.as_uri() if name or " " in str(path) else str(path)
        identity = f"{name or path.name}{extras}{options} {_digest(path)}"
        return f"{name}{' @ ' * bool(name)}{named}{extras}{options}", identity

    def _note(self, line: str, text: str) -> None:
        """Remember whether a line says one version of its package."""
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            raise ValueError(
                "neither a requirement of pip nor a file; write NAME==VERSION or a path"
            ) from None
        name = canonicalize_name(requirement.name)
        exact = [s for s in requirement.specifier if s.operator in ("==", "===")]
        if any(not s.version.endswith(".*") for s in exact):
            self._pinned.add(name)
        else:
            self._open.setdefault(name, line)


def _joined(listed: Iterable[str]) -> Iterator[str]:
    """The lines without comments; one that ends with a backslash goes on in the next."""
    begun = ""
    for line in listed:
        if line.rstrip().endswith("\\") and not line.lstrip().startswith("#"):
            begun += line.rstrip().removesuffix("\\") + " "
            continue
        whole = COMMENT.sub("", begun + line).strip()
        begun = ""
        if whole:
            yield re.sub(r"\s+(?=--hash)", " ", whole)
    if begun.strip():
        yield begun.strip()


def _value(text: str) -> str:
    """The value of an option, which may stand in quotes."""
    words = shlex.split(text)
    return words[0] if len(words) == 1 else text.strip()


def _path(name: str, folder: Path) -> Path:
    if name.startswith("file:"):
        name = unquote(urlsplit(name).path if "//" in name else name.removeprefix("file:"))
    # Without links to where it is: a parent may be one.
    return Path(os.path.normpath(folder / Path(name).expanduser()))


def _existing(path: Path) -> Path:
    if not path.exists():
        raise ValueError(f"{path} does not exist; give the path of one that does")
    return path


def _is_path(place: str) -> bool:
    bare, _ = _without_extras(place)
    if bare.startswith(("file:", ".", "/", "~")) or bare.lower().endswith(ARCHIVES):
        return True
    return os.sep in bare


def _without_extras(place: str) -> tuple[str, str]:
    extras = re.search(r"\[[^\]/]*\]$", place)
    return (place[: extras.start()], extras[0]) if extras else (place, "")


def _digest(path: Path) -> str:
    """What names the content of a file, or of a project's folder: of its files that neither its
    build nor a study writes; hidden ones do not count either."""
    if not path.is_dir():
        return _digest_of_file(path)
    digest = hashlib.sha256()
    written = {*(path / name for name in MADE), Path("results").absolute()}
    for parent, folders, files in os.walk(path):
        folders[:] = [
            name
            for name in sorted(folders)
            if Path(parent, name) not in written and not _is_made(name)
        ]
        for name in sorted(files):
            file = Path(parent, name)
            if not _is_made(name) and file.is_file():
                digest.update(f"{file.relative_to(path)} {_digest_of_file(file)}\n".encode())
    return digest.hexdigest()


def _is_made(name: str) -> bool:
    return name == "__pycache__" or name.startswith(".") or name.endswith((".egg-info", ".pyc"))


def _digest_of_file(path: Path) -> str:
    told = path.stat()
    return _sha256(path, told.st_mtime_ns, told.st_ctime_ns, told.st_size, told.st_ino)


@cache
def _sha256(path: Path, *told: int) -> str:
    """The digest of a file, which is read once for each state that the system tells of it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
