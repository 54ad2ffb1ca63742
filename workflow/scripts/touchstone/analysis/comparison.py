"""Which configuration is fastest: cells side by side."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import ceil
from typing import NamedTuple

from touchstone.analysis.doubts import DISTURBING
from touchstone.analysis.effects import effects
from touchstone.analysis.ranking_model import (
    CHARTED,
    ComparedCell,
    ComparedMetric,
    ComparedPair,
    ComparisonSummary,
    InTurn,
    Level,
    MetricOfCell,
    MetricPair,
    NextStep,
    Reason,
    Trust,
    Unit,
)
from touchstone.analysis.ratio import estimate
from touchstone.plan.model import SETTINGS
from touchstone.plan.names import setting_name
from touchstone.plan.setting import PROGRAM, Kind
from touchstone.results.certificates import Certificates, proof_of
from touchstone.results.interleaved import (
    TOO_WIDE,
    Measured,
    answering,
    compare_with_turns,
    turns_of,
)
from touchstone.results.metrics import HEADED, HIGHER, METRICS, SPEED_OF
from touchstone.results.models import Model, models_of
from touchstone.results.planned import COMPARED
from touchstone.results.study import FACET, Cell, Study
from touchstone.results.tables import remarks
from touchstone.schema.interleaved import Interleaved
from touchstone.statistics.groups import Group, compare_groups
from touchstone.statistics.intervals import INDICATIVE_BELOW, LEVEL
from touchstone.statistics.repeats import equal_within, not_excluded, settling_repeats

MEDIUM_REACH = 1.1
"""Upper end of an interval / ratio from which trust is medium; from `TOO_WIDE` on it is low."""
LOW_SHARE, MEDIUM_SHARE = 1 / 3, 1 / 10
"""Share of disturbed runs above which it is."""
LEAST_REPEATS = 3
"""Repeats that are proposed where there are fewer."""
SPARE = 1.5
"""Time that more sets may take, as a multiple of that of the sets so far."""


class Comparison(NamedTuple):
    """The throughputs of comparable cells.

    `metric` is what is compared. `cells` are those with numbers, the fastest first, `without` those
    that have none. They differ in `compared`; `setting` names the other factors that distinguish
    this comparison from others of the study. `group` has the speeds and their ratios: of the
    `turns` where there are some, else of the `runs`. `noisy_turns` are left out, as `answering`
    says.
    """

    metric: str
    first: Cell
    compared: list[str]
    setting: str
    cells: list[Cell]
    without: list[Cell]
    group: Group
    runs: Group
    turns: Measured | None
    noisy_turns: bool

    @property
    def n(self) -> int:
        """The sets in which the cells were measured in turn, or else the fewest runs of a cell."""
        if self.turns:
            return self.turns.sets
        return min(len(cell.values(self.metric)) for cell in self.cells)

    @property
    def unit(self) -> Unit:
        """What `n` counts."""
        return "sets" if self.turns else "repeats"


def compare(
    study: Study, interleaved: Sequence[Interleaved] = (), metric: str = "throughput"
) -> list[Comparison]:
    """The comparisons by a speed that have two cells or more with numbers.

    Args:
        interleaved: what was measured in turn; the speeds are from there where all cells took part
            and the intervals are narrow enough for an answer.
        metric: that is compared; turns are of it.
    """
    all_groups = study.comparable()
    speeds = [{c.plan.name: c.by_block(metric) for c in group} for group in all_groups]
    with_numbers = [
        (group, of_cells, turns)
        for group, of_cells, turns in zip(
            all_groups, speeds, turns_of(speeds, interleaved), strict=True
        )
        if turns or sum(map(bool, of_cells.values())) > 1
    ]
    groups = [group for group, _, _ in with_numbers]
    values = [of_cells for _, of_cells, _ in with_numbers]
    measured = [turns for _, _, turns in with_numbers]
    turns = answering(values, measured)
    fitted = compare_with_turns(values, turns)
    of_runs = compare_groups(values) if any(turns) else fitted
    models = zip(fitted, of_runs, turns, measured, strict=True)
    compared = {name for group in groups for name in _differing(group)}
    varying = [
        name
        for name in _differing(group[0] for group in groups)
        if name not in (*COMPARED, *compared, *FACET, "batch_size")
    ]
    comparisons = []
    for group, (model, runs, in_turn, all_turns) in zip(groups, models, strict=True):
        first = next((cell for cell in group if cell.kind != PROGRAM), group[0])
        factors = first.plan.factors
        setting = ", ".join(
            setting_name(name, factors[name], first.series.framework) for name in varying
        )
        named = {cell.plan.name: cell for cell in group}
        cells = [named.pop(name) for name in model.ranked]
        comparisons.append(
            Comparison(
                metric, first, _differing(group), setting, cells, list(named.values()), model,
                runs, in_turn, all_turns is not in_turn,
            )
        )  # fmt: skip
    order = {facet: i for i, facet in enumerate(dict.fromkeys(c.facet for c in study.cells))}
    return sorted(comparisons, key=lambda c: (order[c.first.facet], c.first.batch_size, c.setting))


def speeds_in_turn(study: Study, interleaved: Sequence[Interleaved]) -> dict[str, list[float]]:
    """By cell whose comparison rests on turns, its speed in each set, examples/s."""
    return {
        cell: list(speeds.values())
        for comparison in compare(study, interleaved)
        if comparison.turns
        for cell, speeds in comparison.turns.speeds.items()
    }


def _differing(cells: Iterable[Cell]) -> list[str]:
    """The factors in which cells differ; of programs beside networks, those that both heed."""
    values: dict[str, set[str]] = {}
    kinds = set()
    for cell in cells:
        kinds.add(cell.kind)
        for name, value in cell.plan.factors.items():
            values.setdefault(name, set()).add(value)
    return [
        name
        for name, of_cells in values.items()
        if len(of_cells) > 1
        and (len(kinds) == 1 or name in COMPARED or kinds <= {*SETTINGS[name].of})
    ]


def comparisons(
    study: Study,
    workload: Kind,
    certificates: Certificates,
    interleaved: Sequence[Interleaved] = (),
) -> list[ComparisonSummary]:
    """The comparisons of the cells of a study that do the same; see `compare`.

    Args:
        certificates: of the study's networks, as far as there are any.
        interleaved: what was measured in turn.
    """
    part = study.compared_as(workload)
    groups = part.comparable()
    places = {cell.plan.name: place for place, group in enumerate(groups) for cell in group}
    models = {name: models_of(groups, name) for name in HEADED if part.why_empty(name) is None}

    def metrics(comparison: Comparison) -> list[ComparedMetric]:
        place = places[comparison.first.plan.name]
        cells = comparison.cells[:CHARTED]
        by_metric = (_metric(cells, name, by_place[place]) for name, by_place in models.items())
        return [metric for metric in by_metric if len(metric.cells) > 1]

    return [
        _summary(comparison, workload, certificates, study, metrics(comparison))
        for comparison in compare(part, interleaved, SPEED_OF[workload])
    ]


def _metric(cells: Sequence[Cell], name: str, model: Model) -> ComparedMetric:
    """A metric of some cells by its model, the best cell first."""
    ranked = [
        MetricOfCell(cell=cell.plan.name, value=value, values=cell.values(name))
        for cell in cells
        if (value := model.mean(cell.plan.name)) is not None
    ]
    ranked.sort(key=lambda metric: metric.value, reverse=METRICS[name].better == HIGHER)
    pairs = [
        MetricPair(cell=first.cell, reference=second.cell, **contrast._asdict())
        for first, second in combinations(ranked, 2)
        if (contrast := model.contrast(first.cell, second.cell))
    ]
    return ComparedMetric(metric=name, cells=ranked, pairs=pairs)


def _summary(
    comparison: Comparison,
    workload: Kind,
    certificates: Certificates,
    study: Study,
    metrics: list[ComparedMetric],
) -> ComparisonSummary:
    """A comparison as the findings have it; `study` is the one whose runs more repeats repeat."""
    network, dataset, device = comparison.first.facet
    pairs = [_pair(comparison, *pair) for pair in combinations(comparison.cells, 2)]
    leader = comparison.cells[0].plan.name
    leads = [pair for pair in pairs if pair.faster == leader]
    rivals = [pair for pair in leads if pair.ratio is None or pair.ratio.verdict != "faster"]
    equal = [pair.slower for pair in rivals if pair.equal_within is not None]
    noisy = _too_noisy(comparison, leads)
    is_open = len(equal) < len(rivals)
    return ComparisonSummary(
        workload=workload,
        network=network,
        dataset=dataset,
        compared=comparison.compared,
        device=None if "device" in comparison.compared else device,
        batch_size=(None if "batch_size" in comparison.compared else comparison.first.batch_size),
        setting=comparison.setting,
        cells=[
            _compared(comparison, cell, certificates)
            for cell in (*comparison.cells, *comparison.without)
        ],
        pairs=pairs,
        winner=None if rivals or noisy else leader,
        rivals=[pair.slower for pair in rivals],
        equal=equal,
        effects=effects(comparison.cells, comparison.compared, comparison.group),
        too_noisy=noisy,
        n=comparison.n,
        in_turn=_in_turn(comparison.turns),
        noisy_turns=comparison.noisy_turns,
        level=LEVEL,
        trust=_trust(comparison, pairs, leads),
        next_step=_next_step(comparison, study) if is_open else None,
        metrics=metrics,
    )


def _too_noisy(comparison: Comparison, leads: Sequence[ComparedPair]) -> str:
    """Why the noise leaves no answer; empty where the intervals are narrow enough for one."""
    if (_reach(leads) or 1.0) <= TOO_WIDE:
        return ""
    total, disturbed = _disturbed(comparison)
    if disturbed > LOW_SHARE * total:
        what = "rounds" if comparison.turns else "runs"
        return f"other programs disturbed {disturbed} of {total} {what}"
    values = [_values(comparison, cell) for cell in comparison.cells]
    spread = max(max(of_cell) / min(of_cell) for of_cell in values)
    unit = "sets" if comparison.turns else "runs"
    if spread <= TOO_WIDE:
        return f"{comparison.n} {unit} say too little about their noise"
    return f"the speed of one configuration differed by a factor of {spread:.2g} between its {unit}"


def _in_turn(turns: Measured | None) -> InTurn | None:
    if turns is None:
        return None
    return InTurn(**{name: getattr(turns, name) for name in InTurn.model_fields})


def _pair(comparison: Comparison, faster: Cell, slower: Cell) -> ComparedPair:
    names = faster.plan.name, slower.plan.name
    provenances = ([run.provenance for run in cell.runs] for cell in (faster, slower))
    ratio = estimate(comparison.group.ratio(*names))
    ends = (ratio.low, ratio.high) if ratio else (None, None)
    return ComparedPair(
        faster=names[0],
        slower=names[1],
        ratio=ratio,
        equal_within=equal_within(*ends),
        not_excluded=not_excluded(*ends),
        runs_ratio=estimate(comparison.runs.ratio(*names)) if comparison.turns else None,
        remarks=remarks(*provenances),
    )


def _compared(comparison: Comparison, cell: Cell, certificates: Certificates) -> ComparedCell:
    name, leader = cell.plan.name, comparison.cells[0].plan.name
    ratio = comparison.group.ratio(leader, name) if name != leader else None
    ends = ratio.interval() if ratio else None
    fastest = comparison.group.speed(leader)
    return ComparedCell(
        cell=name,
        speed=comparison.group.speed(name) if cell in comparison.cells else None,
        values=_values(comparison, cell),
        runs=cell.values(comparison.metric),
        low=fastest / ends[1] if ends else None,
        high=fastest / ends[0] if ends else None,
        equal_computation=_equal_computation(cell, certificates),
    )


def _values(comparison: Comparison, cell: Cell) -> list[float]:
    """What the speed of a cell is the mean of."""
    if comparison.turns:
        return list(comparison.turns.speeds.get(cell.plan.name, {}).values())
    return cell.values(comparison.metric)


def _equal_computation(cell: Cell, certificates: Certificates) -> str:
    """What is known of equal computation; outputs of inference are compared with the training's."""
    certificate = proof_of(certificates, cell.plan.settings, cell.series.stack)
    if certificate.shown or not cell.values("deviation"):
        return certificate.verdict
    return "outputs equal"


