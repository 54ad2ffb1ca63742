"""What the adapter of this framework can do."""

from touchstone.schema.capabilities import Capabilities, Plain

CAPABILITIES = Capabilities(
    modes=("eager_channels_last", "eager", "compile"),
    gpu_modes=("compile_graphs",),
    initialisation=("fan_in_uniform", "fan_in_uniform"),
    plain=Plain({"eager": "plain", "compile": "plain", "keras": "plain_keras"}),
    modules={"torch": "torch", "numpy": "numpy"},
    variables={
        "keras": {"KERAS_BACKEND": "torch"},
        # What cannot be one graph as a whole is an error, by which a run is `unsupported`.
        "compile_graphs": {
            "TORCHINDUCTOR_CUDAGRAPH_OR_ERROR": "1",
            "TORCHINDUCTOR_GRAPH_PARTITION": "0",
        },
    },
    optimizers=("sgd", "adam", "rmsprop"),
    record_format="lmdb",
    released="2026-07",
    replicas="processes",
    # Its threads are those of OpenMP (libgomp).
    waits=True,
    differs={
        "gpu": (
            "cuDNN tries its algorithms before the first step (cudnn.benchmark); by itself PyTorch"
            " lets it choose without trying",
        ),
    },
)
