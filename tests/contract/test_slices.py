"""A framework's process works when it is asked, in slices, and else uses no core."""

import pytest

from touchstone.commands import interleave
from touchstone.measure.interleaving import MOST_ROUNDS, Failed, Timing, measure_set
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.spec import make_spec
from touchstone.schema.events import Settings, read_events

TIMING = Timing(rounds=3, slice_seconds=0.1, lead_seconds=0.05, max_seconds=1.0)


@pytest.fixture
def candidate(python_of, tmp_path, quick_jax):
    """Makes a candidate of a spec."""

    def make(spec, name):
        if spec.factors.framework == "jax":
            quick_jax()
        python = python_of(spec.factors.framework)
        return interleave.candidate(spec._replace(cell=name), python, tmp_path / name)

    return make


def spec_of(root, framework, **settings):
    """A run of LeNet-5 on noise on one core; idle threads sleep, since other tests run too."""
    usual = {"network": "lenet5", "dataset": "mnist-5k", "input": "synthetic", "threads": 1}
    own = {"framework": framework, "mode": frameworks.modes(framework)[0]}
    cell = Cell(**{**own, "wait_policy": "passive", **usual, **settings})
    return make_spec(cell, 1, root)


def check(measured, *candidates):
    """Every slice did whole steps, and who waited used no core; the settings are proved."""
    (turns,) = measured.turns
    assert TIMING.rounds <= len(turns.rounds) <= MOST_ROUNDS * TIMING.rounds
    for one in candidates:
        slices = [part for each in turns.rounds for part in each.slices if part.cell == one.cell]
        assert len(slices) == len(turns.rounds)
        assert all(part.examples > 0 for part in slices)
        assert min(part.seconds for part in slices) >= TIMING.slice_seconds
        assert measured.waiting[one.cell].cores < 0.05
        found = [event for event in read_events(one.events) if isinstance(event, Settings)]
        assert len(found) == 1 and found[0].effective
    return turns


@pytest.mark.parametrize("framework", frameworks.names())
def test_a_framework_trains_in_slices_beside_a_copy_of_itself(root, candidate, framework):
    spec = spec_of(root, framework)
    one, other = candidate(spec, "one"), candidate(spec, "other")
    turns = check(measure_set(1, [[one, other]], TIMING, seed=1), one, other)
    size = spec.factors.batch_size
    assert all(part.examples % size == 0 for each in turns.rounds for part in each.slices)


@pytest.mark.long
@pytest.mark.framework("pytorch")
def test_records_are_read_in_slices_too(root, study, candidate, monkeypatch):
    monkeypatch.chdir(study.folder)
    spec = spec_of(root, "pytorch", input="records", reader_threads=1)
    one, other = candidate(spec, "one"), candidate(spec, "other")
    check(measure_set(1, [[one, other]], TIMING, seed=1), one, other)


@pytest.mark.long
@pytest.mark.framework("pytorch")
def test_predictions_and_operations_take_turns(root, candidate):
    work = {"workload": "inference", "weights": "initial", "batch_size": 16}
    operation = {"network": "gemm", "dataset": "256x256x256", "input": "memory"}
    specs = spec_of(root, "pytorch", **work), spec_of(root, "mxnet", **operation)
    pair = [candidate(spec, name) for spec, name in zip(specs, ("one", "other"), strict=True)]
    check(measure_set(1, [pair], TIMING, seed=1), *pair)


@pytest.mark.long
@pytest.mark.framework("pytorch")
def test_a_setting_that_the_framework_does_not_have_is_a_failure(root, candidate):
    spec = spec_of(root, "pytorch")
    wrong = spec._replace(execution=spec.execution._replace(precision="bf16", device="gpu"))
    pair = [candidate(spec, "well"), candidate(wrong, "wrong")]
    with pytest.raises(Failed) as failed:
        measure_set(1, [pair], TIMING, seed=1)
    assert failed.value.cell == "wrong"
