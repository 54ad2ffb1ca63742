"""The graph of a network in the operations of the framework."""

from typing import Any, List, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from touchstone.schema.spec import Layer, Network
from touchstone.schema.types import Arrays

OPSET, IR = 17, 8
"""Versions of the operators and of the format, which every release since 2022 reads."""
ACTIVATIONS = ("relu", "relu6", "sigmoid", "tanh", "silu", "gelu", "gelu_tanh")
OF_CHANNELS = ("multiply", "layer_scale", "layer_norm")
OF_SEQUENCES = ("lstm", "mean_over_steps", "step", "all_but_last")
"""Layers of sequences whose output may be none."""
GATES = (0, 3, 1, 2)
"""Where ONNX's order of an LSTM's gates, i, o, f, g, finds ours: i, f, g, o."""


def exported(network: Network, weights: Arrays, batch_size: int) -> Any:
    """The graph as an ONNX model of `input`, images (batch size, channels, height, width).

    Raises NotImplementedError for a layer that the exporter does not know.
    """
    height, width, channels = network.input
    nodes, values = [], {"input": "input"}
    for layer in network.layers:
        inputs = [values[source] for source in layer["inputs"]]
        if layer["op"] in ("dropout", "stochastic_depth"):
            values[layer["name"]] = inputs[0]
            continue
        if layer["op"] in ACTIVATIONS:
            nodes += _activation_nodes(layer, inputs[0])
        elif layer["op"] in OF_CHANNELS:
            nodes += _channel_nodes(layer, inputs, weights)
        elif len(layer["shape"]) == 2 or layer["op"] in OF_SEQUENCES:
            nodes += _sequence_nodes(layer, inputs, weights, batch_size)
        else:
            nodes += _nodes(layer, inputs, weights)
        values[layer["name"]] = layer["name"]
    read = {name for node in nodes for name in node.input}
    arrays = [numpy_helper.from_array(weights[name], name) for name in weights if name in read]
    graph = helper.make_graph(
        nodes, network.name, [value_info("input", (batch_size, channels, height, width))],
        [value_info(values[network.output], None)], arrays,
    )  # fmt: skip
    return model_of(graph)


def model_of(graph: Any) -> Any:
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=IR)


def value_info(name: str, shape: Any) -> Any:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)


def _nodes(layer: Layer, inputs: Any, weights: Arrays) -> Any:
    """The ONNX nodes of one layer, of which the last gives the layer's output by its name."""
    name, op = layer["name"], layer["op"]

    def node(kind: str, given: Any = inputs, output: Any = name, **settings: Any) -> Any:
        return helper.make_node(kind, given, [output], name=output, **settings)

    def own(*kinds: Any) -> Any:
        names = [name + "." + kind for kind in kinds]
        return inputs + [key for key in names if key in weights]

    if op == "conv":
        settings = dict(_window(layer, layer["kernel"]), dilations=[layer["dilation"]] * 2)
        return [node("Conv", own("weight", "bias"), group=layer["groups"], **settings)]
    if op == "up_conv":
        size = [layer["scale"]] * 2
        given = own("weight", "bias")
        return [node("ConvTranspose", given, kernel_shape=size, strides=size)]
    if op == "dense":
        return [node("Gemm", own("weight", "bias"), transB=1)]
    if op == "batch_norm":
        given = own("scale", "offset", "mean", "variance")
        return [node("BatchNormalization", given, epsilon=float(layer["epsilon"]))]
    if op in ("max_pool", "avg_pool"):
        settings = _window(layer, [layer["size"]] * 2)
        if max(layer["padding"]) >= layer["size"]:
            raise NotImplementedError("ONNX Runtime pads less than a window of pooling is large")
        if op == "max_pool":
            return [node("MaxPool", **settings)]
        return [node("AveragePool", count_include_pad=0, **settings)]
    if op == "global_avg_pool":
        means = name + "_means"
        return [node("GlobalAveragePool", output=means), node("Flatten", [means], axis=1)]
    if op == "lrn":
        # The type tells attributes apart: these are floating-point ones.
        alpha, beta, k = (float(layer[key]) for key in ("alpha", "beta", "k"))
        return [node("LRN", size=layer["size"], alpha=alpha, beta=beta, bias=k)]
    simple = {
        "flatten": ("Flatten", {"axis": 1}),
        "add": ("Sum", {}),
        "concat": ("Concat", {"axis": 1}),
    }
    if op not in simple:
        raise NotImplementedError("ONNX Runtime's exporter has no layer " + op)
    kind, settings = simple[op]
    return [node(kind, **settings)]


