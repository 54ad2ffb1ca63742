"""A comparison in sentences: what was fastest, by how much, and what the data leave open."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil
from typing import NamedTuple

from touchstone.analysis.findings_model import Findings
from touchstone.analysis.part import UNIT_OF, RatioEstimate
from touchstone.analysis.ranking_model import (
    ComparedCell,
    ComparedPair,
    ComparisonSummary,
    Curve,
    FactorEffect,
    FactorLevel,
)
from touchstone.plan.names import setting_name
from touchstone.report.text import (
    common_cell,
    compared_name,
    comparison_text,
    full_label,
    interval_text,
    listing,
    number,
    ratio_text,
)
from touchstone.results.metrics import words

NAMED = 5
"""Configurations beside the fastest that a sentence names."""


def sentences(findings: Findings, comparison: ComparisonSummary) -> str:
    """The answer of a comparison: who was fastest, at which speed, by how much; what each factor
    changes; and which configurations may be as fast."""
    place = comparison_text(comparison, common_cell(findings, comparison))
    if comparison.n < 2:
        return _measured_once(findings, comparison, place)
    if comparison.too_noisy:
        return _no_answer(findings, comparison, place)
    if comparison.in_turn and comparison.in_turn.disturbed:
        place += ", beside other programs"
    first, *others = [*effect_sentences(findings, comparison), *_verdict(findings, comparison)]
    return " ".join([f"{place}: {first}", *map(begun, others)])


def begun(sentence: str) -> str:
    """A sentence with a capital letter, unless it begins with the name of a precision."""
    word = sentence.split()[0]
    return sentence if re.search(r"\d", word) else sentence[0].upper() + sentence[1:]


def _measured_once(findings: Findings, comparison: ComparisonSummary, place: str) -> str:
    cells = [cell for cell in comparison.cells if cell.speed is not None]
    speeds = "; ".join(_speed(findings, comparison, cell) for cell in cells)
    runs = "one run each" if all(c.n == 1 for c in cells) else "one run of a configuration"
    return f"{place}: too few runs to tell which is fastest. Measured, {runs}: {speeds}."


def _no_answer(findings: Findings, comparison: ComparisonSummary, place: str) -> str:
    """That the noise is too large, why, and what is sure all the same."""
    text = f"{place}: no answer, the machine was too noisy: {comparison.too_noisy}."
    slower = [pair.slower for pair in comparison.leads if pair.slower not in comparison.rivals]
    if not slower:
        return text
    names = listing(compared_name(comparison, findings.cell[name]) for name in slower)
    leader = _name(findings, comparison, comparison.leader)
    return f"{text} Only this is shown: {leader} was faster than {names}."


class Leads(NamedTuple):
    """The fastest against the others: equal to it, slower, maybe as fast, and without a ratio."""

    equal: list[ComparedPair]
    slower: list[ComparedPair]
    unknown: list[ComparedPair]
    apart: list[ComparedPair]


def leads_of(comparison: ComparisonSummary) -> Leads:
    """What each pair of a comparison shows."""
    leads = Leads([], [], [], [])
    for pair in comparison.leads:
        if pair.ratio is None:
            leads.apart.append(pair)
        elif pair.slower in comparison.equal:
            leads.equal.append(pair)
        else:
            (leads.unknown if pair.slower in comparison.rivals else leads.slower).append(pair)
    return leads


def _verdict(findings: Findings, comparison: ComparisonSummary) -> list[str]:
    """The fastest against each other configuration: faster, equal, or maybe as fast."""
    cells = {cell.cell: cell for cell in comparison.cells}
    named = NAMED if len(comparison.effects) < 2 else 1  # a table crosses two factors
    equal, slower, unknown, apart = leads_of(comparison)
    leader = cells[comparison.leader]
    first = _name(findings, comparison, comparison.leader)
    with_speed = f"{first} with {_amount(comparison, leader)}"
    parts = []
    if comparison.winner:
        parts.append(f"{first} was fastest with {_amount(comparison, leader)}, ")
        parts[0] += _ratios(findings, comparison, slower, named)
    elif equal:
        within = max(pair.equal_within or 0.0 for pair in equal)
        others = listing(_speed(findings, comparison, cells[pair.slower]) for pair in equal[:NAMED])
        ratios = listing(_pair_text(pair) for pair in equal[:NAMED])
        text = f"{with_speed} is equal to {others}{_more(equal)} to within {_percent(within)}"
        parts.append(f"{text}: {ratios} times")
    if unknown:
        others = listing(_maybe_as_fast(findings, comparison, pair) for pair in unknown[:NAMED])
        who = first if parts else with_speed
        parts.append(f"cannot tell {who} from {others}{_more(unknown)}")
    if slower and not comparison.winner:
        parts.append(f"{first} was {_ratios(findings, comparison, slower, named)}")
    if apart:
        names = listing(_name(findings, comparison, pair.slower) for pair in apart)
        parts.append(f"no execution ran both {first} and {names}: they have no ratio")
    return [f"{part}." for part in parts]


def _ratios(
    findings: Findings, comparison: ComparisonSummary, pairs: Sequence[ComparedPair], named: int
) -> str:
    """`1.10 [1.07, 1.13] times as fast as PyTorch with 13,550 images/s`, and so on."""
    cells = {cell.cell: cell for cell in comparison.cells}
    texts = [
        f"{_pair_text(pair)} times as fast as {_speed(findings, comparison, cells[pair.slower])}"
        for pair in pairs[:named]
    ]
    return listing(texts) + _more(pairs, named)


def _more(pairs: Sequence[ComparedPair], named: int = NAMED) -> str:
    left = len(pairs) - named
    return f" ({left} more {'is' if left == 1 else 'are'} in the table)" if left > 0 else ""


def _maybe_as_fast(findings: Findings, comparison: ComparisonSummary, pair: ComparedPair) -> str:
    """A configuration that may be as fast, with the largest difference that is not excluded."""
    cells = {cell.cell: cell for cell in comparison.cells}
    text = f"{_speed(findings, comparison, cells[pair.slower])}: {_pair_text(pair)} times, "
    if pair.not_excluded is None:
        return f"{text}without an interval, as too few repeats of an execution have both"
    return f"{text}so a difference of up to {_percent(pair.not_excluded)} is not excluded"


def _percent(share: float) -> str:
    """A share as per cent, rounded up: `4 %`; below 1 % with a decimal."""
    exact = 100 * share
    return f"{ceil(round(exact, 6))} %" if exact > 1 else f"{ceil(round(10 * exact, 6)) / 10:g} %"


def effect_sentences(findings: Findings, comparison: ComparisonSummary) -> list[str]:
    """What each factor changes, a sentence each: a curve where its values have an order."""
    framework, effects = common_cell(findings, comparison).framework, comparison.effects
    alone = len(effects) == 1 and len(effects[0].levels) == len(comparison.cells)
    return [
        _effect_sentence(framework, effect)
        for effect in effects
        if not (alone and len(effect.levels) == 2)  # the verdict says the same
    ]


def _effect_sentence(framework: str, effect: FactorEffect) -> str:
    is_curve = effect.ordered and len(effect.levels) > 2
    return (_curve if is_curve else _contrast)(framework, effect)


def _curve(framework: str, effect: FactorEffect) -> str:
    """`from batch size 32 to 256 the speed is 1.31 [..] (64), 1.42 [..] (128) and 1.20 [..] (256)
    times that at batch size 32; highest at batch size 128.`"""
    first, *others = effect.levels
    begin, end = (_level_name(framework, effect, level) for level in (first, effect.levels[-1]))
    steps = listing(
        f"{_level_ratio(level)} ({level.version or level.value or 'all'})" for level in others
    )
    highest = _level_name(framework, effect, effect.highest)
    return f"from {begin} to {end} the speed is {steps} times that of {begin}; highest: {highest}."


def curve_sentences(findings: Findings) -> list[str]:
    """How a number changes the speed of the configurations, by their long runs: a sentence each, or
    of more than `NAMED` where the speed is the highest."""
    lines = []
    factors = dict.fromkeys((curve.workload, curve.effect.factor) for curve in findings.curves)
    for workload, factor in factors:
        curves = [o for o in findings.curves if (o.workload, o.effect.factor) == (workload, factor)]
        about = f"{words(factor)}, by the long runs"
        noisy = [curve for curve in curves if curve.too_noisy]
        clear = [curve for curve in curves if not curve.too_noisy]
        texts = [_of_configuration(findings, curve) for curve in clear]
        if len(clear) > NAMED:
            highest = Counter(_highest(findings, curve) for curve in clear)
            texts = [f"highest: {level} in {n} of {len(clear)}" for level, n in highest.items()]
        if noisy:
            texts.append(f"too noisy to tell for {len(noisy)} of {len(curves)} configurations")
        lines.append(f"{about[0].upper()}{about[1:]}: {'; '.join(texts)}.")
    return lines


def _of_configuration(findings: Findings, curve: Curve) -> str:
    cell = findings.cell[curve.cells[0]]
    return f"{full_label(cell)}, {_effect_sentence(cell.framework, curve.effect)[:-1]}"


def _highest(findings: Findings, curve: Curve) -> str:
    return _level_name(findings.cell[curve.cells[0]].framework, curve.effect, curve.effect.highest)


def _contrast(framework: str, effect: FactorEffect) -> str:
    """`with bf16 the speed is 1.80 [1.60, 2.00] times that with fp32.`"""
    first, *others = effect.levels
    texts = listing(
        f"with {_level_name(framework, effect, level)} the speed is {_level_ratio(level)}"
        for level in others
    )
    return f"{texts} times that with {_level_name(framework, effect, first)}."


def _level_name(framework: str, effect: FactorEffect, level: FactorLevel) -> str:
    if level.version:
        return f"{level.version} ({level.value})"
    return setting_name(effect.factor, level.value, framework)


def _level_ratio(level: FactorLevel) -> str:
    """A ratio with its interval, and the range over the other factors' levels."""
    if level.ratio is None:
        return "an unknown number of"
    text = times_text(level.ratio)
    ends = [ratio_text(end) for end in (level.least, level.most) if end is not None]
    return f"{text} (from {' to '.join(ends)})" if len(set(ends)) > 1 else text


