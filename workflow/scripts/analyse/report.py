"""The report: one page that answers, shows its evidence, and loads nothing."""

import base64
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from markupsafe import Markup

from analyse import bottleneck, precision, trials
from analyse.certificates import Certificates, Proof, proof
from analyse.disturbed import METRIC, REPEAT, disturbed
from analyse.files import InputError, parse_json, read_text
from analyse.max_batch import MaxBatch, of_cell
from analyse.metrics import CENSORED, FLAGS, METRICS, PHASES, STATUS_MEANING, STATUSES
from analyse.peaks import Peak, peaks, place_of, share_of_peak, why_no_share
from analyse.record import differing_settings
from analyse.scaling import middle, scaled
from analyse.statistics import (
    INDICATIVE_BELOW,
    LEVEL,
    NO_DIFFERENCE,
    Ratio,
    paired_ratio,
    summarise,
)
from analyse.study import FACET, Cell, Series, Study, describe_machine, distinct, machines
from analyse.style import style_of
from analyse.tables import (
    COMPARED,
    DIFFERENT_ERA,
    FACTORS,
    PARITY_NOT_SHOWN,
    STUDY_FLAGS,
    counted,
    remarks,
)
from analyse.templates import templates

FIGURES = ("throughput", "test_accuracy", "training_loss", "cpu_utilization", "host_memory")
WIDE = 460.0  # points; half of the page is 33.5 rem of 12 points
ROWS = 400
"""Rows that a table of the page shows at most, so that a study of any size can be read."""
FEW = 3
"""Different values of a setting that are all told."""
SENTENCES = 6
"""Sentences of the answer at most."""
PROVEN = ("forward", "gradients")
"""The kinds of deviation that the table of proof shows beside the closest one."""


@dataclass(frozen=True)
class Comparison:
    """The throughputs of comparable cells, by facet, batch size and what else tells groups apart.

    `cells` are those with numbers, in order of the plan, `without` those that have none. The
    first of them is the reference, chosen before the data are seen: one chosen as the fastest
    would owe its place partly to its luckiest runs.
    """

    facet: tuple[str, str, str]
    batch_size: int
    setting: str
    cells: list[Cell]
    without: list[Cell]

    @property
    def reference(self) -> Cell:
        return self.cells[0]

    @cached_property
    def fastest(self) -> Cell:
        """The cell with the largest median."""
        return max(self.cells, key=_middle)

    @property
    def level(self) -> float:
        """Confidence of each interval, such that all of a cell's together have 95 %.

        Bonferroni over the others: whichever cell is truly the fastest, a false winner needs
        its own interval or one of a rival against it to fail.
        """
        return 1 - (1 - LEVEL) / (len(self.cells) - 1)

    def ratio(self, cell: Cell, reference: Cell) -> Ratio | None:
        """Throughput of one cell / that of another, within blocks."""
        return paired_ratio(cell.by_block("throughput"), reference.by_block("throughput"))

    @cached_property
    def against(self) -> list[tuple[Cell, Ratio | None]]:
        """The fastest against each other cell, the next fastest first."""
        others = sorted((c for c in self.cells if c is not self.fastest), key=_middle, reverse=True)
        return [(cell, self.ratio(self.fastest, cell)) for cell in others]

    @property
    def n(self) -> int:
        """Blocks of the comparison of the fastest that has fewest."""
        return min(ratio.n if ratio else 0 for _, ratio in self.against)

    @property
    def testable(self) -> bool:
        """Whether every interval of the fastest can be had."""
        return self.n > 1

    @cached_property
    def rivals(self) -> list[Cell]:
        """The cells that the fastest was not shown to be faster than."""
        return [
            cell
            for cell, ratio in self.against
            if ratio is None or ratio.verdict("throughput", self.level) != "faster"
        ]

    @cached_property
    def winner(self) -> Series | None:
        """The fastest, where it was shown to be faster than all others together."""
        return self.fastest.series if self.testable and not self.rivals else None

    def rows(self) -> list[dict[str, Any]]:
        """One row per cell: its ratio to the reference, and what to keep in mind."""
        ours = [run.provenance for run in self.reference.runs]
        winner = self.winner
        return [
            {
                "cell": cell,
                "median": _middle(cell) if cell.values("throughput") else None,
                "n": len(cell.values("throughput")),
                "ratio": self.ratio(cell, self.reference),
                "wins": winner == cell.series,
                "words": ", ".join(cell.words("throughput")),
                "flags": counted(cell.flags),
                "remarks": ", ".join(remarks([run.provenance for run in cell.runs], ours)),
            }
            for cell in (*self.cells, *self.without)
        ]


