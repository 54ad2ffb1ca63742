"""ONNX Runtime: the graph as an ONNX model, which its session optimises. It predicts alone."""

import os

import lmdb
import numpy as np
import onnx
import onnxruntime
import simplejpeg
from onnx import helper, numpy_helper

ONLY = "inference"
MODES = ("optimized", "tensorrt")
"""Its own kernels, for CPUs or in CUDA; or NVIDIA's TensorRT, where that is on the machine."""
WAITS = True
"""A session may be asked whether idle threads spin (`SPINNING`)."""
RECORD_FORMAT = "lmdb"
RELEASED = "2026-10"

OPSET, IR = 17, 8
"""Versions of the operators and of the format, which every release since 2022 reads."""
SPINNING = "session.intra_op.allow_spinning"
"""Whether an idle thread of its pool waits actively, which is its default: the key of a session's
configuration."""
ONE_PROVIDER = "session.disable_cpu_ep_fallback"
"""Whether a layer that the provider does not know is an error, and not computed on the CPU."""
PROVIDERS = {
    ("cpu", "optimized"): "CPUExecutionProvider",
    ("gpu", "optimized"): "CUDAExecutionProvider",
    ("gpu", "tensorrt"): "TensorrtExecutionProvider",
}
GATES = (0, 3, 1, 2)
"""Where ONNX's order of an LSTM's gates, i, o, f, g, finds ours: i, f, g, o."""


class Adapter:
    """See runtime.py. Images are (batch, channels, height, width)."""

    DIFFERS = {
        "gpu": ("nothing rounds to TF32; by itself ONNX Runtime lets it",),
    }

    def __init__(self, spec, threads):
        self.spec, self.threads = spec, threads
        if "inference" not in spec:
            raise NotImplementedError("ONNX Runtime does not train here: it predicts alone")
        if spec["execution"]["precision"] != "fp32":
            raise NotImplementedError("ONNX Runtime has convolutions in single precision alone")
        device, mode = spec["execution"]["device"], spec["execution"]["mode"]
        if (device, mode) not in PROVIDERS:
            raise NotImplementedError("TensorRT computes on NVIDIA's GPUs alone")
        self.provider, self.one_provider = PROVIDERS[device, mode], "0"
        if device == "gpu":
            self.one_provider = "1"
            # TensorRT asks nobody else whether it may round to TF32.
            os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
            onnxruntime.preload_dlls()
        self.spinning = "0" if spec["execution"]["wait_policy"] == "passive" else "1"

    def asked(self):
        return {
            "layout": "NCHW",
            "one_provider": self.one_provider,
            "provider": self.provider,
            "spinning": self.spinning,
        }

    def read(self, stems, shape):
        parts = [_read(stem + ".lmdb", shape, self.spec["data"]["encoding"]) for stem in stems]
        return tuple(map(np.concatenate, zip(*parts)))

    def build(self, weights):
        batch_size = self.spec["factors"]["batch_size"]
        self.session = self._session(exported(self.spec["network"], weights, batch_size))
        self.parameters = self.spec["network"]["parameters"]

    def _session(self, model):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.add_session_config_entry(SPINNING, self.spinning)
        options.add_session_config_entry(ONE_PROVIDER, self.one_provider)
        settings = {"use_tf32": "0"} if self.provider == "CUDAExecutionProvider" else {}
        try:
            return onnxruntime.InferenceSession(
                model.SerializeToString(), options, [(self.provider, settings)],
                enable_fallback=False,
            )  # fmt: skip
        except RuntimeError as fault:
            if "install TensorRT" in str(fault):
                reason = "TensorRT's libraries (libnvinfer) are not on this machine"
                raise NotImplementedError(reason) from fault
            raise

    def prepare(self, images):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))

    def predict(self, batch):
        return self.session.run(None, {"input": batch})[0]

    def fetched(self, handle):
        return handle

    def products(self, a, b):
        a, b = a.astype(np.float32), b.astype(np.float32)
        nodes = [
            helper.make_node("MatMul", ["a", "b"], ["product"]),
            helper.make_node("Conv", ["image", "filter"], ["convolved"]),
        ]
        given = {
            "a": a,
            "b": b,
            "image": a[:, :, None, None],
            "filter": np.ascontiguousarray(b.T)[:, :, None, None],
        }
        inputs = [_value(name, array.shape) for name, array in given.items()]
        outputs = [_value("product", None), _value("convolved", None)]
        graph = helper.make_graph(nodes, "products", inputs, outputs)
        product, convolved = self._session(_model(graph)).run(None, given)
        return product, convolved[:, :, 0, 0]

    def predicting(self):
        options, image = self.session.get_session_options(), self.session.get_inputs()[0]
        level = options.graph_optimization_level
        everything = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        trained = (p["shape"] for p in self.parameters if p["trainable"])
        provider = self.session.get_providers()[0]  # the one that is asked first
        found = {name: kind for kind, name in PROVIDERS.items()}
        device, mode = found.get(provider, (provider, provider))
        return {
            "batch_size": image.shape[0],
            "threads": options.intra_op_num_threads,
            "spinning": options.get_session_config_entry(SPINNING),
            "one_provider": options.get_session_config_entry(ONE_PROVIDER),
            "provider": provider,
            "precision": {"tensor(float)": "fp32"}.get(image.type, image.type),
            "device": device,
            "layout": "NCHW" if image.shape[1:] == self._planes() else str(image.shape),
            "mode": mode if level == everything else str(level),
            "parameters": sum(int(np.prod(shape)) for shape in trained),
        }

    def _planes(self):
        height, width, channels = self.spec["network"]["input"]
        return [channels, height, width]

    def software(self):
        return {
            "framework": "onnxruntime",
            "version": onnxruntime.__version__,
            "onnx": onnx.__version__,
            "opset": OPSET,
        }

    def device_memory_peak(self):
        return None

    def is_out_of_memory(self, error):
        return "bad_alloc" in str(error) or "Failed to allocate memory" in str(error)


