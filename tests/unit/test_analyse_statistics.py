"""Intervals against values by hand, against SciPy, and their error rates by simulation."""

import math
import random
from statistics import fmean, stdev

import pytest
from scipy import stats

from touchstone.results.metrics import directions
from touchstone.statistics.intervals import (
    NO_DIFFERENCE,
    SESSION_SD,
    TOO_FEW,
    Ratio,
    Summary,
    critical,
    deviation,
    logarithms,
    paired_ratio,
    shared_noise,
    summarise,
    unpaired_ratio,
)


def test_summary_by_hand():
    found = summarise([4.0, 1.0, 1.0])
    assert found == Summary(3, 1.0, 2.0, 1.0, 4.0, math.sqrt(3), math.sqrt(3) / 2)
    assert summarise([5.0]) == Summary(1, 5.0, 5.0, 5.0, 5.0, None, None)
    assert summarise([]) == Summary(0)
    assert summarise([-1.0, 1.0]).cv is None  # no share of a mean of 0


@pytest.mark.parametrize("n", [2, 3, 10])
@pytest.mark.parametrize("spread", [1e-8, 1e-3, 1.0])
def test_deviation_is_the_exact_one(n, spread):
    rng = random.Random(n)
    values = [9000.1 * (1 + spread * rng.gauss(0, 1)) for _ in range(n)]
    assert deviation(values) == pytest.approx(stdev(values), rel=1e-14)
    assert deviation([0.1] * n) == 0  # though the mean of three 0.1 is not 0.1


def test_paired_ratio_by_hand():
    """Ratios 2, 4, 8: mean of log2 is 2, sd 1, so 4 x 2^(+- 4.3027 / sqrt 3)."""
    found = paired_ratio({1: 2.0, 2: 8.0, 3: 32.0}, {1: 1.0, 2: 2.0, 3: 4.0, 4: 9.0})
    assert found.n == 3 and found.value == pytest.approx(4.0)
    half = 4.302652729911275 / math.sqrt(3)
    assert found.interval() == pytest.approx((4 / 2**half, 4 * 2**half))
    assert found.label == "n = 3, indicative"
    assert found.verdict() == NO_DIFFERENCE  # 0.72 to 22


@pytest.mark.parametrize("n", [2, 3, 5, 12])
def test_paired_ratio_is_scipys_paired_t_test_of_logarithms(n):
    rng = random.Random(n)
    ours = {i: rng.lognormvariate(0.1, 0.05) for i in range(n)}
    theirs = {i: rng.lognormvariate(0.0, 0.08) for i in range(n)}
    found = paired_ratio(ours, theirs)
    logs = [[math.log(side[i]) for i in range(n)] for side in (ours, theirs)]
    expected = stats.ttest_rel(*logs)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    for level in (0.8, 0.95, 0.975):
        interval = expected.confidence_interval(level)
        assert [math.log(end) for end in found.interval(level)] == pytest.approx(interval, rel=1e-9)
    assert found.indicative == (n < 6)


@pytest.mark.parametrize(("n", "m"), [(2, 3), (3, 3), (4, 9)])
def test_unpaired_ratio_is_welchs_test_where_sittings_are_alike(n, m):
    rng = random.Random(n * m)
    new = [rng.lognormvariate(0.2, 0.03) for _ in range(n)]
    old = [rng.lognormvariate(0.0, 0.10) for _ in range(m)]
    found = unpaired_ratio(new, old, session_sd=0.0)
    expected = stats.ttest_ind(
        *([math.log(v) for v in side] for side in (new, old)), equal_var=False
    )
    assert found.n == n and found.freedom == pytest.approx(expected.df)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    interval = expected.confidence_interval()
    assert [math.log(end) for end in found.interval()] == pytest.approx(interval, rel=1e-9)


