"""What all cells of two sittings say together."""

import math

import numpy as np
import pytest

from touchstone.analysis.compare_results import Change
from touchstone.analysis.gate import SLOWER, judged_together
from touchstone.statistics.intervals import Ratio, logarithms, shared_noise, unpaired_ratio
from touchstone.statistics.sittings import LEAST_CELLS, common_shift, holm, without_shift


def ratios(*values, error=0.02):
    return [Ratio(3, math.log(value), error, 4.0) for value in values]


def test_the_shift_is_the_median_however_far_a_few_cells_are_off():
    found = common_shift(ratios(0.9, 0.9, 0.9, 0.9, 0.2, 5.0), session_sd=0.0)
    assert found.value == pytest.approx(0.9) and found.error == 0


def test_its_error_is_that_of_a_median_by_hand():
    """Deviations from the median 0 of 0.01, 0.02, 0.03 twice: their median is 0.02."""
    logs = [-0.03, -0.02, -0.01, 0.01, 0.02, 0.03]
    found = common_shift([Ratio(3, value, 0.1, 4.0) for value in logs], session_sd=0.03)
    assert found.log == pytest.approx(0)
    alone = 1.2533 * 1.4826 * 0.02 / math.sqrt(6)
    square = alone**2 + 2 * 0.03**2
    assert found.error == pytest.approx(math.sqrt(square))
    assert found.freedom == pytest.approx(5 * square**2 / alone**4)  # Satterthwaite
    assert common_shift([Ratio(3, value, 0.1, 4.0) for value in logs], 0.0).freedom == 5


def test_few_cells_have_no_shift():
    few = ratios(*[0.9] * (LEAST_CELLS - 1))
    assert common_shift(few) is None and without_shift(few) == few


def test_what_is_left_is_without_the_shift_and_less_certain():
    left = without_shift(ratios(0.88, 0.9, 0.9, 0.9, 0.92, 0.45))
    assert left[-1].value == pytest.approx(0.5)
    assert all(ratio.error >= 0.02 for ratio in left)


def test_holms_correction_by_hand():
    """0.01 x 4, 0.02 x 3, then 0.03 x 2, which may not be below the one before, and 0.5."""
    assert holm([0.5, 0.01, 0.03, 0.02]) == pytest.approx([0.5, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []


@pytest.mark.parametrize("cells", [6, 60])
def test_unchanged_reruns_rarely_fail_however_many_cells(cells):
    """Sittings differ by what is assumed: 3 %, of each cell by itself or of all alike."""
    rng = np.random.default_rng(cells)
    failed, studies = 0, 300
    for study in range(studies):
        alike = study % 2 == 0
        sides = [
            np.exp(
                rng.normal(0, 0.03, (1 if alike else cells, 1)) + rng.normal(0, 0.04, (cells, 3))
            ).tolist()
            for _ in range(2)
        ]
        noise = shared_noise(logarithms(row) for side in sides for row in side)
        changes = [
            Change("", [], [], unpaired_ratio(new, old, noise=noise), "", "", [])
            for new, old in zip(*sides, strict=True)
        ]
        failed += judged_together(changes, "throughput").status == SLOWER
    # 5 % and three standard errors of a share of 300.
    assert failed / studies < 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)
