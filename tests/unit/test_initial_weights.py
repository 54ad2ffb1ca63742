"""Which distribution the weights of a network start from, and what is drawn from it."""

import numpy as np
import pytest

from touchstone import networks
from touchstone.networks._initialisation import SMALL, OwnStart, starts
from touchstone.networks.graph import Graph
from touchstone.plan import frameworks
from touchstone.plan.parity import reduced
from touchstone.runner.initial_weights import CONSTANT, NORMAL, UNIFORM, initial_weights
from touchstone.schema.spec import Parameter

KINDS = (*NORMAL, *UNIFORM)
SHAPE = (32, 32, 3)


def lenet(**settings):
    return {
        name.partition(".")[0]: init
        for name, init in starts(networks.build("lenet5", (28, 28, 1), 10), **settings).items()
        if name.endswith("weight")
    }


def test_the_usual_start_is_he_before_a_relu_and_small_in_the_output():
    layers = ("conv1", "conv2", "dense1", "dense2")
    assert lenet(scheme="paper") == dict.fromkeys(layers, "he_normal") | {"logits": SMALL}


def test_he_and_glorot_are_in_every_layer():
    assert set(lenet(scheme="he").values()) == {"he_normal"}
    assert set(lenet(scheme="glorot").values()) == {"glorot_uniform"}


def test_a_framework_starts_biases_too():
    graph = networks.build("lenet5", (28, 28, 1), 10)
    found = starts(graph, "framework", OwnStart("uniform_0.07", "fan_in_uniform"))
    assert found["conv1.weight"] == "uniform_0.07" and found["conv1.bias"] == "fan_in_uniform"


@pytest.mark.parametrize("framework", frameworks.names())
def test_the_start_of_every_framework_can_be_drawn(framework):
    assert set(frameworks.default_initialisation(framework)) <= {*KINDS, *CONSTANT}


@pytest.mark.parametrize("activation", ["relu6", "silu", "gelu", "gelu_tanh"])
def test_what_takes_the_place_of_a_relu_has_its_start(activation):
    graph = Graph("net", SHAPE)
    x = getattr(graph, activation)("active", graph.conv("first", "input", filters=3, kernel=1))
    gate = graph.sigmoid("gate", graph.dense("second", graph.global_avg_pool("mean", x), 3))
    graph.dense("logits", graph.global_avg_pool("last", graph.multiply("all", x, gate)), units=4)
    found = starts(graph, "paper")
    assert found["first.weight"] == "he_normal"
    assert found["second.weight"] == "glorot_uniform"


def test_layer_scale_starts_as_its_network_states():
    graph = networks.build("convnext-t", SHAPE, 10)
    parameters = {p.name: p for p in graph.network("paper").parameters}
    scale = parameters["stage1_block1_scale.scale"]
    assert np.array_equal(initial_weights([scale], 1)[scale.name], np.full(96, 1e-6, np.float32))
    assert parameters["stage1_block1_norm.scale"].init == "ones"
    assert starts(graph, "he")["stage1_block1_scale.scale"] == "ones"


def test_a_layer_between_sums_and_norms_starts_for_the_relu_after_them():
    graph = Graph("net", SHAPE)
    x = graph.batch_norm("norm", graph.conv("first", "input", filters=3, kernel=1))
    y = graph.conv("second", x, filters=3, kernel=1)
    z = graph.global_avg_pool("mean", graph.relu("relu", graph.add("sum", "input", y)))
    graph.dense("logits", z, units=4)
    found = starts(graph, "paper")
    # The first one meets a convolution, the second a ReLU.
    assert found["first.weight"] == "glorot_uniform"
    assert found["second.weight"] == "he_normal" and found["logits.weight"] == SMALL


def test_what_a_source_states_has_precedence_only_in_the_scheme_of_the_paper():
    graph = networks.build("alexnet-grouped", (227, 227, 3), 1000)
    found = starts(graph, "paper")
    assert found["conv1.weight"] == found["logits.weight"] == "normal_0.01"
    ones = {name for name, init in found.items() if init == "ones"}
    assert ones == {"conv2.bias", "conv4.bias", "conv5.bias", "dense1.bias", "dense2.bias"}
    assert set(starts(graph, "he").values()) == {"he_normal", "zeros"}


def test_an_lstm_has_glorot_weights_of_a_gate_and_an_open_forget_gate():
    graph = networks.build("lstm-text", (64, 1, 1), 4)
    found = {p.name: p for p in graph.network("paper").parameters}
    assert found["lstm.weight"].init == found["lstm.recurrent"].init == "glorot_uniform"
    assert (found["lstm.weight"].fan_in, found["lstm.weight"].fan_out) == (64, 128)
    assert found["lstm.bias"].init == "forget_ones"
    assert found["embedding.weight"].init == "standard_normal"


@pytest.mark.parametrize("network", networks.names())
def test_every_array_of_every_network_can_be_drawn(network):
    takes_text = reduced(network).vocabulary is not None
    shape = (64, 1, 1) if takes_text else (224, 224, 3)
    for scheme in ("paper", "he", "glorot"):
        for parameter in networks.build(network, shape, 10).network(scheme).parameters:
            assert parameter.init in {*KINDS, *CONSTANT}
            assert parameter.init != "glorot_uniform" or parameter.fan_out > 0


# Standard deviations of fan-in 50 and fan-out 200, worked out by hand.
DEVIATIONS = {
    "he_normal": 0.2, "lecun_normal": 0.1414214, "standard_normal": 1.0, "normal_0.01": 0.01,
    "normal_0.02": 0.02,
    "small_normal": 0.01414214, "glorot_uniform": 0.0894427, "lecun_uniform": 0.1414214,
    "fan_in_uniform": 0.0816497,
    "uniform_0.07": 0.0404145,
}  # fmt: skip


@pytest.mark.parametrize("init", KINDS)
def test_drawn_numbers_have_the_mean_and_deviation_of_their_distribution(init):
    parameter = Parameter("dense.weight", [2000, 50], init, 50, fan_out=200)
    array = initial_weights([parameter], 7)["dense.weight"]
    assert array.dtype == np.float32
    # 100,000 numbers: four standard errors.
    assert abs(array.mean()) < 4 * DEVIATIONS[init] / 100_000**0.5
    assert array.std() == pytest.approx(DEVIATIONS[init], rel=0.01)
    if init in UNIFORM:
        assert np.abs(array).max() <= 3**0.5 * DEVIATIONS[init] * 1.0001


def test_the_same_seed_draws_the_same_numbers_and_another_name_other_ones():
    first, second = (Parameter(f"{name}.weight", [40, 50], "glorot_uniform", 50) for name in "ab")
    once, again = (initial_weights([first, second], 3) for _ in range(2))
    assert all(np.array_equal(once[name], again[name]) for name in once)
    assert not np.array_equal(once["a.weight"], once["b.weight"])


@pytest.mark.parametrize(
    "init, expected",
    [
        ("zeros", [0, 0, 0, 0, 0, 0, 0, 0]),
        ("ones", [1, 1, 1, 1, 1, 1, 1, 1]),
        ("forget_ones", [0, 0, 1, 1, 0, 0, 0, 0]),
    ],
)
def test_constants_are_what_they_say(init, expected):
    parameter = Parameter("lstm.bias", [8], init, 4)
    assert initial_weights([parameter], 3)["lstm.bias"].tolist() == expected
