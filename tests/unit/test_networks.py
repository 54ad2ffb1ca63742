"""Networks: their counts, and the images that they refuse."""

import importlib
import math
import re

import pytest

from touchstone import networks
from touchstone.networks.graph import GraphError


def test_lenet5_counts():
    graph = networks.build("lenet5", (28, 28, 1), 10)
    # By hand: 6(25+1) + 16(150+1) + 120(400+1) + 84(120+1) + 10(84+1) parameters, and
    # 28^2 6 25 + 10^2 16 150 + 400 120 + 120 84 + 84 10 multiply-accumulates.
    assert graph.parameter_count == 61706
    assert graph.macs == 416520
    assert graph.layers[-1].shape == (10,)
    assert networks.build("lenet5", (28, 28, 1), 7).parameter_count == 61706 - 3 * 85


def test_every_network_is_found_by_its_file():
    assert "lenet5" in networks.names()
    assert "alexnet-cifar" in networks.names()
    assert "graph" not in networks.names()
    assert not [name for name in networks.names() if name.startswith(("-", "_"))]


# Trainable parameters, and 10^9 multiply-accumulates where the literature gives them.
PUBLISHED = [
    ("lenet5", (28, 28, 1), 10, 61_706, None),
    ("lenet-caffe", (28, 28, 1), 10, 431_080, None),
    ("alexnet", (224, 224, 3), 1000, 61_100_840, (0.65, 0.75)),
    ("alexnet-grouped", (227, 227, 3), 1000, 60_965_224, (0.65, 0.75)),
    ("alexnet-cifar", (32, 32, 3), 10, 7_506_762, None),
    ("vgg16", (224, 224, 3), 1000, 138_357_544, (15.45, 15.55)),
    ("vgg19", (224, 224, 3), 1000, 143_667_240, (19.55, 19.7)),
    ("vgg16-cifar", (32, 32, 3), 10, 14_728_266, None),
    ("googlenet", (224, 224, 3), 1000, 6_998_552, (1.45, 1.6)),
    ("resnet50", (224, 224, 3), 1000, 25_557_032, (3.9, 4.1)),
    ("resnet50-cifar", (32, 32, 3), 10, 23_520_842, None),
    ("resnet20-cifar", (32, 32, 3), 10, 272_474, None),
    ("resnet50v2", (224, 224, 3), 1000, 25_568_360, None),
    ("resnet152v2", (224, 224, 3), 1000, 60_236_904, None),
    ("xception", (299, 299, 3), 1000, 22_855_952, (8.3, 8.5)),
    ("lawrence2017-cnn", (64, 64, 1), 10, 16_840_586, None),
    ("yin2020-cnn", (32, 32, 3), 10, 122_570, None),
    ("vit-ti-16", (224, 224, 3), 1000, 5_717_416, (1.25, 1.3)),
    ("vit-s-16", (224, 224, 3), 1000, 22_050_664, (4.55, 4.65)),
    ("mobilenetv2", (224, 224, 3), 1000, 3_504_872, (0.295, 0.305)),
    ("convnext-t", (224, 224, 3), 1000, 28_589_128, (4.45, 4.5)),
    ("efficientnet-b0", (224, 224, 3), 1000, 5_288_548, (0.38, 0.4)),
]


@pytest.mark.parametrize("name, shape, classes, parameters, billions", PUBLISHED)
def test_counts_are_the_published_ones(name, shape, classes, parameters, billions):
    made = networks.build(name, shape, classes)
    assert made.layers[-1].shape == (classes,)
    assert made.parameter_count == parameters
    if billions:
        assert billions[0] < made.macs / 1e9 < billions[1]


@pytest.mark.parametrize(
    "name, shape, total",
    [
        ("xception", (299, 299, 3), 22_910_480),
        ("resnet50v2", (224, 224, 3), 25_613_800),
        ("resnet152v2", (224, 224, 3), 60_380_648),
        ("mobilenetv2", (224, 224, 3), 3_538_984),
    ],
)
def test_counts_with_running_statistics_are_those_of_keras(name, shape, total):
    made = networks.build(name, shape, 1000)
    assert sum(math.prod(p.shape) for p in made.parameters) == total


def test_counts_of_the_composite_networks_follow_from_their_parts():
    # vo2021-a: VGG19's convolutions; 512 and three times 128 channels to 128; dense layers.
    vgg19 = 143_667_240 - (25_088 * 4096 + 4096) - (4096 * 4096 + 4096) - (4096 * 1000 + 1000)
    convolutions = (9 * 512 * 128 + 128) + 3 * (9 * 128 * 128 + 128)
    dense = (128 + 1) * 4096 + (4096 + 1) * 2048 + (2048 + 1) * 128 + (128 + 1) * 10
    made = networks.build("vo2021-a", (32, 32, 3), 10)
    assert made.parameter_count == convolutions + dense
    assert sum(math.prod(p.shape) for p in made.parameters) == vgg19 + convolutions + dense
    # vo2021-b: two bases less their outputs of 1000; 4096 channels to 1024; dense layers.
    bases = 22_855_952 + 60_236_904 - 2 * 2049 * 1000
    made = networks.build("vo2021-b", (96, 96, 3), 10)
    assert made.parameter_count == bases + (9 * 4096 + 1) * 1024 + 1025 * 1024 + 1025 * 10
    made = networks.build("vo2021-b50", (96, 96, 3), 10)
    bases += 25_568_360 - 60_236_904 + (2048 * 1000 + 1000) - 2049 * 1000
    assert made.parameter_count == bases + (9 * 4096 + 1) * 1024 + 1025 * 1024 + 1025 * 10
    # vo2021-conv: 28 -> 14 -> 7 -> 4 -> 2 -> 1 -> 1.
    made = networks.build("vo2021-conv", (28, 28, 1), 10)
    assert made.parameter_count == 10 * 2048 + (9 * 2048 + 1) * 128 + (9 * 128 + 1) * 64 + 650
    assert made.macs == 14**2 * 2048 * 9 + 4**2 * 128 * 9 * 2048 + 64 * 9 * 128 + 640


