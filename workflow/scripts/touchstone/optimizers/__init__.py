"""The update equations, one file each, found by its name; adam.py says what such a file has."""

import importlib
import os
from functools import lru_cache
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

Stepped = Callable[[float, List[float]], Tuple[float, List[float]]]
"""One step with single numbers: what it does with a gradient and states; see adam.py."""


class OwnSetting(NamedTuple):
    """A setting that cells of some optimizers have.

    name: as a study writes it
    default: its usual value, whose type is that of the setting
    description: what it is
    bounds: `ge`, `gt`, `le` and `lt` with their numbers
    """

    name: str
    default: Any
    description: str
    bounds: Dict[str, float] = {}


@lru_cache(maxsize=None)
def names() -> List[str]:
    """The optimizers: the files of this folder whose names begin with a letter."""
    files = os.listdir(os.path.dirname(os.path.abspath(__file__)))
    return sorted(name[:-3] for name in files if name.endswith(".py") and name[0].isalpha())


def load(name: str) -> Any:
    """The file of that name."""
    return importlib.import_module("touchstone.optimizers." + name)


def equation(name: str) -> str:
    """The optimizer whose equation the one of that name has: itself, unless its file says which."""
    optimizer: str = getattr(load(name), "EQUATION", name)
    return optimizer


def equations() -> List[str]:
    """The optimizers that have an equation of their own."""
    return [name for name in names() if equation(name) == name]


def own_settings(name: str) -> Tuple[OwnSetting, ...]:
    """The settings that an optimizer has of its own."""
    options: Tuple[OwnSetting, ...] = load(name).SETTINGS
    return options


def usual(name: str) -> Dict[str, Any]:
    """The values that other settings of a cell have with an optimizer where nobody says otherwise;
    none where there is no such optimizer."""
    values: Dict[str, Any] = getattr(load(name), "USUAL", {}) if name in names() else {}
    return values


def fault(name: str, settings: Dict[str, Any]) -> str:
    """What is wrong with the settings of a cell that has this optimizer, or an empty text."""
    file = load(name)
    message: str = file.fault(settings) if hasattr(file, "fault") else ""
    return message


def settings() -> List[Tuple[OwnSetting, Tuple[str, ...]]]:
    """Every own setting, with the optimizers that have it.

    Raises ValueError if two files declare one name differently: what they share is declared once.
    """
    by_name: Dict[str, Tuple[OwnSetting, Tuple[str, ...]]] = {}
    for optimizer in names():
        for own in own_settings(optimizer):
            first, others = by_name.get(own.name, (own, ()))
            if first is not own:
                message = "optimizers/{}.py declares {} again, which {} has; import that one"
                raise ValueError(message.format(optimizer, own.name, others[0]))
            by_name[own.name] = own, others + (optimizer,)
    return list(by_name.values())
