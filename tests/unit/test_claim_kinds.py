"""The kinds of comparisons that test claims: what holds, what fails, what cannot be known."""

import dataclasses

import pytest

from fixtures.claims import FASTER, claim, judged, pair, point, sweep
from touchstone.published.claims import (
    CONTRADICTED,
    NOT_COMPARABLE,
    NOT_MEASURED,
    REPRODUCED,
    UNDECIDED,
)
from touchstone.published.verdicts import as_csv, summary, summary_of_csv, verdicts_on

NOISE = (1.0, 1.02, 0.99, 1.01)
SPEEDS = {"metric": "throughput", "factor": "framework"}


def frameworks(exact, **values):
    """A figure for each framework: as it is, or four runs with noise of their own."""
    return [
        point(
            [value] if exact else [value * NOISE[(run + at) % 4] for run in range(4)],
            framework=name,
        )
        for at, (name, value) in enumerate(values.items())
    ]


EXTREME = {**SPEEDS, "kind": "extreme", "level": "a"}
ORDER = {**SPEEDS, "kind": "order"}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    "test, verdict",
    [
        ({**EXTREME, "expect": "largest"}, CONTRADICTED),
        ({**EXTREME, "expect": "largest", "places": 2}, REPRODUCED),
        ({**EXTREME, "expect": "smallest"}, CONTRADICTED),
        ({**EXTREME, "expect": "smallest", "places": 3}, REPRODUCED),
        ({**EXTREME, "expect": "not smallest"}, REPRODUCED),
        ({**EXTREME, "expect": "largest", "level": "b", "margin": 1.5}, REPRODUCED),
        ({**EXTREME, "expect": "largest", "level": "b", "margin": 3.0}, CONTRADICTED),
        ({**EXTREME, "expect": "smallest", "level": "d", "margin": 1.5}, REPRODUCED),
        ({**EXTREME, "expect": "largest", "level": "x"}, NOT_MEASURED),
        ({**ORDER, "order": [["b"], ["a"], ["c"], ["d"]]}, REPRODUCED),
        ({**ORDER, "order": [["a"], ["b"], ["c"], ["d"]]}, CONTRADICTED),
        ({**ORDER, "order": [["a", "b"], ["c", "d"]]}, REPRODUCED),
        ({**ORDER, "order": [["b"], ["others"]]}, REPRODUCED),
        ({**ORDER, "order": [["b"], ["x"]]}, NOT_MEASURED),
        ({**ORDER, "order": [["a", "c"], ["b", "d"]], "each": "pair"}, CONTRADICTED),
        (
            {**ORDER, "order": [["a"], ["b"], ["c"], ["d"]], "each": "pair", "share": 0.8},
            REPRODUCED,
        ),
        ({**SPEEDS, "kind": "mean", "level": "a", "least": 0.9, "most": 1.2}, REPRODUCED),
        ({**SPEEDS, "kind": "mean", "level": "d", "least": 0.9}, CONTRADICTED),
        ({"metric": "throughput", "kind": "value", "least": 4}, REPRODUCED),
        ({"metric": "throughput", "kind": "value", "most": 30}, CONTRADICTED),
        ({"metric": "throughput", "kind": "value", "most": 30, "share": "some"}, REPRODUCED),
        (
            {"metric": "throughput", "kind": "spread", "across": "framework", "least": 2},
            REPRODUCED,
        ),
    ],
)
def test_a_kind_decides_where_the_figures_are_clear(test, verdict, exact):
    figures = frameworks(exact, a=20, b=40, c=15, d=5)
    assert judged(figures, test, exact=exact).verdict == verdict


