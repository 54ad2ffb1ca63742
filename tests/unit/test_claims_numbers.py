"""Claims about a number: what its digits and its word allow, here and on the source's machine."""

import pytest
from pydantic import ValidationError

from fixtures.claims import claim, judged, pair, point
from touchstone.published.claims import (
    BY_MAGNITUDE,
    CONTRADICTED,
    NOT_COMPARABLE,
    NOT_MEASURED,
    REPRODUCED,
    Judge,
)
from touchstone.published.dossier import read_dossier
from touchstone.published.numbers_said import MAGNITUDE, bounds_of, order_of_magnitude
from touchstone.published.verdicts import Verdict, expected_wrong

TIMES = {
    "kind": "ratio",
    "metric": "throughput",
    "of": {"device": "gpu"},
    "to": {"device": "cpu"},
    "by": ["framework"],
    "number": "24.7",
}


@pytest.mark.parametrize(
    "numbers, word, bounds",
    [
        (["24.7"], None, (24.65, 24.8)),  # rounded, or cut off
        (["25.5e6"], None, (25.45e6, 25.6e6)),
        (["5"], "nearly", (4.5, 5)),
        (["3"], "about", (2.5, 3.5)),
        (["2500"], "about", (2250, 2750)),  # two digits say less than a tenth
        (["1.05"], "about", (0.945, 1.155)),
        (["200"], "over", (200, None)),
        (["20", "30"], None, (19.5, 31)),
    ],
)
def test_the_tolerance_follows_from_the_digits_and_the_word(numbers, word, bounds):
    assert bounds_of(numbers, word) == pytest.approx(bounds)


def test_another_machine_has_the_order_of_magnitude():
    assert order_of_magnitude((24.65, 24.8)) == pytest.approx((24.65 / MAGNITUDE, 24.8 * MAGNITUDE))
    assert order_of_magnitude((200, None)) == (200 / MAGNITUDE, None)


@pytest.mark.parametrize(
    "times, exact, here", [(24.7, True, True), (12, False, True), (3, False, False)]
)
def test_a_number_of_one_machine_is_judged_there_by_digits_and_here_roughly(times, exact, here):
    """24.6 to 24.8 was asked of every machine, and contradicted by each."""
    own = judged(pair([times * 100], [100]), TIMES, exact=True)
    assert (own.verdict, own.marks) == (REPRODUCED if exact else CONTRADICTED, [])
    found = judged(pair([times * 100, times * 101], [100, 101]), TIMES)
    assert (found.verdict, found.marks) == (REPRODUCED if here else CONTRADICTED, [BY_MAGNITUDE])


def test_what_is_counted_is_alike_on_every_machine_and_judged_by_digits():
    size = {"kind": "value", "metric": "parameters", "number": "61e6"}
    for count, verdict in ((61.1e6, REPRODUCED), (58e6, CONTRADICTED)):
        counted = Judge([_counted(count)], exact=False).judge(claim(size))
        assert (counted.verdict, counted.marks) == (verdict, [])


def _counted(value):
    return point([value], "parameters", "parameters").__class__(
        "parameters", "parameters", {}, {1: value}, exact=True
    )


@pytest.mark.parametrize(
    "keys",
    [
        {"least": 20.0},
        {"number": None},
        {"number": "many"},
        {"number": ["1"]},
        {"number": None, "least": 1.0, "word": "about"},
    ],
)
def test_a_number_has_digits_and_no_other_bound(keys):
    with pytest.raises(ValidationError):
        claim({**TIMES, **keys})


def test_a_claim_that_no_machine_shares_is_not_comparable_with_its_reason():
    own = {"not_comparable": "it is a share of one processor's threads"}
    points = pair([10, 10.1], [1, 1.01])
    found = judged(points, {**TIMES, "number": None, "least": 1.0}, **own)
    assert found.verdict == NOT_COMPARABLE and found.why.startswith(own["not_comparable"])
    assert (
        judged(points, {**TIMES, "number": None, "least": 1.0}, exact=True, **own).verdict
        == REPRODUCED
    )
    assert judged([], TIMES, **own).verdict == NOT_MEASURED


