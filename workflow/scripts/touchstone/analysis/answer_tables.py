"""The tables of what precision changes, what limits cells, and what the mode `best` chose."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from touchstone.analysis import bottleneck, precision, trials
from touchstone.results.files import write_atomic
from touchstone.safe_text import csv_of

PRECISION_SHOWN = (
    *("framework", "environment", "style", "network", "dataset", "device", "batch_size"),
    *("precision", "throughput_ratio", "low", "high", "verdict", "test_accuracy"),
    *("accuracy_change", "memory_ratio", "n"),
)
BOTTLENECK_SHOWN = (
    *("framework", "environment", "style", "network", "dataset", "device", "precision", "input"),
    *("batch_size", "verdict", "why", "input_share", "launch_share", "launch_share_low"),
    *(
        "launch_share_high",
        "gpu_idle",
        "busy_cores",
        "switches_per_core",
        "bottleneck",
        "share_of_peak",
    ),
)
TRIALS_SHOWN = (
    *("framework", "environment", "style", "network", "dataset", "device", "batch_size"),
    *("repeat", "mode", "threads", "wait_policy", "chosen", "status", "throughput"),
    *("ratio_to_default", "low", "high"),
)
"""The columns of the tables in Markdown."""


def write(
    gains: list[precision.Gain],
    verdicts: list[bottleneck.Verdict],
    tried: list[trials.Trial],
    folder: Path,
) -> None:
    """Write `precision`, `bottleneck` and `trials`, each as .csv and .md, into the folder."""
    tables = (
        (
            "precision", precision.COLUMNS, PRECISION_SHOWN, precision.rows(gains),
            "No cells of this study differ by precision only.",
        ),
        (
            "bottleneck", bottleneck.COLUMNS, BOTTLENECK_SHOWN, bottleneck.rows(verdicts),
            "This study trains no network.",
        ),
        (
            "trials", trials.COLUMNS, TRIALS_SHOWN, trials.rows(tried),
            "No cell of this study has the mode best.",
        ),
    )  # fmt: skip
    for name, columns, shown, rows, empty in tables:
        write_atomic(folder / f"{name}.csv", csv_of([columns, *rows]))
        write_atomic(
            folder / f"{name}.md", _markdown(columns, shown, rows) if rows else f"{empty}\n"
        )


def _markdown(columns: Sequence[str], shown: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    places = [columns.index(name) for name in shown]
    lines = [[name.replace("_", " ") for name in shown], ["---"] * len(shown)]
    lines += [[_text(row[place]) for place in places] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")