@pytest.mark.parametrize(
    "test",
    [
        {**EXTREME, "expect": "largest"},
        {**EXTREME, "expect": "smallest"},
        {**EXTREME, "expect": "not largest"},
        {**ORDER, "order": [["a"], ["b"], ["c"]]},
        {**SPEEDS, "kind": "mean", "level": "a", "least": 1},
        {"metric": "throughput", "kind": "spread", "across": "framework", "most": 1.0},
    ],
)
def test_frameworks_that_are_alike_decide_nothing(test):
    """Of exact figures a tie counts for the claim; of measured ones it cannot be shown."""
    assert judged(frameworks(False, a=20, b=20, c=20), test).verdict == UNDECIDED
    assert judged(frameworks(True, a=20, b=20, c=20), test, exact=True).verdict == REPRODUCED


def test_a_step_that_may_fall_is_no_evidence_of_a_rise():
    """A fall by a quarter within noise of as much: the ends rise beyond doubt, the step is open."""
    noise = [(1, 1.1, 0.9), (1.2, 0.9, 1), (0.9, 1.2, 1.1), (1, 1, 1.1)]
    figures = [
        point([speed * factor for factor in factors], batch_size=float(size))
        for size, (speed, factors) in enumerate(zip([1, 2, 1.5, 6], noise, strict=True))
    ]
    trend = {"kind": "trend", "metric": "throughput", "along": "batch_size", "expect": "rises"}
    found = judged(figures, {**trend, "tolerance": 0.1})
    assert found.verdict == UNDECIDED and found.groups[0].low > 1


@pytest.mark.parametrize(
    "expect, values, verdict",
    [
        ("dips", [3, 1, 2, 4], REPRODUCED),
        ("dips", [1, 2, 3, 4], CONTRADICTED),
        ("saturates", [1, 2, 4, 4.1], REPRODUCED),
        ("saturates", [1, 2, 4, 8], CONTRADICTED),
    ],
)
@pytest.mark.parametrize("repeats, exact", [(1, True), (3, False)])
def test_dips_and_saturation(expect, values, verdict, repeats, exact):
    trend = {"kind": "trend", "metric": "throughput", "along": "batch_size", "expect": expect}
    found = judged(sweep(values, repeats=repeats), {**trend, "tolerance": 0.1}, exact=exact)
    assert found.verdict == verdict, found


def test_the_ends_of_a_sweep():
    ends = {"kind": "ends", "metric": "throughput", "along": "batch_size", "least": 2}
    assert judged(sweep([1, 5, 3]), ends, exact=True).verdict == REPRODUCED
    assert judged(sweep([1, 5, 1.5]), ends, exact=True).verdict == CONTRADICTED
    assert judged(sweep([1]), ends, exact=True).verdict == NOT_MEASURED


def test_gains_are_figures_of_their_own():
    """Of one and two devices: a gains 1.8, b 1.2; a is the slower one."""
    figures = [
        point([speed * NOISE[run] for run in range(4)], framework=name, replicas=count)
        for name, count, speed in (("a", 1.0, 10), ("a", 2.0, 18), ("b", 1.0, 30), ("b", 2.0, 36))
    ]
    gains = {"of": {"replicas": 2}, "to": {"replicas": 1}, "alike": ["framework"]}
    largest = {**EXTREME, "expect": "largest", "relative": gains}
    assert judged(figures, largest).verdict == REPRODUCED
    found = judged(figures, {**largest, "level": "b"})
    assert found.verdict == CONTRADICTED
    assert found.groups[0].value == pytest.approx(1.2 / 1.8)


def test_figures_of_two_metrics():
    times = [point([v], "training_time", "s", framework=f) for f, v in (("a", 8), ("b", 6))]
    calls = [point([v], "calls_time", "s", framework=f) for f, v in (("a", 2), ("b", 9))]
    quicker = {
        "kind": "ratio", "metric": "calls_time", "other": "training_time", "of": {}, "to": {},
        "by": ["framework"], "most": 1,
    }  # fmt: skip
    found = judged(times + calls, quicker, exact=True)
    assert [group.value for group in found.groups] == pytest.approx([0.25, 1.5])
    assert found.verdict == CONTRADICTED and found.count == "1 of 2"


SUM = {
    "kind": "ratio", "metric": "calls_time", "other": "training_time", "of": {"task": "products"},
    "to": {"task": "model"}, "most": 1,
}  # fmt: skip
"""A sum of products against the training of a model."""


