"""What the adapter of this framework can do."""

from touchstone.schema.capabilities import Capabilities, Plain

CAPABILITIES = Capabilities(
    modes=("eager_channels_last", "eager", "compile"),
    initialisation=("fan_in_uniform", "fan_in_uniform"),
    plain=Plain({"eager": "plain", "compile": "plain", "keras": "plain_keras"}),
    modules={"torch": "torch", "numpy": "numpy"},
    variables={"keras": {"KERAS_BACKEND": "torch"}},
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