def _pair_text(pair: ComparedPair) -> str:
    return times_text(pair.ratio) if pair.ratio else "an unknown number of"


def times_text(ratio: RatioEstimate) -> str:
    """A ratio with its interval, `1.10 [1.07, 1.13]`."""
    return f"{ratio_text(ratio.value)} {interval_text(ratio)}".strip()


def _name(findings: Findings, comparison: ComparisonSummary, cell: str) -> str:
    return compared_name(comparison, findings.cell[cell])


def _amount(comparison: ComparisonSummary, cell: ComparedCell) -> str:
    return f"{number(cell.speed)} {UNIT_OF[comparison.workload]}"


def _speed(findings: Findings, comparison: ComparisonSummary, cell: ComparedCell) -> str:
    return f"{_name(findings, comparison, cell.cell)} with {_amount(comparison, cell)}"


def counted(findings: Findings, comparisons: Sequence[ComparisonSummary]) -> str:
    """Of many comparisons, how often each configuration was the fastest and by how much."""
    total = len(comparisons)
    texts = []
    noisy = [comparison for comparison in comparisons if comparison.too_noisy and comparison.n > 1]
    won = [comparison for comparison in comparisons if comparison.winner]
    quiet = [comparison for comparison in comparisons if comparison not in noisy]
    equal = [comparison for comparison in quiet if comparison.rivals == comparison.equal != []]
    for name, ratios in _leads(findings, won):
        by = f"{_span(ratios)} times as fast as the next"
        texts.append(f"{name} was fastest in {len(ratios)} of {total} comparisons, {by}.")
    if equal:
        texts.append(f"In {len(equal)} of {total} comparisons the fastest are equal to within 5 %.")
    decided = [*noisy, *won, *equal]
    if undecided := [comparison for comparison in comparisons if comparison not in decided]:
        which = "all" if len(undecided) == total else f"{len(undecided)} of"
        texts.append(f"Cannot tell which is fastest in {which} {total} comparisons.")
        texts += [
            f"The speed of {name} was the highest in {len(ratios)} of these, {_span(ratios)} times"
            " that of the next."
            for name, ratios in _leads(findings, undecided)
        ]
    if noisy:
        texts.append(
            f"In {len(noisy)} of {total} comparisons the machine was too noisy for an answer."
        )
    return " ".join(texts)


