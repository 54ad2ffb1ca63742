"""What sets that took turns show: which rounds count, ratios, and models of comparisons."""

import json
from math import exp, inf
from statistics import geometric_mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.turns import computed, with_latencies
from touchstone.commands.interleave import why_no_turn
from touchstone.results.files import InputError
from touchstone.results.interleaved import (
    answering,
    compare_with_turns,
    measured,
    reach,
    read_interleaved,
    speeds_of,
    turns_of,
)
from touchstone.schema.events import Chunk, Outcome
from touchstone.schema.interleaved import APART, QUIET, Round, Slice
from touchstone.schema.values import to_json

SPEEDS = {"a": 1.0, "b": 2.0, "c": 0.5}


def ratios(found, cell):
    """By set, the speed of a cell / that of a."""
    first = found.speeds["a"]
    return {number: speed / first[number] for number, speed in found.speeds[cell].items()}


def test_ratios_are_those_of_the_speeds():
    found = measured(computed(SPEEDS, noise=lambda one: 0.0))
    assert found is not None
    for cell, speed in SPEEDS.items():
        assert ratios(found, cell) == pytest.approx(dict.fromkeys(range(1, 6), speed), rel=1e-4)
    assert (found.sets, found.rounds, found.all_rounds, found.disturbed) == (5, 50, 50, 0)


@given(factors=st.lists(st.floats(0.01, 100), min_size=10, max_size=10))
def test_what_slows_down_a_whole_round_changes_nothing(factors):
    one = computed(SPEEDS).sets[0]
    (turns,) = one.turns
    slower = [
        Round([part._replace(seconds=part.seconds * factor) for part in each.slices])
        for each, factor in zip(turns.rounds, factors, strict=True)
    ]
    changed = one._replace(turns=[turns._replace(rounds=slower)])
    every = [speeds_of(each, "a", lambda each: True) for each in (one, changed)]
    first, second = ({cell: speed / found["a"] for cell, speed in found.items()} for found in every)
    assert first == pytest.approx(second)