def _middle(cell: Cell) -> float:
    return median(cell.values("throughput"))


def compare(study: Study) -> list[Comparison]:
    """The comparisons by throughput that have two cells or more with numbers."""
    groups = [
        group
        for group in study.comparable()
        if sum(bool(cell.values("throughput")) for cell in group) > 1
    ]
    told = (*COMPARED, *FACET, "batch_size")
    varying = [
        name
        for name in (study.cells[0].plan.factors if groups else ())
        if name not in told and len({group[0].plan.factors[name] for group in groups}) > 1
    ]
    comparisons = []
    for group in groups:
        factors = group[0].plan.factors
        setting = ", ".join(f"{n.replace('_', ' ')} {factors[n] or '–'}" for n in varying)
        found = [cell for cell in group if cell.values("throughput")]
        without = [cell for cell in group if not cell.values("throughput")]
        place = (group[0].facet, group[0].batch_size, setting)
        comparisons.append(Comparison(*place, found, without))
    order = {facet: i for i, facet in enumerate(dict.fromkeys(c.facet for c in study.cells))}
    return sorted(comparisons, key=lambda c: (order[c.facet], c.batch_size, c.setting))


# Numbers as text


def number(value: float | None, digits: int = 4) -> str:
    """A number with about `digits` significant digits, never with a bare exponent in prose."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    exponent = int(f"{value:.{digits - 1}e}".split("e")[1])  # after rounding: 9.9996 is 10.00
    decimals = digits - 1 - exponent
    return f"{round(value, decimals):,.{max(decimals, 0)}f}" if decimals < 9 else f"{value:.3g}"


def listing(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def ratio_text(value: float) -> str:
    """A ratio with two decimals, or three where two would hide it."""
    return f"{value:.2f}" if value >= 1.01 else f"{value:.3f}"


def interval_text(ratio: Ratio) -> str:
    """The 95 % interval of a ratio, `[1.70, 2.21]`."""
    interval = ratio.interval()
    return "[{:.2f}, {:.2f}]".format(*interval) if interval else ""


# The answer


def answer(study: Study, comparisons: list[Comparison]) -> tuple[str, str]:
    """The result, and how far to trust it, in words derived from the numbers."""
    sentences = []
    for facet, group in groupby(comparisons, key=lambda c: c.facet):
        outcomes: dict[tuple[Series | None, bool], list[Comparison]] = {}
        for c in sorted(group, key=lambda c: (c.winner is None, not c.testable)):
            outcomes.setdefault((c.winner, c.testable), []).append(c)
        only = len(outcomes) == 1
        parts = [_verdict(*outcome, members, only) for outcome, members in outcomes.items()]
        sentences.append(f"On {facet[0]} with {facet[1]} ({facet[2]}), {'; '.join(parts)}.")
    if len(sentences) > SENTENCES:
        more = len(sentences) - SENTENCES
        sentences[SENTENCES:] = [f"{more} more are in the table of speeds."]
    if not comparisons:
        with_numbers = [cell for cell in study.cells if cell.values("throughput")]
        sentences.append(
            "No two cells with numbers differ in framework or mode alone, so there is nothing to"
            " compare."
            if with_numbers
            else "No run reached the end of its measured phase: there is no throughput to compare."
        )
    if accuracy := _accuracy_sentence(study):
        sentences.append(accuracy)
    if bad := [run.status for run in study.runs if run.status != "ok"]:
        sentences.append(
            f"{len(bad)} of {len(study.runs)} runs gave no full result"
            f" ({counted(bad, STATUSES)}); they are listed below and are part of the result."
        )
    return " ".join(sentences), _caveat(comparisons)


def _verdict(winner: Series | None, testable: bool, members: list[Comparison], only: bool) -> str:
    """What comparisons with the same outcome show, as part of a sentence.

    `only`: there is no other outcome on the same network, data set and device.
    """
    sizes = [f"{c.batch_size} ({c.setting})" if c.setting else str(c.batch_size) for c in members]
    at = f"at batch size{'s' if len(sizes) > 1 else ''} {listing(sizes)}"
    if only and len(members) > 2:
        at = f"in all {len(members)} comparisons"
    if winner:
        nexts = [c.against[0] for c in members]
        ratios = [ratio for _, ratio in nexts if ratio]
        who = listing(dict.fromkeys(_named(cell) for cell, _ in nexts))
        low, high = (ratio_text(pick(r.value for r in ratios)) for pick in (min, max))
        times = low if low == high else f"{low} to {high}"
        if len(ratios) == 1:
            times += f" {interval_text(ratios[0])}"
        best = _named(members[0].fastest)
        return f"{best} was fastest {at}, at {times} times the throughput of {who}"
    groups = dict.fromkeys(
        listing(_named(c) for c in ([m.fastest, *m.rivals] if testable else m.cells[:2]))
        for m in members
    )
    who = f"the fastest, {next(iter(groups))}" if len(groups) == 1 else "the fastest of each"
    if not testable:
        return f"{at} there are too few runs to rank {who}"
    return f"{at} {NO_DIFFERENCE} between {who}"


def _named(cell: Cell) -> str:
    """A cell's series, with the mark of one that is older than the others by an era."""
    mark = " (of another era)" if DIFFERENT_ERA in cell.flags else ""
    return cell.series.label + mark


