"""The results file, and the tables of all that it holds."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from statistics import median
from typing import Any

from comparison.cases import FIELDS
from comparison.ratios import compare, verdict, verdict_on_costs, verdict_on_user


def tables(rows: list[dict[str, Any]]) -> str:
    """The tables of all rows of a results file, Markdown."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = row["network"], row["batch_size"], row["framework"], row["cores"]
        groups.setdefault(tuple(map(str, key)), []).append(row)
    speeds = [
        "| network | framework | cores | ours / expert, images/s | images per CPU second | at a "
        "study's defaults | ours, images/s | expert, images/s | others | goal |",
        "|" + " --- |" * 10,
    ]
    costs = [
        "| network | framework | cores | ours | expert | first step | ours, s | peak memory | "
        "ours, MiB | goal |",
        "|" + " --- |" * 10,
    ]
    users = [
        "| network | framework | cores | ours / user, images/s | images per CPU second | ours, "
        "images/s | user, images/s | others | ours is |",
        "|" + " --- |" * 9,
    ]
    for (network, size, framework, used), group in groups.items():
        name = f"{network} b{size} | {framework} | {used}"
        choices = {str(row["side"]): str(row["choice"]) for row in group}
        # On one core what competes for it is in the wall clock alone.
        judged = "efficiency" if used == "1" else "speed"
        if "expert" in choices:
            side = "tuned" if "tuned" in choices else "ours"
            noise = others(group, side, "ours", "expert")
            verdict_ = verdict(compare(group, judged, side), noise)
            speeds.append(
                f"| {name} | {compare(group, 'speed', side)} | "
                f"{compare(group, 'efficiency', side)} | {compare(group, judged)} | "
                f"{middle(group, side, 'speed'):,.1f} | {middle(group, 'expert', 'speed'):,.1f} | "
                f"{noise:.0%} | {verdict_} |"
            )
            first, memory = (compare(group, each, side) for each in ("first_step", "memory"))
            costs.append(
                f"| {name} | {choices[side]} | {choices['expert']} | {first} | "
                f"{middle(group, side, 'first_step'):.2f} | {memory} | "
                f"{middle(group, side, 'memory'):,.0f} | "
                f"{verdict_on_costs(first, memory, noise)} |"
            )
        if "user" in choices:
            noise = others(group, "from memory", "user")
            wall, cpu = (
                compare(group, each, "from memory", "user") for each in ("speed", "efficiency")
            )
            users.append(
                f"| {name} | {wall} | {cpu} | {middle(group, 'from memory', 'speed'):,.1f} | "
                f"{middle(group, 'user', 'speed'):,.1f} | {noise:.0%} | "
                f"{verdict_on_user(cpu if used == '1' else wall, noise)} |"
            )
    return "\n\n".join("\n".join(table) for table in (speeds, costs, users) if len(table) > 2)


def middle(rows: list[dict[str, Any]], side: str, figure: str) -> float:
    return median(float(row[figure]) for row in rows if row["side"] == side)


def others(rows: list[dict[str, Any]], *sides: str) -> float:
    """The largest share of the machine's CPU time that others used beside these sides."""
    return max(float(row["others"]) for row in rows if row["side"] in sides)


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a results file; none if there is no file. Exits if it is another file."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != FIELDS:
            sys.exit(f"error: {path}: not a results file of this program; name another --output")
        return list(reader)


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the results file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    with open(draft, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    draft.replace(path)


def without(rows: list[dict[str, Any]], made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that `made` does not make anew: those of other networks, frameworks, cores."""
    key = ("network", "framework", "cores")
    anew = {tuple(str(row[name]) for name in key) for row in made}
    return [row for row in rows if tuple(str(row[name]) for name in key) not in anew]
