"""Graphs: layers' shapes and counts, and what is refused."""

import pytest

from touchstone import networks
from touchstone.networks.graph import Graph, GraphError


def test_the_dense_layer_after_a_flattened_image_knows_the_image():
    graph = networks.build("lenet5", (28, 28, 1), 10)
    layers = {layer["name"]: layer for layer in graph.network().layers}
    assert layers["dense1"]["image"] == [5, 5, 16]
    assert layers["dense2"]["image"] is None


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
        ([("flatten", ("f", "input")), ("conv", ("c", "f", 4, 3))], "wants an im"),
        ([("relu", ("r", "input")), ("relu", ("r", "r"))], "two layers are named 'r'"),
        ([("relu", ("a-b", "input"))], "wants a name of letters"),
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


def made_of(op, shape, *arguments, **settings):
    """The one layer, on an image of `shape`."""
    made = Graph("test", shape)
    getattr(made, op)("x", "input", *arguments, **settings)
    return made.layers[-1]


@pytest.mark.parametrize(
    "op, shape, settings, padding, out",
    [
        # 7 -> 4 windows of 3 by 2 reach 9 pixels: one on either side; 8 -> 4: one after.
        ("conv", (7, 8, 3), {"kernel": 3, "stride": 2, "padding": "same"}, [1, 1, 0, 1], (4, 4)),
        ("max_pool", (7, 8, 3), {"size": 3, "stride": 2, "padding": "same"}, [1, 1, 0, 1], (4, 4)),
        ("avg_pool", (5, 4, 3), {"size": 2, "padding": "same"}, [0, 1, 0, 0], (3, 2)),
        ("conv", (8, 8, 3), {"kernel": 2, "padding": "same"}, [0, 1, 0, 1], (8, 8)),
        ("conv", (8, 8, 3), {"kernel": (1, 7), "padding": "same"}, [0, 0, 3, 3], (8, 8)),
        ("conv", (7, 7, 3), {"kernel": 1, "stride": 2, "padding": "same"}, [0] * 4, (4, 4)),
        # Windows of 3 dilated by 2 reach 5 pixels.
        ("conv", (8, 9, 3), {"kernel": 3, "dilation": 2}, [0] * 4, (4, 5)),
        ("conv", (8, 9, 3), {"kernel": 3, "dilation": 2, "padding": "same"}, [2] * 4, (8, 9)),
        ("conv", (8, 8, 3), {"kernel": 3, "padding": (0, 1, 2, 3)}, [0, 1, 2, 3], (7, 11)),
        # 112: windows of 3 by 2 begin at 0 to 108, by `ceil` also at 110; 9 leaves no rest.
        ("max_pool", (112, 9, 3), {"size": 3, "stride": 2}, [0] * 4, (55, 4)),
        ("max_pool", (112, 9, 3), {"size": 3, "stride": 2, "ceil": True}, [0, 1, 0, 0], (56, 4)),
        # Windows of 2 by 2: one more begins at row 4 of 5; none at column 4 of 4.
        ("avg_pool", (5, 4, 3), {"size": 2, "ceil": True}, [0, 1, 0, 0], (3, 2)),
        # Padded by 1, 7 pixels are 9: the window that begins at the last would hold only padding.
        ("max_pool", (7, 7, 3), {"size": 2, "padding": 1, "ceil": True}, [1] * 4, (4, 4)),
        ("max_pool", (5, 5, 3), {"size": 1, "stride": 2}, [0] * 4, (3, 3)),
    ],
)
def test_windows_and_padding(op, shape, settings, padding, out):
    layer = made_of(op, shape, *((4,) if op == "conv" else ()), **settings)
    assert layer.settings["padding"] == padding
    assert layer.shape == (*out, 4 if op == "conv" else 3)


def test_groups_divide_the_weights_and_the_arithmetic():
    made = Graph("test", (8, 8, 6))
    made.conv("grouped", "input", filters=4, kernel=3, padding=1, groups=2)
    made.conv("depthwise", "input", filters=6, kernel=3, padding=1, groups=6, bias=False)
    assert [(p.name, p.shape, p.fan_in) for p in made.parameters] == [
        ("grouped.weight", (4, 3, 3, 3), 27),
        ("grouped.bias", (4,), 27),
        ("depthwise.weight", (6, 1, 3, 3), 9),
    ]
    assert made.macs == 64 * 4 * 27 + 64 * 6 * 9


@pytest.mark.parametrize("groups, filters", [(2, 4), (3, 4)])
def test_groups_that_do_not_divide_are_refused(groups, filters):
    message = rf"layer x \(conv\) has 3 channels and 4 filters, which {groups} groups"
    with pytest.raises(GraphError, match=message):
        made_of("conv", (8, 8, 3), filters, 3, groups=groups)