def _caveat(comparisons: list[Comparison]) -> str:
    """What the ranking rests on, and which flags the compared runs carry."""
    tested = [c for c in comparisons if c.testable]
    if not tested:
        return ""
    n = min(c.n for c in tested)
    text = (
        f"n = {n}{', indicative' if n < INDICATIVE_BELOW else ''}: a framework is called fastest"
        " when its throughput is shown to be above that of every other one, by t intervals on the"
        " logarithms of the ratios within blocks that hold together with 95 % confidence"
    )
    if len(tested) > 1:
        text += (
            f"; of the {len(tested)} rankings made here up to {0.05 * len(tested):.2g} may be false"
        )
    flags = [f for c in tested for cell in c.cells for f in dict.fromkeys(cell.flags)]
    remarked = [f for c in tested for row in c.rows() for f in row["remarks"].split(", ") if f]
    if doubtful := sorted(set(flags + remarked)):
        flagged = f"flag{'s' if len(doubtful) > 1 else ''} {listing(doubtful)}"
        text += f". Cells compared carry the {flagged}, explained below"
    return text + "."


def _accuracy_sentence(study: Study) -> str | None:
    """How far apart the median accuracies of cells compared with one another are, at most."""
    gaps = []
    for cells in study.comparable():
        medians = [median(v) for cell in cells if (v := cell.values("test_accuracy"))]
        if len(medians) > 1:
            gaps.append((max(medians) - min(medians), cells[0].batch_size))
    if not gaps:
        return None
    gap, batch = max(gaps)
    if gap == 0:
        return "At each batch size the median test accuracies of the cells compared are the same."
    return (
        "At each batch size the median test accuracies of the cells compared lie within"
        f" {gap * 100:.1f} percentage points of one another"
        + (f" (furthest apart at {batch})." if len(gaps) > 1 else ".")
    )


# Tables


class Column(NamedTuple):
    """A column of the summary: heading, unit, metric and how to turn it into the number shown."""

    heading: str
    unit: str
    metric: str
    convert: Callable[[float], float] = float
    digits: int = 3


