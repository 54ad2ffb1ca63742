"""What the gate found, as lines of text and as a table."""

from collections import Counter
from collections.abc import Sequence
from math import ceil, exp
from statistics import fmean, median

from touchstone.analysis.compare_results import MOST_LINES, NOT_COMPARABLE, Change
from touchstone.analysis.gate import (
    CANNOT_TELL,
    NOT_COMPARED,
    SLOWER,
    Gate,
    least_slowdown,
)
from touchstone.results.tables import counted
from touchstone.safe_text import csv_of
from touchstone.statistics.intervals import NO_DIFFERENCE, Ratio, logarithms

COLUMNS = (
    *("cell", "metric", "unit", "n_old", "n_new", "median_old", "median_new"),
    *("ratio", "low", "high", "p_value", "p_holm", "detectable", "verdict", "not_excluded"),
    *("basis", "why", "differences", "flags_old", "flags_new"),
)
VERDICTS = ("slower", "faster", NO_DIFFERENCE, NOT_COMPARABLE)


def as_table(gate: Gate) -> str:
    """The changes as CSV; `not_excluded` is the largest slowdown in the interval, the shift that
    most cells share included."""
    lines: list[Sequence[object]] = [COLUMNS]
    for change in gate.changes:
        sides = (change.old, change.new)
        units = sorted({run.unit for side in sides for run in side})
        numbers = [median(side) if side else None for side in change.values]
        ratio = change.ratio
        low, high = (ratio.interval() if ratio else None) or (None, None)
        judged = (
            [ratio.value, low, high, ratio.p_value, change.p_holm, ratio.detectable]
            if ratio
            else []
        )
        numbers += judged or [None] * 6
        lines.append(
            [
                *(change.cell, gate.metric, " or ".join(units), *map(len, change.values)),
                *map(_exact, numbers),
                *(change.verdict, _exact(gate.slowdown(change.whole) if ratio else None)),
                *(change.basis, change.why, "; ".join(change.differences)),
                *(counted(flag for run in side for flag in run.flags) for side in sides),
            ]
        )
    return csv_of(lines)


def _exact(number: float | None) -> str:
    return "" if number is None else repr(float(number))


def as_text(gate: Gate) -> str:
    """The result in a few lines: counts, the cells, what differs; `verdict_of` has its meaning."""
    counts = Counter(change.verdict for change in gate.changes)
    summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    lines = [f"{gate.metric} of {configurations(len(gate.changes))}: {summary}"]
    if gate.shift:
        lines.append(f"  {_shift_line(gate, gate.shift)}")
    for verdict in VERDICTS:
        changes = [change for change in gate.changes if change.verdict == verdict]
        lines += [f"  {verdict}: {line_of(change)}" for change in changes[:MOST_LINES]]
        if len(changes) > MOST_LINES:
            lines.append(f"  {verdict}: {len(changes) - MOST_LINES} more, all in the table")
    if gate.judged:
        lines.append(_power(gate.judged, counts["slower"]))
    differing = Counter(text for change in gate.changes for text in change.differences)
    lines += [
        f"Differs in {configurations(n)}: {text}" for text, n in differing.most_common(MOST_LINES)
    ]
    return "\n".join(lines)


def verdict_of(gate: Gate) -> str:
    """The exit status in words, with the largest slowdown that is not excluded."""
    worst = gate.worst
    if gate.status == SLOWER:
        names = [change.cell for change in gate.slower] or ["all cells together"]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"Slower: {', '.join(names[:3])}{more}.{_not_excluded(gate)}"
    if gate.status == NOT_COMPARED:
        n = len(gate.not_compared)
        what = f"{configurations(n)} cannot be compared" if n else "there is nothing to compare"
        return f"Not compared: {what}.{_not_excluded(gate)}"
    assert worst
    if gate.status == CANNOT_TELL:
        return f"Cannot tell.{_not_excluded(gate)}{_remedy(gate)}"
    if gate.tolerance is None:
        return f"Nothing is shown to be slower.{_not_excluded(gate)}"
    return f"Passed: no slowdown of more than {100 * gate.tolerance:g} % in {_all(gate)}."