def _maker(name: str) -> Any:
    """An empty list for the nodes of a layer, and what puts a node and a constant into it; each
    returns the name of its output."""
    nodes: List[Any] = []

    def put(kind: str, given: Any, part: str = "", **settings: Any) -> Any:
        nodes.append(helper.make_node(kind, given, [name + part], name=name + part, **settings))
        return name + part

    def constant(part: Any, array: Any) -> Any:
        return put("Constant", [], part, value=numpy_helper.from_array(np.asarray(array)))

    return nodes, put, constant


def _activation_nodes(layer: Layer, x: Any) -> Any:
    """The ONNX nodes of a function of single numbers, as `_nodes`."""
    op = layer["op"]
    nodes, put, constant = _maker(layer["name"])
    if op == "relu6":
        ends = [constant(f"/{end}", np.float32(end)) for end in (0, 6)]
        put("Clip", [x, *ends])
    elif op == "silu":
        put("Mul", [x, put("Sigmoid", [x], "/gate")])
    elif op == "gelu":
        # In the order in which the session finds one operation.
        root, unit, half = (constant(f"/{n}", np.float32(n)) for n in (2**0.5, 1, 0.5))
        error = put("Erf", [put("Div", [x, root], "/scaled")], "/error")
        put("Mul", [put("Mul", [x, put("Add", [error, unit], "/share")], "/twice"), half])
    elif op == "gelu_tanh":
        factor, root, unit, half = (
            constant(f"/constant{i}", np.float32(n))
            for i, n in enumerate((0.044715, (2 / np.pi) ** 0.5, 1, 0.5))
        )
        cube = put("Mul", [put("Mul", [x, x], "/square"), x], "/cube")
        inner = put("Add", [x, put("Mul", [cube, factor], "/part")], "/inner")
        share = put("Tanh", [put("Mul", [inner, root], "/scaled")], "/share")
        put("Mul", [put("Mul", [x, put("Add", [share, unit], "/more")], "/twice"), half])
    else:
        put({"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}[op], [x])
    return nodes


def _channel_nodes(layer: Layer, inputs: Any, weights: Arrays) -> Any:
    """The ONNX nodes of a layer that treats each channel in its own way, as `_nodes`."""
    name, op, x = layer["name"], layer["op"], inputs[0]
    nodes, put, constant = _maker(name)
    if op == "multiply":
        axes = constant("/axes", [2, 3])
        put("Mul", [x, put("Unsqueeze", [inputs[1], axes], "/factors")])
    elif op == "layer_scale":
        put("Mul", [x, constant("/factors", weights[name + ".scale"][:, None, None])])
    else:
        image = len(layer["shape"]) == 3
        if image:
            x = put("Transpose", [x], "/pixels", perm=[0, 2, 3, 1])
        arrays = [name + ".scale", name + ".offset"]
        settings = dict(axis=-1, epsilon=float(layer["epsilon"]))
        x = put("LayerNormalization", [x, *arrays], "/normal" if image else "", **settings)
        if image:
            put("Transpose", [x], perm=[0, 3, 1, 2])
    return nodes


def _sequence_nodes(layer: Layer, inputs: Any, weights: Arrays, batch_size: int) -> Any:
    """The ONNX nodes of a layer of sequences, (batch, steps, features), as `_nodes`."""
    name, op, x = layer["name"], layer["op"], inputs[0]
    nodes, put, constant = _maker(name)

    def own(kind: str) -> Any:
        return name + "." + kind

    if op == "embedding":
        flat = put("Reshape", [x, constant("/shape", [batch_size, -1])], "/flat")
        tokens = put("Cast", [flat], "/tokens", to=onnx.TensorProto.INT64)
        put("Gather", [own("weight"), tokens])
    elif op == "position":
        put("Add", [x, own("weight")])
    elif op == "all_but_last":
        ends = [constant("/%s" % part, [n]) for part, n in (("0", 0), ("end", -1), ("axis", 2))]
        put("Slice", [x, *ends])
    elif op == "unembedding":
        columns = put("Transpose", [layer["embedding"] + ".weight"], "/columns", perm=[1, 0])
        put("MatMul", [x, columns])
    elif op == "to_sequence":
        features, steps = layer["shape"][::-1]
        shape = constant("/shape", [batch_size, features, steps])
        put("Transpose", [put("Reshape", [x, shape], "/flat")], perm=[0, 2, 1])
    elif op == "class_token":
        shape = constant("/shape", [batch_size, 1, layer["shape"][1]])
        put("Concat", [put("Expand", [own("weight"), shape], "/token"), x], axis=1)
    elif op == "step":
        put("Gather", [x, constant("/index", np.int64(layer["index"]))], axis=1)
    elif op == "dense":
        columns = put("Transpose", [own("weight")], "/columns", perm=[1, 0])
        product = put("MatMul", [x, columns], "/product" if layer["bias"] else "")
        if layer["bias"]:
            put("Add", [product, own("bias")])
    elif op == "attention":
        steps, features = layer["shape"]
        width = features // layer["heads"]
        shape = constant("/shape", [batch_size, steps, 3, layer["heads"], width])
        heads = put("Reshape", [x, shape], "/heads")
        heads = put("Transpose", [heads], "/three", perm=[2, 0, 3, 1, 4])
        query, key, value = (
            put("Gather", [heads, constant("/%d" % i, np.int64(i))], "/third%d" % i, axis=0)
            for i in range(3)
        )
        query = put("Mul", [query, constant("/scale", np.float32(width**-0.5))], "/scaled")
        key = put("Transpose", [key], "/key", perm=[0, 1, 3, 2])
        products = put("MatMul", [query, key], "/products")
        if layer.get("causal"):
            later = np.where(np.tri(steps, dtype=bool), np.float32(0), np.float32(-1e30))
            products = put("Add", [products, constant("/later", later)], "/earlier")
        shares = put("Softmax", [products], "/shares", axis=-1)
        output = put("MatMul", [shares, value], "/found")
        output = put("Transpose", [output], "/together", perm=[0, 2, 1, 3])
        put("Reshape", [output, constant("/out", [batch_size, steps, features])])
    elif op == "lstm":
        arrays = [
            weights[own(kind)].reshape((4, -1) + weights[own(kind)].shape[1:])[list(GATES)]
            for kind in ("weight", "recurrent", "bias")
        ]
        w, u, b = (array.reshape((1, -1) + array.shape[2:]) for array in arrays)
        b = np.concatenate([b, np.zeros_like(b)], 1)
        given = [put("Transpose", [x], "/steps", perm=[1, 0, 2])]
        given += [constant("/" + part, array) for part, array in zip("wub", (w, u, b))]
        outputs = [name + "/states", name + "/last"]
        nodes.append(helper.make_node("LSTM", given, outputs, hidden_size=layer["units"]))
        axis = constant("/axis", [1 if layer["sequence"] else 0])
        if layer["sequence"]:
            states = put("Squeeze", [outputs[0], axis], "/squeezed")
            put("Transpose", [states], perm=[1, 0, 2])
        else:
            put("Squeeze", [outputs[1], axis])
    elif op == "mean_over_steps":
        put("ReduceMean", [x], axes=[1], keepdims=0)
    elif op == "add":
        put("Sum", inputs)
    else:
        raise NotImplementedError("ONNX Runtime's exporter has no layer " + op)
    return nodes


def _window(layer: Layer, size: Sequence[int]) -> Any:
    """How the window of a convolution or pooling layer goes over its images."""
    top, bottom, left, right = layer["padding"]
    pads = [top, left, bottom, right]
    return {"kernel_shape": size, "strides": [layer["stride"]] * 2, "pads": pads}