def test_counts_of_two_tests_are_not_added():
    points = [one for name in "abc" for one in pair([10, 10.1], [5, 5.01], name)]
    least = {**TIMES, "number": None, "least": 1.0}
    found = judged(points, least, {**least, "least": 3.0, "share": "some"})
    assert found.count == "3 of 3 and 0 of 3"


def test_each_of_several_tests_errs_only_with_its_part(root):
    """One test that fails contradicts its claim: two may not err with 5 % each."""
    lower = pair([9.0, 9.1, 9.0, 9.3], [9.5, 9.4, 9.6, 9.45])
    once = {**TIMES, "number": None, "least": 1.0}
    assert judged(lower, once).verdict == CONTRADICTED
    tests = [{**once, "least": 0.5 + place / 1000} for place in range(20)]
    assert judged(lower, once, *tests).verdict != CONTRADICTED


def test_the_page_says_how_many_verdicts_are_expected_to_be_wrong():
    decided = judged(pair([10, 10.1, 9.9], [5, 5, 5.1]), {**TIMES, "number": None, "least": 1.0})
    open_ = judged(pair([5, 8, 5], [6, 5, 5]), {**TIMES, "number": None, "least": 1.0})
    counted = Judge([_counted(61.1e6)], exact=False).judge(
        claim({"kind": "value", "metric": "parameters", "number": "61e6"})
    )
    own = judged([], TIMES)
    found = [
        Verdict(claim(TIMES), here, own) for here in [decided] * 30 + [open_] * 10 + [counted] * 5
    ]
    assert expected_wrong(found) == (
        "Intervals judge 40 of these claims and decide 30, of which up to 2 are expected to be"
        " wrong by chance (5 % each)."
    )
    assert expected_wrong(found[:10] + found[30:]).endswith(
        "20 of these claims and decide 10, of which up to 1 is expected to be wrong by chance"
        " (5 % each)."
    )
    assert expected_wrong(found[30:]) == ""


def test_rankings_of_machines_are_judged_by_intervals_too():
    """Their groups show no interval, for each is of two."""
    points = [
        point([value, value * 1.01], machine=machine, task=task)
        for task in ("gemm", "model")
        for machine, value in zip("ab", (1, 2), strict=True)
    ]
    rank = {"kind": "rank", "metric": "throughput", "over": "machine"}
    found = judged(points, {**rank, "of": {"task": "gemm"}, "to": {"task": "model"}})
    assert found.by_intervals and all(group.low is None for group in found.groups)


NUMBERED = {
    "yin2020": {
        "gpu-nearly-5-times", "gpu-3-times", "gpu-nine-times", "mxnet-host-memory-level",
        "pytorch-host-memory-level", "tensorflow-cpu-use-25",
    },
    "piccione2018": {
        "lenet-20-30-times", "alexnet-cifar-caffe-ratios", "googlenet-cifar-mxnet-scale",
        "network-sizes",
    },
    "lawrence2017": {"parameters"},
}  # fmt: skip
"""The claims that say a number, whose bounds nobody chose."""


@pytest.mark.parametrize("name", NUMBERED)
def test_a_claim_that_says_a_number_has_no_bounds_of_ours(root, name):
    claims = read_dossier(root / f"config/claims/{name}.yaml").claims
    assert NUMBERED[name] == {
        one.id for one in claims if any(getattr(test, "number", None) for test in one.tests)
    }


@pytest.mark.parametrize("word", ["may", "sometimes", "at times"])
def test_what_may_be_needs_to_be_once(root, word):
    for name in ("yin2020", "piccione2018"):
        for one in read_dossier(root / f"config/claims/{name}.yaml").claims:
            if f" {word} " in one.statement:
                assert [test.share for test in one.tests] == ["some"], one.id