def _not_excluded(gate: Gate) -> str:
    """A sentence on the largest slowdown that is not excluded; empty where nothing is judged."""
    if not gate.worst:
        return ""
    largest = percent(gate.slowdown(gate.worst.whole))
    where = "" if len(gate.judged) == 1 else f", of {gate.worst.cell}"
    text = f" A slowdown of up to {largest} is not excluded{where}."
    if gate.tolerance is None:
        return text
    n, of = len(gate.undecided), len(gate.judged)
    tolerance = f"{100 * gate.tolerance:g} %"
    return f"{text} More than the tolerance of {tolerance} is not excluded in {n} of {of}."


def _remedy(gate: Gate) -> str:
    """What can be done where nothing is decided."""
    if not gate.session_sd:
        return " It takes more sets (--precision, --max-sets, --max-seconds) or a quieter machine."
    least = least_slowdown(gate.session_sd)
    assert gate.tolerance is not None
    if gate.tolerance < least:
        return (
            f" Two sittings with equal speeds cannot exclude less than {percent(least)}, as"
            f" sittings differ by {100 * gate.session_sd:g} % (--session-sd)."
            " Measure two installations in turn."
        )
    return " It takes more repeats or a quieter machine."


def _all(gate: Gate) -> str:
    n = len(gate.judged)
    return "the configuration" if n == 1 else f"any of {n} configurations"


def configurations(n: int) -> str:
    """`1 configuration`, `2 configurations`."""
    return f"{n} configuration{'s' * (n != 1)}"


def percent(share: float) -> str:
    """`54 %`, and below a tenth `4.2 %`, rounded up: it is a bound."""
    if share == float("inf"):
        return "any size"
    digits = 0 if share >= 0.1 else 1
    scale = 10**digits
    return f"{ceil(round(share * 100 * scale, 6)) / scale:.{digits}f} %"


def span(low: float, high: float) -> str:
    """`3 %`, `3 to 12 %`, or `3 to over 100 %`."""
    ends = ("over 100" if share > 1 else f"{100 * share:.0f}" for share in (low, high))
    return f"{' to '.join(dict.fromkeys(ends))} %"


def _power(judged: Sequence[Change], slower: int) -> str:
    """Which changes would be shown, and how many verdicts hold for all cells together."""
    smallest = sorted(change.ratio.detectable or 0.0 for change in judged if change.ratio)
    size = span(smallest[0], smallest[-1])
    text = f"Changes of {size} would be shown in 4 of 5 cases{_uncertainty(judged)}."
    if len(judged) == 1:
        return text
    certain = sum(change.certain for change in judged if change.verdict == "slower")
    return (
        f"{text} Corrected for {len(judged)} configurations (Holm), {certain} of {slower} that are"
        " slower remain; the exit status counts these."
    )


def _uncertainty(judged: Sequence[Change]) -> str:
    """The smallest and the largest end of the intervals of these changes, in brackets."""
    limits = (change.ratio.detectable_limits for change in judged if change.ratio)
    ends = [pair for pair in limits if pair]
    if not ends:
        return ""
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return f" (as uncertain as the noise: {span(low, high)})"


def _shift_line(gate: Gate, shift: Ratio) -> str:
    """What most cells share, which is taken out of every ratio."""
    verdict = f", {gate.shift_verdict}" if gate.shift_verdict != NO_DIFFERENCE else ""
    return (
        f"all cells together: new / old {interval_of(shift)}{verdict};"
        " the ratios below are without it, the speeds with it"
    )


def line_of(change: Change) -> str:
    """A configuration's speeds, ratio and basis; or why it is not compared."""
    if change.ratio is None:
        return f"{change.cell}: {change.why}"
    flags = counted(flag for run in (*change.old, *change.new) for flag in run.flags)
    return (
        f"{change.cell}: {amounts_of(change)}, new / old {interval_of(change.ratio)},"
        f" {'indicative: ' * change.ratio.indicative}{change.basis}"
        + (f"; flags: {flags}" if flags else "")
    )


def interval_of(ratio: Ratio) -> str:
    """`0.95 [0.91, 0.99]`, with three decimals."""
    low, high = ratio.interval() or (0.0, 0.0)
    return f"{ratio.value:.3f} [{low:.3f}, {high:.3f}]"


def amounts_of(change: Change) -> str:
    """`9,000 -> 8,100 images/s`: geometric means, whose quotient is the ratio."""
    unit = next((run.unit for run in (*change.new, *change.old)), "")
    old, new = (exp(fmean(logarithms(side))) for side in change.values)
    return f"{_amount(old)} -> {_amount(new)} {unit}"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
