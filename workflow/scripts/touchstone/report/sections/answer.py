"""The answer, in sentences."""

from typing import Any, NamedTuple

from markupsafe import Markup

from touchstone.analysis.findings_model import CellSummary, Findings, MetricSummary
from touchstone.analysis.part import UNIT_OF, RatioEstimate
from touchstone.analysis.ranking_model import (
    AccuracyGap,
    ComparedCell,
    ComparisonSummary,
    NextStep,
    Trust,
)
from touchstone.plan.names import framework_name, setting_name
from touchstone.report.sections.ranking import (
    counted,
    curve_sentences,
    long_runs,
    noisy_turns,
    sentences,
    times_text,
)
from touchstone.report.table import Column, Table, below
from touchstone.report.text import (
    common_cell,
    compared_name,
    comparison_text,
    counts_text,
    full_label,
    is_best_beside,
    listing,
    number,
    relative_text,
)
from touchstone.schema.status import STATUSES

WHOSE_CODE = (
    "Each framework ran through this project's adapter, in the mode in brackets; plain user code"
    " may differ (docs/styles.md)."
)
AUTHORS = "That the programs do the same work is their authors' claim."
BOTH = (
    "The networks ran through this project's adapters, in the mode in brackets. That the programs"
    " do the same work is their authors' claim."
)
AGES_APART = 3
"""Years between releases that the answer mentions."""
SENTENCES = 3
"""Comparisons of a workload that have a sentence; of more there is a matrix."""
POINT = 0.010001
"""Difference of accuracies above which the answer says which is lower: a percentage point."""
LISTED = 4
"""Configurations without a comparison that a sentence names."""


def view(findings: Findings) -> dict[str, Any]:
    """The answer, how far to trust it, and hints."""
    table = matrix(findings)
    return {
        "rankings": rankings(findings),
        "remarks": remarks(findings),
        "trust": trust_sentence(findings.answer.trust),
        "next_step": next_step(findings),
        "caveat": caveat(findings),
        "whose_code": _whose_code(findings),
        "matrix": table.table() if table else None,
        "crossed": table is not None and table.crossed,
        "hints": findings.setup.hints,
    }


def answer(findings: Findings) -> list[str]:
    """The result in words, a paragraph each; the last one says how far to trust it."""
    trust = f"{trust_sentence(findings.answer.trust)} {next_step(findings)}".strip()
    return list(filter(None, [*rankings(findings), *remarks(findings), trust]))


def rankings(findings: Findings) -> list[str]:
    """What was fastest: a paragraph for each comparison, or for all of many of one workload; and
    which configurations are in none."""
    paragraphs = []
    for workload in UNIT_OF:
        comparisons = [o for o in findings.comparisons if o.workload == workload]
        if len(comparisons) > SENTENCES:
            what = "" if workload == "training" else f"{workload.capitalize()}: "
            paragraphs.append(what + counted(findings, comparisons))
        else:
            paragraphs += [sentences(findings, comparison) for comparison in comparisons]
    if not paragraphs:
        return _nothing_to_compare(findings)
    return [*paragraphs, *curve_sentences(findings), *not_compared(findings)]


def not_compared(findings: Findings) -> list[str]:
    """The configurations that no comparison has, with the reason and their speed."""
    texts = []
    for group in findings.answer.not_compared:
        names = [_with_speed(findings.cell[name]) for name in group.cells]
        rest = len(names) - LISTED
        named = "; ".join(names[:LISTED]) + (f"; and {rest} more" if rest > 0 else "")
        texts.append(f"Not compared, {group.why}: {named}.")
    return texts


def _whose_code(findings: Findings) -> str:
    if not findings.cells_of("program"):
        return WHOSE_CODE if findings.answer.cells_with_throughput else ""
    return BOTH if findings.answer.cells_with_throughput else AUTHORS


def _with_speed(cell: CellSummary) -> str:
    unit = UNIT_OF[cell.workload]
    name = f"{full_label(cell)}, {cell.network} with {cell.dataset}, batch size {cell.batch_size}"
    if cell.workload == "operation":
        name = f"{full_label(cell)}, {cell.network} {cell.dataset}"
    speed = cell.metrics.get("step_rate" if cell.workload == "operation" else "throughput")
    return f"{name} ({number(speed.median)} {unit})" if speed else name


def _nothing_to_compare(findings: Findings) -> list[str]:
    speeds = [(c, c.metrics["throughput"]) for c in findings.cells if "throughput" in c.metrics]
    trained = [(c, speed) for c, speed in speeds if c.workload in ("training", "program")]
    if not trained:
        return [
            _operations(findings)
            or "No run reached the end of its measured phase: there is no throughput to compare."
        ]
    if len(trained) == 1:
        return _only_one(*trained[0])
    return [
        "No two configurations with a speed do the same work: they differ in network, data set or"
        " training settings, so there is nothing to compare."
    ]