COLUMNS = (
    Column("Throughput", "images/s", "throughput", digits=4),
    Column("Step time", "ms", "step_rate", lambda rate: 1000 / rate),
    Column("First step", "s", "first_step_time"),
    Column("Training time", "s", "training_time"),
    Column("Test accuracy", "", "test_accuracy", digits=4),
    Column("Final loss", "", "final_loss"),
    Column("CPU", "cores", "cpu_cores"),
    Column("Busy threads", "", "busy_threads"),
    Column("Host memory", "MiB", "host_memory"),
    Column("Memory peak", "MiB", "host_memory_peak"),
)
GPU_COLUMNS = (
    Column("GPU utilisation", "%", "gpu_utilization"),
    Column("GPU memory", "MiB", "gpu_memory"),
    Column("GPU memory peak", "MiB", "gpu_memory_peak"),
    Column("GPU power", "W", "gpu_power"),
    Column("GPU energy", "J", "gpu_energy"),
)


OPERATION_COLUMNS = (
    Column("Time", "ms", "step_rate", lambda rate: 1000 / rate),
    Column("Arithmetic", "GFLOP/s", "flop_rate"),
    Column("Memory", "GB/s", "memory_rate"),
    Column("First call", "s", "first_step_time"),
    Column("CPU", "cores", "cpu_cores"),
    Column("Deviation", "", "deviation", digits=2),
)


EXCHANGE_COLUMNS = (
    Column("Array / time", "GB/s", "algorithm_bandwidth"),
    Column("Bus", "GB/s", "bus_bandwidth"),
)
"""Of operations between replicas; shown where the study has one."""


INFERENCE_COLUMNS = (
    Column("Model load", "s", "model_load_time"),
    Column("First prediction", "s", "first_step_time"),
    Column("Latency, median", "ms", "latency_p50"),
    Column("Latency, 95 %", "ms", "latency_p95"),
    Column("Latency, 99 %", "ms", "latency_p99"),
    Column("Throughput", "images/s", "throughput", digits=4),
    Column("Load and predict all", "s", "total_inference_time"),
    Column("Test accuracy", "", "test_accuracy", digits=4),
    Column("Deviation", "", "deviation", digits=2),
    Column("CPU", "cores", "cpu_cores"),
    Column("Host memory", "MiB", "host_memory"),
)


def _operation_columns(study: Study) -> list[Column]:
    """The columns of the basic operations."""
    exchanged = any(cell.values("bus_bandwidth") for cell in study.cells)
    return [*OPERATION_COLUMNS, *(EXCHANGE_COLUMNS if exchanged else ())]


def _operation_rows(study: Study, columns: list[Column]) -> list[dict[str, Any]]:
    """The rows of the basic operations, with what they reach of the measured peak."""
    most = peaks(study)
    rows = _summary_rows(study.cells, columns)
    for row in rows:
        row["at"] = place_of(row["cell"])
        replicas = row["cell"].plan.factors.get("replicas")
        row["shape"] = row["cell"].facet[1] + (f", {replicas} replicas" if replicas else "")
        share = share_of_peak(row["cell"], most[row["at"]])
        row["share"] = None if share is None else number(share, 3)
    return rows


def _scaling_rows(study: Study) -> list[dict[str, Any]]:
    """The rows of the cells of several replicas, as text."""
    return [
        {
            "scaled": row,
            "medians": [number(middle(cell)) for cell in (row.cell, row.alone)],
            "speedup": ratio_text(row.speedup.value) if row.speedup else None,
            "interval": interval_text(row.speedup) if row.speedup else "",
            "label": row.speedup.label if row.speedup else "",
            "efficiency": None if row.efficiency is None else number(row.efficiency * 100, 3),
            "flags": counted([*row.cell.flags, *row.alone.flags]),
        }
        for row in scaled(study)
    ]