def test_add_and_concat_want_inputs_that_fit():
    made = Graph("test", (8, 8, 3))
    made.conv("same", "input", filters=3, kernel=3, padding=1)
    made.conv("deeper", "input", filters=5, kernel=3, padding=1)
    made.conv("smaller", "input", filters=3, kernel=3)
    made.flatten("flat", "input")
    made.add("sum", "input", "same", "same")
    assert made.shape("sum") == (8, 8, 3)
    made.concat("both", "input", "deeper", "same")
    assert made.shape("both") == (8, 8, 11)
    for wrong in (("input", "deeper"), ("input", "smaller"), ("input", "flat"), ("input",)):
        with pytest.raises(GraphError, match=r"layer wrong \(add\) has inputs of shapes"):
            made.add("wrong", *wrong)
    for wrong in (("input", "smaller"), ("input",)):
        with pytest.raises(GraphError, match=r"layer wrong \(concat\) has inputs of shapes"):
            made.concat("wrong", *wrong)
    with pytest.raises(GraphError, match=r"layer wrong \(concat\) wants an image"):
        made.concat("wrong", "input", "flat")
    made.dense("mixed", "flat", units=192)
    with pytest.raises(GraphError, match=r"layer wrong \(add\) .* flattened differently"):
        made.add("wrong", "flat", "mixed")


def test_dropout_keeps_the_shape_and_wants_a_rate_below_one():
    assert made_of("dropout", (8, 8, 3), rate=0.5).shape == (8, 8, 3)
    assert made_of("dropout", (8, 8, 3), rate=0.0).settings["rate"] == 0
    for rate in (-0.1, 1.0):
        with pytest.raises(GraphError, match=rf"layer x \(dropout\) has the rate {rate}"):
            made_of("dropout", (8, 8, 3), rate=rate)


def test_batch_norm_has_two_trainable_arrays_and_two_running_ones():
    made = Graph("test", (8, 8, 3))
    made.batch_norm("bn", "input", epsilon=1e-3, momentum=0.99)
    assert made.layers[-1].shape == (8, 8, 3)
    settings = made.layers[-1].settings
    assert (settings["epsilon"], settings["momentum"]) == (1e-3, 0.99)
    assert [(p.name, p.shape, p.init, p.trainable) for p in made.parameters] == [
        ("bn.scale", (3,), "ones", True),
        ("bn.offset", (3,), "zeros", True),
        ("bn.mean", (3,), "zeros", False),
        ("bn.variance", (3,), "ones", False),
    ]
    assert made.parameter_count == 6 and made.macs == 0
    made.flatten("flat", "input")
    with pytest.raises(GraphError, match=r"layer b \(batch_norm\) wants an image"):
        made.batch_norm("b", "flat")


def test_pooling_over_the_image_and_response_normalisation():
    assert made_of("global_avg_pool", (8, 9, 3)).shape == (3,)
    layer = made_of("lrn", (8, 9, 3), size=5, alpha=1e-4, beta=0.75, k=2)
    assert layer.shape == (8, 9, 3)
    assert [layer.settings[name] for name in ("size", "alpha", "beta", "k")] == [5, 1e-4, 0.75, 2]


def test_arrays_have_the_freezing_and_the_penalties_of_their_layers():
    graph = Graph("n", (4, 4, 3))
    with graph.frozen():
        x = graph.conv("c", "input", 2, 3)
    x = graph.dense("d", graph.flatten("f", x), 4, l1=0.25, l2=0.5)
    found = {p.name: p for p in graph.network().parameters}
    assert [name for name, p in found.items() if not p.trainable] == ["c.weight", "c.bias"]
    assert (found["d.weight"].l1, found["d.weight"].l2) == (0.25, 0.5)
    assert (found["d.bias"].l1, found["d.bias"].l2) == (0, 0)
    with pytest.raises(GraphError, match=r"layer e \(dense\) has a penalty below 0"):
        graph.dense("e", x, 2, l2=-1.0)
    frozen = pytest.raises(GraphError, match=r"layer b \(batch_norm\) cannot be frozen")
    with frozen, graph.frozen():
        graph.batch_norm("b", "c")


def test_training_needs_only_the_gradients_of_what_is_trained():
    graph = Graph("test", (8, 8, 3))
    with graph.frozen():
        x = graph.conv("c1", "input", filters=4, kernel=1, bias=False)
    x = graph.relu("r1", graph.conv("c2", x, filters=5, kernel=1, bias=False))
    with graph.frozen():
        x = graph.conv("c3", x, filters=6, kernel=1, bias=False)
    x = graph.dense("d1", graph.global_avg_pool("g1", x), 10)
    forward = [64 * 3 * 4, 64 * 4 * 5, 64 * 5 * 6, 60]
    assert graph.macs == sum(forward)
    assert graph.training_macs == sum(a * b for a, b in zip(forward, (1, 2, 2, 3), strict=True))
    made = networks.build("vo2021-a", (32, 32, 3), 10)
    assert made.macs < made.training_macs < 1.5 * made.macs  # most of it is frozen