def sum_and_models():
    """The sum is of two cells; two models differ in their data."""
    products = dataclasses.replace(point([2], "calls_time", "s", task="products"), cell="a; b")
    models = [
        dataclasses.replace(
            point([8], "training_time", "s", task="model", dataset=name), cell=f"on-{name}"
        )
        for name in ("mnist", "cifar10")
    ]
    return [products, *models]


def test_figures_of_one_name_are_named_apart():
    found = judged(sum_and_models(), SUM, exact=True)
    labels = [group.label for group in found.groups]
    assert labels == ["products / model (mnist)", "products / model (cifar10)"]
    assert judged(sum_and_models()[:2], SUM, exact=True).groups[0].label == "products / model"


@pytest.mark.parametrize("cell", ["b", "on-cifar10"])
def test_what_a_claim_needs_is_asked_of_both_metrics_and_of_the_parts_of_a_sum(cell):
    changed = {cell: {"epochs": "epochs 1 for 10"}}
    assert judged(sum_and_models(), SUM, changed=changed).verdict == UNDECIDED
    found = judged(sum_and_models(), SUM, changed=changed, needs=["epochs"])
    assert found.verdict == NOT_COMPARABLE and found.why.startswith("epochs 1 for 10; ")


# Shares, exceptions, several tests


@pytest.mark.parametrize(
    "share, faster, verdict",
    [
        ("most", 3, REPRODUCED),
        ("most", 2, CONTRADICTED),
        (0.5, 2, REPRODUCED),
        ("some", 1, REPRODUCED),
        ("some", 0, CONTRADICTED),
    ],
)
def test_most_is_more_than_half_and_some_is_one(share, faster, verdict):
    points = [p for i in range(4) for p in pair([10 if i < faster else 4], [5], f"f{i}")]
    assert judged(points, {**FASTER, "share": share}, exact=True).verdict == verdict


def test_one_group_that_holds_by_chance_is_not_enough_for_some():
    late = pair([9.6, 9.7, 9.5, 9.9], [9.5, 9.4, 9.3, 9.45], "late")
    some = {**FASTER, "share": "some"}
    assert judged(late, some).verdict == REPRODUCED
    slower = [p for i in range(40) for p in pair([5, 5.1, 5, 5.2], [20, 20, 20, 20.3], f"f{i}")]
    assert judged(slower + late, some).verdict == UNDECIDED


def test_named_exceptions_do_not_count():
    points = pair([10], [5], "a") + pair([4], [5], "b")
    assert judged(points, FASTER, exact=True).verdict == CONTRADICTED
    without = {**FASTER, "without": [{"framework": "b"}]}
    assert judged(points, without, exact=True).verdict == REPRODUCED
    other = {**FASTER, "without": [{"framework": "b", "device": "tpu"}]}
    assert judged(points, other, exact=True).verdict == CONTRADICTED


def test_a_claim_is_judged_by_the_tests_that_have_figures_and_says_which_have_none():
    memory = {**FASTER, "metric": "host_memory"}
    found = judged(pair([10], [5]), FASTER, memory, exact=True)
    assert found.verdict == REPRODUCED
    assert found.missing == ("host memory: no such figure",)
    assert found.why.endswith("; not judged: host memory: no such figure")
    assert judged([], FASTER, memory).verdict == NOT_MEASURED


ON_GPU = {**EXTREME, "where": {"device": "gpu"}, "expect": "largest"}


def on(device, **values):
    return [point([v * n for n in NOISE], framework=f, device=device) for f, v in values.items()]


def test_a_cpu_replaces_a_gpu_only_where_the_claim_allows_it_and_no_gpu_is_there():
    cpu, gpu = on("cpu", a=20, b=10), on("gpu", a=100, b=200)
    assert judged(cpu, ON_GPU).verdict == NOT_MEASURED
    found = judged(cpu, ON_GPU, stand_in=True)
    assert (found.verdict, found.stand_in) == (REPRODUCED, True)
    found = judged(cpu + gpu, ON_GPU, stand_in=True)
    assert (found.verdict, found.stand_in) == (CONTRADICTED, False)
    neither = judged([], ON_GPU, stand_in=True)
    assert (neither.verdict, neither.stand_in) == (NOT_MEASURED, False)
    assert "; by a stand-in: " in neither.why


