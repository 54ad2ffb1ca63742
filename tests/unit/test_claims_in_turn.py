"""Claims on throughputs of cells that took turns rest on their turns."""

from dataclasses import replace

import pytest

from fixtures.turns import computed
from touchstone.published.claim_model import Relative
from touchstone.published.comparisons import relative
from touchstone.published.contrast import contrast, mean_of
from touchstone.published.page import taken_in_turn
from touchstone.published.points import Point, with_turns
from touchstone.results.interleaved import measured


def figure(cell, speeds, metric="throughput", **factors):
    """A measured figure with these values of its runs."""
    return Point(metric, "images/s", factors, dict(enumerate(speeds, 1)), cell=cell)


@pytest.fixture
def pair():
    """Two cells that are alike in their runs, one of which was twice as fast in turn."""
    figures = [figure("a", [90.0, 100.0, 110.0]), figure("b", [100.0, 100.0, 100.0])]
    return with_turns(figures, [measured(computed({"a": 2.0, "b": 1.0}))])


def test_a_ratio_of_throughputs_is_that_of_the_turns(pair):
    found = contrast(*pair)
    low, high = found.interval(0.95)
    assert found.n == 5 and 1.9 < low < 2.0 < high < 2.1


def test_sets_that_end_at_a_precision_have_a_wider_interval(pair):
    turns = measured(computed({"a": 2.0, "b": 1.0})._replace(precision=0.03))
    assert turns.adaptive
    wider = contrast(*with_turns(pair, [turns]))
    assert wider.error == pytest.approx(contrast(*pair).error * 1.2**0.5)


def test_without_turns_of_both_the_runs_count(pair):
    one, other = pair
    runs = contrast(replace(one, in_turn=None), other)
    assert runs.n == 3 and 0.8 < runs.value < 1.2
    apart = [measured(computed({name: 1.0, f"{name}2": 2.0})) for name in "ab"]
    assert contrast(*with_turns(pair, apart)).n == 3
    times = [replace(each, metric="step_time") for each in pair]
    turns = [measured(computed({"a": 2.0, "b": 1.0}))]
    assert contrast(*with_turns(times, turns)).n == 3


def test_figures_computed_from_runs_have_no_turns(pair):
    assert mean_of(pair).in_turn is None
    alike = [replace(each, factors={"batch_size": n}) for n, each in enumerate(pair, 1)]
    wanted = Relative(of={"batch_size": 1}, to={"batch_size": 2}, alike=[])
    (ratio,) = relative(alike, wanted)
    assert ratio.in_turn is None and ratio.values[1] == pytest.approx(0.9)


def test_the_page_says_what_rests_on_turns():
    quiet = measured(computed({"a": 2.0, "b": 1.0}))
    loud = measured(computed({"a": 2.0, "b": 1.0}, others=lambda *_: 1.0))
    assert taken_in_turn([]) == []
    (text,) = taken_in_turn([quiet, loud])
    assert text.startswith("The configurations of 2 comparisons also took turns: ratios")
    assert text.endswith("Other programs disturbed the turns of 1.")
