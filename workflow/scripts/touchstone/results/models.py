"""The models of a metric: of each group of comparable cells, from its turns or from its runs."""

from collections.abc import Sequence
from typing import NamedTuple

from touchstone.results.interleaved import answering, compare_with_turns, turns_of
from touchstone.results.metrics import CENSORED, METRICS, SPEED_OF
from touchstone.results.planned import kind_of
from touchstone.results.study import Cell
from touchstone.schema.interleaved import Interleaved
from touchstone.statistics.groups import Group, compare_groups


class Contrast(NamedTuple):
    """The ratio of two cells, or their difference, with the ends of its interval; None where the
    noise is not known."""

    value: float
    low: float | None
    high: float | None


class Model(NamedTuple):
    """The model of a group: of ratios, or of differences; `basis` is `turns` or `runs`."""

    group: Group
    basis: str
    of_ratios: bool

    def mean(self, cell: str) -> float | None:
        """The geometric mean of a cell's values, of differences the arithmetic one; None without
        one."""
        if cell not in self.group.fit.cells:
            return None
        return self.group.speed(cell) if self.of_ratios else self.group.effect(cell)

    def contrast(self, cell: str, reference: str) -> Contrast | None:
        """The cell / the reference, or the cell - the reference; None where no chain of common
        blocks links them."""
        ratio = self.group.ratio(cell, reference)
        if ratio is None:
            return None
        if self.of_ratios:
            return Contrast(ratio.value, *(ratio.interval() or (None, None)))
        return Contrast(ratio.log, *(ratio.log_interval() or (None, None)))


def has_ratios(metric: str) -> bool:
    """Whether a ratio of two values means something; of accuracies and losses it does not."""
    return METRICS[metric].unit != "1"


def models_of(
    groups: Sequence[Sequence[Cell]], metric: str, interleaved: Sequence[Interleaved] = ()
) -> list[Model]:
    """A model of each group, as the page has it: training, inference and operations apart.

    Models of a metric without ratios are of differences.
    """
    by_number: dict[int, Model] = {}
    of_ratios = has_ratios(metric)
    kinds = list(map(kind_of, groups))
    for kind in set(kinds):
        numbers = [number for number, other in enumerate(kinds) if other == kind]
        is_speed = metric == SPEED_OF[kind]
        values = [{c.plan.name: uncensored(c, metric) for c in groups[i]} for i in numbers]
        if of_ratios:
            turns = answering(values, turns_of(values, interleaved if is_speed else ()))
            models = compare_with_turns(values, turns)
        else:
            turns = [None] * len(values)
            models = compare_groups(values, logarithms=False)
        for number, model, in_turn in zip(numbers, models, turns, strict=True):
            by_number[number] = Model(model, "turns" if in_turn else "runs", of_ratios)
    return [by_number[number] for number in range(len(groups))]


def uncensored(cell: Cell, metric: str) -> dict[int, float]:
    """The values by block, or none where only the quick runs have one: they are no fair sample."""
    values = cell.by_block(metric)
    return {} if metric in CENSORED and len(values) < len(cell.runs) else values
