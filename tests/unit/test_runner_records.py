"""Training from record files: order, reading ahead, and records that are refused."""

import threading

import numpy as np
import pytest

from fixtures.arithmetic import SPEC, Arithmetic, run
from touchstone.runner import (
    batches,
)


def test_records_that_are_not_what_the_spec_says_are_refused(tmp_path, monkeypatch):
    spec = SPEC._replace(data=SPEC.data._replace(train_examples=11))
    with pytest.raises(
        ValueError, match=r"train: 10 records of shape \(2, 2, 1\), the spec says 11"
    ):
        run(tmp_path, monkeypatch, Arithmetic(), spec)


RECORDS = SPEC._replace(factors=SPEC.factors._replace(input="records"))


class OfRecords(Arithmetic):
    """Its record number n holds n, and the label n modulo 3."""

    def __init__(self, count=10, damaged=None):
        super().__init__(step_seconds=0.0)
        self.count, self.damaged = count, damaged
        self.read_by = set()

    def open_records(self, shards):
        assert shards == ["train"]
        return self.count

    def fetch_records(self, indices):
        self.read_by.add(threading.current_thread())
        if self.damaged is not None and (indices == self.damaged).any():
            raise ValueError(f"train.records: record {self.damaged} is damaged")
        return indices.copy(), indices % 3

    def train_steps(self, batches, rates, draws):
        indices = np.concatenate([part[0] for part in batches])
        assert np.array_equal(np.concatenate([part[1] for part in batches]), indices % 3)
        return super().train_steps(indices, rates, draws)


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_records_are_read_in_the_order_of_the_seed(tmp_path, monkeypatch, threads):
    whole = Arithmetic()
    run(tmp_path, monkeypatch, whole)
    adapter = OfRecords()
    execution = SPEC.execution._replace(reader_threads=threads)
    events = run(tmp_path, monkeypatch, adapter, RECORDS._replace(execution=execution))
    assert events[-1]["status"] == "ok"
    assert np.array_equal(adapter.seen, whole.seen)
    settings = next(e for e in events if e["event"] == "settings")
    assert settings["effective"]["reader_threads"] == threads
    if not threads:
        assert adapter.read_by == {threading.current_thread()}


def test_the_next_chunk_is_read_while_one_is_computed():
    read = threading.Semaphore(0)

    def fetch(indices):
        read.release()
        return indices

    order = batches.BatchSampler(5, 100, 10)
    reader = batches.RecordReader(fetch, 1)
    for taken in range(1, 21):
        indices = order.take(3)[0]
        (found,) = reader.take(indices, order.peek(3))
        assert np.array_equal(found, indices)
        # As many are read as were taken, and one more that nobody waits for.
        for _ in range(2 if taken == 1 else 1):
            assert read.acquire(timeout=10)
    (found,) = reader.take(order.take(1)[0], order.peek(0))  # another size than foreseen
    assert found.shape == (1, 10)
    reader.pool.shutdown()
    assert reader.live() == 0


def test_a_record_that_cannot_be_read_ends_the_run(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="train.records: record 3 is damaged"):
        run(tmp_path, monkeypatch, OfRecords(damaged=3), RECORDS)


def test_another_number_of_records_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="train: 11 records, the spec says 10"):
        run(tmp_path, monkeypatch, OfRecords(count=11), RECORDS)


def test_a_label_outside_the_classes_is_refused(tmp_path, monkeypatch):
    spec = SPEC._replace(data=SPEC.data._replace(classes=2))
    with pytest.raises(ValueError, match="test: a record has the label 2, the spec says 2"):
        run(tmp_path, monkeypatch, Arithmetic(), spec)
