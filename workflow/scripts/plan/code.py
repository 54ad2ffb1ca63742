"""Digests of code: what makes a rule's results stale, and nothing more.

Snakemake does not see that a module imported by a script has changed, and sees a changed
comment where a script is its own. These digests are taken over the parsed code without
comments and docstrings, of a script and of every module of ours that it imports.
"""

import ast
import hashlib
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent.parent
"""`workflow/scripts`, the root of our imports."""


@cache
def _tree(path: Path) -> ast.Module:
    """The parsed code of a file without comments and docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            # A string that stands alone does nothing: docstrings, and those of constants.
            node.body = [part for part in node.body if not _is_text(part)] or [ast.Pass()]
    return tree


@cache
def _essence(path: Path) -> bytes:
    """The parsed code of a file without comments and docstrings, or another file's bytes."""
    return ast.dump(_tree(path)).encode() if path.suffix == ".py" else path.read_bytes()


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


@cache
def _imports(path: Path) -> frozenset[Path]:
    """The files of ours that `path` imports by name, packages with all their modules."""
    found: set[Path] = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            place = FOLDER.joinpath(*name.split("."))
            if place.with_suffix(".py").exists():
                found.add(place.with_suffix(".py"))
            elif (place / "__init__.py").exists() and name in names[:1]:
                found.add(place / "__init__.py")
    return frozenset(found)


@cache
def digest(*names: str) -> str:
    """Twelve hex digits over the files `names` of `workflow/scripts` and all they import.

    A name that ends in `/` stands for every file under that folder; a name may also be a
    file that is no Python, which counts byte by byte.
    """
    files: set[Path] = set()
    for name in names:
        place = FOLDER / name
        files |= set(place.rglob("*.py")) if name.endswith("/") else {place}
    todo = list(files)
    while todo:
        path = todo.pop()
        if path.suffix == ".py":
            new = _imports(path) - files
            files |= new
            todo += new
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(str(path.relative_to(FOLDER)).encode() + b"\0" + _essence(path))
    return total.hexdigest()[:12]