def _leads(
    findings: Findings, comparisons: Iterable[ComparisonSummary]
) -> list[tuple[str, list[RatioEstimate]]]:
    """By leader, its ratios to the next; the most frequent leader first."""
    by_leader: dict[str, list[RatioEstimate]] = {}
    for comparison in comparisons:
        if ratio := comparison.leads[0].ratio:
            by_leader.setdefault(_name(findings, comparison, comparison.leader), []).append(ratio)
    return sorted(by_leader.items(), key=lambda item: -len(item[1]))


def _span(ratios: list[RatioEstimate]) -> str:
    least, most = (f(ratios, key=lambda ratio: ratio.value) for f in (min, max))
    low, high = times_text(least), times_text(most)
    return low if low == high else f"{low} to {high}"


def long_runs(findings: Findings, comparisons: Sequence[ComparisonSummary], most: int) -> str:
    """Where the long runs order two configurations the other way, or exclude the ratio of turns;
    of more than `most` comparisons only how often."""
    clear = [comparison for comparison in comparisons if not comparison.too_noisy]
    pairs = [(comparison, pair) for comparison in clear for pair in comparison.pairs]
    odd = [(comparison, pair) for comparison, pair in pairs if pair.runs_differ and pair.runs_ratio]
    if not odd:
        return ""
    if len(comparisons) > most:
        return f"The long runs give other ratios for {len(odd)} of {len(pairs)} pairs."
    texts = []
    for comparison, pair in odd:
        assert pair.runs_ratio
        order = ", the other order" if pair.runs_turn_round else ""
        names = [_name(findings, comparison, cell) for cell in (pair.faster, pair.slower)]
        texts.append(f"{times_text(pair.runs_ratio)} for {' to '.join(names)}{order}")
    return f"The long runs, a cross-check, give other ratios: {listing(texts)}."


def noisy_turns(findings: Findings, comparisons: Sequence[ComparisonSummary]) -> str:
    """Where the answer is that of the long runs, since the turns were too noisy for one."""
    noisy = [comparison for comparison in comparisons if comparison.noisy_turns]
    if not noisy:
        return ""
    which = "The answer is" if len(noisy) == len(comparisons) else f"{len(noisy)} answers are"
    return f"{which} from the long runs: the turns were too noisy to have one."
