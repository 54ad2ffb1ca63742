"""Two results folders, cell by cell: what is faster, slower, or cannot be compared, and why."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

from touchstone.reading import parse_json
from touchstone.results.files import InputError, read_object, read_text
from touchstone.results.interleaved import ADAPTIVE, Measured, measured, read_interleaved
from touchstone.results.metrics import METRICS, directions
from touchstone.results.study import Study, read_study
from touchstone.results.tables import counted
from touchstone.schema.interleaved import FORMAT, Interleaved
from touchstone.schema.status import STATUSES
from touchstone.statistics.intervals import (
    LEVEL,
    SESSION_SD,
    Noise,
    Ratio,
    logarithms,
    shared_noise,
    unpaired_ratio,
)

NOT_COMPARABLE = "not comparable"
ONLY_NEW = "only in the new results"
LEAST_RUNS = 2
MOST_LINES = 20
"""Lines of the text for each verdict, and differences for each cell."""
REMEDY = "Give a results folder whose tables and records are complete"


class Run(NamedTuple):
    """A run's row of the measurements, and where it ran."""

    status: str
    unit: str
    value: float | None
    reason: str
    flags: list[str]
    provenance: dict[str, Any]


class ResultsFolder(NamedTuple):
    """One results folder: settings and runs by cell, fingerprints by data set, and what cells that
    were measured in turn show."""

    folder: Path
    settings: dict[str, dict[str, str]]
    runs: dict[str, list[Run]]
    fingerprints: dict[str, dict[str, str]]
    turns: Sequence[Measured] = ()


class Change(NamedTuple):
    """One cell on both sides.

    Attributes:
        old, new: its runs; of two installations, the sets of turns.
        ratio: new / old, without the shift that most cells share (`judged_together`); None where it
            is not comparable.
        values: that the ratio is made from, of old and new.
        basis: what these are: runs, or sets of turns.
        p_holm: its p-value, corrected for all cells (`judged_together`).
        whole: new / old with that shift.
        together: the cells with which it took turns, whose values share the level of a set.
    """

    cell: str
    old: list[Run]
    new: list[Run]
    ratio: Ratio | None
    verdict: str
    why: str
    differences: list[str]
    values: tuple[list[float], list[float]] = ([], [])
    basis: str = ""
    p_holm: float | None = None
    whole: Ratio | None = None
    together: tuple[str, ...] = ()

    @property
    def certain(self) -> bool:
        """Whether its verdict also holds when all cells are judged together."""
        return self.p_holm is not None and self.p_holm < 1 - LEVEL


def read_results(folder: Path, metric: str) -> ResultsFolder:
    """Read a results folder for one metric.

    Raises:
        InputError: a table or a record is missing or damaged.
    """
    turns = _turns(folder / "interleaved")
    try:
        study = read_study(folder / "plan.tsv", folder / "tables", folder / "records", turns)
    except InputError as fault:  # the folder may be a copy, which no workflow makes again
        raise InputError(fault.file, fault.cause, REMEDY) from None
    prints = fingerprints(folder / "data", {cell.plan.settings.dataset for cell in study.cells})
    shown = [measurement for group in turns if (measurement := measured(group))]
    return results_of(study, folder, metric, prints, shown if metric == "throughput" else [])


def results_of(
    study: Study,
    folder: Path,
    metric: str,
    prints: dict[str, dict[str, str]],
    turns: Sequence[Measured] = (),
) -> ResultsFolder:
    """The values of one metric of a study, as `compare` takes them."""
    runs = {
        cell.plan.name: [
            Run(
                run.status,
                METRICS[metric].unit,
                run.values[metric],
                run.reasons.get(metric, ""),
                run.flags,
                run.provenance,
            )
            for run in cell.runs
        ]
        for cell in study.cells
    }
    settings = {cell.plan.name: cell.plan.factors for cell in study.cells}
    return ResultsFolder(folder, settings, runs, prints, turns)


def _turns(folder: Path) -> list[Interleaved]:
    """What was measured in turn; files of an older format are left out."""
    texts = {path: read_text(path, REMEDY) for path in sorted(folder.glob("*.json"))}
    return read_interleaved(path for path, text in texts.items() if _format(path, text) == FORMAT)


def _format(path: Path, text: str) -> Any:
    try:
        value = parse_json(text)
    except ValueError as fault:
        raise InputError(path, f"not valid JSON ({fault})", REMEDY) from None
    return value.get("format") if isinstance(value, dict) else None


def fingerprints(folder: Path, datasets: Iterable[str]) -> dict[str, dict[str, str]]:
    """By data set and split, as far as there is a manifest: they are the same in all formats."""
    prints = {}
    for dataset in datasets:
        for path in sorted((folder / dataset).glob("*/manifest.json"))[:1]:
            splits = read_object(path, REMEDY).get("splits", {})
            if not isinstance(splits, dict) or not all(
                isinstance(split, dict) for split in splits.values()
            ):
                raise InputError(path, "its splits are no objects", REMEDY)
            prints[dataset] = {key: str(split.get("fingerprint")) for key, split in splits.items()}
    return prints


def compare(
    old: ResultsFolder,
    new: ResultsFolder,
    metric: str,
    session_sd: float = SESSION_SD,
    side_names: tuple[str, str] = ("old", "new"),
) -> list[Change]:
    """Every cell of either folder, matched by name, in the order of the new plan.

    Cells that both sides measured in turn are compared by the speeds of their sets, the others by
    their runs (docs/statistics.md). The noise of sets and that of runs are moderated apart.
    `session_sd` as `unpaired_ratio` takes it; `side_names` are what messages call the two sides.
    """
    compared = {name: _compared(name, old, new) for name in {**new.settings, **old.settings}}
    noise = {
        in_turn: shared_noise(
            logarithms(side)
            for pair in compared.values()
            if pair.in_turn == in_turn
            for side in (pair.old, pair.new)
            if side and min(side) > 0
        )
        for in_turn in (True, False)
    }
    return [
        _change(
            name, old, new, metric, pair, pair.ratio(session_sd, noise[pair.in_turn]), side_names
        )
        for name, pair in compared.items()
    ]