def _trust(
    comparison: Comparison, pairs: Sequence[ComparedPair], leads: Sequence[ComparedPair]
) -> Trust:
    total, disturbed = _disturbed(comparison)
    reach = _reach(leads)
    disagree = any(pair.runs_disagree for pair in pairs)
    level, reason = _level(comparison.n, disturbed / total, disagree, reach or 1.0)
    return Trust(
        level=level,
        reason=reason,
        n=comparison.n,
        unit=comparison.unit,
        runs=total,
        disturbed=disturbed,
        reach=reach,
    )


def _reach(leads: Sequence[ComparedPair]) -> float | None:
    """The largest upper end / ratio of the leader's intervals; None without an interval."""
    ratios = [pair.ratio for pair in leads if pair.ratio]
    reaches = [ratio.high / ratio.value for ratio in ratios if ratio.high is not None]
    return max(reaches, default=None)


def _disturbed(comparison: Comparison) -> tuple[int, int]:
    """Of the runs, or rounds that count, how many there are, and how many were disturbed."""
    if turns := comparison.turns:
        return turns.rounds, turns.disturbed
    runs = [run for cell in comparison.cells for run in cell.runs]
    return len(runs), sum(bool(DISTURBING & set(run.flags)) for run in runs)


def _level(n: int, disturbed: float, disagree: bool, reach: float) -> tuple[Level, Reason | None]:
    """How far to trust a comparison, and the main reason.

    `disturbed` is the share of disturbed runs; `disagree`: the long runs give other ratios.
    """
    if n < 2:
        return "low", "one run"
    if disturbed > LOW_SHARE:
        return "low", "disturbed"
    if disagree:
        return "low", "long runs"
    if reach >= TOO_WIDE:
        return "low", "interval"
    if disturbed > MEDIUM_SHARE:
        return "medium", "disturbed"
    if reach >= MEDIUM_REACH:
        return "medium", "interval"
    return ("medium", "few runs") if n < INDICATIVE_BELOW else ("high", None)


def _next_step(comparison: Comparison, study: Study) -> NextStep:
    """From the intervals of the leads and of the noise, and the time that a run took."""
    turns = comparison.turns
    now = turns.sets if turns else max(cell.plan.repeats for cell in comparison.cells)
    seconds = turns.seconds if turns else study.round_seconds
    decides = comparison.n > 1 and bool(comparison.group.freedom)
    if decides:
        repeats = settling_repeats(comparison.group, now)
    else:
        repeats = max(LEAST_REPEATS, now + 1) if comparison.n == 1 else None
    return NextStep(
        unit=comparison.unit,
        repeats=repeats,
        minutes=None if repeats is None else (repeats - now) * seconds / 60,
        edit="" if repeats is None else _edit(turns, repeats),
        decides=decides,
    )


def _edit(turns: Measured | None, repeats: int) -> str:
    """What to write into the study for so many repeats, or sets."""
    if turns is None:
        return f"repeats: {repeats}"
    limit = ceil(SPARE * repeats * turns.seconds / 10) * 10
    rounds = turns.asked_rounds
    return f"interleave: {{sets: {repeats}, rounds: {rounds}, max_seconds: {limit}}}"