def _only_one(cell: CellSummary, speed: MetricSummary) -> list[str]:
    """The speed of the only configuration that has one, and what else is known of it: a paragraph
    each."""
    runs = "one run"
    if speed.n > 1:
        runs = f"the median of {speed.n} runs"
        if speed.min != speed.max:
            runs += f", {number(speed.min)} to {number(speed.max)}"
    what = "ran" if cell.workload == "program" else f"trained {cell.network} with {cell.dataset}"
    unit = UNIT_OF[cell.workload]
    first = f"{full_label(cell)} {what} at {number(speed.median)} {unit} ({runs})."
    texts = []
    if len(cell.by_sitting) > 1:
        times = (
            f"{number(median)} on {began[:10]} {began[11:16]} UTC"
            for began, median in cell.by_sitting.items()
        )
        texts.append(f"The medians of its executions are {listing(times)}.")
    if cell.share_of_peak is not None:
        texts.append(
            f"It reached {number(cell.share_of_peak, 2)} % of the highest rate of a matrix product"
            f" that the study measured ({cell.peak_place})."
        )
    if accuracy := cell.metrics.get("test_accuracy"):
        texts.append(f"Its median test accuracy is {(accuracy.median or 0) * 100:.1f} %.")
    return [first, " ".join([*texts, "No other configuration of the study has a speed."])]


def _operations(findings: Findings) -> str:
    """What a study of basic operations only measured; empty where it measured anything else."""
    cells = findings.cells_of("operation")
    rates = [(m.median, c) for c in cells if (m := c.metrics.get("flop_rate")) and m.median]
    if not rates or len(cells) < len(findings.cells):
        return ""
    rate, cell = max(rates, key=lambda pair: pair[0])
    return (
        f"The study measured {len(rates)} configuration{'s' * (len(rates) > 1)} of basic operations"
        f" and trained no network. {full_label(cell)} reached the highest rate, {number(rate)}"
        f" GFLOP/s in {cell.network} {cell.dataset}."
    )


def trust_sentence(trust: Trust | None) -> str:
    """How far to trust the answer, and the main reason."""
    if trust is None:
        return ""
    beyond = number(((trust.reach or 1) - 1) * 100, 2)
    in_turn = trust.unit == "sets"
    repeated = f"{trust.n} {'sets' if in_turn else 'runs'}"
    reason = {
        "one run": "a configuration ran only once",
        "disturbed": (
            f"{trust.disturbed} of {trust.runs} {'rounds' if in_turn else 'runs'} were disturbed"
        ),
        "long runs": "the long runs give other ratios than the turns",
        "interval": f"an interval reaches {beyond} % above its ratio",
        "few runs": f"{repeated} of each configuration",
        None: f"{repeated} or more of each configuration, and narrow intervals",
    }[trust.reason]
    return f"Trust: {trust.level} ({reason})."


def next_step(findings: Findings) -> str:
    """What settles the study's open question."""
    open_ones = sum(comparison.next_step is not None for comparison in findings.comparisons)
    return next_step_sentence(findings.answer.next_step, open_ones)


def next_step_sentence(step: NextStep | None, undecided: int = 1) -> str:
    """What to write into the study to settle an open question, and how long that takes."""
    if step is None:
        return ""
    if step.repeats is None:
        return (
            f"No number of {step.unit} can be promised to settle it: the difference may be nothing,"
            " or the noise too large."
        )
    time = f"about {_duration(step.minutes or 0)}"
    if step.decides:
        what = "it" if undecided == 1 else f"the clearest of {undecided} open comparisons"
        return f"To settle {what} (in 4 of 5 cases), write `{step.edit}` into the study: {time}."
    return f"For intervals, write `{step.edit}` into the study: {time}."


def _duration(minutes: float) -> str:
    if minutes < 1:
        return f"{number(minutes * 60, 2)} more seconds"
    if minutes < 120:
        return f"{number(minutes, 2)} more minutes"
    return f"{number(minutes / 60, 2)} more hours"


def caveat(findings: Findings) -> str:
    """What the intervals mean, and which flags the compared runs have."""
    if not any(comparison.n > 1 for comparison in findings.comparisons):
        return ""
    text = (
        "The brackets are simultaneous 95 % confidence intervals, for the machine as it was then."
        " At most about 1 in 20 studies names a wrong configuration as the fastest"
        " (docs/statistics.md)."
    )
    if flags := findings.answer.flags:
        text += f" Runs carry the flag{'s' if len(flags) > 1 else ''} {listing(flags)}; see below."
    return text


