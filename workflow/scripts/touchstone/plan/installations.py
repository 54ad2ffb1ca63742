"""Two installations that can run here, and which framework both of them have."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from touchstone.contents import Unreadable, contents
from touchstone.environments import EnvironmentFault
from touchstone.errors import UsageError
from touchstone.plan import frameworks


class Installation(NamedTuple):
    """A framework and an adapter that can run here.

    python: with the framework; empty for the environment that the checkout pins
    root: the checkout whose runner and adapters are used
    """

    python: str
    root: Path

    @property
    def place(self) -> str:
        """What names it."""
        return self.python or str(self.root)

    def lacking(self, framework: str) -> list[str]:
        """The packages that a framework's adapter imports and that it has not.

        A checkout lacks none: what it pins is installed when it is needed.

        Raises:
            EnvironmentFault: its Python does not say what is installed.
        """
        needed = frameworks.modules(framework)
        return [package for module, package in needed.items() if module in self._absent()]

    def _absent(self) -> Sequence[str]:
        if not self.python:
            return []
        every = {module for name in frameworks.adapters() for module in frameworks.modules(name)}
        try:
            return contents(self.python, tuple(sorted(every))).lacking
        except Unreadable as fault:
            raise EnvironmentFault(f"{self.python}: {fault}; give another Python") from None


def framework_of(
    sides: Mapping[str, Installation], studied: Sequence[str], framework: str | None
) -> str:
    """The framework to compare: the one that is asked for, or else the only one that both sides and
    the study have.

    Args:
        sides: by name.
        studied: the frameworks of the study.

    Raises:
        UsageError: there is none or a choice, or a side lacks what is asked for.
        EnvironmentFault: a Python does not say what is installed.
    """
    if framework and framework not in studied:
        choices = ", ".join(studied)
        raise UsageError(
            f"--framework: the study has no configuration of {framework}, but of {choices}; give"
            f" --config with a study of {framework}"
        )
    wanted = [framework] if framework else studied
    had = {name: _frameworks(side, wanted) for name, side in sides.items()}
    shared = [name for name in wanted if all(name in names for names in had.values())]
    if len(shared) == 1:
        return shared[0]
    if shared:
        raise UsageError(f"--framework: which one? Both sides have {', '.join(shared)}")
    raise UsageError(_none_shared(sides, had, studied, framework))


def _frameworks(side: Installation, names: Sequence[str]) -> list[str]:
    return [name for name in names if not side.lacking(name)]


def _none_shared(
    sides: Mapping[str, Installation],
    had: Mapping[str, Sequence[str]],
    studied: Sequence[str],
    framework: str | None,
) -> str:
    """Why no framework can be compared, and what to do."""
    if framework:
        texts = [
            f"{name}, {side.place}, lacks {', '.join(side.lacking(framework))}"
            for name, side in sides.items()
            if not had[name]
        ]
        return f"--framework {framework}: {'; '.join(texts)}; install it, or give another framework"
    texts = [
        f"{name}, {side.place}, has {', '.join(_frameworks(side, frameworks.adapters())) or 'none'}"
        for name, side in sides.items()
    ]
    return (
        f"no framework of the study ({', '.join(studied)}) is on both sides: {'; '.join(texts)};"
        " give other sides, or --config with a study of a framework that both have"
    )
