"""The environments of a study that are the user's own: their faults, digests and interpreters."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from touchstone import containers, environments
from touchstone.containers import Container, NoContainer
from touchstone.contents import Contents, Unreadable, contents
from touchstone.environments import EnvironmentFault, read
from touchstone.paths import ROOT
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.parts import Environment
from touchstone.schema.spec import PINNED, PLAIN

READERS = {"lmdb": {"lmdb": "lmdb"}, "datum": {"lmdb": "lmdb"}}
"""By record format, the module that reads it and its package; frameworks read the other formats."""
PHOTOS = {"lmdb": {"simplejpeg": "simplejpeg"}}
"""The same, of photos."""
KINDS = ("python", "file", "container")


class Place(NamedTuple):
    """Where an environment of the user is: its kind, and `path` as the study says it: of an
    interpreter or a file, relative to the working folder, or the name of a container's image."""

    kind: str
    path: str

    @classmethod
    def of(cls, environment: Environment) -> Place:
        """The place of an environment that has no faults."""
        for kind in KINDS:
            if (path := getattr(environment, kind)) is not None:
                return cls(kind, path)
        raise ValueError(f"an environment without any of {', '.join(KINDS)}")

    @property
    def absolute(self) -> str:
        """The path from the root; links are not followed: a virtual environment is one."""
        return str(Path(self.path).expanduser().absolute())

    def digest(self) -> str:
        """What names all that is installed there. Raises Unreadable, EnvironmentFault and
        NoContainer."""
        if self.kind == "file":
            return environments.digest(Path(self.absolute))
        return _read(self).digest

    def python(self, name: str, device: str) -> str:
        """The Python that runs cells there; `name` is the environment's. Raises EnvironmentFault.

        Of a container it is a launcher, which is written.
        """
        if self.kind == "python":
            return self.absolute
        try:
            return _container(self.path).launcher(name, device)
        except NoContainer as fault:
            raise EnvironmentFault(f"environment {name}: {fault}") from None

    def options(self, name: str) -> list[str]:
        """The options of a command that runs in this environment."""
        return ["--environment", name, self.kind, self.path]


def faults(name: str, environment: Environment) -> list[str]:
    """What is wrong with an environment of a study, whichever cells are in it."""
    errors = []
    if name == PINNED:
        errors.append("the name is that of the environments in envs/; choose another one")
    if environment.framework not in frameworks.adapters():
        names = ", ".join(frameworks.adapters())
        errors.append(f"framework: none is named {environment.framework!r}; known: {names}")
    kinds = [kind for kind in KINDS if getattr(environment, kind) is not None]
    if len(kinds) != 1:
        which = " and ".join(kinds) or "none of them"
        errors.append(f"it has {which}; give it exactly one of {', '.join(KINDS)}")
    else:
        try:
            Place.of(environment).digest()
        except NoContainer as fault:
            errors.append(f"container: {fault}")
        except (Unreadable, EnvironmentFault, OSError) as fault:
            what = getattr(environment, kinds[0])
            errors.append(f"{kinds[0]}: {_why(Place.of(environment), what, fault)}")
    return [f"environments.{name}: {fault}" for fault in errors]


def conda_faults(environments: Mapping[str, Environment]) -> list[str]:
    """Which environments of a study conda cannot install as they are: Snakemake gives it a copy of
    the file, and knows by the copy whether it changed."""
    files = {name: env.file for name, env in environments.items() if env.file}
    return [
        f"environments.{name}: {file} refers to other files, which --use-conda neither finds nor"
        " watches; write their lines into the file, or leave --use-conda out"
        for name, file in files.items()
        if read(Path(file).expanduser())[1].refers
    ]


def _why(place: Place, given: str, fault: Exception) -> str:
    path = Path(place.absolute)
    if place.kind == "container":
        return f"{given}: {fault}; give an image that has python3, and an engine that starts it"
    if not path.exists():
        return f"{given} does not exist; give the path of one that does"
    if path.is_dir():
        inside = path / "bin/python"
        hint = f"; write {given.rstrip('/')}/bin/python" if inside.exists() else ""
        return f"{given} is a folder{hint or '; give the path of a file'}"
    if place.kind == "python":
        return f"{given}: {fault}; give the path of a Python that runs"
    return f"{fault}; docs/environments.md has an example"