def _trained_rows(study: Study, measured: dict[Any, Peak], columns: list[Column]) -> list[Any]:
    """The rows of the networks, with what they reach of the measured peak, or why nobody knows."""
    rows = _summary_rows(study.cells, columns)
    for row in rows:
        peak = measured.get(place_of(row["cell"]), Peak(None, None))
        share = share_of_peak(row["cell"], peak)
        row["share"] = None if share is None else number(share, 3)
        row["no_share"] = why_no_share(row["cell"], peak) if share is None else ""
    return rows


def _further_columns(study: Study) -> list[Column]:
    """A column for every other metric that a run has a value of."""
    shown = {column.metric for column in (*COLUMNS, *GPU_COLUMNS)} | {"cpu_utilization"}
    return [
        Column(name.replace("_", " "), "" if metric.unit == "1" else metric.unit, name)
        for name, metric in METRICS.items()
        if name not in shown and any(cell.values(name) for cell in study.cells)
    ]


def _summary_rows(cells: Iterable[Cell], columns: list[Column]) -> list[dict[str, Any]]:
    rows = []
    for cell in cells:
        entries = []
        for column in columns:
            values = [column.convert(value) for value in cell.values(column.metric)]
            beyond = len(cell.runs) - len(values) if column.metric in CENSORED else 0
            middle = summarise(values, beyond).median
            entries.append(
                {
                    "median": None if middle is None else number(middle, column.digits),
                    "range": f"{number(min(values), column.digits)} – "
                    f"{number(max(values), column.digits)}"
                    if len(values) > 1 and not beyond
                    else None,
                    "words": ", ".join(cell.words(column.metric)),
                }
            )
        cv = summarise(cell.values("throughput")).cv
        rows.append(
            {
                "cell": cell,
                "entries": entries,
                "cv": None if cv is None else number(cv * 100, 2),
                "flags": counted(cell.flags),
                "status": counted((run.status for run in cell.runs), STATUSES),
            }
        )
    return rows


class Factors(NamedTuple):
    """How the factors beside framework, batch size and a series' variant vary in a study.

    `same` holds those with one value everywhere, `by_framework` those with one value per
    framework, `other` the names that need a column.
    """

    same: dict[str, str]
    by_framework: dict[str, dict[str, str]]
    other: list[str]


def _factors(study: Study) -> Factors:
    result = Factors({}, {}, [])
    for name, value in study.cells[0].plan.factors.items():
        found: dict[str, set[str]] = {}
        for cell in study.cells:
            found.setdefault(cell.series.framework, set()).add(cell.plan.factors[name])
        if name in ("framework", "batch_size"):
            continue
        if set().union(*found.values()) == {value}:
            result.same[name] = value
        elif all(len(values) == 1 for values in found.values()):
            result.by_framework[name] = {f: next(iter(values)) for f, values in found.items()}
        elif name not in (*FACET, *study.cells[0].series.factors):
            result.other.append(name)
    return result


def _max_batch_rows(study: Study, found: Sequence[MaxBatch]) -> list[tuple[Cell, MaxBatch]]:
    """Each search that holds for a cell of the study, with the first such cell."""
    rows: dict[int, tuple[Cell, MaxBatch]] = {}
    for cell in study.cells if found else []:
        if one := of_cell(found, cell.plan.factors):
            rows.setdefault(id(one), (cell, one))
    return list(rows.values())


def _phase_rows(cells: Iterable[Cell], phases: Iterable[str]) -> list[dict[str, Any]]:
    """Median seconds of each phase over the ok runs of each cell."""
    rows = []
    for cell in cells:
        runs = [run for run in cell.runs if run.status == "ok"]
        rows.append(
            {
                "cell": cell,
                "n": len(runs),
                "flags": counted(cell.flags),
                "words": ", ".join(cell.words("test_accuracy")),
                "seconds": [
                    number(median(known), 3)
                    if (known := [run.phases[name] for run in runs if name in run.phases])
                    else None
                    for name in phases
                ],
            }
        )
    return rows