def test_sittings_widen_an_interval_by_hand():
    """Without noise within a sitting only its own remains: sqrt 2 x 0.03 x 1.96 = 8.3 %."""
    found = unpaired_ratio([110.0, 110.0], [100.0, 100.0], session_sd=0.03)
    assert found.freedom == math.inf
    half = 1.959963984540054 * 0.03 * math.sqrt(2)
    assert found.interval() == pytest.approx((1.1 * math.exp(-half), 1.1 * math.exp(half)))
    assert found.verdict() == "faster" and found.verdict(directions("training_time")) == "slower"
    assert unpaired_ratio([108.0] * 3, [100.0] * 3).verdict() == NO_DIFFERENCE


def test_one_run_gives_no_interval_and_no_ranking():
    for found in (paired_ratio({1: 4.0}, {1: 2.0}), unpaired_ratio([4.0], [2.0, 2.0])):
        assert found.value == pytest.approx(2.0) and found.n == 1
        assert (found.interval(), found.p_value, found.detectable) == (None, None, None)
        assert found.verdict() == TOO_FEW


def test_no_ratio_without_common_blocks_or_of_zero():
    assert paired_ratio({1: 4.0}, {2: 2.0}) is None
    assert paired_ratio({1: 4.0, 2: 0.0}, {1: 1.0, 2: 1.0}) is None
    assert unpaired_ratio([], [1.0]) is None
    assert unpaired_ratio([1.0, 2.0], [1.0, 0.0]) is None


def test_equal_values_differ_by_nothing():
    found = paired_ratio({1: 3.0, 2: 5.0}, {1: 3.0, 2: 5.0})
    assert found.interval() == (1.0, 1.0) and found.p_value == 1.0
    assert found.verdict() == NO_DIFFERENCE


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("throughput", ("faster", "slower")),
        ("step_time_p95", ("slower", "faster")),
        ("host_memory", ("higher", "lower")),
    ],
)
def test_words_fit_the_metric(metric, words):
    assert Ratio(3, 0.5, 0.01, 2).verdict(directions(metric)) == words[0]
    assert Ratio(3, -0.5, 0.01, 2).verdict(directions(metric)) == words[1]


@pytest.mark.parametrize("freedom", [1, 2, 4, 20])
def test_the_detectable_change_has_80_per_cent_power(freedom):
    """By SciPy's noncentral t: the chance to exceed the critical value on the right side."""
    error = 0.02
    noncentrality = math.log1p(Ratio(3, 0.0, error, freedom).detectable) / error
    critical = stats.t.ppf(0.975, freedom)
    assert stats.nct.sf(critical, freedom, noncentrality) == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize("freedom", [2, 4, 20])
def test_the_detectable_change_is_as_uncertain_as_the_noise(freedom):
    """The interval holds the change of the true noise in 95 % of samples, drawn with SciPy."""
    true = 0.02
    squares = stats.chi2.rvs(freedom, size=2000, random_state=1) / freedom
    exact = Ratio(3, 0.0, true, freedom).detectable
    limits = [
        Ratio(3, 0.0, true * math.sqrt(square), freedom).detectable_limits for square in squares
    ]
    assert 0.93 < sum(low < exact < high for low, high in limits) / 2000 < 0.97
    assert Ratio(3, 0.0).detectable_limits is None


def test_an_interval_that_says_nothing_is_finite():
    """Two repeats of three cells leave one degree of freedom, and a quantile of 31."""
    found = Ratio(2, 0.0, 30.0, 1, cells=3)
    ends = [*found.interval(), found.detectable, *found.detectable_limits]
    assert all(math.isfinite(end * 100) for end in ends)
    assert found.interval()[0] < 1e-200 and found.detectable > 1e200


def sitting(rng, noise, drift, shift=0.0):
    """Three runs: a sitting's own deviation and each run's, on the logarithm."""
    middle = rng.gauss(shift, drift)
    return [math.exp(rng.gauss(middle, noise)) for _ in range(3)]