class Entry(NamedTuple):
    """A speed of a matrix; `ratio` is that of the highest to it, `relative` the speed relative to
    the highest, and `first` says whether it is shown to be the fastest."""

    speed: str
    ratio: str
    relative: str
    first: bool


class MatrixRow(NamedTuple):
    """A row of a matrix: an entry, or None, for each of its labels."""

    place: str
    entries: list[Entry | None]


class Matrix(NamedTuple):
    """Speeds by row and column; `crossed`: of one comparison, a factor down and one across."""

    labels: list[str]
    rows: list[MatrixRow]
    unit: str
    crossed: bool

    def table(self) -> Table:
        """The matrix on the page."""
        corner = Markup('<span class="absolute-unit">{}</span>').format(self.unit)
        columns = (
            Column(corner, lambda row: row.place, css="name"),
            *(_matrix_column(place, label) for place, label in enumerate(self.labels)),
        )
        return Table(
            "Speeds of all comparisons",
            columns,
            self.rows,
            what="comparisons",
            csv="tables/comparisons.csv",
            whole="findings.json",
            css="matrix",
        )


def _matrix_column(place: int, label: str) -> Column:
    def speed(row: MatrixRow) -> Markup | None:
        entry = row.entries[place]
        if entry is None:
            return None
        tag = "strong" if entry.first else "span"
        shown = Markup(f'<{tag} data-relative="{{}}">{{}}</{tag}>')
        text = shown.format(entry.relative, entry.speed)
        if entry.first:
            return text + below("fastest")
        highest = Markup("highest: {}&nbsp;×").format(entry.ratio)
        return text + below(highest) if entry.ratio else text

    return Column(label, speed)


def matrix(findings: Findings) -> Matrix | None:
    """Of many comparisons a row for each and a column for each configuration; of one in which two
    factors vary, a row and a column for each of their values. None where sentences suffice."""
    several = [
        comparisons
        for units in (("training", "inference"), ("operation",))
        if len(comparisons := [o for o in findings.comparisons if o.workload in units]) > SENTENCES
    ]
    if several:
        return _of_comparisons(findings, several[0])
    crossed = [comparison for comparison in findings.comparisons if len(comparison.effects) == 2]
    return _of_factors(findings, crossed[0]) if crossed else None


def _of_comparisons(findings: Findings, comparisons: list[ComparisonSummary]) -> Matrix:
    labels = dict.fromkeys(
        compared_name(comparison, findings.cell[cell.cell])
        for comparison in comparisons
        for cell in comparison.cells
    )
    rows = [_matrix_row(findings, comparison, list(labels)) for comparison in comparisons]
    return Matrix(list(labels), rows, UNIT_OF[comparisons[0].workload], crossed=False)


def _of_factors(findings: Findings, comparison: ComparisonSummary) -> Matrix:
    down, across = comparison.effects
    leads = {pair.slower: pair.ratio for pair in comparison.leads}
    placed = {
        (cell.factors[down.factor], cell.factors[across.factor]): compared
        for compared in comparison.cells
        if not is_best_beside(comparison, cell := findings.cell[compared.cell])
    }
    framework = common_cell(findings, comparison).framework
    rows = [
        MatrixRow(
            setting_name(down.factor, row.value, framework),
            [
                _entry(comparison, cell, leads.get(cell.cell)) if cell and cell.speed else None
                for column in across.levels
                for cell in [placed.get((row.value, column.value))]
            ],
        )
        for row in down.levels
    ]
    labels = [setting_name(across.factor, level.value, framework) for level in across.levels]
    return Matrix(labels, rows, UNIT_OF[comparison.workload], crossed=True)


def _matrix_row(findings: Findings, comparison: ComparisonSummary, labels: list[str]) -> MatrixRow:
    leads = {pair.slower: pair.ratio for pair in comparison.leads}
    entries = {
        compared_name(comparison, findings.cell[cell.cell]): _entry(
            comparison, cell, leads.get(cell.cell)
        )
        for cell in comparison.cells
        if cell.speed is not None
    }
    place = comparison_text(comparison, common_cell(findings, comparison))
    return MatrixRow(place, [entries.get(label) for label in labels])


def _entry(comparison: ComparisonSummary, cell: ComparedCell, ratio: RatioEstimate | None) -> Entry:
    return Entry(
        number(cell.speed),
        "" if ratio is None or comparison.too_noisy else times_text(ratio),
        relative_text(cell.cell == comparison.leader, ratio),
        cell.cell == comparison.winner,
    )


