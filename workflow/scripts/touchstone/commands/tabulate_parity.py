"""Put the certificates of all networks into one table; exit 1 if any shows a difference.

What a framework cannot do is a row with its reason, and no difference.
"""

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

from touchstone.results.certificates import read_certificates
from touchstone.results.parity import SINGLE_FLOORS, TOLERANCES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("certificates", type=Path, nargs="+")
    parser.add_argument("--output", type=Path, required=True, help="the table to write, CSV")


def run(arguments: argparse.Namespace) -> None:
    unequal, unsupported = [], 0
    with open(arguments.output, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        # Of a framework that has single precision only, other steps are judged.
        kinds = {**TOLERANCES, **{f"{name}32": keys for name, keys in SINGLE_FLOORS.items()}}
        columns = [(case, key) for case, limits in kinds.items() for key in limits]
        names = [f"{case} {key}" for case, key in columns]
        table.writerow(["network", "framework", "reference", *names, "equal"])
        for path in arguments.certificates:
            (found,) = read_certificates([path]).values()
            for framework, one in found["frameworks"].items():
                measured = one.get("deviations", {})
                values = [_short(measured.get(case, {}).get(key)) for case, key in columns]
                verdict = verdict_on(one)
                table.writerow([found["network"], framework, found["reference"], *values, verdict])
                if one.get("unsupported"):
                    unsupported += 1
                elif not one["equal"]:
                    why = verdict.removeprefix("no: ")
                    unequal.append(f"{found['network']} in {framework} ({why})")
    print(
        f"{len(arguments.certificates)} networks compared; {len(unequal)} differences, "
        f"{unsupported} unsupported"
    )
    if unequal:
        sys.exit("error: not shown to be equal: " + "; ".join(unequal))


def _short(deviation: float | None) -> str:
    return "" if deviation is None else f"{deviation:.1e}"


def verdict_on(one: dict[str, Any]) -> str:
    """What a certificate says of one framework, in words: `yes`, `in single precision`,
    `unsupported: ...` or `no: ...`; the first two with the optimizers that were not compared."""
    if one["equal"]:
        how = "in single precision" if one.get("single_precision_only") else "yes"
        without = ", ".join(one.get("lacking", {}))
        return f"{how}, without {without}" if without else how
    if one.get("unsupported"):
        return f"unsupported: {one['unsupported']}"
    return f"no: {one.get('failed') or ', '.join(one.get('beyond', []))}"
