"""Graphs with several labels for each example, and today's networks of texts."""

import pytest

from touchstone import networks
from touchstone.networks.graph import Graph, GraphError


def test_counts_of_todays_networks_of_texts_are_the_published_ones():
    made = networks.build("gpt2-small", (1025, 1, 1), 2)
    assert made.parameter_count == 124_439_808
    assert made.layers[-1].shape == (1024, 50_257) and made.network().labels == 1024
    # 109,482,240 without a head; the two segments are left out.
    made = networks.build("bert-base", (512, 1, 1), 2)
    assert made.parameter_count == 109_482_240 - 2 * 768 + 2 * (768 + 1)
    assert made.network().labels == 1
    # Two normalisations and four dense layers, of 3, 1, 4 and 4 squares of the width.
    made = networks.build("gpt-10m", (257, 1, 1), 2)
    layer = 2 * 2 * 384 + 12 * 384**2 + (3 + 1 + 4 + 1) * 384
    assert made.parameter_count == 2 * 256 * 384 + 6 * layer + 2 * 384
    attention = 2 * 256 * 256 * 384
    assert made.macs == 6 * (256 * 12 * 384**2 + attention) + 256 * 384 * 256
    assert made.training_macs == 3 * made.macs  # also of the table, which both ends train


def test_layers_of_a_language_model():
    made = Graph("test", (7, 1, 1), task="next_token")
    x = made.embedding("e", made.all_but_last("k", "input"), width=6, vocabulary=300)
    y = made.attention("a", made.dense("q", x, 18), heads=3, causal=True)
    assert made.layers[-1].settings == {"heads": 3, "causal": True}
    made.unembedding("u", made.gelu_tanh("g", made.tanh("t", y)), "e")
    assert made.shape("k") == (6, 1, 1) and made.shape("u") == (6, 300)
    made.check()
    # The input has bytes only, whatever the table has.
    assert made.network().vocabulary == 256 and made.network().task == "next_token"
    assert {p.name for p in made.parameters} == {"e.weight", "q.weight", "q.bias"}
    assert made.macs == 6 * 6 * 18 + 2 * 6 * 6 * 6 + 6 * 6 * 300


@pytest.mark.parametrize(
    "add, message",
    [
        (lambda g: g.all_but_last("x", "q"), r"x \(all_but_last\) wants tokens"),
        (lambda g: g.embedding("x", "input", 6, vocabulary=255), r"has 255 rows for 256 tokens"),
        (lambda g: g.unembedding("x", "d", "e"), r"wants an embedding of width 5, e is none"),
        (lambda g: g.unembedding("x", "q", "q"), r"wants an embedding of width 6, q is none"),
        (lambda g: g.unembedding("x", "q", "none"), r"of width 6, none is none"),
    ],
)
def test_layers_of_a_language_model_that_do_not_fit_are_refused(add, message):
    made = Graph("test", (7, 1, 1))
    x = made.dense("q", made.embedding("e", "input", width=6), 6)
    made.dense("d", x, 5)
    with pytest.raises(GraphError, match=message):
        add(made)


@pytest.mark.parametrize(
    "task, shape, wanted",
    [(None, r"\(7, 3\)", r"\(classes,\)"), ("next_token", r"\(3,\)", r"\(labels, classes\)")],
)
def test_the_output_is_what_the_task_wants(task, shape, wanted):
    made = Graph("test", (7, 1, 1), task=task)
    x = made.embedding("e", "input", width=6)
    made.dense("d", x if task is None else made.mean_over_steps("m", x), 3)
    with pytest.raises(GraphError, match=f"its output has shape {shape}, not {wanted}"):
        made.check()


def test_layers_that_label_pixels():
    made = Graph("test", (2, 3, 4), task="label_per_pixel")
    x = made.up_conv("u", "input", filters=5, scale=3)
    assert made.shape(x) == (6, 9, 5)
    made.to_sequence("s", x)
    made.check()
    found = {p.name: p for p in made.parameters}
    assert found["u.weight"].shape == (4, 5, 3, 3) and found["u.bias"].shape == (5,)
    assert (found["u.weight"].fan_in, found["u.weight"].fan_out) == (4, 45)
    assert made.macs == 2 * 3 * 4 * 5 * 9 and made.network().labels == 54
    with pytest.raises(GraphError, match=r"layer v \(up_conv\) has a setting below 1"):
        made.up_conv("v", "input", filters=5, scale=0)


def test_counts_of_a_unet_follow_from_its_layers():
    made = networks.build("unet", (32, 32, 1), 10)
    widths = [64, 128, 256, 512, 1024]
    down = sum(
        9 * before * own + own + 9 * own * own + own
        for before, own in zip([1, *widths], widths, strict=False)
    )
    up = sum(
        4 * 2 * own * own + own + 9 * 2 * own * own + own + 9 * own * own + own
        for own in widths[:-1]
    )
    assert made.parameter_count == down + up + 64 * 11 + 11
    # Keras's usual form has one class, a convolution to two filters, and one more of single pixels.
    usual = networks.build("unet", (512, 512, 1), 1).parameter_count
    assert usual - (64 * 2 + 2) + (9 * 64 * 2 + 2) + (2 + 1) == 31_031_685


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 40, 3)])
def test_an_image_that_a_unet_cannot_halve_is_refused(shape):
    with pytest.raises(GraphError, match=r"layer down4_pool \(max_pool\) wants .* 16 divides"):
        networks.build("unet", shape, 10)
