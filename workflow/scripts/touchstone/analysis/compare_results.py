"""Two results folders, cell by cell: what is faster, slower, or cannot be compared, and why."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from touchstone.reading import rows_of
from touchstone.results.files import InputError, read_object, read_text
from touchstone.results.tables import counted
from touchstone.safe_text import csv_of
from touchstone.schema.status import STATUSES
from touchstone.statistics.intervals import (
    LEVEL,
    NO_DIFFERENCE,
    SESSION_SD,
    Noise,
    Ratio,
    logarithms,
    shared_noise,
    unpaired_ratio,
)
from touchstone.statistics.sittings import common_shift, holm, without_shift

COLUMNS = (
    *("cell", "metric", "unit", "n_old", "n_new", "median_old", "median_new"),
    *("ratio", "low", "high", "p_value", "p_holm", "detectable", "verdict", "why", "differences"),
    *("flags_old", "flags_new"),
)
NOT_COMPARABLE = "not comparable"
ONLY_NEW = "only in the new results"
LEAST_RUNS = 2
SHOWN = 20
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
    """One results folder: settings and runs by cell, fingerprints by data set."""

    folder: Path
    settings: dict[str, dict[str, str]]
    runs: dict[str, list[Run]]
    fingerprints: dict[str, dict[str, str]]


class Change(NamedTuple):
    """One cell in both folders. `ratio` is new / old; None where it is not comparable.

    `p_holm` is its p-value, corrected for all cells (`judged_together`).
    """

    cell: str
    old: list[Run]
    new: list[Run]
    ratio: Ratio | None
    verdict: str
    why: str
    differences: list[str]
    p_holm: float | None = None

    @property
    def certain(self) -> bool:
        """Whether its verdict also holds when all cells are judged together."""
        return self.p_holm is not None and self.p_holm < 1 - LEVEL


class Gate(NamedTuple):
    """All cells judged together: `shift` is the ratio of the sittings that most cells share.

    `shift_verdict` is that of the shift, corrected as those of the cells are; both are empty
    where too few cells are judged.
    """

    changes: list[Change]
    shift: Ratio | None
    shift_verdict: str


def read_results(folder: Path, metric: str) -> ResultsFolder:
    """Read a results folder for one metric.

    The tables are read by the names of their columns, so that those of a version with other
    metrics can be read too.

    Raises:
        InputError: a table or a record is missing or damaged, or no run has the metric.
    """
    plan = _rows(folder / "plan.tsv", "\t", ("cell", "dataset"))
    settings = {
        row["cell"]: {k: v for k, v in row.items() if k not in ("cell", "repeats")} for row in plan
    }
    path = folder / "tables" / "measurements.csv"
    names = ("cell", "repeat", "status", "metric", "unit", "value", "flags", "reason")
    runs: dict[str, list[Run]] = defaultdict(list)
    for row in _rows(path, ",", names):
        if row["metric"] != metric or row["cell"] not in settings:
            continue
        record = read_object(folder / "records" / row["cell"] / f"rep{row['repeat']}.json", REMEDY)
        try:
            runs[row["cell"]].append(
                Run(
                    row["status"],
                    row["unit"],
                    float(row["value"]) if row["value"] else None,
                    row["reason"],
                    row["flags"].split(", ") if row["flags"] else [],
                    _checked(record["provenance"]),
                )
            )
        except (ValueError, KeyError) as error:
            cause = f"{row['cell']}, repeat {row['repeat']} is damaged ({error})"
            raise InputError(path, cause, REMEDY) from None
    if not runs:
        raise InputError(path, f"no planned run has the metric {metric}", REMEDY)
    datasets = {values["dataset"] for values in settings.values()}
    return ResultsFolder(folder, settings, dict(runs), fingerprints(folder / "data", datasets))


def _checked(provenance: Any) -> dict[str, Any]:
    """What a record says of its run's machine and software; ValueError where that is damaged."""
    facts = provenance if isinstance(provenance, dict) else {"machine": None}
    software = facts.get("software", {})
    packages = (software.get("packages") if isinstance(software, dict) else None) or []
    if not isinstance(facts.get("machine", {}), dict) or not isinstance(software, dict):
        raise ValueError("its provenance has no machine and software")
    if not isinstance(packages, list) or not all(isinstance(one, str) for one in packages):
        raise ValueError("the packages of its provenance are no list of names")
    return facts


def _rows(path: Path, delimiter: str, needed: Iterable[str]) -> list[dict[str, str]]:
    try:
        (_, header), *rows = rows_of(read_text(path, REMEDY), delimiter)
    except ValueError as fault:
        raise InputError(path, str(fault), REMEDY) from None
    if missing := set(needed) - set(header):
        raise InputError(path, f"columns are missing: {', '.join(sorted(missing))}", REMEDY)
    if any(len(row) != len(header) for _, row in rows):
        raise InputError(path, "a line has more or fewer fields than the heading", REMEDY)
    return [dict(zip(header, row, strict=True)) for _, row in rows]


