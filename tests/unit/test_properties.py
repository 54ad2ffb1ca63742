"""What holds of all names, digests, plans, searches and statistics, on examples that are drawn.

The examples follow from the tests' own code, so that no test fails by chance.
"""

import re
import statistics
from math import inf, isclose, log

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from touchstone.paths import ROOT
from touchstone.plan import code_digest
from touchstone.plan.bisection import largest
from touchstone.plan.model import Cell
from touchstone.plan.read import canonical, digest, name_of
from touchstone.plan.study import make_plan
from touchstone.results.metrics import directions
from touchstone.statistics.intervals import (
    NO_DIFFERENCE,
    deviation,
    paired_ratio,
    summarise,
    unpaired_ratio,
)

FRAMEWORKS = ["pytorch", "tensorflow", "mxnet"]
SETTINGS = {
    "framework": st.sampled_from(FRAMEWORKS),
    "batch_size": st.integers(1, 4096),
    "learning_rate": st.floats(1e-6, 10.0),
    "epochs": st.integers(1, 100),
    "momentum": st.sampled_from([0.0, 0.5, 0.9]),
    "seed": st.integers(0, 2**31 - 1),
    "threads": st.none() | st.integers(1, 64),
    "device": st.sampled_from(["cpu", "gpu"]),
    "precision": st.sampled_from(["fp32", "fp64"]),
    "input": st.sampled_from(["memory", "records"]),
    "wait_policy": st.sampled_from(["default", "active", "passive"]),
}
CELLS = st.fixed_dictionaries({}, optional=SETTINGS).map(
    lambda drawn: Cell(**{"framework": "jax", "network": "lenet5", "dataset": "mnist-5k", **drawn})
)
SHORT = st.text(max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | SHORT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SHORT, inner, max_size=3),
    max_leaves=6,
)
POSITIVE = st.floats(1e-3, 1e6)


def several(values, least=2, most=8):
    return st.lists(values, min_size=least, max_size=most)


# Names


@given(CELLS, CELLS)
def test_two_cells_have_one_name_if_and_only_if_they_are_equal(one, other):
    assert (name_of(one) == name_of(other)) is (one == other)


@given(CELLS)
def test_a_name_is_that_of_a_file_and_starts_with_the_framework(cell):
    name = name_of(cell)
    assert re.fullmatch(r"[\w.+-]+", name) and name.startswith(f"{cell.framework}-lenet5-")
    assert name_of(Cell(**cell.model_dump())) == name  # with nothing left to a default


# Digests


