"""The programs of a study, which are scripts of the user: their arguments, faults and identity."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from touchstone.plan import code_digest
from touchstone.plan.model import SETTINGS, Cell
from touchstone.plan.parts import Environment, Program
from touchstone.plan.setting import PROGRAM
from touchstone.schema.spec import PINNED

PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
"""A setting within an argument of a script, as `{batch_size}`."""
WORK, DATA = "program", "own"
"""What a program does and on what, unless the study has words for it."""
GIVEN = tuple(name for name, traits in SETTINGS.items() if PROGRAM in traits.of)
"""The settings that an argument may have."""


def named(program: Program) -> set[str]:
    """The settings that a program's arguments have."""
    return {name for text in program.arguments for name in PLACEHOLDER.findall(text)}


def arguments(program: Program, cell: Cell) -> list[str]:
    """What follows the script on its command line, for a cell."""
    return [
        PLACEHOLDER.sub(lambda match: str(getattr(cell, match[1])), text)
        for text in program.arguments
    ]


def faults(name: str, program: Program, environments: Mapping[str, Environment]) -> list[str]:
    """What is wrong with a program of a study, whichever cells run it."""
    errors = []
    for key, path in [("file", program.file), *(("files", path) for path in program.files)]:
        if not Path(path).is_file():
            errors.append(f"{key}: {path} is no file; give a path from the study's working folder")
    if program.environment == PINNED and program.framework is None:
        errors.append("framework: missing; name the one that the script uses, or an environment")
    own = environments.get(program.environment)
    if own and program.framework not in (None, own.framework):
        errors.append(
            f"framework: {program.framework}, but environment {program.environment} has"
            f" {own.framework}; leave the framework out"
        )
    if program.environment != PINNED and own is None:
        names = ", ".join([PINNED, *environments])
        errors.append(f"environment: none is named {program.environment!r}; known: {names}")
    for unknown in sorted(named(program) - set(GIVEN)):
        errors.append(
            f"arguments: {{{unknown}}} is no setting of a program; known: {', '.join(GIVEN)}"
        )
    return [f"programs.{name}.{fault}" for fault in errors]


def filled(
    values: Mapping[str, Any],
    programs: Mapping[str, Program],
    environments: Mapping[str, Environment],
) -> dict[str, Any]:
    """The settings of a cell; of one that runs a program, with what follows from that."""
    program = programs.get(values.get("program") or "")
    if program is None:
        return dict(values)
    environment = values.get("environment", program.environment)
    own = environments.get(environment)
    framework = own.framework if own else program.framework
    usual = {"network": WORK, "dataset": DATA, "environment": environment}
    given = {name: values[name] for name in values if PROGRAM in SETTINGS[name].of}
    if "batch_size" not in named(program):
        given["batch_size"] = 1
    return {**usual, **given, "framework": framework}


def unused(
    sweep: Mapping[str, Any], cells: Iterable[Cell], programs: Mapping[str, Program]
) -> list[str]:
    """A fault where a sweep, which has these cells, sets a batch size that none of its programs
    gets."""
    used = [programs[name] for cell in cells if (name := cell.program or "") in programs]
    if "batch_size" not in sweep or not used or any("batch_size" in named(p) for p in used):
        return []
    return ["batch_size: no program gets it; write `{batch_size}` into its arguments"]


def code(program: Program, given: list[str]) -> str:
    """Twelve hex digits of the script, of what it imports from its own folder, of its `files`, and
    of arguments that name a file."""
    total = hashlib.sha256()
    script = Path(program.file)
    for path in sorted({script, *_imported(script)}):
        total.update(f"{path}\0{code_digest.content_digest(path)}\0".encode())
    for text in [*program.files, *given]:
        if Path(text).is_file():
            total.update(f"{text}\0".encode() + Path(text).read_bytes())
    return total.hexdigest()[:12]


def _imported(script: Path) -> set[Path]:
    """The files of a script's folder that it imports, and those that they import."""
    files: set[Path] = set()
    todo = [script]
    while todo:
        new = set(_imports(todo.pop(), script.parent)) - files - {script}
        files |= new
        todo += new
    return files


def _imports(path: Path, folder: Path) -> Iterator[Path]:
    """The files that a file imports from a folder."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return  # of another Python, whose imports nobody here can read
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            places = [(folder, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = path.parents[node.level - 1] if node.level else folder
            module = f"{node.module}." if node.module else ""
            places = [(base, f"{module}{alias.name}") for alias in node.names]
            places += [(base, node.module)] if node.module else []
        else:
            continue
        for base, name in places:
            place = base.joinpath(*name.split("."))
            packages = [up / "__init__.py" for up in place.parents if base in up.parents]
            for file in (place.with_suffix(".py"), place / "__init__.py", *packages):
                if file.is_file():
                    yield file