def exported(network, weights, batch_size):
    """The graph as an ONNX model of `input`, images (batch size, channels, height, width).

    Raises NotImplementedError for a layer that the exporter does not know.
    """
    height, width, channels = network["input"]
    nodes, values = [], {"input": "input"}
    for layer in network["layers"]:
        inputs = [values[source] for source in layer["inputs"]]
        if layer["op"] == "dropout":
            values[layer["name"]] = inputs[0]
            continue
        if len(layer["shape"]) == 2 or layer["op"] in ("lstm", "mean_over_steps"):
            nodes += _sequence_nodes(layer, inputs, weights, batch_size)
        else:
            nodes += _nodes(layer, inputs, weights)
        values[layer["name"]] = layer["name"]
    read = {name for node in nodes for name in node.input}
    arrays = [numpy_helper.from_array(weights[name], name) for name in weights if name in read]
    graph = helper.make_graph(
        nodes, network["name"], [_value("input", (batch_size, channels, height, width))],
        [_value(values[network["output"]], None)], arrays,
    )  # fmt: skip
    return _model(graph)


def _model(graph):
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=IR)


def _value(name, shape):
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)


def _nodes(layer, inputs, weights):
    """The ONNX nodes of one layer, of which the last gives the layer's output by its name."""
    name, op = layer["name"], layer["op"]

    def node(kind, given=inputs, output=name, **settings):
        return helper.make_node(kind, given, [output], name=output, **settings)

    def own(*kinds):
        names = [name + "." + kind for kind in kinds]
        return inputs + [each for each in names if each in weights]

    if op == "conv":
        settings = dict(_window(layer, layer["kernel"]), dilations=[layer["dilation"]] * 2)
        return [node("Conv", own("weight", "bias"), group=layer["groups"], **settings)]
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
        # By their type the attributes are told apart: these are floating-point ones.
        alpha, beta, k = (float(layer[key]) for key in ("alpha", "beta", "k"))
        return [node("LRN", size=layer["size"], alpha=alpha, beta=beta, bias=k)]
    simple = {
        "relu": ("Relu", {}),
        "flatten": ("Flatten", {"axis": 1}),
        "add": ("Sum", {}),
        "concat": ("Concat", {"axis": 1}),
    }
    if op not in simple:
        raise NotImplementedError("ONNX Runtime's exporter has no layer " + op)
    kind, settings = simple[op]
    return [node(kind, **settings)]


