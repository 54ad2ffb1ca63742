"""A study's tables as CSV, Markdown and LaTeX: measured beside published."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pandas import DataFrame

from touchstone.published.entries import Entry, Pivot, head, not_comparable
from touchstone.published.table import number
from touchstone.results.metrics import words
from touchstone.safe_text import cell

BLANK = "A blank cell: neither the source nor this study has such a figure."
COLUMNS = (
    *("metric", "read as", "unit", "published", "measured_median", "measured_min", "measured_max"),
    *("n", "difference", "ratio", "reason", "remark", "flags", "cell", "line"),
)


def csv_of(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as CSV: numbers with all their digits, None as an empty cell."""
    safe = [[*map(cell, row)] for row in rows]
    return DataFrame(safe, columns=list(columns), dtype=object).to_csv(
        index=False, lineterminator="\n"
    )


def markdown_of(
    title: str, heads: Sequence[str], rows: Iterable[Iterable[str]], below: Iterable[str]
) -> str:
    """A table as Markdown, with its title above it and lines of text below it."""
    lines = [heads, ["---"] * len(heads), *rows]
    table = ("| " + " | ".join(part.replace("|", "\\|") for part in line) + " |" for line in lines)
    return "\n".join([f"**{title}**", "", *table, *below]) + "\n"


def latex_of(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], alignment: str, below: str
) -> str:
    """A table as LaTeX (booktabs) with text below it; all but the caption and the text is LaTeX
    already. `alignment` has a letter for each column."""
    table = DataFrame(list(rows), columns=list(heads)).to_latex(
        index=False, escape=False, column_format=alignment
    )
    return f"""% needs \\usepackage{{booktabs}}
\\begin{{table}}
\\centering\\small
\\caption{{{escaped(caption)}}}
{table}
\\footnotesize {escaped(below)}
\\end{{table}}
"""


def as_csv(entries: Iterable[Entry], factors: Sequence[str]) -> str:
    """A table as CSV, a row for each figure; `factors` are its first columns."""
    factors = [factor for factor in factors if factor != "metric"]
    return csv_of([*factors, *COLUMNS], (_row(entry, factors) for entry in entries))


def _row(entry: Entry, factors: Sequence[str]) -> list[object]:
    """The row of a figure: `factors`, then `COLUMNS`."""
    values = list(entry.values.values())
    return [
        *head(entry, factors),
        *(entry.name, entry.metric, entry.unit, entry.published, entry.measured),
        *(min(values, default=None), max(values, default=None), len(values)),
        *(entry.difference, entry.ratio),
        entry.reason if entry.measured is None else None,
        "; ".join(filter(None, (entry.remark, not_comparable(entry)))),
        *(", ".join(entry.flags), entry.cell, entry.line),
    ]


def as_markdown(table: Pivot, said: Sequence[str]) -> str:
    """A table as Markdown: published / measured, ratio; `said` are sentences below it."""
    notes = Notes()
    heads = [*map(words, table.layout.rows), *map(joined, table.columns)]
    rows = [
        [*map(dashed, row), *("; ".join(_text(e, notes) for e in group) for group in cells)]
        for row, cells in table.lines
    ]
    below = ["", "Each cell: published / measured (ratio, or difference of accuracies).", "", *said]
    below += [f"[{place}] {text}." for place, text in enumerate(notes.texts, 1)]
    return markdown_of(table.layout.title, heads, rows, below)


def _text(entry: Entry, notes: Notes) -> str:
    published, measured, between = texts(entry)
    place = notes.mark(entry)
    text = f"{published} / {measured}" + (f" ({between})" if between else "")
    return text + (f" [{place}]" if place else "")


def as_latex(table: Pivot, said: Sequence[str]) -> str:
    """A table as LaTeX (booktabs), published over measured in each cell."""
    notes = Notes()
    heads = [*map(words, table.layout.rows), *map(joined, table.columns)]
    rows = [
        [
            *(escaped(dashed(part)) for part in row),
            *("; ".join(_latex(entry, notes) for entry in group) for group in cells),
        ]
        for row, cells in table.lines
    ]
    below = [*said, *(f"({place}) {text}." for place, text in enumerate(notes.texts, 1))]
    alignment = "l" * len(table.layout.rows) + "r" * len(table.columns)
    caption = f"{table.layout.title}: published / measured (ratio)."
    return latex_of(caption, [*map(escaped, heads)], rows, alignment, " ".join(below))


def _latex(entry: Entry, notes: Notes) -> str:
    published, measured, between = (
        text.replace("–", "--").replace("x ", r"$\times$") for text in texts(entry)
    )
    place = notes.mark(entry)
    text = f"{published} / {measured}" + (f" ({between})" if between else "")
    return text + (f"$^{{{place}}}$" if place else "")


class Notes:
    """Reasons and remarks of a table, each numbered once."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, entry: Entry) -> str:
        """The numbers of an entry's notes: why a side is missing, how it was read, its flags."""
        notes = []
        if entry.measured is None and entry.reason:
            notes.append(f"not measured: {entry.reason}")
        if entry.remark:
            notes.append(f"published: {entry.remark}")
        if why := not_comparable(entry):
            notes.append(why)
        if entry.measured is not None:
            flags = ", ".join(sorted(entry.flags))
            notes += [f"flagged {flags} (explained in the report)"] if flags else []
        self.texts += [text for text in notes if text not in self.texts]
        return ",".join(map(str, sorted(self.texts.index(text) + 1 for text in notes)))


def texts(entry: Entry) -> tuple[str, str, str]:
    """Published, measured, and the ratio (for accuracies the difference in points)."""
    between = ""
    if entry.ratio is not None:
        between = f"x {number(entry.ratio)}"
    elif entry.difference is not None:
        between = f"{entry.difference:+.3g}"
    published, measured = (
        "–" if value is None else number(value) for value in (entry.published, entry.measured)
    )
    return entry.printed or published, measured, between


def sort_key(entries: Sequence[Entry]) -> str:
    """What a cell of a table is sorted by: the median measured, else the published figure."""
    values = [entry.published if entry.measured is None else entry.measured for entry in entries]
    return next((repr(value) for value in values if value is not None), "")


def dashed(part: str) -> str:
    """A part of a head; a dash where the source says nothing."""
    return part or "–"


def joined(parts: Sequence[str]) -> str:
    """The head of a column in words."""
    return dashed(", ".join(filter(None, parts)))


def escaped(text: str) -> str:
    """Text as LaTeX prints it."""
    for letter in "\\&%$#_{}":
        text = text.replace(letter, "\\" + letter if letter != "\\" else r"\textbackslash ")
    return text
