"""The simulation of answers, in small: few are wrong, and a clear lead is named."""

import pytest
from simulate import NOISES, Shape, simulate
from simulate_claims import SPEEDS, shares
from simulate_repeats import Counts, sum_of
from simulate_repeats import simulate as simulate_repeats

from fixtures.tiers import tiered


@pytest.mark.parametrize("noise", NOISES)
def test_few_studies_name_a_wrong_framework(noise):
    """In 500 studies 5 % are exceeded by 3 standard errors at 7.9 %."""
    assert simulate(Shape(2, (1.0, 1.0, 1.0)), noise, 0.1, 500, seed=1)[0] < 0.05
    assert simulate(Shape(2, (1.0, 1.0, 0.5)), noise, 0.1, 500, seed=1)[0] < 0.079


def test_a_lead_of_a_half_is_named_with_three_runs():
    shape = Shape(2, (2.25, 1.5, 1.0))
    wrong, right = simulate(shape, "normal", 0.10, 500, seed=1)
    assert shape.winner == 0 and wrong < 0.01 and right > 0.85
    assert simulate(shape, "normal", 0.15, 500, seed=1)[1] > 0.55


@pytest.mark.parametrize("repeats, cv", [(3, 0.02), (3, 0.1), (10, 0.1)])
@pytest.mark.parametrize("speeds", [name for name in SPEEDS if name.startswith("falls")])
def test_few_studies_reproduce_a_rise_that_falls(speeds, repeats, cv):
    """In 400 studies 5 % are exceeded by 3 standard errors at 8.3 %."""
    assert shares(SPEEDS[speeds], repeats, cv, 400, seed=1)[0] < 0.083


def test_a_rise_is_reproduced_and_hardly_ever_contradicted():
    rises = SPEEDS["rises by a half in each step"]
    reproduced, contradicted = shares(rises, 10, 0.1, 200, seed=1)
    assert reproduced > 0.95 and contradicted < 0.02
    assert shares(SPEEDS["falls by half in one step"], 5, 0.05, 200, seed=1)[1] > 0.9


@pytest.mark.parametrize("lead", tiered([1.0, 1.05, 1.1, 1.2], lambda lead: lead > 1.05))
def test_the_repeats_that_are_named_settle_the_question(lead):
    found = sum_of(simulate_repeats(lead, cv, 3, 3, 60, seed=1) for cv in (0.02, 0.05, 0.1))
    assert found.named > 10 and found.settled > 0.8 * found.named
    assert lead < 1.1 or found.equal <= 0.05 * found.studies


def test_no_repeats_are_named_where_the_noise_is_too_large_to_show_that_speeds_are_equal():
    found: Counts = simulate_repeats(1.0, 0.2, 3, 3, 100, seed=1)
    assert found.undecided > 90 and found.named < 10