class Compared(NamedTuple):
    """The values of a cell that are compared: of its runs, or of the sets in which it took turns.

    together: the cells that took these turns; none of runs
    adaptive: as of `Measured`
    """

    old: list[float]
    new: list[float]
    together: tuple[str, ...] = ()
    adaptive: bool = False

    @property
    def in_turn(self) -> bool:
        """Whether they are of sets."""
        return bool(self.together)

    @property
    def basis(self) -> str:
        """`3 and 5 runs`."""
        what = "sets of turns" if self.in_turn else "runs"
        return f"{len(self.old)} and {len(self.new)} {what}"

    def ratio(self, session_sd: float, noise: Noise | None) -> Ratio | None:
        """New / old, as `unpaired_ratio` of sittings has it."""
        ratio = unpaired_ratio(self.new, self.old, session_sd, noise)
        if ratio is None or ratio.error is None or not self.adaptive:
            return ratio
        return ratio._replace(error=sqrt(ADAPTIVE) * ratio.error)


def _compared(name: str, old: ResultsFolder, new: ResultsFolder) -> Compared:
    """The sets of turns of a cell, if both sides measured it in turn with the same other cells;
    else its runs."""
    for before in old.turns:
        for after in new.turns:
            if name in before.cells and set(before.cells) == set(after.cells):
                sets = [list(side.speeds[name].values()) for side in (before, after)]
                if min(map(len, sets)) >= LEAST_RUNS:
                    adaptive = before.adaptive or after.adaptive
                    return Compared(sets[0], sets[1], tuple(after.cells), adaptive)
    return Compared(_values(old.runs.get(name, [])), _values(new.runs.get(name, [])))


def _values(runs: Iterable[Run]) -> list[float]:
    return [run.value for run in runs if run.value is not None]


def _change(
    name: str,
    old: ResultsFolder,
    new: ResultsFolder,
    metric: str,
    compared: Compared,
    ratio: Ratio | None,
    side_names: tuple[str, str],
) -> Change:
    sides = old.runs.get(name, []), new.runs.get(name, [])
    values = compared.old, compared.new
    if name not in old.settings or name not in new.settings:
        why = f"only in the {side_names[name in new.settings]} results"
        return Change(name, *sides, None, NOT_COMPARABLE, why, [], values)
    reasons = _reasons_against(name, old, new, side_names)
    differences = differences_of(*sides)
    dataset = new.settings[name]["dataset"]
    if unread := [s for s in (old, new) if dataset not in s.fingerprints]:
        where = " and ".join(side.folder.as_posix() for side in unread)
        differences.append(f"data not checked (no manifest in {where})")
    if not reasons and ratio is None:
        reasons = ["a value is not positive"]
    if reasons or ratio is None:
        return Change(name, *sides, None, NOT_COMPARABLE, "; ".join(reasons), differences, values)
    change = Change(name, *sides, ratio, ratio.verdict(directions(metric)), "", differences, values)
    return change._replace(basis=compared.basis, together=compared.together)


def _reasons_against(
    name: str, old: ResultsFolder, new: ResultsFolder, side_names: tuple[str, str]
) -> list[str]:
    """Why the two sides of a cell do not measure the same thing, or not often enough."""
    reasons = []
    before, after = old.settings[name], new.settings[name]
    reasons += [
        f"other {key} ({before[key] or 'none'} / {after[key] or 'none'})"
        for key in before
        if key in after and before[key] != after[key]
    ]
    dataset = after["dataset"]
    prints = [side.fingerprints.get(dataset) for side in (old, new)]
    if all(prints) and prints[0] != prints[1]:
        reasons.append(f"other data ({dataset} has another fingerprint)")
    for side_name, side in zip(side_names, (old, new), strict=True):
        runs = side.runs.get(name, [])
        if any(run.status != "ok" for run in runs):
            reasons.append(f"{side_name}: {counted((run.status for run in runs), STATUSES)}")
        elif without := [run for run in runs if run.value is None]:
            reasons.append(f"{side_name}: no value ({without[0].reason})")
        elif len(runs) < LEAST_RUNS:
            reasons.append(f"{side_name}: {len(runs)} run{'s' * (len(runs) != 1)}, too few repeats")
    return reasons


def differences_of(old: Iterable[Run], new: Iterable[Run]) -> list[str]:
    """What of machine and software differs: `cpu_model: A / B`; `package numpy: 1.0 / 2.0`."""
    before, after = (_facts(side) for side in (old, new))
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    texts = [
        f"{key}: {' or '.join(sorted(before.get(key, {'none'})))}"
        f" / {' or '.join(sorted(after.get(key, {'none'})))}"
        for key in keys
    ]
    more = [f"and {len(texts) - MOST_LINES} more"] if len(texts) > MOST_LINES else []
    return texts[:MOST_LINES] + more


def _facts(runs: Iterable[Run]) -> dict[str, set[str]]:
    facts: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for part in ("machine", "software"):
            for key, value in run.provenance.get(part, {}).items():
                if key not in ("packages", "environment"):
                    facts[key].add(str(value))
        for package in run.provenance.get("software", {}).get("packages") or []:
            name, _, version = package.partition("==")
            facts[f"package {name}"].add(version)
    return facts