def cell_faults(
    cell: Cell, own: Mapping[str, Environment], usable: Iterable[str], photos: bool
) -> list[str]:
    """What is wrong with a cell's environment.

    Args:
        own: the environments of the study.
        usable: the names of those without faults.
        photos: whether the cell's data set has photos.
    """
    environment = own.get(cell.environment)
    if environment is None:
        return []
    name = cell.environment
    if environment.framework != cell.framework:
        return [
            f"environment: {name} has {environment.framework}, not {cell.framework}; write a sweep "
            "of its own for each framework"
        ]
    if name not in usable:
        return []
    place = Place.of(environment)
    lacking = [] if place.kind == "file" else _lacking(place, cell, photos)
    if not lacking:
        return []
    if place.kind == "container":
        return [
            f"environment: {name}, {place.path}, lacks what a run needs: {', '.join(lacking)}; "
            f"build an image from it with `RUN python3 -m pip install {shlex.join(lacking)}` "
            "(docs/environments.md), or remove the environment"
        ]
    install = [place.absolute, "-m", "pip", "install", *lacking]
    return [
        f"environment: {name} lacks what a run needs; install it with `{shlex.join(install)}`, or "
        "remove the environment"
    ]


def _lacking(place: Place, cell: Cell, photos: bool) -> list[str]:
    """The packages that a run of a cell needs and that an interpreter lacks."""
    needed = frameworks.modules(cell.framework, cell.style)
    if cell.reads:
        kind = frameworks.record_format(cell.framework)
        needed |= READERS.get(kind, {}) | (PHOTOS.get(kind, {}) if photos else {})
    absent = _read(place).lacking
    return [package for module, package in needed.items() if module in absent]


def _read(place: Place) -> Contents:
    """What an interpreter sees, of all modules that a run of any framework needs. Raises
    Unreadable and NoContainer."""
    if place.kind == "container":
        return contents(_container(place.path).python("cpu"), _modules())
    return contents(place.absolute, _modules())


@cache
def _container(image: str) -> Container:
    """Raises NoContainer."""
    return containers.find(image, environments.installed() / "containers")


@cache
def _modules() -> tuple[str, ...]:
    of_frameworks = [frameworks.modules(name, PLAIN) for name in frameworks.adapters()]
    every = [*of_frameworks, *READERS.values(), *PHOTOS.values()]
    return tuple(sorted({module for modules in every for module in modules}))


Places = Mapping[str, Place]


def add_argument(parser: argparse.ArgumentParser) -> None:
    """The option that says where environments of the user are, as `Place.options` writes it."""
    parser.add_argument(
        "--environment", nargs=3, action="append", default=[], dest="environments",
        metavar=("NAME", "KIND", "PATH"), help=f"of the study: {', '.join(KINDS)}, and its path",
    )  # fmt: skip


def places(arguments: argparse.Namespace) -> Places:
    """By name, the places that a command was given."""
    return {name: Place(kind, path) for name, kind, path in arguments.environments}


def file_of(name: str, framework: str, device: str, style: str, own: Places) -> Path | None:
    """The environment file of a cell; None where its interpreter or image exists already."""
    if name == PINNED:
        return ROOT / frameworks.environment(framework, device, style)
    return Path(own[name].absolute) if own[name].kind == "file" else None


def runner_python(name: str, framework: str, device: str, style: str, own: Places) -> str:
    """The Python that runs a cell, installed if necessary. Raises EnvironmentFault."""
    path = file_of(name, framework, device, style, own)
    if path is None:
        return own[name].python(name, device)
    python = environments.runner_python(path)
    environments.import_once(Path(python), framework)
    environments.remember(path, python)
    return python


def remembered_python(name: str, framework: str, device: str, style: str, own: Places) -> str:
    """The Python that an earlier job of this folder ran such a cell in. Raises EnvironmentFault."""
    path = file_of(name, framework, device, style, own)
    if path is None:
        return own[name].python(name, device)
    return environments.remembered_python(path)
