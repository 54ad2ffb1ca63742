"""The packages of `touchstone` form layers: none imports one that is above it or beside it."""

import ast
from pathlib import Path

import pytest

from touchstone.paths import SCRIPTS

LAYERS = [
    {"cli"},
    {"workflow"},
    {"commands"},
    {"gpu_check"},
    {"published"},
    {"report"},
    {"analysis"},
    {"results"},
    {"plan", "measure", "statistics"},
    {"runner", "networks", "datasets"},
    {"operations", "optimizers"},
    {"environments"},
    {"contents", "packages", "containers", "driver", "requirements", "started"},
    {"schema", "errors", "files", "paths", "reading", "signals", "yaml_file", "__init__"},
    {"safe_text"},
]
"""From the top; what is in one set does not know of each other."""
FLOOR = {name: len(LAYERS) - place for place, names in enumerate(LAYERS) for name in names}
PACKAGE = SCRIPTS / "touchstone"
RUNS_IN_FRAMEWORKS = ("runner", "operations", "optimizers", "schema")
"""Packages that are imported in a framework's environment."""


def part_of(path: Path) -> str:
    """The package, or the file, below `touchstone` in which a file is."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(path: Path) -> set[str]:
    """The parts of `touchstone` that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "touchstone":
            names = {alias.name for alias in node.names}
            found |= {name if name in FLOOR else "__init__" for name in names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("touchstone."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import, which digests of code do not follow"
    return found


@pytest.mark.parametrize("name", sorted(FLOOR))
def test_a_package_imports_only_what_is_below_it(name):
    files = [path for path in PACKAGE.rglob("*.py") if part_of(path) == name]
    assert files
    for path in files:
        upwards = {other for other in imported(path) - {name} if FLOOR[other] >= FLOOR[name]}
        assert not upwards, path


def test_what_runs_in_a_frameworks_environment_imports_nothing_else_of_ours():
    for path in PACKAGE.rglob("*.py"):
        if part_of(path) in RUNS_IN_FRAMEWORKS:
            assert imported(path) <= set(RUNS_IN_FRAMEWORKS), path
