"""What the code must know of a setting beside its type, its text and its usual value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from touchstone.plan.model import Cell

Kind = Literal["training", "inference", "operation", "program"]
TRAINING: Kind = "training"
INFERENCE: Kind = "inference"
OPERATION: Kind = "operation"
PROGRAM: Kind = "program"
"""The kinds of cells."""
OF_A_NETWORK = (TRAINING, INFERENCE)
OF_ALL = (*OF_A_NETWORK, OPERATION, PROGRAM)
INITIAL_WEIGHTS, WEIGHTS = "initial weights", "weights"
RECORDS, TABLES = "records", "tables"
FIRST, ELSE = "first", "else"
OWN = object()
"""The value in a probe of a setting on which memory depends: that of the cell."""


class Need(NamedTuple):
    """What else a cell must have for a setting to have an effect, in words and as a test."""

    words: str
    holds: Callable[[Cell], bool]


class Setting(NamedTuple):
    """The traits of a setting, from which every list of settings is made.

    of: the kinds of cells that heed it
    in_names: what precedes its value in a cell's name; None: names do not spell it out
    decides: `INITIAL_WEIGHTS`, or the `WEIGHTS` that a training leaves
    probe: its value in a search for the largest batch, of a setting on which memory does not depend
    shown: in the factors of `RECORDS`, or in these and as a column of all `TABLES`
    compared: compared cells may differ in it: `FIRST`, or `ELSE` where no two cells of a study
        differ in a setting of the former kind only
    scales: whether a cell of several replicas may differ in it from its baseline
    needs: what else it needs
    common: whether it is one of the dozen that users set first
    """

    of: tuple[Kind, ...]
    in_names: str | None = None
    decides: str | None = None
    probe: Any = OWN
    shown: str | None = None
    compared: str | None = None
    scales: bool = False
    needs: Need | None = None
    common: bool = False
