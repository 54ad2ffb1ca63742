"""The words and numbers of the report."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup

from touchstone.analysis.findings_model import CellSummary, Findings, TrialSummary
from touchstone.analysis.part import RatioEstimate
from touchstone.analysis.ranking_model import ComparisonSummary
from touchstone.plan.names import BEST, framework_name, mode_name, setting_name
from touchstone.plan.programs import DATA
from touchstone.plan.setting import PROGRAM, TRAINING
from touchstone.report.figures.style import style_of
from touchstone.results.planned import COMPARED
from touchstone.results.tables import DIFFERENT_ERA, counted


def number(value: float | None, digits: int = 4) -> str:
    """A number with about `digits` significant digits, never with a bare exponent in prose."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    exponent = int(f"{value:.{digits - 1}e}".split("e")[1])  # after rounding: 9.9996 is 10.00
    decimals = digits - 1 - exponent
    return f"{round(value, decimals):,.{max(decimals, 0)}f}" if decimals < 9 else f"{value:.3g}"


def optional_number(value: float | None, digits: int = 4) -> str | None:
    """A number as text, or None."""
    return None if value is None else number(value, digits)


def listing(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def counts_text(counts: Mapping[str, int], order: Iterable[str] = ()) -> str:
    """Words with their counts, `ok 2, timeout 1`, in the given order, then alphabetical."""
    return counted(Counter(counts).elements(), order)


def ratio_text(value: float) -> str:
    """A ratio with two decimals, or three where two would hide it."""
    return f"{value:.2f}" if value >= 1.01 else f"{value:.3f}"


def relative_text(is_leader: bool, lead: RatioEstimate | None) -> str:
    """A speed relative to the highest one, which is `lead` times this one."""
    return "1 ×" if is_leader else f"{1 / lead.value:.3f} ×" if lead else "–"


def interval_text(ratio: RatioEstimate | TrialSummary) -> str:
    """The interval of a ratio, `[1.70, 2.21]`; empty where there is none."""
    if ratio.low is None or ratio.high is None:
        return ""
    return f"[{_end_text(ratio.low)}, {_end_text(ratio.high)}]"


def _end_text(value: float) -> str:
    """An end of an interval with two decimals, or as many as show on which side of 1 it is."""
    decimals = 2
    while value != 1 and decimals < 6 and float(f"{value:.{decimals}f}") == 1:
        decimals += 1
    return f"{value:.{decimals}f}"


def contrast_text(numbers: Sequence[float], is_ratio: bool) -> str:
    """A ratio or a difference, then its interval if it has one: `0.914 × [0.87, 0.96]`."""
    value, *ends = numbers
    if is_ratio:
        texts = [f"{ratio_text(value)} ×", *map(_end_text, ends)]
    else:
        texts = [f"{x:+.4f}".replace("-", "−") for x in numbers]
    return f"{texts[0]} [{texts[1]}, {texts[2]}]" if ends else texts[0]


def blocks_text(ratio: RatioEstimate) -> str:
    """`n = 3, indicative`: how far to trust a ratio."""
    return f"n = {ratio.n}" + (", indicative" if ratio.indicative else "")


def full_label(cell: CellSummary) -> str:
    """A cell's label with its mode: `PyTorch (eager)`."""
    return _with_mode(cell.label, cell)


def _with_mode(label: str, cell: CellSummary) -> str:
    if cell.workload == PROGRAM:
        return label
    mode = mode_name(cell.framework, cell.factors["mode"])
    if not mode or mode in label:
        return label
    return f"{label[:-1]}, {mode})" if label.endswith(")") else f"{label} ({mode})"


def facet_text(cell: CellSummary) -> str:
    """Network, data set and device of a cell."""
    return f"{cell.network} · {cell.dataset} · {cell.device.upper()}"


def _of_frameworks(comparison: ComparisonSummary) -> bool:
    """Whether the comparison is one of frameworks or modes."""
    return set(comparison.compared) <= set(COMPARED)


def compared_name(comparison: ComparisonSummary, cell: CellSummary) -> str:
    """The name of a cell among those that it is compared with.

    `PyTorch (eager)`, or `batch size 64` where only batch sizes are compared; with the month of its
    release, if the framework is much older than the others.
    """
    if not _of_frameworks(comparison):
        if is_best_beside(comparison, cell):
            return BEST
        values = ((name, cell.factors[name]) for name in comparison.compared if name != "mode")
        return ", ".join(setting_name(name, value, cell.framework) for name, value in values)
    if program := cell.factors.get("program"):
        return f"{program} ({framework_name(cell.stack)})"
    name = _with_mode(framework_name(cell.stack), cell)
    if DIFFERENT_ERA not in cell.flags:
        return name
    return f"{name} (released {cell.released or 'years before the others'})"


def common_cell(findings: Findings, comparison: ComparisonSummary) -> CellSummary:
    """A cell that says what all cells of a comparison have in common: one that does not have the
    mode `best` beside cells of another mode."""
    cells = [findings.cell[cell.cell] for cell in comparison.cells]
    return next((cell for cell in cells if not is_best_beside(comparison, cell)), cells[0])


def is_best_beside(comparison: ComparisonSummary, cell: CellSummary) -> bool:
    """Whether a cell has the mode `best`, and cells that it is compared with have another one."""
    return cell.factors["mode"] == BEST and "mode" in comparison.compared


def row_name(comparison: ComparisonSummary, cell: CellSummary) -> str:
    """The name of a cell in a table that has its setting and its batch size in other columns."""
    return compared_name(comparison, cell) if _of_frameworks(comparison) else full_label(cell)


def setting_of(comparison: ComparisonSummary) -> str:
    """What distinguishes a comparison from others on the same network, data set and device."""
    workload = "" if comparison.workload in (TRAINING, PROGRAM) else comparison.workload
    return ", ".join(filter(None, (workload, comparison.setting)))


def comparison_text(comparison: ComparisonSummary, first: CellSummary) -> str:
    """What all cells of a comparison have in common; `first` is one of them."""
    own = comparison.workload == PROGRAM and comparison.dataset == DATA
    parts = [comparison.network if own else f"{comparison.network} with {comparison.dataset}"]
    if comparison.device:
        parts[0] += f" ({comparison.device.upper()})"
    if not _of_frameworks(comparison):
        mode = mode_name(first.framework, first.factors["mode"])
        parts.append(framework_name(first.stack) + (f" ({mode})" if mode else ""))
    if comparison.batch_size is not None:
        parts.append(f"batch size {comparison.batch_size}")
    setting = setting_of(comparison)
    return ", ".join(parts) + (f" ({setting})" if setting else "")


def missing_words(cell: CellSummary, metric: str) -> list[str]:
    """What to print for the runs without a number: `oom`, `1/3 timeout`, `no value`."""
    if metric in cell.metrics:
        missing = cell.metrics[metric].missing
    else:
        missing = {"no value" if s == "ok" else s: n for s, n in cell.outcomes.items()}
    return [word if n == cell.runs else f"{n}/{cell.runs} {word}" for word, n in missing.items()]


def dot(framework: str) -> Markup:
    """A dot in the framework's colour; the framework's name is always next to it."""
    colour, _ = style_of(framework)
    html = Markup('<span class="dot" style="background:{}" aria-hidden="true"></span>')
    return html.format(colour)
