"""Records of runs whose network has several labels for each example."""

import math

import pytest

from fixtures.records import event_of, judged, reason, require_valid, value
from fixtures.runs import edit_json, make_run, read_events, write_events
from touchstone.results.files import InputError
from touchstone.results.record import build_record

LABELS, LOSS = 16, math.log(8)
OUTPUT = [{"name": "logits", "op": "dense", "inputs": ["input"], "shape": [LABELS, 256]}]


def of_tokens(folder, loss=LOSS, labels=LABELS, task="next_token", **more):
    """The default run, of 100 test examples, if its network predicted 16 tokens of each."""
    make_run(folder)
    changes = {"task": task, "layers": OUTPUT, "output": "logits"}
    edit_json(folder / "spec.json", **{f"network__{key}": new for key, new in changes.items()})
    events = read_events(folder)
    event_of(events, "evaluation").update(examples=100 * labels, correct=400, loss=loss, **more)
    write_events(folder, events)
    return folder


def test_a_language_model_has_tokens_per_second_and_perplexity(tmp_path):
    record = build_record(of_tokens(tmp_path))
    require_valid(record)
    assert value(record, "token_rate") == 256.0 * LABELS
    assert value(record, "perplexity") == pytest.approx(8, rel=1e-12)
    assert value(record, "test_accuracy") == 0.25


@pytest.mark.parametrize(
    "loss, why",
    [(None, "the loss of the test set is not finite"), (1e3, "1000, is too large")],
)
def test_a_perplexity_that_is_no_number_says_why(tmp_path, loss, why):
    record = build_record(of_tokens(tmp_path, loss=loss))
    require_valid(record)
    assert why in reason(record, "perplexity")


def test_an_evaluation_of_another_number_of_labels_is_a_fault(tmp_path):
    with pytest.raises(InputError, match="400 / 1500 correct, the test set has 1600 labels"):
        build_record(of_tokens(tmp_path, labels=15))


def test_a_network_of_one_label_has_none_of_them(tmp_path):
    record = judged(tmp_path)
    for name in ("token_rate", "perplexity"):
        assert reason(record, name) == "the network predicts no tokens"
    assert reason(record, "mean_iou") == "the network labels no pixels"


def test_a_network_that_labels_pixels_has_a_mean_iou(tmp_path):
    record = build_record(of_tokens(tmp_path, task="label_per_pixel", mean_iou=0.625))
    require_valid(record)
    assert value(record, "mean_iou") == 0.625
    assert reason(record, "token_rate") == "the network predicts no tokens"