PHRASE = re.compile(
    r"([\d,]+) parameters and ([\d,]+) multiply-accumulates "
    r"at (\d+) x (\d+) x (\d+), (\d+) classes\."
)


def usual(name):
    """Parameters, multiply-accumulates, image shape and classes that the docstring states."""
    module = importlib.import_module(f"touchstone.networks.{name.replace('-', '_')}")
    stated = PHRASE.findall(" ".join(module.__doc__.split()))
    assert len(stated) == 1, f"the docstring of {name} does not state its counts once"
    parameters, macs, *shape, classes = (int(n.replace(",", "")) for n in stated[0])
    return parameters, macs, tuple(shape), classes


@pytest.mark.parametrize("name", networks.names())
def test_every_docstring_states_the_counts(name):
    parameters, macs, shape, classes = usual(name)
    made = networks.build(name, shape, classes)
    assert made.name == name
    assert (made.parameter_count, made.macs) == (parameters, macs)


@pytest.mark.parametrize("name", networks.names())
def test_networks_for_large_images_take_small_ones(name):
    _, _, (height, width, channels), classes = usual(name)
    if min(height, width) > 64:
        for size in (96, 128) if name == "alexnet-grouped" else (64, 96):
            networks.build(name, (size, size, channels), classes)


@pytest.mark.parametrize("name", networks.names())
def test_every_network_builds_or_refuses_by_name_and_layer(name):
    """From no pixels, which none takes, to 16: a graph, or a GraphError that says where."""
    _, _, (_, _, channels), classes = usual(name)
    for size in (0, 1, 2, 3, 4, 8, 16):
        try:
            made = networks.build(name, (size, size, channels), classes)
        except GraphError as fault:
            place = rf"network {name} on input \[{size}, {size}, {channels}\]: layer \w+ \(\w+\) "
            assert re.match(place, str(fault))
        else:
            labels = (made.network().labels,) if made.task else ()
            outputs = classes + (made.task == "label_per_pixel")
            assert size > 0 and made.layers[-1].shape == (*labels, outputs)


@pytest.mark.parametrize(
    "name, shape, layer",
    [
        ("lenet-caffe", (15, 15, 1), r"pool2 \(max_pool\)"),
        ("alexnet", (62, 62, 3), r"pool5 \(max_pool\)"),
        ("alexnet-grouped", (66, 66, 3), r"pool5 \(max_pool\)"),
        ("alexnet-cifar", (7, 7, 3), r"pool5 \(max_pool\)"),
        ("vgg16", (31, 31, 3), r"pool5 \(max_pool\)"),
        ("vo2021-a", (31, 31, 3), r"pool5 \(max_pool\)"),
        ("xception", (6, 6, 3), r"block1_conv2 \(conv\)"),
        ("vo2021-b", (6, 6, 3), r"xception_block1_conv2 \(conv\)"),
        ("yin2020-cnn", (17, 17, 3), r"conv3 \(conv\)"),
        ("convnext-t", (31, 31, 3), r"stage4_conv \(conv\)"),
    ],
)
def test_one_pixel_too_few_is_refused(name, shape, layer):
    with pytest.raises(GraphError, match=rf"^network {name} .*: layer {layer} makes"):
        networks.build(name, shape, 10)
    networks.build(name, (shape[0] + 1, shape[1] + 1, shape[2]), 10)


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 40, 3), (8, 16, 3)])
def test_an_image_that_patches_do_not_divide_is_refused(shape):
    message = rf"layer patches \(conv\) wants an image .* 16 x 16 .*, not one of {shape[0]} x"
    with pytest.raises(GraphError, match=message):
        networks.build("vit-ti-16", shape, 10)
    networks.build("vit-ti-16", (16, 32, 3), 10)


def test_too_small_an_image_is_refused_by_layer_and_shapes():
    with pytest.raises(
        GraphError, match=r"network lenet5 on input \[8, 8, 1\]: layer conv2 .*\(4, 4, 6\)"
    ):
        networks.build("lenet5", (8, 8, 1), 10)


def test_images_of_different_sizes_from_two_bases_are_refused():
    with pytest.raises(
        GraphError, match=r"network vo2021-b .*: layer concat \(concat\) has inputs"
    ):
        networks.build("vo2021-b", (97, 97, 3), 10)


def test_counts_of_the_text_networks_follow_from_their_layers():
    made = networks.build("lstm-text", (64, 1, 1), 4)
    lstm = 4 * 128 * (64 + 128) + 4 * 128
    assert made.parameter_count == 256 * 64 + lstm + 128 * 4 + 4
    assert made.macs == 64 * 4 * 128 * (64 + 128) + 128 * 4
    made = networks.build("transformer-text", (64, 1, 1), 4)
    dense = (64 * 192 + 192) + (64 * 64 + 64) + (64 * 256 + 256) + (256 * 64 + 64)
    layer = 2 * 2 * 64 + dense
    assert made.parameter_count == 256 * 64 + 64 * 64 + 2 * layer + 2 * 64 + 64 * 4 + 4
    # The products of attention: every step with every step, twice, over all features.
    layer = 64 * (64 * 192 + 64 * 64 + 2 * 64 * 256) + 2 * 64 * 64 * 64
    assert made.macs == 2 * layer + 64 * 4
    assert made.training_macs == 3 * made.macs  # after a trained table of letters