def _spent(study: Study) -> str:
    """What share of the runs' time was measured, as a sentence."""
    total = sum(seconds for run in study.runs for seconds in run.phases.values())
    measured = sum(run.phases.get("measured", 0.0) for run in study.runs)
    if not measured:
        return ""
    return (
        f"All runs together took {number(total, 3)} s, {number(measured, 3)} s of them in measured"
        f" phases: {number(total / measured, 3)} times as long."
    )


def _software(study: Study) -> list[dict[str, Any]]:
    """Framework, version and packages of each different software stack."""
    stacks: dict[tuple[str, int], dict[str, Any]] = {}
    for cell in study.cells:
        for run in cell.runs:
            software = run.provenance["software"]
            key = (cell.series.framework, id(software))  # equal ones are one object
            stack = stacks.setdefault(
                key, {"framework": cell.series.framework, "software": software, "runs": 0}
            )
            stack["runs"] += 1
    for stack in stacks.values():
        stack["libraries"] = {
            name: value
            for name, value in stack["software"].items()
            if name not in ("framework", "version", "packages", "touchstone", "git_commit")
            and value is not None
        }
    return list(stacks.values())


def _settings_rows(study: Study) -> list[dict[str, Any]]:
    """Each setting with what was requested and read back; frameworks that agree share a row."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for cell in study.cells:
        for run in cell.runs:
            settings = run.provenance["settings"]
            differing = differing_settings(settings)
            for name, requested in settings.get("requested", {}).items():
                texts = (setting(requested), setting(settings["effective"].get(name)))
                verdict = "as requested"
                if name in differing:
                    verdict = "differs"
                elif requested is None:
                    verdict = "left open"
                row = rows.setdefault(
                    (name, *texts), {"verdict": verdict, "frameworks": {}, "runs": 0}
                )
                row["frameworks"][cell.series.framework] = None
                row["runs"] += 1
    ordered = sorted(rows.items(), key=lambda item: item[0][0])
    return [{"name": n, "requested": r, "effective": e, **row} for (n, r, e), row in ordered]


def _differing_from_default(study: Study) -> dict[str, list[str]]:
    """By framework, where its runs have not what it does by itself."""
    found: dict[str, dict[str, None]] = {}
    for cell in study.cells:
        sentences = found.setdefault(cell.series.framework, {})
        wait = cell.plan.factors.get("wait_policy")
        if wait in ("passive", "active"):
            sentences[f"idle threads wait in the {wait} way, as the study asks"] = None
        for run in cell.runs:
            sentences |= dict.fromkeys(run.provenance["settings"].get("differs", ()))
    return {framework: list(sentences) for framework, sentences in found.items()}


def _hints(study: Study) -> list[str]:
    """What may be faster on this machine but is not a framework's own choice."""
    settings = (run.provenance["settings"] for cell in study.cells for run in cell.runs)
    return distinct(hint for found in settings for hint in found.get("hints", ()))


def setting(value: Any) -> str:
    """A setting as text; a float at the 7 digits that float32 can hold."""
    if value is None:
        return "–"
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _failures(study: Study) -> list[dict[str, Any]]:
    """Every run that is not ok; the repeats of a cell that failed alike share a row."""
    rows: dict[tuple[str, str, str | None], dict[str, Any]] = {}
    for cell in study.cells:
        for run in cell.runs:
            if run.status != "ok":
                key = (cell.plan.name, run.status, run.reason)
                row = rows.setdefault(key, {"cell": cell, "run": run, "repeats": []})
                row["repeats"].append(run.repeat)
    return list(rows.values())


def _environments(study: Study) -> dict[str, str]:
    """Each fact of the runs' execution environments: its values, or the range of many."""
    found: dict[str, list[Any]] = {}
    for environment in distinct(run.provenance["environment"] for run in study.runs):
        for name, value in environment.items():
            if name != "load_before":  # differs in every run
                found.setdefault(name, []).append(value)
    return {name: _values(distinct(values)) for name, values in found.items()}