def fingerprints(folder: Path, datasets: Iterable[str]) -> dict[str, dict[str, str]]:
    """By data set and split, as far as there is a manifest: they are the same in all formats."""
    found = {}
    for dataset in datasets:
        for path in sorted((folder / dataset).glob("*/manifest.json"))[:1]:
            splits = read_object(path, REMEDY).get("splits", {})
            if not isinstance(splits, dict) or not all(
                isinstance(split, dict) for split in splits.values()
            ):
                raise InputError(path, "its splits are no objects", REMEDY)
            found[dataset] = {name: str(split.get("fingerprint")) for name, split in splits.items()}
    return found


def compare(
    old: ResultsFolder,
    new: ResultsFolder,
    metric: str,
    session_sd: float = SESSION_SD,
    side_names: tuple[str, str] = ("old", "new"),
) -> list[Change]:
    """Every cell of either folder, matched by name, in the order of the new plan.

    `session_sd` as `unpaired_ratio` takes it; `side_names` are what messages call the two sides.
    """
    names = [*new.settings, *(name for name in old.settings if name not in new.settings)]
    sides = [_values(side.runs.get(name, [])) for name in names for side in (old, new)]
    noise = shared_noise(logarithms(side) for side in sides if side and min(side) > 0)
    return [_change(name, old, new, metric, session_sd, noise, side_names) for name in names]


def judged_together(changes: list[Change], metric: str, session_sd: float = SESSION_SD) -> Gate:
    """The changes without the shift that most of them share, and p-values for all together.

    The shift is one more test: it may be all that has changed.
    """
    judged = [change.ratio for change in changes if change.ratio]
    shift = common_shift(judged, session_sd)
    ratios = without_shift(judged)
    tests = [*ratios, shift] if shift else ratios
    adjusted = holm([1.0 if (p := ratio.p_value) is None else p for ratio in tests])
    follow = zip(ratios, adjusted, strict=False)
    together = []
    for change in changes:
        if change.ratio:
            ratio, p = next(follow)
            change = change._replace(ratio=ratio, verdict=ratio.verdict(metric), p_holm=p)
        together.append(change)
    certain = shift and adjusted[-1] < 1 - LEVEL
    return Gate(together, shift, shift.verdict(metric) if shift and certain else "")


def _values(runs: Iterable[Run]) -> list[float]:
    return [run.value for run in runs if run.value is not None]


def _change(
    name: str,
    old: ResultsFolder,
    new: ResultsFolder,
    metric: str,
    session_sd: float,
    noise: Noise | None,
    side_names: tuple[str, str],
) -> Change:
    sides = old.runs.get(name, []), new.runs.get(name, [])
    if name not in old.settings or name not in new.settings:
        why = f"only in the {side_names[name in new.settings]} results"
        return Change(name, *sides, None, NOT_COMPARABLE, why, [])
    reasons = _reasons_against(name, old, new, side_names)
    differences = _differences(*sides)
    dataset = new.settings[name]["dataset"]
    if unread := [s for s in (old, new) if dataset not in s.fingerprints]:
        where = " and ".join(side.folder.as_posix() for side in unread)
        differences.append(f"data not checked (no manifest in {where})")
    if reasons:
        return Change(name, *sides, None, NOT_COMPARABLE, "; ".join(reasons), differences)
    ratio = unpaired_ratio(_values(sides[1]), _values(sides[0]), session_sd, noise)
    if ratio is None:
        why = "a value is not positive"
        return Change(name, *sides, None, NOT_COMPARABLE, why, differences)
    return Change(name, *sides, ratio, ratio.verdict(metric), "", differences)


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
    units = [sorted({run.unit for run in side.runs.get(name, [])}) for side in (old, new)]
    if all(units) and units[0] != units[1]:
        reasons.append(f"other unit ({', '.join(units[0])} / {', '.join(units[1])})")
    for side_name, side in zip(side_names, (old, new), strict=True):
        runs = side.runs.get(name, [])
        if any(run.status != "ok" for run in runs):
            reasons.append(f"{side_name}: {counted((run.status for run in runs), STATUSES)}")
        elif without := [run for run in runs if run.value is None]:
            reasons.append(f"{side_name}: no value ({without[0].reason})")
        elif len(runs) < LEAST_RUNS:
            reasons.append(f"{side_name}: {len(runs)} run{'s' * (len(runs) != 1)}, too few repeats")
    return reasons


