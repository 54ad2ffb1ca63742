"""The model of a group of cells: by hand, against SciPy, and with missing blocks."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from touchstone.statistics.groups import compare_groups, fit
from touchstone.statistics.intervals import Ratio, critical, noncentrality, paired_ratio


def drawn(seed, cells=3, blocks=3, noise=0.1):
    """Speeds of a group whose cells and blocks differ."""
    rng = random.Random(seed)
    quick = [rng.gauss(0, 0.3) for _ in range(blocks)]
    return {
        f"cell{c}": {b: math.exp(0.2 * c + quick[b] + rng.gauss(0, noise)) for b in range(blocks)}
        for c in range(cells)
    }


def least_squares(values):
    """Effects' differences, their variances and the residual variance, by a design matrix."""
    cells, blocks = list(values), sorted({b for v in values.values() for b in v})
    places = [(c, b) for c in cells for b in values[c]]
    x = np.zeros((len(places), len(cells) + len(blocks)))
    for row, (c, b) in enumerate(places):
        x[row, cells.index(c)] = x[row, len(cells) + blocks.index(b)] = 1
    y = np.log([values[c][b] for c, b in places])
    beta, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
    variance = ((y - x @ beta) ** 2).sum() / (len(y) - rank)
    return beta, np.linalg.pinv(x.T @ x), variance, len(y) - rank


@pytest.mark.parametrize("missing", [(), ((0, 1),), ((0, 0), (1, 1), (2, 2))])
def test_effects_and_errors_are_those_of_least_squares(missing):
    values = drawn(1, cells=4, blocks=4)
    for cell, block in missing:
        del values[f"cell{cell}"][block]
    (group,) = compare_groups([values])
    beta, inverse, variance, freedom = least_squares(values)
    assert (group.variance, group.freedom) == (pytest.approx(variance), freedom)
    for i in range(4):
        for j in range(i):
            ratio = group.ratio(f"cell{i}", f"cell{j}")
            share = inverse[i, i] + inverse[j, j] - 2 * inverse[i, j]
            assert ratio.log == pytest.approx(beta[i] - beta[j])
            assert ratio.error == pytest.approx(math.sqrt(share * variance))


def test_intervals_are_tukeys_where_blocks_do_not_differ():
    """With the noise of the one-way model they are those of scipy.stats.tukey_hsd."""
    sides = [[1.0, 1.2, 1.1, 1.3], [2.0, 2.2, 2.4, 2.1], [1.5, 1.4, 1.6, 1.7]]
    expected = stats.tukey_hsd(*np.log(sides)).confidence_interval(0.95)
    variance = float(np.mean([np.var(np.log(side), ddof=1) for side in sides]))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        middle = np.mean(np.log(sides[i])) - np.mean(np.log(sides[j]))
        ratio = Ratio(4, float(middle), math.sqrt(variance / 2), 9, cells=3)
        assert [math.log(end) for end in ratio.interval()] == pytest.approx(
            [expected.low[i, j], expected.high[i, j]], abs=1e-6
        )


def test_two_cells_in_the_same_blocks_are_the_paired_t_interval():
    values = drawn(2, cells=2, blocks=5)
    (group,) = compare_groups([values])
    ours, paired = group.ratio("cell0", "cell1"), paired_ratio(*values.values())
    assert ours.interval() == pytest.approx(paired.interval())
    assert (ours.n, ours.freedom, ours.log) == (5, 4, pytest.approx(paired.log))


def test_the_speed_is_the_geometric_mean_and_orders_the_cells():
    values = drawn(3)
    (group,) = compare_groups([values])
    for cell, found in values.items():
        assert group.speed(cell) == pytest.approx(stats.gmean(list(found.values())))
    assert group.ranked == sorted(values, key=group.speed, reverse=True)


@given(st.integers(0, 10**6), st.lists(st.floats(0.01, 100), min_size=3, max_size=3))
def test_what_slows_a_whole_block_changes_nothing(seed, factors):
    values = drawn(seed)
    slowed = {c: {b: x * factors[b] for b, x in v.items()} for c, v in values.items()}
    first, second = (compare_groups([one])[0].ratio("cell0", "cell1") for one in (values, slowed))
    assert second.log == pytest.approx(first.log, abs=1e-9)
    assert second.error == pytest.approx(first.error, rel=1e-6)


@given(st.integers(0, 10**6))
def test_the_order_of_the_plan_changes_nothing(seed):
    values = drawn(seed)
    (group,), (turned,) = (compare_groups([v]) for v in (values, dict(reversed(values.items()))))
    assert group.ranked == turned.ranked
    ratios = [one.ratio("cell2", "cell0") for one in (group, turned)]
    assert ratios[0] == pytest.approx(ratios[1])


def test_cells_without_a_chain_of_common_blocks_have_no_ratio():
    values = {"a": {1: 1.0, 2: 1.1}, "b": {1: 2.0, 2: 2.1}, "c": {3: 4.0}, "d": {3: 5.0}, "e": {}}
    (group,) = compare_groups([values])
    assert group.ratio("a", "c") is group.ratio("a", "e") is None
    assert group.ratio("d", "c").value == pytest.approx(1.25)
    assert group.speed("d") == pytest.approx(5.0) and "e" not in group.ranked


def test_one_run_has_a_ratio_without_an_interval_and_equal_values_have_no_noise():
    (one, equal, none) = compare_groups([{"a": {1: 1.0}, "b": {1: 2.0}}, {}, {"a": {1: 0.0}}])
    assert one.ratio("b", "a").value == pytest.approx(2) and not one.ratio("b", "a").interval()
    assert equal.ranked == none.ranked == []
    (same,) = compare_groups([{c: dict.fromkeys(range(3), v) for c, v in (("a", 3.0), ("b", 0.1))}])
    assert same.ratio("a", "b").interval() == pytest.approx((30, 30))


def test_groups_share_their_noise_and_a_noisier_one_keeps_its_own():
    quiet = [drawn(seed, noise=0.02) for seed in (1, 2, 3)]
    fits = [fit(values) for values in quiet]
    groups = compare_groups(quiet)
    assert {group.freedom for group in groups} == {12}
    pooled = sum(one.variance for one in fits) / 3
    assert all(group.variance == pytest.approx(pooled) for group in groups)
    loud = compare_groups([*quiet, drawn(4, noise=0.5)])[3]
    assert loud.freedom == 4 and loud.variance == pytest.approx(fit(drawn(4, noise=0.5)).variance)


def test_more_groups_widen_the_intervals_so_that_few_studies_name_a_wrong_cell():
    assert critical(8, cells=2, groups=2) == pytest.approx(stats.t.ppf(1 - 0.0125, 8))
    assert critical(8, cells=3, groups=1) == critical(8, cells=3, groups=2) > critical(8, groups=2)
    assert critical(8, cells=3, groups=9) == pytest.approx(stats.t.ppf(1 - 0.05 / 18, 8))
    delta = noncentrality(8, 3, 1)
    assert stats.nct.sf(critical(8, cells=3), 8, delta) == pytest.approx(0.8, abs=1e-6)