def _values(values: list[Any]) -> str:
    if len(values) > FEW and all(isinstance(value, int | float) for value in values):
        return f"{number(min(values))} to {number(max(values))}"
    if len(values) > FEW:
        return f"{len(values)} different values"
    return "; ".join(_words(value) for value in values)


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={word}" for key, word in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _proofs(study: Study, certificates: Certificates) -> list[Proof]:
    """What is known of equal computation, for every network and framework of the study."""
    pairs = dict.fromkeys((cell.facet[0], cell.series.framework) for cell in study.cells)
    return [proof(certificates, *pair) for pair in pairs]


def _proof_columns(proofs: list[Proof]) -> list[tuple[str, str]]:
    """Kind and trace of the deviations that the table of proof has a column for."""
    found = {(d.kind, d.trace) for one in proofs for d in one.deviations if d.kind in PROVEN}
    return sorted(found)


def _deviations(study: Study) -> list[tuple[str, str, str]]:
    """Framework, network and sentence of each deviation that a record names."""
    return list(
        dict.fromkeys(
            (cell.series.framework, cell.facet[0], sentence)
            for cell in study.cells
            for run in cell.runs
            for sentence in run.provenance.get("deviations", [])
        )
    )


# The page


def _figures(folder: Path) -> list[dict[str, Any]]:
    """The figures with their texts, images as data URIs; InputError when one is missing.

    A figure that does not fit into half of the page is `wide`.
    """
    remedy = "Make the figures again with plot"
    path = folder / "captions.json"
    try:
        captions = parse_json(read_text(path, remedy))
        more = [name for name in captions if name not in FIGURES]
        figures = [{"name": name, **captions[name]} for name in (*FIGURES, *more)]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(path, f"not the captions of this version ({error})", remedy) from None
    for figure in figures:
        svg = read_text(folder / f"{figure['name']}.svg", remedy)
        width = re.search(r'<svg[^>]* width="([0-9.]+)pt"', svg)
        figure["wide"] = width is None or float(width[1]) > WIDE
        figure["uri"] = "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
    return figures


def _dot(framework: str) -> Markup:
    """A dot in the framework's colour; the name always stands beside it."""
    colour, _ = style_of(framework)
    html = Markup('<span class="dot" style="background:{}" aria-hidden="true"></span>')
    return html.format(colour)


class Part(NamedTuple):
    """The first rows of a table, and how many it would have.

    `rest` are the others, if the table can be sorted: the page has them, but shows `ROWS`.
    """

    rows: list[Any]
    total: int
    rest: Sequence[Any] = ()


def _part(items: Sequence[Any], make: Callable[[Sequence[Any]], list[Any]] = list) -> Part:
    """As many of the items as a table of the page has, made into rows."""
    return Part(make(items[:ROWS]), len(items))


def _sortable(rows: list[Any]) -> Part:
    """All rows of a table that can be sorted."""
    return Part(rows[:ROWS], len(rows), rows[ROWS:])


