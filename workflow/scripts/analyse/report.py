"""The report: one page that answers, shows its evidence, and loads nothing."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from math import comb
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from analyse.files import InputError, parse_json, read_text
from analyse.metrics import FLAGS, METRICS, PHASES, STATUS_MEANING, STATUSES
from analyse.record import differing_settings
from analyse.study import FACET, Cell, Series, Study, describe_machine, distinct, machines
from analyse.style import style_of
from analyse.tables import counted

FIGURES = ("throughput", "test_accuracy", "training_loss", "cpu_utilization", "host_memory")
NO_DIFFERENCE = "no difference shown"
WIDE = 460.0  # points; half of the page is 33.5 rem of 12 points
LEAST_RUNS = 3
INDICATIVE_ABOVE = 0.05


class Comparison(NamedTuple):
    """The throughputs of one facet at one batch size, fastest median first."""

    facet: tuple[str, str, str]
    batch_size: int
    ranked: list[Cell]

    @property
    def n(self) -> tuple[int, int]:
        return len(self.ranked[0].values("throughput")), len(self.ranked[1].values("throughput"))

    @property
    def testable(self) -> bool:
        """Whether the two fastest have enough runs to be told apart at all."""
        return min(self.n) >= LEAST_RUNS

    @property
    def rivals(self) -> list[Cell]:
        """The cells with a run that was at least as fast as one of the fastest cell's."""
        slowest = min(self.ranked[0].values("throughput"))
        return [cell for cell in self.ranked[1:] if max(cell.values("throughput")) >= slowest]

    @property
    def winner(self) -> Series | None:
        """The fastest, when each of its runs is faster than every run of all others."""
        return self.ranked[0].series if self.testable and not self.rivals else None

    @property
    def ratio(self) -> float:
        """Median throughput of the fastest / that of the next."""
        return _middle(self.ranked[0]) / _middle(self.ranked[1])

    @property
    def indicative(self) -> bool:
        """Whether chance alone is too likely to rely on the verdict."""
        return self.chance > INDICATIVE_ABOVE

    def share(self, cell: Cell) -> float:
        """Median throughput of a cell / that of the fastest."""
        return _middle(cell) / _middle(self.ranked[0])

    @property
    def chance(self) -> float:
        """How often the two fastest would be told apart if they were equally fast.

        Of the C(a + b, a) equally likely orders of a + b runs, 2 separate the groups. Further
        frameworks can only make a false winner rarer.
        """
        a, b = self.n
        return 2 / comb(a + b, a)


def _middle(cell: Cell) -> float:
    return median(cell.values("throughput"))