def _differences(old: Iterable[Run], new: Iterable[Run]) -> list[str]:
    """What of machine and software differs: `cpu_model: A / B`; `package numpy: 1.0 / 2.0`."""
    before, after = (_facts(side) for side in (old, new))
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    texts = [
        f"{key}: {' or '.join(sorted(before.get(key, {'none'})))}"
        f" / {' or '.join(sorted(after.get(key, {'none'})))}"
        for key in keys
    ]
    more = [f"and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
    return texts[:SHOWN] + more


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


def as_table(changes: list[Change], metric: str) -> str:
    """The changes as CSV."""
    lines: list[Sequence[object]] = [COLUMNS]
    for change in changes:
        sides = (change.old, change.new)
        values = [_values(side) for side in sides]
        units = sorted({run.unit for side in sides for run in side})
        ratio = change.ratio
        low, high = (ratio.interval() if ratio else None) or (None, None)
        numbers = [median(side) if side else None for side in values]
        numbers += (
            [ratio.value, low, high, ratio.p_value, change.p_holm, ratio.detectable]
            if ratio
            else [None] * 6
        )
        lines.append(
            [
                *(change.cell, metric, " or ".join(units), *map(len, values)),
                *("" if number is None else repr(float(number)) for number in numbers),
                *(change.verdict, change.why, "; ".join(change.differences)),
                *(counted(flag for run in side for flag in run.flags) for side in sides),
            ]
        )
    return csv_of(lines)


def as_text(gate: Gate, metric: str) -> str:
    """The result in a few lines: counts, the cells with something to say, the differences."""
    changes = gate.changes
    counts = Counter(change.verdict for change in changes)
    verdicts = ("slower", "faster", NO_DIFFERENCE, NOT_COMPARABLE)
    summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in verdicts)
    lines = [f"{metric} of {len(changes)} cells: {summary}"]
    if gate.shift:
        lines.append(f"  {_shift_line(gate)}")
    for verdict in ("slower", "faster", NOT_COMPARABLE):
        found = [change for change in changes if change.verdict == verdict]
        lines += [f"  {verdict}: {_line(change)}" for change in found[:SHOWN]]
        if len(found) > SHOWN:
            lines.append(f"  {verdict}: {len(found) - SHOWN} more cells, all in the table")
    if judged := [change for change in changes if change.ratio]:
        smallest = sorted(c.ratio.detectable or 0.0 for c in judged if c.ratio)
        certain = sum(change.certain for change in judged if change.verdict == "slower")
        lines.append(
            f"Changes of {smallest[0]:.0%} to {smallest[-1]:.0%}, depending on the cell, would be"
            f" shown in 4 of 5 cases{_uncertainty(judged)}. Corrected for {len(judged)} cells"
            f" (Holm), {certain} of {counts['slower']} slower cells remain; the exit status counts"
            " these."
        )
    differing = Counter(text for change in changes for text in change.differences)
    lines += [f"Differs in {n} cells: {text}" for text, n in differing.most_common(SHOWN)]
    return "\n".join(lines)


def _uncertainty(judged: Sequence[Change]) -> str:
    """The smallest and the largest end of the intervals of these changes, in brackets."""
    limits = (change.ratio.detectable_limits for change in judged if change.ratio)
    known = [one for one in limits if one]
    if not known:
        return ""
    low, high = min(low for low, _ in known), max(high for _, high in known)
    return f" (as uncertain as the noise: {low:.0%} to {high:.0%})"


def _shift_line(gate: Gate) -> str:
    """What most cells share, which is taken out of every ratio."""
    assert gate.shift
    low, high = gate.shift.interval() or (0.0, 0.0)
    verdict = f", {gate.shift_verdict}" if gate.shift_verdict else ""
    return (
        f"all cells together: new / old {gate.shift.value:.3f} [{low:.3f}, {high:.3f}]{verdict};"
        " the ratios below are without it"
    )


def _line(change: Change) -> str:
    if change.ratio is None:
        return f"{change.cell}: {change.why}"
    low, high = change.ratio.interval() or (0.0, 0.0)
    flags = counted(flag for run in (*change.old, *change.new) for flag in run.flags)
    return (
        f"{change.cell}: new / old {change.ratio.value:.3f} [{low:.3f}, {high:.3f}],"
        f" {change.ratio.label}" + (f"; flags: {flags}" if flags else "")
    )


def exit_code(gate: Gate) -> int:
    """1 where a cell is slower, corrected for the number of cells, or where most cells are; else 2
    where one that was to be compared cannot be, or none is left; else 0.

    A cell that is only in the new results has nothing to be compared with.
    """
    slower = any(change.verdict == "slower" and change.certain for change in gate.changes)
    if slower or gate.shift_verdict == "slower":
        return 1
    in_old = [change for change in gate.changes if change.why != ONLY_NEW]
    return 2 if not in_old or any(c.verdict == NOT_COMPARABLE for c in in_old) else 0
