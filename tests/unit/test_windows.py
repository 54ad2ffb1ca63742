"""Random resized crops: what is drawn, and what a window becomes."""

import numpy as np
import pytest
from PIL import Image

from touchstone.runner import batches, windows
from touchstone.schema.spec import Augmentation


def test_windows_lie_in_the_image_and_have_the_area_and_the_aspect_that_were_asked_for():
    drawn = windows.draw_window(np.random.RandomState(1), 20_000, (200, 300), 0.08)
    top, left, height, width = drawn.T
    assert top.min() == left.min() == 0
    assert (top + height).max() == 200 and (left + width).max() == 300
    share = height * width / 60_000
    assert 0.075 < share.min() < 0.085
    whole = height < 200  # the others were cut
    aspect = (width / height)[whole]
    assert aspect.min() == pytest.approx(3 / 4, rel=0.02)
    assert aspect.max() == pytest.approx(4 / 3, rel=0.02)
    assert np.median(np.log(aspect[share[whole] < 0.4])) == pytest.approx(0, abs=0.02)
    assert np.mean(share < 0.54) == pytest.approx(0.5, abs=0.02)


def test_a_window_of_the_whole_image_is_the_image():
    images = np.random.default_rng(1).random((2, 5, 7, 3), np.float32)
    draws = np.array([[0, 0, 0, 5, 7], [0, 0, 1, 5, 7]])
    found = windows.resized(images, draws)
    assert np.array_equal(found[0], images[0]) and np.array_equal(found[1], images[1][:, ::-1])


@pytest.mark.parametrize("image", [(32, 32), (9, 14)])
def test_windows_are_resized_as_pillow_does(image):
    images = np.random.default_rng(2).random((64, *image, 1), np.float32)
    drawn = windows.draw_window(np.random.RandomState(3), 64, image, 0.02)
    draws = np.insert(drawn, 2, 0, axis=1)
    found = windows.resized(images, draws)
    for each, (top, left, height, width), own in zip(images, drawn, found, strict=True):
        window = Image.fromarray(each[top : top + height, left : left + width, 0])
        expected = np.asarray(window.resize(image[::-1], Image.Resampling.BILINEAR))
        assert own[:, :, 0] == pytest.approx(expected, abs=1e-5)


def test_every_example_has_a_window_of_its_own_in_every_epoch():
    augmentation = Augmentation(0, True, crop_area=0.25)
    sampler = batches.BatchSampler(3, 1000, 10, augmentation, image=(28, 28))
    _, draws = sampler.take(200)
    assert draws.shape == (200, 10, 5) and draws.dtype == np.int32
    assert set(draws[..., 2].ravel()) == {0, 1}
    assert (draws[..., 0] + draws[..., 3]).max() == 28 == (draws[..., 1] + draws[..., 4]).max()
    assert len(np.unique(draws.reshape(-1, 5), axis=0)) > 1000
