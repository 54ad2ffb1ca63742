"""The largest batch size, against scripted probes."""

import pytest

from touchstone.plan.bisection import START, largest


def search(outcome, bound=4000):
    """The result of a search and the sizes it tried."""
    tried = []

    def probe(size):
        tried.append(size)
        return outcome(size)

    found = largest(probe, bound)
    assert len(set(tried)) == len(tried)  # nothing is tried twice
    return found, tried


def up_to(limit):
    return lambda size: ("ok", None) if size <= limit else ("oom", "out of memory")


@pytest.mark.parametrize("limit", [1, 2, 63, 64, 65, 127, 128, 1000, 3999])
def test_the_limit_is_found_exactly(limit):
    found, tried = search(up_to(limit))
    assert found == (limit, "ok", None)
    assert limit in tried and limit + 1 in tried
    assert len(tried) <= 18  # 6 doublings from 64 to 4000, and 11 halvings of 1952 at most


def test_sizes_double_and_then_close_in():
    _, tried = search(up_to(300))
    assert tried[:4] == [START, 128, 256, 512]
    assert tried[4:6] == [384, 320] and tried[-1] in (300, 301)


@pytest.mark.parametrize("bound", [1, 63, 64, 100, 4000])
def test_the_number_of_examples_is_the_end(bound):
    found, tried = search(up_to(10**6), bound)
    assert found.value == bound == tried[-1] and found.status == "ok"
    assert found.reason == f"not limited below {bound}, the number of training examples"


def test_not_even_one_fits():
    found, tried = search(up_to(0))
    assert found == (None, "oom", "not even a batch of one example fits")
    assert tried[0] == START and tried[-1] == 1


def test_a_size_that_fits_by_chance_does_not_turn_the_search_back():
    """Fits up to 200, and 256 to 300 too: the result has fitted, and the next size has not."""
    fits = {*range(201), *range(256, 301)}
    found, tried = search(lambda size: ("ok" if size in fits else "oom", None))
    assert found.value in fits and found.value + 1 not in fits
    assert {found.value, found.value + 1} <= set(tried)


def test_steps_that_diverge_have_fitted():
    found, _ = search(lambda size: ("diverged", "nan") if size < 70 else ("oom", None))
    assert found == (69, "ok", None)


@pytest.mark.parametrize("status", ["timeout", "error", "unsupported"])
def test_an_outcome_that_tells_nothing_of_memory_ends_the_search(status):
    found, tried = search(lambda size: (status, "why") if size >= 256 else ("ok", None))
    assert found.value is None and found.status == status and tried == [64, 128, 256]
    assert found.reason == "batch size 256: why; the largest that fitted before was 128"
    found, tried = search(lambda size: (status, "why"))
    assert found.reason == "batch size 64: why; none fitted before" and tried == [64]
