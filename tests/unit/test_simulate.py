"""The simulation of answers, in small: few are wrong, and a clear lead is named."""

import pytest
from simulate import NOISES, Shape, simulate


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
