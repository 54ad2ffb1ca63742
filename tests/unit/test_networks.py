"""Graphs: counts, shapes, and what is refused."""

import pytest

import networks
from networks.graph import Graph, GraphError


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
    assert "graph" not in networks.names()


def test_the_dense_layer_behind_a_flattened_image_knows_the_image():
    layers = {
        layer["name"]: layer
        for layer in networks.build("lenet5", (28, 28, 1), 10).as_dict()["layers"]
    }
    assert layers["dense1"]["image"] == [5, 5, 16]
    assert layers["dense2"]["image"] is None


def test_too_small_an_image_is_refused_by_layer_and_shapes():
    with pytest.raises(
        GraphError, match=r"network lenet5 on input \[8, 8, 1\]: layer conv2 .*\(4, 4, 6\)"
    ):
        networks.build("lenet5", (8, 8, 1), 10)


def graph(*calls):
    made = Graph("test", (8, 8, 3))
    for name, arguments in calls:
        getattr(made, name)(*arguments)
    made.check()
    return made


@pytest.mark.parametrize(
    "calls, message",
    [
        ([], "it has no layers"),
        ([("conv", ("c", "nowhere", 4, 3))], "no layer named 'nowhere'"),
        ([("dense", ("d", "input", 4))], r"layer d \(dense\) wants a flat input"),
        ([("flatten", ("f", "input")), ("conv", ("c", "f", 4, 3))], "wants an image"),
        ([("relu", ("r", "input")), ("relu", ("r", "r"))], "two layers are named 'r'"),
        ([("relu", ("r", "input"))], r"its output has shape \(8, 8, 3\)"),
        (
            [("flatten", ("f", "input")), ("flatten", ("g", "input")), ("dense", ("d", "g", 2))],
            "nothing uses the output of f",
        ),
    ],
)
def test_graphs_that_do_not_fit_are_refused(calls, message):
    with pytest.raises(GraphError, match=message):
        graph(*calls)
