"""What measuring in turn gains beside another program, and how often it errs, on this machine.

`gain`: three frameworks train LeNet-5 while a program burns one core on and off; sets of slices are
compared with as many sets of blocks, in which each framework trains as long without a break.
`copies`: two processes of one framework, `--quick` with as few rounds as in the default study;
with `--sleeper` the second sleeps for 5 % of every slice.

    python benchmarks/turns.py gain --executions 3 [--first 4]
    python benchmarks/turns.py copies --executions 10 [--first 11] [--load] [--sleeper | --quick]
"""

import argparse
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from statistics import geometric_mean, median

from touchstone.commands import interleave
from touchstone.environments import ensure, installed
from touchstone.measure.interleaving import Candidate, Timing, measure_set
from touchstone.measure.machine_lock import machine_to_itself
from touchstone.paths import ROOT, RUNNER
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.parts import Interleave
from touchstone.plan.read import read
from touchstone.plan.spec import make_spec
from touchstone.results.interleaved import compare_turns, measured, speeds_by_set
from touchstone.schema.interleaved import MeasuredSet, Round, least_latency
from touchstone.statistics.groups import Group, compare_groups

SETS = 5
SLICES = Timing(rounds=6, slice_seconds=0.4, lead_seconds=0.15, max_seconds=60.0)
BLOCKS = Timing(1, slice_seconds=6 * 0.4, lead_seconds=0.15, max_seconds=0.0, least_rounds=0)
"""As much training as in the rounds of a set of slices, in one piece."""
SEARCH = Interleave(rounds=6, precision=0.025, max_seconds=1800.0)
"""What finds a difference of 5 %: intervals that reach half as far, from sets of few rounds."""
ON_OFF = (5.0, 20.0)
"""Seconds for which the other program burns a core, or rests."""
SLEEPER = """
import time
from touchstone.runner import slices
from touchstone.runner.main import main

class Slicer(slices.Slicer):
    def slice(self, seconds):
        answer = super().slice(seconds)
        time.sleep((answer.end - answer.begin) * 0.05 / 0.95)
        return answer._replace(end=time.monotonic())

slices.Slicer = Slicer
main()
"""
"""A runner that sleeps for 5 % of every slice."""


def burn(gone: "multiprocessing.synchronize.Event", seed: int) -> None:
    """Burn a core on and off until `gone` is set."""
    draw = random.Random(seed)
    while not gone.is_set():
        end = time.monotonic() + draw.uniform(*ON_OFF)
        while time.monotonic() < end and not gone.is_set():
            sum(range(10_000))
        gone.wait(draw.uniform(*ON_OFF))


@contextmanager
def load(wanted: bool, seed: int) -> Iterator[None]:
    """Have another program burn a core on and off, if it is wanted."""
    gone = multiprocessing.Event()
    other = multiprocessing.Process(target=burn, args=(gone, seed))
    if wanted:
        other.start()
    try:
        yield
    finally:
        gone.set()
        if wanted:
            other.join()


def candidate(folder: Path, name: str, framework: str) -> Candidate:
    """LeNet-5 on noise in a framework, with its own choice of threads and waiting."""
    settings = {"network": "lenet5", "dataset": "mnist-5k", "input": "synthetic"}
    settings["mode"] = frameworks.modes(framework)[0]
    spec = make_spec(Cell(framework=framework, batch_size=64, **settings), 1, ROOT)
    python = ensure(ROOT / frameworks.environment(framework, "cpu"), installed())
    return interleave.candidate(spec._replace(cell=name), str(python), folder / name)


def model(sets: list[MeasuredSet], all_rounds: bool) -> Group:
    """The ratios of some sets: of their quiet rounds, or of all."""
    if all_rounds:  # as if nobody had looked at other programs
        sets = [one._replace(turns=[turns._replace(set_aside=[], rounds=[
            Round([part._replace(others=0.0, core_latency=None) for part in each.slices])
            for each in turns.rounds]) for turns in one.turns]) for one in sets]  # fmt: skip
    return compare_groups([speeds_by_set(sets[0].turns[0].cells, sets)])[0]


def measure(cells: Sequence[Candidate], timing: Timing, seed: int) -> list[MeasuredSet]:
    """The sets of one execution."""
    sets = list[MeasuredSet]()
    for number in range(1, SETS + 1):
        least = least_latency(part for one in sets for part in one.slices)
        sets.append(measure_set(number, [cells], timing, seed, least))
    return sets


def width(group: Group, pair: tuple[str, str]) -> float:
    """Upper / lower end of the interval of a pair."""
    ends = group.ratio(*pair).interval()
    return ends[1] / ends[0]


