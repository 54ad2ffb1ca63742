"""Damage every kind of file in turn for as long as asked, and print what ended without a message.

`make fuzz` runs it for 10 minutes, `make fuzz MINUTES=60` for an hour. Each fault is printed with
the kind of file and the seed that makes it again: `tests/fuzz.py --kind env --seed 1234`.
"""

import argparse
import random
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "workflow/scripts")]

from fixtures.mutations import KINDS, fault_of, mutated_file  # noqa: E402

MEMORY = 4 << 30
"""Bytes of address space, so that a file that takes more ends in a MemoryError."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, help="of one file, instead of many")
    parser.add_argument("--kind", choices=KINDS, help="one kind of file, instead of all")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    kinds = [arguments.kind] if arguments.kind else list(KINDS)
    begin = arguments.seed if arguments.seed is not None else time.time_ns() % 2**32
    until = time.monotonic() + 60 * arguments.minutes
    faults: set[tuple[str, str]] = set()
    count = 0
    with tempfile.TemporaryDirectory() as scratch:
        good = {}
        for name in kinds:
            folder = Path(scratch) / name.replace(" ", "-")
            folder.mkdir()
            path = KINDS[name].make(folder)
            good[name] = path, path.read_bytes()
        while time.monotonic() < until and (arguments.seed is None or not count):
            for name in kinds:
                path, content = good[name]
                damaged = mutated_file(path, content, random.Random(begin + count))
                fault = fault_of(KINDS[name], path, damaged)
                if fault is not None:
                    report(name, begin + count, fault, faults)
            count += 1
    print(f"{count * len(kinds)} files read, {len(faults)} faults")
    return int(bool(faults))


def report(name: str, seed: int, fault: Exception, known: set[tuple[str, str]]) -> None:
    """Print a fault, once for each place in the code."""
    place = traceback.extract_tb(fault.__traceback__)[-1]
    if (key := (type(fault).__name__, f"{place.filename}:{place.lineno}")) in known:
        return
    known.add(key)
    print(f"{name}, seed {seed}:", flush=True)
    traceback.print_exception(fault, file=sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