def make_report(
    study: Study,
    certificates: Certificates,
    figures: Path,
    config_path: Path,
    config: dict[str, Any],
    max_batches: Sequence[MaxBatch] = (),
    machines_section: str = "",
    pages: Sequence[str] = (),
) -> str:
    """The page as HTML.

    Args:
        certificates: of the study's networks, as far as they were asked for.
        figures: folder made by `plot.py`.
        config_path: the resolved configuration, quoted in full.
        config: its content; `title` and `study` are used when there.
        max_batches: the searches for the largest batch that were made.
        machines_section: HTML of the comparison with other machines, if there is one.
        pages: files of pages on published studies, beside this one.

    Raises:
        InputError: a figure or the captions are missing.
    """
    environment = templates()
    for function in (ratio_text, interval_text, number):
        environment.globals[function.__name__] = function
    environment.globals |= {"dot": _dot, "describe": describe_machine}
    everything, study = study, study.trained
    predicting = everything.inference
    networks = Study([*study.cells, *predicting.cells])
    comparisons = compare(study)
    for one in compare(predicting):
        setting = ", ".join(filter(None, ("inference", one.setting)))
        comparisons.append(replace(one, setting=setting))
    phases = [name for name in PHASES if name != "latency" or predicting.cells]
    compared = [(c, row) for c in comparisons for row in c.rows()]
    has_gpu = any(cell.values(column.metric) for cell in study.cells for column in GPU_COLUMNS)
    columns = [*COLUMNS, *(GPU_COLUMNS if has_gpu else ())]
    rows = _trained_rows(study, peaks(everything.operations), columns)
    operation_columns = _operation_columns(everything.operations)
    found = bottleneck.verdicts(everything)
    further = _further_columns(study)
    proofs = _proofs(networks, certificates)
    started = sorted(run.provenance["started"] for run in everything.runs)
    flags = Counter(flag for run in everything.runs for flag in run.flags)
    remarked = Counter(f for _, row in compared for f in row["remarks"].split(", ") if f)
    factors = _factors(study if study.cells else everything)
    return environment.get_template("report.html.j2").render(
        title=str(config.get("title") or config.get("study") or "Benchmark"),
        machines_section=Markup(machines_section),
        pages=pages,
        study=everything,
        operations=_sortable(_operation_rows(everything.operations, operation_columns)),
        operation_columns=operation_columns,
        inference=_sortable(_summary_rows(predicting.cells, list(INFERENCE_COLUMNS))),
        inference_columns=INFERENCE_COLUMNS,
        answer=answer(study, comparisons),
        disturbed=disturbed((run.flags, run.values[METRIC]) for run in everything.runs),
        repeat=REPEAT,
        compared=_sortable(compared),
        settings_shown=any(c.setting for c in comparisons),
        choices=_sortable(trials.choices(study)),
        scaling=_part(_scaling_rows(study)),
        proofs=_part(proofs),
        proof_of=lambda cell: proof(
            certificates, cell.facet[0], cell.series.framework, cell.plan.factors["precision"]
        ),
        proof_columns=_proof_columns(proofs),
        deviations=_part(_deviations(networks)),
        outcomes={s: [r.status for r in everything.runs].count(s) for s in STATUSES},
        status_meaning=STATUS_MEANING,
        failures=_part(_failures(everything)),
        figures=_figures(figures),
        columns=columns,
        further=further,
        rows=_sortable(rows),
        shares=any(row["share"] for row in rows),
        no_shares=dict.fromkeys(row["no_share"] for row in rows),
        gains=_sortable(precision.gains(everything)),
        verdicts=_sortable(found),
        verdict_sentences=bottleneck.sentences(found),
        cannot_tell=bottleneck.CANNOT_TELL,
        further_rows=_part(study.cells, lambda cells: _summary_rows(cells, further)),
        max_batches=_part(_max_batch_rows(study, max_batches)),
        gpu_reason=None if has_gpu else study.why_empty("gpu_power"),
        factors=factors,
        first=(*FACTORS, "epochs", "steps"),
        facet_shown=not factors.same.keys() >= set(FACET),
        phases=phases,
        spent=_spent(everything),
        phase_rows=_sortable(_phase_rows(everything.cells, phases)),
        machines=_part(machines(everything)),
        environments=_environments(everything),
        software=_part(_software(everything)),
        settings=_part(_settings_rows(networks)),
        differing_from_default=_differing_from_default(networks),
        hints=_hints(networks),
        flags={name: (text, flags[name]) for name, text in FLAGS.items()}
        | {name: (text, flags[name] or remarked[name]) for name, text in STUDY_FLAGS.items()},
        parity_flag=PARITY_NOT_SHOWN,
        metrics=METRICS,
        started=(started[0], started[-1]),
        seeds=sorted({run.provenance["seed"] for run in everything.runs}),
        versions=distinct(
            [run.provenance["software"].get(name) for name in ("touchstone", "git_commit")]
            for run in everything.runs
        ),
        config_name=config_path.name,
        config_text=read_text(config_path, "Plan the study again"),
    )