def _sequence_nodes(layer, inputs, weights, batch_size):
    """The ONNX nodes of a layer of sequences, (batch, steps, features), as `_nodes`."""
    name, op, x, nodes = layer["name"], layer["op"], inputs[0], []

    def put(kind, given, part="", **settings):
        nodes.append(helper.make_node(kind, given, [name + part], name=name + part, **settings))
        return name + part

    def constant(part, array):
        return put("Constant", [], part, value=numpy_helper.from_array(np.asarray(array)))

    def own(kind):
        return name + "." + kind

    if op == "embedding":
        flat = put("Reshape", [x, constant("/shape", [batch_size, -1])], "/flat")
        tokens = put("Cast", [flat], "/tokens", to=onnx.TensorProto.INT64)
        put("Gather", [own("weight"), tokens])
    elif op == "position":
        put("Add", [x, own("weight")])
    elif op == "layer_norm":
        given = [x, own("scale"), own("offset")]
        put("LayerNormalization", given, epsilon=float(layer["epsilon"]))
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
        shares = put("Softmax", [put("MatMul", [query, key], "/products")], "/shares", axis=-1)
        found = put("MatMul", [shares, value], "/found")
        found = put("Transpose", [found], "/together", perm=[0, 2, 1, 3])
        put("Reshape", [found, constant("/out", [batch_size, steps, features])])
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
    elif op in ("relu", "add"):
        put({"relu": "Relu", "add": "Sum"}[op], inputs)
    else:
        raise NotImplementedError("ONNX Runtime's exporter has no layer " + op)
    return nodes


def _window(layer, size):
    """How the window of a convolution or pooling layer goes over its images."""
    top, bottom, left, right = layer["padding"]
    pads = [top, left, bottom, right]
    return {"kernel_shape": size, "strides": [layer["stride"]] * 2, "pads": pads}


def _read(path, shape, encoding):
    """Images and labels of an LMDB file in stored order; raises ValueError if it is damaged."""
    images, labels = [], []
    try:
        environment = lmdb.open(path, subdir=False, readonly=True, lock=False)
        whole = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
        if os.path.getsize(path) < whole:  # a look beyond its end would kill the process
            raise ValueError("shorter than its {} bytes".format(whole))
        with environment, environment.begin(buffers=True) as transaction:
            for _, record in transaction.cursor():
                labels.append(int.from_bytes(record[:4], "little"))
                images.append(_pixels(record[4:], shape, encoding))
    except lmdb.Error as fault:
        raise ValueError("{}: {}".format(path, fault)) from None
    except ValueError as fault:
        raise ValueError("{}: record {}: {}".format(path, len(images), fault)) from None
    return np.stack(images), np.array(labels, np.int64)


def _pixels(record, shape, encoding):
    """The image of a record, uint8 of `shape`; of a photo its middle."""
    if encoding == "raw":
        return np.frombuffer(bytes(record), np.uint8).reshape(shape)
    image = simplejpeg.decode_jpeg(record, "GRAY" if shape[2] == 1 else "RGB")
    top, left = ((have - want) // 2 for have, want in zip(image.shape, shape[:2]))
    if min(top, left) < 0:
        raise ValueError("a photo of {} is smaller than {}".format(image.shape, shape))
    return image[top : top + shape[0], left : left + shape[1]]
