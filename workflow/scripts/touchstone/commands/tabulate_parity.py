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
            (cert,) = read_certificates([path]).values()
            for framework, result in cert["frameworks"].items():
                measured = result.get("deviations", {})
                values = [_short(measured.get(case, {}).get(key)) for case, key in columns]
                verdict = verdict_on(result)
                table.writerow([cert["network"], framework, cert["reference"], *values, verdict])
                if result.get("unsupported"):
                    unsupported += 1
                elif not result["equal"]:
                    why = verdict.removeprefix("no: ")
                    unequal.append(f"{cert['network']} in {framework} ({why})")
    print(
        f"{len(arguments.certificates)} networks compared; {len(unequal)} differences, "
        f"{unsupported} unsupported"
    )
    if unequal:
        sys.exit("error: not shown to be equal: " + "; ".join(unequal))


def _short(deviation: float | None) -> str:
    return "" if deviation is None else f"{deviation:.1e}"


def verdict_on(result: dict[str, Any]) -> str:
    """What a certificate says of one framework, in words: `yes`, `in single precision`,
    `unsupported: ...` or `no: ...`; the first two with the optimizers that were not compared."""
    if result["equal"]:
        how = "in single precision" if result.get("single_precision_only") else "yes"
        without = ", ".join(result.get("lacking", {}))
        return f"{how}, without {without}" if without else how
    if result.get("unsupported"):
        return f"unsupported: {result['unsupported']}"
    return f"no: {result.get('failed') or ', '.join(result.get('beyond', []))}"