def test_slices_that_are_slow_now_and_then_do_not_move_the_ratios():
    group = computed(SPEEDS, noise=lambda one: 0.0)
    for one in group.sets:  # in two rounds of ten b is half as fast, in two others c
        for place, each in enumerate(one.turns[0].rounds[:4]):
            slow = each.slices[1 + place // 2]
            each.slices[1 + place // 2] = slow._replace(seconds=2 * slow.seconds)
    found = measured(group)
    assert found is not None
    for cell, speed in SPEEDS.items():
        assert ratios(found, cell) == pytest.approx(dict.fromkeys(range(1, 6), speed), rel=1e-4)


def test_only_quiet_rounds_count_whatever_their_speeds():
    def others(number, place):
        return 1.0 if place % 2 else QUIET / 2

    group = computed(SPEEDS, noise=lambda one: 0.0, others=others)
    for one in group.sets:  # in noisy rounds c is ten times as fast
        for each in one.turns[0].rounds:
            if not each.quiet:
                each.slices[2:] = [each.slices[2]._replace(seconds=0.04)]
    found = measured(group)
    assert found is not None and not found.disturbed
    assert (found.rounds, found.all_rounds) == (25, 50)
    assert ratios(found, "c")[1] == pytest.approx(0.5, rel=1e-4)


def test_sets_with_too_few_quiet_rounds_do_not_count_if_others_have_enough():
    found = measured(computed(SPEEDS, others=lambda number, place: float(number > 3 and place > 1)))
    assert found is not None and not found.disturbed
    assert sorted(ratios(found, "b")) == [1, 2, 3]


def test_without_enough_quiet_rounds_all_count_and_that_is_known():
    found = measured(computed(SPEEDS, others=lambda number, place: float(number > 2)))
    assert found is not None
    assert (found.sets, found.rounds, found.disturbed) == (5, 50, 30)


def _moved(group, apart):
    """The group with core latencies: 500 ns in the rounds that are `apart`, else 120 to 165 ns.

    In rounds with cores apart c is ten times as fast.
    """
    for one in group.sets:
        (turns,) = one.turns
        for place, each in enumerate(turns.rounds):
            if apart(one.number, place):
                each.slices[2:] = [each.slices[2]._replace(seconds=0.04)]
            latency = 500.0 if apart(one.number, place) else 120.0 + 5 * place
            turns.rounds[place] = with_latencies(each, latency)
    return group


def test_rounds_with_cores_apart_do_not_count_whatever_their_speeds():
    group = _moved(computed(SPEEDS, noise=lambda one: 0.0), lambda number, place: place > 3)
    found = measured(group)
    assert found is not None and not found.disturbed
    assert (found.rounds, found.all_rounds, found.apart, found.moved) == (20, 50, 0, 90)
    assert ratios(found, "c")[1] == pytest.approx(0.5, rel=1e-4)


def test_cores_are_apart_from_70_ns_above_the_least():
    part = Slice("a", 0.0, 0.4, 1, 0.0, core_latency=200.0 + APART)
    assert part.near(200.0) and Round([part, part]).near(200.0)
    assert not part.near(199.0) and not Round([part._replace(core_latency=200.0), part]).near(199.0)


def test_a_slice_without_a_latency_is_near():
    part = Slice("a", 0.0, 0.4, 1, 0.0)
    assert part.near(inf) and part.near(100.0)


def test_slices_that_were_repeated_do_not_count_and_are_counted():
    group = computed(SPEEDS, noise=lambda one: 0.0)
    (turns,) = group.sets[1].turns
    turns.set_aside.extend(
        [Slice("b", 0.0, 0.4, 1, 0.0, core_latency=500.0), Slice("b", 0.0, 0.4, 1, others=1.0)]
    )
    turns.rounds[0] = with_latencies(turns.rounds[0], 200.0)
    found = measured(group)
    assert found is not None and (found.rounds, found.set_aside, found.moved) == (50, 2, 1)
    assert ratios(found, "b") == pytest.approx(dict.fromkeys(range(1, 6), 2.0), rel=1e-4)


def test_cores_that_are_apart_most_of_the_time_count_and_that_is_known():
    found = measured(_moved(computed(SPEEDS), lambda number, place: number > 2))
    assert found is not None and not found.disturbed
    assert (found.sets, found.rounds, found.apart, found.moved) == (5, 50, 30, 90)


@pytest.mark.parametrize(("near", "sets", "apart"), [(5, 5, 0), (4, 10, 60)])
def test_near_cores_decide_if_half_of_the_sets_have_them(near, sets, apart):
    group = computed(SPEEDS, sets=10)
    found = measured(_moved(group, lambda number, place: number > near))
    assert found is not None and (found.sets, found.apart) == (sets, apart)


def test_cores_that_are_always_as_far_apart_are_near():
    found = measured(_moved(computed(SPEEDS), lambda number, place: True))
    assert found is not None and (found.rounds, found.apart, found.moved) == (50, 0, 0)


def test_a_process_that_is_busy_while_it_waits_is_named():
    found = measured(computed(SPEEDS, waiting={"b": 0.5, "c": 0.01}))
    assert found is not None and found.busy == ["b"]
    assert measured(computed(SPEEDS)._replace(sets=[])) is None


SPREAD = st.floats(-0.3, 0.3)


@given(
    noise=st.lists(SPREAD, min_size=150, max_size=150),
    rounds=st.lists(st.floats(-0.5, 0.5), min_size=50, max_size=50),
)
def test_every_speed_is_one_that_was_measured_and_their_quotients_are_the_ratios(noise, rounds):
    group = computed(SPEEDS, noise=lambda one: 0.0)
    drawn = iter(noise)
    for one, paces in zip(group.sets, zip(*[iter(rounds)] * 10, strict=True), strict=True):
        for each, pace in zip(one.turns[0].rounds, paces, strict=True):
            each.slices[:] = [
                part._replace(seconds=part.seconds * exp(pace + next(drawn)))
                for part in each.slices
            ]
    found = measured(group)
    (model,) = compare_with_turns([dict.fromkeys(SPEEDS, {})], [found])
    for cell in SPEEDS:
        speeds = [
            part.speed
            for one in group.sets for each in one.rounds for part in each.slices
            if part.cell == cell
        ]  # fmt: skip
        assert min(speeds) * (1 - 1e-9) <= model.speed(cell) <= max(speeds) * (1 + 1e-9)
        ratio = model.ratio(cell, "a").value
        assert model.speed(cell) / model.speed("a") == pytest.approx(ratio)
        assert model.speed(cell) == pytest.approx(geometric_mean(found.speeds[cell].values()))
    assert model.ranked == sorted(SPEEDS, key=model.speed, reverse=True)


def test_the_speed_of_a_comparison_is_that_of_the_sets_whatever_the_runs_had():
    runs = {cell: {1: 100.0, 2: 1.0, 3: 80.0} for cell in SPEEDS}
    (turns,) = turns_of([runs], [computed(SPEEDS)])
    (model,) = compare_with_turns([runs], [turns])
    assert model.ranked == ["b", "a", "c"]
    assert model.ratio("b", "c").value == pytest.approx(4, rel=0.05)
    low, high = model.ratio("b", "c").interval()
    assert low < 4 < high < 4.2
    assert [model.speed(cell) for cell in "abc"] == pytest.approx([1e6, 2e6, 5e5], rel=0.1)


def test_turns_without_an_answer_leave_it_to_runs_that_have_one():
    noisy = computed(SPEEDS, sets=3, noise=lambda one: one.gauss(0, 3))
    runs = {cell: {1: 100 * speed, 2: 101 * speed, 3: 99 * speed} for cell, speed in SPEEDS.items()}
    few = {**runs, "c": {1: 50.0}}
    none = {**runs, "c": {}}
    found = [answering([values], turns_of([values], [noisy])) for values in (runs, none)]
    assert found[0] == [None] and found[1] != [None]
    calm = turns_of([few], [computed(SPEEDS)])
    assert answering([few], calm) == calm


def test_turns_of_other_cells_are_not_those_of_a_comparison():
    group = computed(SPEEDS)
    runs = {name: {1: 1.0} for name in "ab"}
    assert turns_of([runs], [group]) == [None]
    assert turns_of([runs | {"c": {}, "d": {1: 1.0}}], [group]) == [None]
    (model,) = compare_with_turns([runs], [None])
    assert model.ratio("a", "b").interval() is None


def test_groups_with_and_without_turns_share_the_level_and_not_the_noise():
    runs = {name: {1: 1.0, 2: 2.0, 3: 1.5} for name in "abc"}
    noisy = {"x": {1: 1.0, 2: 3.0, 3: 1.0}, "y": {1: 2.0, 2: 1.0, 3: 5.0}}
    turns = turns_of([runs, noisy], [computed(SPEEDS)])
    with_turns, without = compare_with_turns([runs, noisy], turns)
    assert with_turns.groups == without.groups == 2
    assert with_turns.variance < 0.01 < without.variance


def test_more_sets_make_intervals_narrower():
    speeds = measured(computed(SPEEDS, sets=10)).speeds

    def of_first(sets):
        return reach({c: {n: x for n, x in v.items() if n <= sets} for c, v in speeds.items()})

    assert of_first(1) is None
    assert 1 < of_first(10) < of_first(3)


def test_files_are_read_back_and_damage_is_named(tmp_path):
    path = tmp_path / "group.json"
    group = computed(SPEEDS)
    path.write_text(json.dumps(to_json(group)))
    assert read_interleaved([path]) == [group]
    value = to_json(group)
    for damage, word in (
        (lambda v: v.pop("cells"), "cells"),
        (lambda v: v.update(format=9), "format"),
        (lambda v: v["sets"][0]["turns"][0]["rounds"][0]["slices"].pop(), "a round of a, b"),
        (lambda v: v["sets"][0]["turns"][0]["rounds"][0]["slices"][0].update(seconds=0.0), "time"),
        (lambda v: v["cells"].append("d"), "cells are not those"),
    ):
        damaged = json.loads(json.dumps(value))
        damage(damaged)
        path.write_text(json.dumps(damaged))
        with pytest.raises(InputError, match=word):
            read_interleaved([path])
    path.write_text("{")
    with pytest.raises(InputError, match="Delete it"):
        read_interleaved([path])


@pytest.mark.parametrize(
    ("status", "chunks", "takes_part"),
    [("ok", 1, True), ("timeout", 1, True), ("timeout", 0, False), ("oom", 1, False)],
)
def test_who_takes_turns_after_its_first_run(status, chunks, takes_part):
    """A run that other programs slowed down until its limit shows that its cell works."""
    chunk = Chunk("warmup", 0, 2, 1.0, 2.5, [0.5, None])
    events = [chunk] * chunks + [Outcome(status, "a reason", 0, 0.0, 9.0, 8.0)]
    why = why_no_turn(events)
    assert bool(why) != takes_part and ("a reason" in why) != takes_part