def turned(value):
    """The same value, the keys of whose mappings come the other way round."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(part) for part in value] if isinstance(value, list) else value


@given(JSON, JSON)
def test_a_digest_is_of_the_value_whatever_the_order_of_keys(one, other):
    assert digest(turned(one)) == digest(one)
    assert (digest(one) == digest(other)) is (canonical(one) == canonical(other))


NAMES = st.sampled_from(["speed", "count", "total"])
COMMENTS = st.text(st.characters(codec="ascii", categories=["L", "N", "Zs"]), max_size=20)


@given(several(st.tuples(NAMES, st.integers(-9, 9)), 1), several(COMMENTS, 9, 9), st.data())
def test_of_code_the_digest_counts_what_is_executed(parts, comments, data):
    plain = [f"{name} = {number}" for name, number in parts]
    remarked = [f'"""{comments[-1]}"""', ""]
    for line, comment in zip(plain, comments, strict=False):
        remarked += [f"# {comment}", "", f"{line}  # {comment}"]
    before = code_digest._parsed("\n".join(plain).encode())
    assert code_digest._parsed("\n".join(remarked).encode()) == before
    place = data.draw(st.integers(0, len(plain) - 1))
    plain[place] += "0" if plain[place][-1] != "0" else "1"
    try:
        assert code_digest._parsed("\n".join(plain).encode()) != before
    except SyntaxError:  # such as 01
        assume(False)


# Plans

STUDIES = st.fixed_dictionaries(
    {
        "framework": st.lists(SETTINGS["framework"], min_size=1, max_size=3, unique=True),
        "batch_size": st.lists(st.integers(1, 1000), min_size=1, max_size=3, unique=True),
        "learning_rate": st.lists(st.sampled_from([0.1, 0.01, 1e-5]), min_size=1, unique=True),
    }
)


def plan_of(sweep, repeats):
    defaults = {"network": "lenet5", "dataset": "mnist-5k"}
    study = {"study": "drawn", "title": "Drawn", "repeats": repeats, "defaults": defaults}
    return make_plan({**study, "sweeps": [sweep]}, ROOT)


@settings(max_examples=25)
@given(STUDIES, st.integers(1, 4), st.randoms(use_true_random=False))
def test_each_block_of_a_plan_has_every_cell_once_in_an_order_of_its_own(sweep, repeats, chance):
    plan = plan_of(sweep, repeats)
    count = len(plan.cells)
    assert count == len(sweep["framework"]) * len(sweep["batch_size"]) * len(sweep["learning_rate"])
    blocks = [plan.order[at : at + count] for at in range(0, len(plan.order), count)]
    assert len(blocks) == repeats
    for number, block in enumerate(blocks, 1):
        assert sorted(block) == [(name, number) for name in sorted(plan.cells)]
    # More repeats leave the blocks before them as they are; so does the order of a sweep's values.
    mixed = {key: chance.sample(values, len(values)) for key, values in sweep.items()}
    assert plan_of(turned(mixed), repeats + 1).order[: len(plan.order)] == plan.order


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_a_search_finds_the_largest_batch_and_tries_each_size_once(limit, bound):
    tried = []

    def probe(size):
        tried.append(size)
        return ("ok", None) if size <= limit else ("oom", None)

    assert largest(probe, bound)[:2] == (min(limit, bound), "ok")
    assert len(tried) == len(set(tried)) <= 2 * bound.bit_length() + 1
    assert max(tried) <= bound


# Statistics


@given(several(st.floats(-1e9, 1e9)))
def test_a_deviation_is_the_exact_one(values):
    exact = statistics.stdev(values)
    rounding = max(1e-13 * max(map(abs, values)), 1e-150)  # the square of less is 0
    assert deviation(values) == pytest.approx(exact, rel=1e-9, abs=rounding)
    assert deviation([values[0]] * len(values)) == 0


@given(several(POSITIVE, 1), st.integers(0, 8), st.randoms(use_true_random=False))
def test_a_summary_does_not_depend_on_the_order_of_runs(values, beyond, chance):
    found = summarise(values, beyond)
    again = summarise(chance.sample(values, len(values)), beyond)
    assert (again.n, again.median, again.min, again.max) == (
        (found.n, found.median, found.min, found.max)
    )
    assert found.n == len(values) and found.min == min(values)
    if beyond:
        # What has no value counts as larger than all that have one.
        assert found.mean is None and (found.median is None) is (beyond >= len(values))
        assert found.median in (None, statistics.median(values + [inf] * beyond))
    else:
        assert found.min <= found.median <= found.max


@given(several(POSITIVE), several(POSITIVE), POSITIVE)
def test_a_ratio_of_two_sittings_turns_with_its_sides_and_has_no_unit(new, old, unit):
    ratio, turned_round = unpaired_ratio(new, old), unpaired_ratio(old, new)
    assert turned_round.log == pytest.approx(-ratio.log, abs=1e-12)
    low, high = ratio.interval()
    assert turned_round.interval() == pytest.approx((1 / high, 1 / low), rel=1e-9)
    assert low < ratio.value < high
    scaled = unpaired_ratio([unit * x for x in new], [unit * x for x in old])
    assert scaled.log == pytest.approx(ratio.log, abs=1e-9)
    assert scaled.p_value == pytest.approx(ratio.p_value, rel=1e-6, abs=1e-12)


@given(st.dictionaries(st.integers(1, 9), st.tuples(POSITIVE, POSITIVE, POSITIVE), min_size=2))
def test_what_slows_a_whole_block_does_not_count(blocks):
    ours = {block: values[0] for block, values in blocks.items()}
    theirs = {block: values[1] for block, values in blocks.items()}
    ratio = paired_ratio(ours, theirs)
    slowed = [{b: side[b] * blocks[b][2] for b in blocks} for side in (ours, theirs)]
    again = paired_ratio(*slowed)
    assert (again.n, again.freedom) == (ratio.n, ratio.freedom) == (len(blocks), len(blocks) - 1)
    assert again.log == pytest.approx(ratio.log, abs=1e-9)
    assert again.error == pytest.approx(ratio.error, rel=1e-6, abs=1e-9)
    assert ratio.value == pytest.approx(
        statistics.geometric_mean([ours[b] / theirs[b] for b in blocks]), rel=1e-9
    )


@given(several(POSITIVE), several(POSITIVE))
def test_an_interval_that_leaves_out_1_is_a_p_value_below_5_percent(new, old):
    ratio = unpaired_ratio(new, old)
    assume(not isclose(ratio.p_value, 0.05, rel_tol=1e-6))
    shown = ratio.verdict() != NO_DIFFERENCE
    assert shown is (ratio.p_value < 0.05)
    if shown:
        assert ratio.verdict() == ("faster" if ratio.log > 0 else "slower")
        assert ratio.verdict(directions("training_time")) == (
            "slower" if ratio.log > 0 else "faster"
        )


@given(several(POSITIVE, 3), st.floats(0.5, 2.0))
def test_more_runs_of_the_same_spread_narrow_the_interval(values, factor):
    assume(deviation([log(value) for value in values]) > 1e-6)
    once = {block: value for block, value in enumerate(values)}
    twice = {block: value for block, value in enumerate(values * 2)}
    few, many = (
        paired_ratio({b: factor * v for b, v in side.items()}, dict.fromkeys(side, 1.0))
        for side in (once, twice)
    )
    assert many.error < few.error and many.log == pytest.approx(few.log, abs=1e-9)
    (low, high), (inner_low, inner_high) = few.interval(), many.interval()
    assert low < inner_low and inner_high < high