def gain(numbers: Sequence[int], folder: Path) -> None:
    """Print ratios and the widths of their intervals, and how many intervals hold the ratio at
    rest, in the executions with these numbers; each is measured between two measurements at rest.
    """
    cells = [candidate(folder, name, name) for name in ("pytorch", "tensorflow", "mxnet")]
    pairs = list(combinations([one.cell for one in cells], 2))
    at_rest = [model(measure(cells, SLICES, numbers[0]), False)]
    beside = {"slices": list[Group](), "blocks": list[Group]()}
    for number in numbers:
        with load(True, number):
            slices = measure(cells, SLICES, number)
            blocks = measure(cells, BLOCKS, number)
        at_rest.append(model(measure(cells, SLICES, number + 1), False))
        beside["slices"].append(model(slices, False))
        beside["blocks"].append(model(_thrice(blocks), True))
        for group in at_rest[-2:]:
            print(number, "at rest", _shown(group, pairs))
        for name, groups in beside.items():
            print(number, name, _shown(groups[-1], pairs))
        rounds = [each for one in slices for each in one.rounds]
        least = least_latency(part for one in slices for part in one.slices)
        quiet = [each for each in rounds if each.quiet]
        near = sum(each.near(least) for each in quiet)
        print(f"{len(quiet)} of {len(rounds)} rounds quiet, {near} with near cores", flush=True)
    shares = [
        (width(one, pair) - 1) / (width(other, pair) - 1)
        for one, other in zip(beside["slices"], beside["blocks"], strict=True)
        for pair in pairs
    ]
    print(f"width of slices / blocks: median {median(shares):.3f}")
    for name, groups in beside.items():
        both = sum(
            _held(one, at_rest[place : place + 2], pairs) for place, one in enumerate(groups)
        )
        of_all = sum(_held(one, at_rest, pairs) for one in groups)
        print(f"of {len(shares)} intervals of {name}, {both} hold the mean of the ratios at rest"
              f" just before and after, {of_all} the mean of all at rest")  # fmt: skip


def _shown(group: Group, pairs: Sequence[tuple[str, str]]) -> str:
    """The ratios of pairs and the widths of their intervals."""
    return "; ".join(
        f"{a} / {b} {group.ratio(a, b).value:.3f}, {width(group, (a, b)) - 1:.1%} wide"
        for a, b in pairs
    )


def _held(group: Group, at_rest: Sequence[Group], pairs: Sequence[tuple[str, str]]) -> int:
    """How many intervals hold the geometric mean of the ratios at rest."""
    found = 0
    for pair in pairs:
        low, high = group.ratio(*pair).interval()
        found += low <= geometric_mean(one.ratio(*pair).value for one in at_rest) <= high
    return found


def _thrice(sets: list[MeasuredSet]) -> list[MeasuredSet]:
    """Sets with their one round three times, which count as sets of three."""
    return [one._replace(turns=[t._replace(rounds=t.rounds * 3) for t in one.turns])
            for one in sets]  # fmt: skip


def copies(
    numbers: Sequence[int], wanted: bool, cells: Sequence[Candidate], options: Interleave
) -> None:
    """Print how often the second of two cells is called slower or faster than the first, in the
    executions with these numbers, from which the orders in rounds and the load are drawn."""
    slower = faster = 0
    for number in numbers:
        # The first candidate's seed is that of the orders in rounds.
        seeded = [one._replace(spec=one.spec._replace(seed=number)) for one in cells]
        kept = cells[0].events.parent.parent / f"sets-{number}"
        with load(wanted, number):
            found = interleave.measure("copies", str(number), options, seeded, {}, kept)
        low, high = compare_turns([measured(found)])[0].ratio("other", "one").interval()
        slower += high < 1
        faster += low > 1
        rounds = sum(len(one.rounds) for one in found.sets)
        seconds = sum(one.seconds for one in found.sets)
        said = f"{len(found.sets)} sets, {rounds} rounds in {seconds:.0f} s"
        print(number, f"[{low:.4f}, {high:.4f}]; {said}", flush=True)
    print(f"called slower {slower}, faster {faster} of {len(numbers)}")


def sleeper(folder: Path, name: str, framework: str) -> Candidate:
    """A copy that sleeps for 5 % of every slice."""
    copy = candidate(folder, name, framework)
    script = folder / "sleeper.py"
    script.write_text(SLEEPER)
    (folder / "touchstone").symlink_to(RUNNER.parent / "touchstone")  # beside the script
    python, _, *files = copy.command
    return copy._replace(command=[python, str(script), *files])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("gain", "copies"))
    parser.add_argument("--executions", type=int, default=10)
    parser.add_argument("--first", type=int, default=1, help="where it goes on")
    parser.add_argument("--load", action="store_true", help="of `copies`: beside another program")
    parser.add_argument("--framework", default="mxnet", help="of `copies`")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--sleeper", action="store_true", help="of `copies`: one sleeps")
    ways.add_argument("--quick", action="store_true", help="of `copies`: few rounds")
    options = parser.parse_args()
    os.environ.setdefault("TOUCHSTONE_DEPLOYMENT", "venv")
    with machine_to_itself(), tempfile.TemporaryDirectory() as folder:
        numbers = range(options.first, options.first + options.executions)
        if options.what == "gain":
            gain(numbers, Path(folder))
        else:
            of, how = options.framework, SEARCH if options.sleeper else Interleave()
            if options.quick:
                how = Interleave.model_validate(read(ROOT / "config/config.yaml")["interleave"])
            second = sleeper if options.sleeper else candidate
            cells = [candidate(Path(folder), "one", of), second(Path(folder), "other", of)]
            copies(numbers, options.load, cells, how)


if __name__ == "__main__":
    main()
