"""Put the certificates of all networks into one table; exit 1 if any shows a difference."""

import argparse
import csv
import json
import sys
from pathlib import Path

from analyse.parity import SINGLE_FLOORS, TOLERANCES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("certificates", type=Path, nargs="+")
    parser.add_argument("--output", type=Path, required=True, help="the table to write, CSV")
    arguments = parser.parse_args()
    unequal = []
    with open(arguments.output, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        # Of a framework that has single precision alone, other traces are judged.
        kinds = {**TOLERANCES, **{f"{name}32": keys for name, keys in SINGLE_FLOORS.items()}}
        columns = [(trace, key) for trace, limits in kinds.items() for key in limits]
        names = [f"{trace} {key}" for trace, key in columns]
        table.writerow(["network", "framework", "reference", *names, "equal"])
        for path in arguments.certificates:
            found = json.loads(path.read_text(encoding="utf-8"))
            for framework, one in found["frameworks"].items():
                measured = one["deviations"]
                values = [f"{measured[t][key]:.1e}" if t in measured else "" for t, key in columns]
                why = one.get("unsupported") or ", ".join(one["beyond"])
                yes = "in single precision" if one.get("single_precision_only") else "yes"
                verdict = yes if one["equal"] else f"no: {why}"
                table.writerow([found["network"], framework, found["reference"], *values, verdict])
                if not one["equal"]:
                    unequal.append(f"{found['network']} in {framework} ({why})")
    print(f"{len(arguments.certificates)} networks compared; {len(unequal)} differences")
    if unequal:
        sys.exit("error: not shown to be equal: " + "; ".join(unequal))


if __name__ == "__main__":
    main()
