"""The cells of a study as its plan lists them: their records, and which may be compared."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from touchstone.plan.model import SETTINGS, Cell, settings
from touchstone.plan.names import BEST, Stack
from touchstone.plan.setting import ELSE, FIRST, PROGRAM, TABLES, TRAINING, Kind
from touchstone.plan.table import cell_of, texts
from touchstone.reading import rows_of
from touchstone.results import digests
from touchstone.results.files import FORMAT, REMAKE, InputError, parse_json, read_text
from touchstone.results.metrics import METRICS, absent

FACTORS = settings(lambda traits: traits.shown == TABLES)
COMPARED = settings(lambda traits: traits.compared == FIRST)
"""The factors in which compared cells may differ, all others being the same."""
COMPARED_ELSE = settings(lambda traits: traits.compared == ELSE)
"""The same where no two cells differ only in these: what a study of one framework asks.
What changes the work or its result is missing here (network, data set, optimizer)."""
MOST_COMPARED = 40
"""Cells that such a group has at most: the number of pairs grows with the square."""
SAME_WORK = tuple(f for f in FACTORS if f not in COMPARED and PROGRAM in SETTINGS[f].of)
"""The factors in which a program and the training cells that it is compared with are equal."""

LATER = settings(lambda traits: traits.of == (PROGRAM,) and traits.shown == TABLES)
"""Factors that a plan of an older version lacks, as it knew no such cells."""
UNKNOWN = "not measured by this version"
"""Why a record has no value of a metric that did not exist when it was made."""

CELL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,249}")
POSITIVE = re.compile(r"0*[1-9][0-9]{0,8}")


class PlannedCell(NamedTuple):
    """A row of `plan.tsv`: its settings, and as `factors` the texts that stand there."""

    name: str
    settings: Cell
    repeats: int
    factors: dict[str, str]

    @classmethod
    def of(cls, name: str, cell: Cell, repeats: int = 1) -> "PlannedCell":
        """The row of a cell."""
        return cls(name, cell, repeats, texts(cell))

    @classmethod
    def of_row(cls, name: str, row: dict[str, str], repeats: int) -> "PlannedCell":
        """The cell whose settings stand in a row; raises ValueError as `plan.table.cell_of`."""
        return cls(name, cell_of(row), repeats, dict.fromkeys(LATER, "") | row)

    @property
    def stack(self) -> Stack:
        """The framework in its environment and style."""
        return Stack(self.settings.framework, self.settings.environment, self.settings.style)

    @property
    def kind(self) -> Kind:
        """What it does: `training`, `inference`, `operation` or `program`."""
        return self.settings.kind


class HasKind(Protocol):
    """A cell of a plan or of a study."""

    @property
    def kind(self) -> Kind: ...


def read_plan(path: Path) -> list[PlannedCell]:
    """The planned cells in order; every column but `cell` and `repeats` is a factor.

    Raises:
        InputError: the file is missing, lacks a column, has no cell or one cell twice.
    """
    try:
        (_, header), *rows = rows_of(read_text(path, REMAKE), "\t")
        if missing := {"cell", "repeats", *FACTORS} - set(header) - set(LATER):
            raise ValueError(f"columns are missing: {', '.join(sorted(missing))}")
        cells: dict[str, PlannedCell] = {}
        for line, row in rows:
            cell = _planned(line, header, row)
            if cell.name in cells:
                raise ValueError(f"line {line} plans {cell.name} again")
            cells[cell.name] = cell
        if not cells:
            raise ValueError("it plans no cell")
    except ValueError as fault:
        raise InputError(path, str(fault), REMAKE) from None
    return list(cells.values())


def _planned(line: int, header: list[str], row: list[str]) -> PlannedCell:
    """The cell of a row; raises ValueError."""
    if len(row) != len(header):
        raise ValueError(f"line {line} has {len(row)} fields, not {len(header)}")
    values = dict(zip(header, row, strict=True))
    name, repeats = values.pop("cell"), values.pop("repeats")
    if not CELL.fullmatch(name):
        raise ValueError(f"line {line}: {name[:100]!r} is no name of a cell")
    if not POSITIVE.fullmatch(repeats):
        raise ValueError(f"line {line}: repeats: {repeats[:100]!r} is no positive integer")
    try:
        return PlannedCell.of_row(name, values, int(repeats))
    except ValueError as fault:
        raise ValueError(f"line {line}: {fault}") from None


def read_records(
    plan: Iterable[PlannedCell], folder: Path
) -> Iterator[tuple[PlannedCell, list[dict[str, Any]]]]:
    """Each planned cell with its records in order of repeats; other files are left alone.

    A record that is not what `parse` wrote has the flag `edited`. Parts of provenances that are
    equal are one object, which keeps a large study small.

    Raises:
        InputError: a record is missing, damaged or not that of its place.
    """
    seen: dict[str, Any] = {}
    for cell in plan:
        records = [_record(folder, cell.name, i) for i in range(1, cell.repeats + 1)]
        for record in records:
            parts = record["provenance"].items()
            record["provenance"] = {name: seen.setdefault(repr(p), p) for name, p in parts}
        yield cell, records


def _record(folder: Path, cell: str, repeat: int) -> dict[str, Any]:
    """The record of a run; it is compared with its model unless it is what `parse` wrote."""
    path = folder / cell / f"rep{repeat}.json"
    text = read_text(path, REMAKE)
    run = folder.parent / "runs" / cell / f"rep{repeat}"
    changed = digests.is_changed(run, path, text)
    try:
        # What `parse` wrote needs no check, which takes longer than reading.
        record: dict[str, Any] = json.loads(text) if changed is False else parse_json(text)
    except ValueError as error:
        raise InputError(path, f"not valid JSON ({error})", REMAKE) from None
    faults = [] if changed is False else _faults(record)
    if not faults and (record["cell"], record["repeat"]) != (cell, repeat):
        faults = ["it is of another run"]
    if faults:
        cause = f"not a record of format {FORMAT} of {cell}, repeat {repeat} ({faults[0]})"
        raise InputError(path, cause, REMAKE)
    if changed and digests.EDITED not in record["flags"]:
        record["flags"].append(digests.EDITED)
    record["metrics"] = {name: _known(name, record["metrics"].get(name)) for name in METRICS}
    return record


def _known(name: str, metric: dict[str, Any] | None) -> dict[str, Any]:
    """A metric of a record, which another version may have made."""
    if metric is None:
        return absent(name, UNKNOWN)
    if metric["unit"] != METRICS[name].unit:
        return absent(name, f"its version measured it in {metric['unit']}")
    return metric


def _faults(record: Any) -> list[str]:
    # This import takes a while, and only files of doubtful origin need it.
    from touchstone.results.record_model import faults

    return faults(record)


def comparable(plan: Iterable[PlannedCell]) -> list[list[PlannedCell]]:
    """The groups of two cells or more that may be compared, each in order of the plan.

    Cells that train, that predict and that call an operation are never in one group; a program is
    in that of its `counterparts`. Of each kind, cells of a group differ only in framework,
    environment or mode; if there is no such group, only in settings of `COMPARED_ELSE`, and there
    are at most `MOST_COMPARED` of them. A cell with the mode `best` is then in the group of the
    cells that have another mode, if they have only one.
    """
    plan = list(plan)
    trained = counterparts(plan)
    kinds: dict[str, list[PlannedCell]] = {}
    for cell in plan:
        kinds.setdefault(trained.get(cell.name, cell).kind, []).append(cell)
    groups: list[list[PlannedCell]] = []
    for cells in kinds.values():
        of_kind = _differing_by(cells, COMPARED, trained)
        if not of_kind:
            other = _differing_by(cells, COMPARED_ELSE, trained, any_best=True)
            of_kind = [group for group in other if len(group) <= MOST_COMPARED]
        groups += of_kind
    return groups


def counterparts(plan: Sequence[PlannedCell]) -> dict[str, PlannedCell]:
    """By program that names the network and the data of cells that train, one of these cells.

    They are equal in all of `SAME_WORK`. A program that fits cells which are not compared with one
    another, as those of two precisions, has none.
    """
    by_work: dict[tuple[Any, ...], dict[tuple[str, ...], PlannedCell]] = {}
    for cell in plan:
        if cell.kind == TRAINING:
            groups = by_work.setdefault(_work(cell), {})
            groups.setdefault(_others(cell, COMPARED), cell)
    by_program = {}
    for cell in plan:
        groups = by_work.get(_work(cell), {})
        if cell.kind == PROGRAM and len(groups) == 1:
            (by_program[cell.name],) = groups.values()
    return by_program


def kind_of(cells: Iterable[HasKind]) -> Kind:
    """What the cells of a group do: that of the cells which are no programs, if there are any."""
    return next((cell.kind for cell in cells if cell.kind != PROGRAM), PROGRAM)


def _work(cell: PlannedCell) -> tuple[Any, ...]:
    return tuple(getattr(cell.settings, name) for name in SAME_WORK)


def _others(cell: PlannedCell, names: Sequence[str]) -> tuple[str, ...]:
    """The values of all factors but these."""
    return tuple(value for name, value in cell.factors.items() if name not in names)


def _differing_by(
    plan: Iterable[PlannedCell],
    names: Sequence[str],
    trained: Mapping[str, PlannedCell],
    any_best: bool = False,
) -> list[list[PlannedCell]]:
    """Groups of two cells or more with the same factors but for `names`, and, with `any_best`, the
    mode `best`; a program has the factors of its counterpart."""
    apart = (*names, "mode") if any_best else names
    groups: dict[tuple[str, ...], list[PlannedCell]] = {}
    for cell in plan:
        groups.setdefault(_others(trained.get(cell.name, cell), apart), []).append(cell)
    parts = []
    for group in groups.values():
        modes = dict.fromkeys(cell.settings.mode for cell in group) if any_best else {}
        if len(modes.keys() - {BEST}) > 1:
            parts += [[cell for cell in group if cell.settings.mode == mode] for mode in modes]
        else:
            parts.append(group)
    return [group for group in parts if len(group) > 1]
