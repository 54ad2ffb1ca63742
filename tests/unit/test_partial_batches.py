"""Epochs whose last batch is a partial one, and what only the end of a training run does."""

import numpy as np
import pytest

from fixtures.arithmetic import SPEC, Arithmetic, run
from touchstone.runner import batches, train
from touchstone.runner.job import job_of
from touchstone.schema.epochs import KEEP, Epochs
from touchstone.schema.spec import BEST, Augmentation


@pytest.mark.parametrize(("examples", "size", "steps"), [(10, 4, 3), (60_000, 64, 938), (8, 4, 2)])
def test_the_examples_of_steps_are_the_sum_of_their_sizes(examples, size, steps):
    epochs = Epochs(examples, size, KEEP)
    assert epochs.steps == steps and epochs.examples == examples
    for first, count in ((0, 1), (0, 2 * steps), (steps - 1, 1), (1, 3 * steps - 2)):
        sizes = [epochs.size_of(step) for step in range(first, first + count)]
        assert epochs.examples_of(first, count) == sum(sizes)
        alike = epochs.alike(first, count)
        assert len(set(sizes[:alike])) == 1
        assert alike == count or len(set(sizes[: alike + 1])) == 2 or not epochs.rest


def test_a_dropped_batch_leaves_all_batches_alike():
    epochs = Epochs(50_000, 128)
    assert (epochs.steps, epochs.rest, epochs.alike(389, 1000)) == (390, 0, 1000)
    assert epochs.examples_of(380, 20) == 20 * 128


def taken(sampler, steps):
    """The batches of so many steps."""
    found = []
    while steps:
        count = sampler.alike(steps)
        assert len(sampler.peek(steps)) == count
        found += zip(*sampler.take(count), strict=True)
        steps -= count
    return found


def test_a_kept_batch_has_the_examples_that_are_left():
    sampler = batches.BatchSampler(3, 10, 4, Augmentation(2, True), last_batch=KEEP)
    found = taken(sampler, 6)
    assert [len(indices) for indices, _ in found] == [4, 4, 2, 4, 4, 2]
    for epoch in range(2):
        indices = np.concatenate([indices for indices, _ in found[3 * epoch : 3 * epoch + 3]])
        order = np.random.RandomState([3, epoch]).permutation(10)
        assert indices.tolist() == order.tolist()
    dropped = batches.BatchSampler(3, 10, 4, Augmentation(2, True))
    whole = [pair for pair in found if len(pair[0]) == 4]
    for (indices, draws), (expected, cuts) in zip(
        whole, zip(*dropped.take(4), strict=True), strict=True
    ):
        assert np.array_equal(indices, expected) and np.array_equal(draws, cuts)


def test_replicas_share_partial_batches_too():
    shares = [
        batches.BatchSampler(3, 10, 4, Augmentation(1, False), part, last_batch=KEEP)
        for part in (slice(0, 2), slice(2, 4))
    ]
    whole = taken(batches.BatchSampler(3, 10, 4, Augmentation(1, False), last_batch=KEEP), 6)
    parts = [taken(sampler, 6) for sampler in shares]
    for (indices, draws), *shared in zip(whole, *parts, strict=True):
        assert np.array_equal(np.concatenate([part for part, _ in shared]), indices)
        assert np.array_equal(np.concatenate([part for _, part in shared]), draws)


class Sized(Arithmetic):
    """Knows the size of its last batch, and writes what its weights are."""

    def train_steps(self, indices, rates, draws):
        self.size = indices.shape[1]
        return super().train_steps(indices, rates, draws)

    def settings(self):
        return {**super().settings(), "batch_size": self.size}

    def build(self, weights):
        """It has none but those below."""

    def weights(self):
        return {"steps": np.array(self.steps)}


def phases(**changes):
    return SPEC._replace(phases=SPEC.phases._replace(**changes))


def test_a_run_counts_the_examples_of_partial_batches(tmp_path, monkeypatch):
    adapter = Sized()
    events = run(tmp_path, monkeypatch, adapter, phases(last_batch=KEEP, epochs=7))
    assert events[-1]["status"] == "ok"
    assert [len(batch) for batch in adapter.seen] == [4, 4, 2] * 7
    parts = [e for e in events if e["event"] == "phase" and e["steps"]]
    assert sum(part["examples"] for part in parts) == 70
    assert sum(part["steps"] for part in parts) == 21
    chunks = [event for event in events if event["event"] == "chunk"]
    for chunk in chunks:
        sizes = {2 if (chunk["first_step"] + i) % 3 == 2 else 4 for i in range(chunk["steps"])}
        assert len(sizes) == 1
    settings = next(e for e in events if e["event"] == "settings")
    assert settings["requested"]["batch_size"] == 2


def test_the_training_set_is_evaluated_where_that_is_asked_for(tmp_path, monkeypatch):
    usual = run(tmp_path, monkeypatch, Arithmetic())
    assert not [event for event in usual if event["event"] == "fit"]
    adapter = Arithmetic()
    adapter.logits = lambda images: np.tile([0.0, 1.0, 0.0], (len(images), 1))
    events = run(tmp_path, monkeypatch, adapter, phases(training_accuracy=True))
    (fit,) = [event for event in events if event["event"] == "fit"]
    assert (fit["examples"], fit["correct"]) == (10, 3)  # the labels 0 to 9 modulo 3 that are 1


@pytest.mark.parametrize(("kept", "steps"), [(BEST, 6), ("last", 8)])
def test_the_weights_of_the_best_evaluation_are_kept(tmp_path, monkeypatch, kept, steps):
    """Four epochs of two steps: after them 1, 2, 4 and 4 of 5 are right."""
    right = iter([1, 2, 4, 4])

    def evaluate(adapter, images, labels, batch_size, overlap):
        return next(right), 1.0

    monkeypatch.setattr(train, "evaluate", evaluate)
    spec = phases(epochs=4, evaluate_every=1, kept_weights=kept)
    path = tmp_path / "weights.npz"
    adapter = Sized()
    run(tmp_path, monkeypatch, adapter, spec._replace(keep_weights=str(path)))
    assert int(np.load(path)["steps"]) == steps


def test_a_reader_per_thread_is_as_many_as_compute():
    spec = SPEC._replace(execution=SPEC.execution._replace(reader_threads=None))
    assert job_of(spec, threads=5).execution.reader_threads == 5
    assert job_of(SPEC, threads=5).execution.reader_threads == 1