def compare(study: Study) -> list[Comparison]:
    """The comparisons by throughput that have two series or more with numbers."""
    comparisons = []
    for facet, batches in study.by_facet().items():
        for batch, cells in batches.items():
            ranked = sorted((c for c in cells if c.values("throughput")), key=_middle, reverse=True)
            if len(ranked) > 1:
                comparisons.append(Comparison(facet, batch, ranked))
    return comparisons


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
    if not comparisons:
        with_numbers = [cell for cell in study.cells if cell.values("throughput")]
        sentences.append(
            "No two frameworks have numbers for the same network, data set, device and batch size,"
            " so there is nothing to compare."
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
    sizes = listing(str(c.batch_size) for c in members)
    at = f"at batch size{'s' if len(members) > 1 else ''} {sizes}"
    if only and len(members) > 2:
        at = f"at all {len(members)} batch sizes"
    if winner:
        low, high = (ratio_text(pick(c.ratio for c in members)) for pick in (min, max))
        times = low if low == high else f"{low} to {high}"
        nexts = listing(dict.fromkeys(c.ranked[1].series.label for c in members))
        return f"{winner.label} was fastest {at}, with {times} times the median of {nexts}"
    groups = dict.fromkeys(
        listing(c.series.label for c in ([m.ranked[0], *m.rivals] if testable else m.ranked[:2]))
        for m in members
    )
    who = f"the fastest, {next(iter(groups))}" if len(groups) == 1 else "the fastest of each"
    if not testable:
        return f"{at} there are too few runs to rank {who}"
    return f"{at} {NO_DIFFERENCE} between {who}, because their ranges overlap"


def _caveat(comparisons: list[Comparison]) -> str:
    """How often chance alone would name a winner, and which flags the compared runs carry."""
    tested = [c for c in comparisons if c.testable]
    if not tested:
        return ""
    weakest = max(tested, key=lambda c: c.chance)
    text = (
        f"n={min(weakest.n)}{', indicative' if weakest.indicative else ''}: a framework is called"
        " fastest when each of its runs beat every run of all others; if the two fastest were"
        f" equal, chance would name one of them in {weakest.chance * 100:.2g} % of comparisons"
    )
    if len(tested) > 1:
        expected = sum(c.chance for c in tested)
        text += f", that is in about {expected:.1f} of the {len(tested)} made here"
    flags = {f for c in tested for cell in c.ranked[:2] for run in cell.runs for f in run.flags}
    doubtful = [f for f in ("settings_differ", "noisy_machine", "drifting") if f in flags]
    if doubtful:
        flagged = f"flag{'s' if len(doubtful) > 1 else ''} {listing(doubtful)}"
        text += f". Some of the runs compared carry the {flagged}, explained below"
    return text + "."


def _accuracy_sentence(study: Study) -> str | None:
    """How far apart the median accuracies of cells compared with one another are, at most."""
    gaps = []
    for batches in study.by_facet().values():
        for batch, cells in batches.items():
            medians = [median(v) for cell in cells if (v := cell.values("test_accuracy"))]
            if len(medians) > 1:
                gaps.append((max(medians) - min(medians), batch))
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


def _summary_rows(study: Study, columns: list[Column]) -> Iterator[dict[str, Any]]:
    for cell in study.cells:
        entries = []
        for column in columns:
            values = [column.convert(value) for value in cell.values(column.metric)]
            entries.append(
                {
                    "median": number(median(values), column.digits) if values else None,
                    "range": f"{number(min(values), column.digits)} – "
                    f"{number(max(values), column.digits)}"
                    if len(values) > 1
                    else None,
                    "words": ", ".join(cell.words(column.metric)),
                }
            )
        yield {
            "cell": cell,
            "entries": entries,
            "flags": counted(flag for run in cell.runs for flag in run.flags),
            "status": counted((run.status for run in cell.runs), STATUSES),
        }


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


def _phase_rows(study: Study) -> list[dict[str, Any]]:
    """Median seconds of each phase over the ok runs of each series, by facet and batch size."""
    rows = []
    for cell in study.cells:
        runs = [run for run in cell.runs if run.status == "ok"]
        rows.append(
            {
                "cell": cell,
                "n": len(runs),
                "words": ", ".join(cell.words("test_accuracy")),
                "seconds": [
                    number(median(known), 3)
                    if (known := [run.phases[name] for run in runs if name in run.phases])
                    else None
                    for name in PHASES
                ],
            }
        )
    return rows


def _software(study: Study) -> list[dict[str, Any]]:
    """Framework, version and packages of each different software stack."""
    stacks: dict[str, dict[str, Any]] = {}
    for cell in study.cells:
        for run in cell.runs:
            software = run.provenance["software"]
            key = json.dumps([cell.series.framework, software], sort_keys=True)
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


def _environments(study: Study) -> list[dict[str, Any]]:
    """The different execution environments, without the load, which differs in every run."""
    environments = (run.provenance["environment"] for run in study.runs)
    return distinct({k: v for k, v in e.items() if k != "load_before"} for e in environments)


# The page


def _figures(folder: Path) -> list[dict[str, Any]]:
    """The figures with their texts, images as data URIs; InputError when one is missing.

    A figure that does not fit into half of the page is `wide`.
    """
    remedy = "Make the figures again with plot"
    path = folder / "captions.json"
    try:
        captions = parse_json(read_text(path, remedy))
        figures = [{"name": name, **captions[name]} for name in FIGURES]
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


def make_report(study: Study, figures: Path, config_path: Path, config: dict[str, Any]) -> str:
    """The page as HTML.

    Args:
        figures: folder made by `plot.py`.
        config_path: the resolved configuration, quoted in full.
        config: its content; `title` and `study` are used when there.

    Raises:
        InputError: a figure or the captions are missing.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["dot"] = _dot
    environment.globals["describe"] = describe_machine
    environment.globals["ratio_text"] = ratio_text
    comparisons = compare(study)
    has_gpu = any(cell.values(column.metric) for cell in study.cells for column in GPU_COLUMNS)
    columns = [*COLUMNS, *(GPU_COLUMNS if has_gpu else ())]
    started = sorted(run.provenance["started"] for run in study.runs)
    flags = [flag for run in study.runs for flag in run.flags]
    factors = _factors(study)
    return environment.get_template("report.html.j2").render(
        title=str(config.get("title") or config.get("study") or "Benchmark"),
        study=study,
        answer=answer(study, comparisons),
        comparisons=comparisons,
        outcomes={s: [r.status for r in study.runs].count(s) for s in STATUSES},
        status_meaning=STATUS_MEANING,
        failures=_failures(study),
        figures=_figures(figures),
        columns=columns,
        rows=list(_summary_rows(study, columns)),
        gpu_reason=None if has_gpu else study.why_empty("gpu_power"),
        factors=factors,
        facet_shown=not factors.same.keys() >= set(FACET),
        phases=PHASES,
        phase_rows=_phase_rows(study),
        machines=machines(study),
        environments=_environments(study),
        software=_software(study),
        settings=_settings_rows(study),
        flags={name: (text, flags.count(name)) for name, text in FLAGS.items()},
        metrics=METRICS,
        started=(started[0], started[-1]),
        seeds=sorted({run.provenance["seed"] for run in study.runs}),
        versions=distinct(
            [run.provenance["software"].get(name) for name in ("touchstone", "git_commit")]
            for run in study.runs
        ),
        config_name=config_path.name,
        config_text=read_text(config_path, "Plan the study again"),
    )