def turns_sentence(findings: Findings) -> str:
    """How many comparisons were measured in turn, and how quiet the machine was meanwhile."""
    turns = [comparison.in_turn for comparison in findings.comparisons if comparison.in_turn]
    if not turns:
        return ""
    total, count = len(findings.comparisons), len(turns)
    which = "The speeds" if count == total else f"The speeds of {count} of {total} comparisons"
    sets = listing(dict.fromkeys(_of(group.sets, group.all_sets) for group in turns))
    used, measured = sum(group.rounds for group in turns), sum(group.all_rounds for group in turns)
    text = f"{which} are from slices of work in turn: {sets} sets of fresh processes, {used}"
    if disturbed := sum(group.disturbed for group in turns):
        return (
            f"{text} rounds, although other programs used the cores in {disturbed} of them. Other"
            " programs slow configurations down by different factors, so on an idle machine the"
            " ratios may be others."
        )
    again, apart = sum(group.set_aside for group in turns), sum(group.apart for group in turns)
    text += " rounds" if used == measured else f" of {measured} rounds"
    if used == measured and not again:
        text += ", no other program on the cores"
    else:
        slices = "1 slice was" if again == 1 else f"{again} slices were"
        text += f"; {slices} repeated" if again else "; the others do not count"
        text += ", as other programs used the cores"
        if any(group.moved for group in turns):
            text += " or the hypervisor had moved the cores apart"
    if apart:
        text += f". During {apart} of these {used} rounds, the hypervisor had moved the cores apart"
    return f"{text}."


def remarks(findings: Findings) -> list[str]:
    """What else belongs to the answer: how it was measured, the long runs, sittings, ages of the
    frameworks, accuracies, runs that failed."""
    result = findings.answer
    texts = [
        turns_sentence(findings),
        noisy_turns(findings, findings.comparisons),
        long_runs(findings, findings.comparisons, SENTENCES),
        _sittings_sentence(findings),
        _release_sentence(findings),
    ]
    texts += [_accuracy_sentence(findings, result.accuracy_gap)] if result.accuracy_gap else []
    if failed := result.failed_training_runs:
        texts.append(
            f"{sum(failed.values())} of {result.training_runs} runs gave no full result"
            f" ({counts_text(failed, STATUSES)}); see Outcomes."
        )
    text = " ".join(filter(None, texts))
    return [text] if text else []


def _release_sentence(findings: Findings) -> str:
    """When the compared versions were released, where years lie between them."""
    compared = {cell.cell for comparison in findings.comparisons for cell in comparison.cells}
    cells = (cell for cell in findings.cells if cell.name in compared and cell.released)
    months = {framework_name(cell.framework): cell.released or "" for cell in cells}
    years = [int(month[:4]) + int(month[5:]) / 12 for month in months.values()]
    if not years or max(years) - min(years) <= AGES_APART:
        return ""
    words = (f"{name} in {month}" for name, month in months.items())
    return f"The versions compared were released years apart: {listing(words)}."


def _of(some: int, every: int) -> str:
    return str(some) if some == every else f"{some} of {every}"


def _sittings_sentence(findings: Findings) -> str:
    """When the runs of an answer were made, where several executions made them."""
    sittings = findings.setup.sittings
    of_runs = [comparison for comparison in findings.comparisons if not comparison.in_turn]
    if len(sittings) < 2 or not of_runs:
        return ""
    times = listing(f"{s.began[:10]} {s.began[11:16]} UTC ({s.runs})" for s in sittings)
    return (
        f"The runs are from {len(sittings)} sittings (began, runs): {times}. Only runs of one"
        " sitting are paired; the machine may have changed between them."
    )


def _accuracy_sentence(findings: Findings, gap: AccuracyGap) -> str:
    """Which of the cells compared with one another is less accurate, by how many points."""
    if gap.largest == 0:
        return "The median test accuracies of the configurations compared are the same."
    points = f"{gap.largest * 100:.1f} percentage points"
    if gap.largest <= POINT:
        return f"The test accuracies of the configurations compared differ by at most {points}."
    compared = (o for o in findings.comparisons if any(c.cell == gap.lower for c in o.cells))
    cells = [findings.cell[name] for name in (gap.lower, gap.higher)]
    lower, higher = map(full_label, cells)
    place = ""
    if (comparison := next(compared, None)) is not None:
        lower, higher = (compared_name(comparison, cell) for cell in cells)
        if gap.comparisons > 1:
            place = f"In {comparison_text(comparison, common_cell(findings, comparison))}, "
    text = f"{place}{lower} is {points} less accurate than {higher}."
    return text[0].upper() + text[1:]