@pytest.mark.parametrize("noise", [0.02, 0.04])
@pytest.mark.parametrize("drift", [0.01, 0.03])
def test_error_rates_of_two_sittings(noise, drift):
    """Ten reruns show no difference in 9 of 10 or more; 15 % slower is seen with three runs."""
    rng = random.Random(f"{noise} {drift}")
    draws = 1500
    null = [
        unpaired_ratio(sitting(rng, noise, drift), sitting(rng, noise, drift)) for _ in range(draws)
    ]
    slow = [
        unpaired_ratio(sitting(rng, noise, drift, math.log(0.85)), sitting(rng, noise, drift))
        for _ in range(draws)
    ]
    called = [sum(r.verdict() != NO_DIFFERENCE for r in null) / draws]
    called.append(sum(r.verdict() == "slower" for r in slow) / draws)
    assert called[0] < 0.07
    assert called[1] > (0.92 if noise < 0.03 else 0.75)


def studies(rng, noises, drift, shift, draws):
    """Verdicts on every cell of `draws` studies whose cells have these noises."""
    verdicts = []
    for _ in range(draws):
        pairs = [
            (sitting(rng, noise, drift, shift), sitting(rng, noise, drift)) for noise in noises
        ]
        shared = shared_noise(logarithms(side) for pair in pairs for side in pair)
        verdicts += [unpaired_ratio(*pair, noise=shared).verdict() for pair in pairs]
    return verdicts


@pytest.mark.parametrize(
    ("noises", "errors", "power"),
    [([0.09] * 6, 0.07, 0.41), ([0.03] * 6, 0.07, 0.87), ([0.002] * 3 + [0.10] * 3, 0.08, 0.6)],
)
def test_error_rates_with_the_noise_of_all_cells(noises, errors, power):
    """Alone, a cell with a noise of 9 % shows 15 % in 36 % of cases."""
    rng = random.Random(f"{noises}")
    null = studies(rng, noises, SESSION_SD, 0.0, 300)
    slow = studies(rng, noises, SESSION_SD, math.log(0.85), 200)
    assert sum(word != NO_DIFFERENCE for word in null) / len(null) < errors
    assert sum(word == "slower" for word in slow) / len(slow) > power


def test_noise_that_is_alike_is_pooled_and_a_noisier_side_keeps_its_own():
    alike = [[0.0, 0.02, 0.04], [0.0, 0.02, 0.04], [1.0, 1.02, 1.04], [0.0, 0.02, 0.04]]
    noise = shared_noise(alike)
    assert noise == pytest.approx((0.02**2, 8, 8))
    assert noise.of([0.0, 0.02, 0.04]) == pytest.approx((0.02**2, 8))
    assert noise.of([5.0, 5.0, 5.0]) == pytest.approx((0.8 * 0.02**2, 8))
    assert noise.of([0.0, 0.5, 1.0]) == pytest.approx((0.25, 2))
    assert shared_noise(alike[:3]) is None and shared_noise([[0.0, 0.0]] * 9) is None


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """Where sittings differ by exactly what is assumed, in 94 to 97 % of cases."""
    rng = random.Random(7)
    intervals = [
        unpaired_ratio(sitting(rng, 0.03, SESSION_SD), sitting(rng, 0.03, SESSION_SD)).interval()
        for _ in range(3000)
    ]
    assert 0.94 < fmean(low <= 1 <= high for low, high in intervals) < 0.97
    assert stdev(math.log(high / low) for low, high in intervals) > 0  # the noise is measured


def test_runs_that_had_no_value_yet_count_as_larger_than_all():
    assert summarise([3.0, 5.0], beyond=1) == Summary(2, median=5.0, min=3.0)
    assert summarise([3.0, 5.0, 6.0], beyond=1) == Summary(3, median=5.5, min=3.0)
    assert summarise([3.0, 5.0], beyond=2) == Summary(2, min=3.0)  # not more than half
    assert summarise([], beyond=3) == Summary(0)


@pytest.mark.parametrize("cells, groups", [(3, 3), (3, 50), (4, 6), (6, 15)])
@pytest.mark.parametrize("freedom", [2, 7, 200])
def test_as_many_groups_as_pairs_need_no_quantile_of_all_pairs(cells, groups, freedom):
    of_pairs = stats.studentized_range.ppf(0.95, cells, freedom) / math.sqrt(2)
    assert critical(freedom, 0.95, cells, groups) >= of_pairs
