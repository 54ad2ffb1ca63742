"""The labels of tasks, and what is made of predictions."""

import numpy as np
import pytest

from touchstone.runner import tasks, train
from touchstone.runner.job import NO_DATA
from touchstone.runner.tasks import label_per_pixel, next_token
from touchstone.schema.spec import NO_NETWORK

PIXELS = NO_DATA._replace(
    shape=[2, 2, 1], classes=3, mean=[0.25], std=[0.5], foreground=128
)  # fmt: skip


def scaled(pixels, data=PIXELS):
    """Bytes as the network takes them."""
    return (np.array(pixels, np.float32) / 255 - np.float32(data.mean)) / np.float32(data.std)


def test_each_token_has_the_one_after_it():
    texts = np.array([[5, 7, 255], [0, 1, 2]], np.float32)[:, :, None, None]
    found = next_token.labels_of(texts, np.array([1, 0]), NO_DATA)
    assert found.tolist() == [[7, 255], [1, 2]] and found.dtype == np.int64


def test_a_pixel_of_the_foreground_has_the_label_and_the_others_are_background():
    images = scaled([[[[0], [127]], [[128], [255]]], [[[129], [0]], [[126], [1]]]])
    found = label_per_pixel.labels_of(images, np.array([2, 0]), PIXELS)
    assert found.tolist() == [[3, 3, 2, 2], [0, 3, 3, 3]] and found.dtype == np.int64


def test_every_byte_is_on_its_side_of_the_foreground():
    data = PIXELS._replace(shape=[16, 16, 1])
    bytes_ = np.arange(256).reshape(1, 16, 16, 1)
    for least in range(1, 256):
        own = data._replace(foreground=least)
        found = label_per_pixel.labels_of(scaled(bytes_), np.array([0]), own)
        assert (found[0] == 0).tolist() == [byte >= least for byte in range(256)]


def test_one_bright_channel_is_enough():
    data = PIXELS._replace(shape=[1, 2, 3], mean=[0.1, 0.2, 0.3], std=[0.5, 0.6, 0.7])
    images = scaled([[[[0, 0, 128], [127, 127, 127]]]], data)
    assert label_per_pixel.labels_of(images, np.array([1]), data).tolist() == [[1, 3]]


def test_a_network_without_a_task_keeps_the_labels_of_the_records():
    labels = np.array([2, 0])
    assert tasks.labels_of(NO_NETWORK, np.zeros((2, 2, 2, 1)), labels, PIXELS) is labels
    assert tasks.overlap_of(NO_NETWORK) is None
    assert tasks.overlap_of(NO_NETWORK._replace(task="next_token")) is None
    assert tasks.overlap_of(NO_NETWORK._replace(task="label_per_pixel")) is not None


def test_mean_iou_is_that_over_the_classes_that_occur():
    # By hand: of class 0 one of three pixels, of class 1 two of three, of class 3 none of one;
    # class 2 does not occur.
    predicted, wanted = np.array([[0, 0, 1], [1, 1, 3]]), np.array([[0, 1, 1], [1, 0, 0]])
    whole, parts = label_per_pixel.Overlap(), label_per_pixel.Overlap()
    whole.add(predicted, wanted, 4)
    for pair in zip(predicted, wanted, strict=True):
        parts.add(*pair, 4)
    # Pixels of class 0: predicted 2, wanted 3, both 1; of 1: 3, 3, 2; of 3: 1, 0, 0.
    assert whole.mean_iou() == parts.mean_iou() == pytest.approx((1 / 4 + 2 / 4 + 0) / 3)


class Adapter:
    """Its logits are known: of every pixel and class."""

    def logits(self, images):
        return images


def test_an_evaluation_counts_labels_and_cuts_the_last_batch():
    random = np.random.RandomState(1)
    logits, labels = random.standard_normal((5, 6, 4)), random.randint(0, 4, (5, 6))
    overlap = label_per_pixel.Overlap()
    correct, loss = train.evaluate(Adapter(), logits, labels, 2, overlap)
    shares = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    right = np.take_along_axis(shares, labels[:, :, None], 2)
    assert correct == (logits.argmax(axis=2) == labels).sum()
    assert loss == pytest.approx(-np.log(right).mean(), rel=1e-12)
    assert overlap.wanted.sum() == 30