def test_a_stand_in_that_cannot_be_compared_judges_nothing():
    points = [dataclasses.replace(one, cell="it") for one in on("cpu", a=3, b=1)]
    changed = {"it": {"dataset": "dataset mnist-5k for mnist"}}
    asked = claim(ON_GPU, stand_in=True, needs=["dataset"])
    one = verdicts_on([asked], points, [], changed)
    assert one[0].here.verdict == NOT_COMPARABLE and one[0].here.stand_in
    assert "stand-in" not in summary(one)[0]
    done = verdicts_on([asked], points, [], {})
    assert "1 is judged by a stand-in" in summary(done)[0]
    said = summary_of_csv(as_csv(one)), summary_of_csv(as_csv(done))
    assert said == (
        "Of the source's 1 claims, the runs here cannot be compared with 1.",
        "Of the source's 1 claims, the runs here reproduce 1.",
    )
    assert summary_of_csv(as_csv([])) == ""


def test_the_memory_of_a_gpu_is_replaced_by_that_of_the_host():
    cells = [
        point([v * n for n in NOISE], "host_memory", "MiB", framework=f, device="cpu")
        for f, v in (("a", 900), ("b", 500))
    ]
    memory = {**ON_GPU, "metric": "gpu_memory"}
    found = judged(cells, memory, stand_in=True)
    assert (found.verdict, found.stand_in) == (REPRODUCED, True)
    both = judged(cells, memory, {**memory, "metric": "host_memory"}, stand_in=True)
    assert both.groups == found.groups


# Several machines


def on_machine(name, **speeds):
    """A GPU and a CPU of a machine, with noise that the machine's blocks share."""
    return [
        point([v * n for n in NOISE], device=device, framework="a", machine=name)
        for device, v in speeds.items()
    ]


def test_every_machine_is_judged_by_its_own_figures():
    """The CPU of one is faster than the GPU of the other, which no claim sets against it."""
    figures = on_machine("one", gpu=100, cpu=50) + on_machine("two", gpu=20, cpu=10)
    found = judged(figures, FASTER)
    assert found.verdict == REPRODUCED and found.count == "2 of 2"
    assert [group.label for group in found.groups] == ["a, one: gpu / cpu", "a, two: gpu / cpu"]


@pytest.mark.parametrize("newer, verdict", [(200, REPRODUCED), (60, CONTRADICTED)])
def test_generations_are_compared_over_machines_as_two_sittings(newer, verdict):
    """Runs of two machines have no blocks in common, so the sittings' own noise counts too."""
    figures = [
        point([v * n for n in NOISE], machine=machine, generation=generation, device="gpu")
        for machine, generation, v in (("one", "6.0", 100), ("two", "9.0", newer))
    ]
    ends = {"kind": "ends", "metric": "throughput", "along": "generation", "least": 1}
    found = judged(figures, ends)
    assert found.verdict == verdict
    one_machine = [
        dataclasses.replace(one, factors={**one.factors, "machine": "one"}) for one in figures
    ]
    assert judged(one_machine, ends).groups[0].low == pytest.approx(newer / 100)
    assert found.groups[0].low < 0.95 * newer / 100


def test_a_gain_is_of_one_machine():
    figures = [
        point([v], machine=machine, replicas=float(count))
        for machine, count, v in (("one", 1, 10), ("one", 2, 15), ("two", 1, 100))
    ]
    gains = {"of": {"replicas": 2}, "to": {"replicas": 1}, "alike": []}
    value = {"kind": "value", "metric": "throughput", "relative": gains, "least": 1}
    found = judged(figures, value, exact=True)
    assert [group.value for group in found.groups] == [1.5]
