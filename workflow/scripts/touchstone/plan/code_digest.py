"""Digests of code: what makes a rule's results stale, and nothing more.

Snakemake does not see that a module imported by a script has changed, and sees a changed
comment where a script is its own. These digests are taken over the parsed code without
comments and docstrings, of a script and of every module of ours that it imports.
"""

import ast
import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from touchstone.reading import parse_json, text_of

FOLDER = Path(__file__).parent.parent
"""The package, in which the files of a digest are named."""
NOTES = Path(".snakemake/touchstone-code.json")
"""What was found in files is kept here, among Snakemake's own notes: parsing all of ours takes
most of a second, which every job of a cluster would pay too."""


class Found(NamedTuple):
    """What counts of a file: the digest of its code, and by import statement the names in it."""

    code: str
    imports: list[list[str]]


class Notes:
    """What was found in files, by the digest of their bytes, kept from one process to the next.

    Another Python, or another version of this file, computes everything again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.maker = _sha256(Path(__file__).read_bytes() + sys.version.encode())
        self.used: dict[str, Found] = {}
        self.new = False
        self.kept: dict[str, Any] = {}
        # It may not be there, or damaged.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self.kept = parse_json(text_of(path)).get(self.maker, {})

    def of(self, path: Path) -> Found:
        """What counts of a file."""
        content = path.read_bytes()
        key = _sha256(content)
        if path.suffix != ".py":
            return Found(key, [])
        if key not in self.used:
            if key in self.kept:
                self.used[key] = Found(*self.kept[key])
            else:
                self.used[key], self.new = _parsed(content), True
        return self.used[key]

    def save(self) -> None:
        """Write down what this process used, if it found something new; a folder in which that
        cannot be done costs the next process time and nothing else."""
        if not self.new:
            return
        self.new = False
        draft = self.path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(exist_ok=True)
            draft.write_text(json.dumps({self.maker: self.used}), encoding="utf-8")
            draft.replace(self.path)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _parsed(content: bytes) -> Found:
    """What counts of a Python file: its code without comments and docstrings, and its imports."""
    tree = ast.parse(content)
    imports = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            # A string that is a statement does nothing: docstrings, and those of constants.
            node.body = [part for part in node.body if not _is_text(part)] or [ast.Pass()]
        elif isinstance(node, ast.Import):
            imports.append([alias.name for alias in node.names])
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imports.append([node.module, *(f"{node.module}.{alias.name}" for alias in node.names)])
    return Found(_sha256(ast.dump(tree).encode()), imports)


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


@cache
def _notes() -> Notes:
    return Notes(NOTES)


@cache
def _found(path: Path) -> Found:
    return _notes().of(path)


@cache
def _module(name: str) -> Path | None:
    """The file of ours that is the module or the package of that name."""
    place = FOLDER.parent.joinpath(*name.split("."))
    files = place.with_suffix(".py"), place / "__init__.py"
    return next((file for file in files if file.exists()), None)


@cache
def _imports(path: Path) -> frozenset[Path]:
    """The files of ours that `path` imports, and the packages that it is in.

    The outermost package is not among them: it only has the version, which changes no numbers.
    """
    named = {_module(name) for names in _found(path).imports for name in names}
    packages = {folder / "__init__.py" for folder in path.parents if FOLDER in folder.parents}
    files = {file for file in packages if file.exists()} | named
    return frozenset(file for file in files - {FOLDER / "__init__.py"} if file)


def content_digest(path: Path) -> str:
    """The digest of a file's code without comments and docstrings; of its bytes where it is no
    Python that this version reads."""
    content = path.read_bytes()
    if path.suffix != ".py":
        return _sha256(content)
    try:
        return _parsed(content).code
    except (SyntaxError, ValueError):
        return _sha256(content)


def _files(folder: Path) -> Iterator[Path]:
    """What a folder holds, without what Python makes of it."""
    return (p for p in folder.rglob("*") if p.is_file() and p.parent.name != "__pycache__")


@cache
def digest(*names: str) -> str:
    """Twelve hex digits over the files `names` of the package and all they import.

    A name that ends in `/` means every file under that folder; a file that is no Python counts byte
    by byte.
    """
    files: set[Path] = set()
    for name in names:
        place = FOLDER / name
        files |= set(_files(place)) if name.endswith("/") else {place}
    todo = list(files)
    while todo:
        new = _imports(todo.pop()) - files
        files |= new
        todo += new
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(f"{path.relative_to(FOLDER)}\0{_found(path).code}\0".encode())
    _notes().save()
    return total.hexdigest()[:12]