def test_layers_of_sequences():
    made = Graph("test", (7, 1, 1))
    x = made.position("p", made.embedding("e", "input", width=6))
    x = made.layer_norm("n", x, epsilon=1e-3)
    assert made.shape(x) == (7, 6)
    assert made.shape(made.attention("a", made.dense("q", x, 18), heads=3)) == (7, 6)
    assert made.shape(made.lstm("s", x, units=5, sequence=True)) == (7, 5)
    assert made.shape(made.lstm("l", x, units=5)) == (5,)
    assert made.shape(made.mean_over_steps("m", x)) == (6,)
    told = {p.name: p for p in made.parameters}
    assert told["e.weight"].shape == (256, 6) and told["p.weight"].shape == (7, 6)
    assert [(told[f"l.{kind}"].shape) for kind in ("weight", "recurrent", "bias")] == [
        (20, 6), (20, 5), (20,),
    ]  # fmt: skip
    assert [told[f"n.{kind}"].init for kind in ("scale", "offset")] == ["ones", "zeros"]
    assert made.network().vocabulary == 256
    assert networks.build("lenet5", (28, 28, 1), 10).network().vocabulary is None
    with made.frozen():
        made.lstm("still", x, units=5)
    assert [p.trainable for p in made.parameters if p.name.startswith("still.")] == [False] * 3


def test_layers_of_patches():
    made = Graph("test", (8, 12, 3))
    x = made.layer_norm("n", made.conv("c", "input", 6, kernel=4, stride=4))
    x = made.layer_scale("l", made.gelu("g", x))
    assert made.shape(x) == (2, 3, 6)
    x = made.class_token("t", made.to_sequence("s", x))
    assert made.shape(x) == (7, 6)
    assert made.shape(made.layer_norm("v", made.step("last", x, 6))) == (6,)
    assert made.layers[-2].settings == {"index": 6}
    told = {p.name: (p.shape, p.init) for p in made.parameters}
    assert told["t.weight"] == ((6,), "zeros") and told["l.scale"] == ((6,), "ones")
    assert told["n.scale"] == told["v.scale"] == ((6,), "ones")
    assert made.macs == 6 * 6 * 48  # of the convolution


def test_squeeze_and_excitation_keeps_the_image():
    made = Graph("test", (8, 9, 3))
    gate = made.dense("excite", made.silu("s", made.global_avg_pool("p", "input")), 3)
    assert made.shape(made.multiply("m", "input", made.sigmoid("g", gate))) == (8, 9, 3)
    assert made.shape(made.relu6("r", "m")) == (8, 9, 3)
    assert made.layer("m").inputs == ("input", "g")


def test_what_is_between_a_flattened_image_and_a_dense_layer_keeps_its_order():
    made = Graph("test", (4, 5, 3))
    x = made.flatten("f", "input")
    for op in ("relu6", "sigmoid", "silu", "gelu"):
        x = getattr(made, op)(op, x)
    made.dense("d", x, 2)
    assert made.layers[-1].settings["image"] == [4, 5, 3]


FLAT = [("flatten", ("f", "input"))]
SEQUENCE = [("to_sequence", ("s", "input"))]


@pytest.mark.parametrize(
    "shape, calls, message",
    [
        ((8, 8, 3), [*FLAT, ("layer_norm", ("n", "f"))], r"layer n \(layer_norm\) wants no flat"),
        ((8, 8, 3), [("class_token", ("t", "input"))], r"layer t \(class_token\) wants a seq"),
        ((8, 8, 3), [*FLAT, ("to_sequence", ("s", "f"))], r"layer s \(to_sequence\) wants an im"),
        ((8, 8, 3), [*SEQUENCE, ("step", ("p", "s", 64))], r"layer p \(step\) wants step 64 of 64"),
        ((8, 8, 3), [*SEQUENCE, ("step", ("p", "s", -1))], r"layer p \(step\) wants step -1 of 64"),
        ((8, 8, 3), [*SEQUENCE, ("layer_scale", ("l", "s"))], r"layer l \(layer_scale\) wants an"),
        (
            (8, 8, 3),
            [*FLAT, ("multiply", ("m", "input", "f"))],
            r"layer m \(multiply\) wants a number for each channel of input, \(8, 8, 3\); f gives",
        ),
        (
            (1, 1, 3),
            [*FLAT, ("multiply", ("m", "input", "f"))],
            r"layer m \(multiply\) wants a number for each channel; f has pixels",
        ),
        ((8, 8, 3), [("embedding", ("e", "input", 4))], r"layer e \(embedding\) wants tokens"),
        (
            (8, 1, 1),
            [("embedding", ("e", "input", 4)), ("embedding", ("f", "e", 4))],
            r"layer f \(embedding\) wants tokens, \(steps, 1, 1\), e gives \(8, 4\)",
        ),
        ((8, 8, 3), [("lstm", ("l", "input", 4))], r"layer l \(lstm\) wants a sequence"),
        ((8, 8, 3), [("position", ("p", "input"))], r"layer p \(position\) wants a sequence"),
        (
            (8, 1, 1),
            [("embedding", ("e", "input", 12)), ("attention", ("a", "e", 3))],
            r"layer a \(attention\) has 12 features, which are no queries, keys and values for 3",
        ),
    ],
)
def test_sequences_that_do_not_fit_are_refused(shape, calls, message):
    made = Graph("test", shape)
    with pytest.raises(GraphError, match=message):
        for name, arguments in calls:
            getattr(made, name)(*arguments)
