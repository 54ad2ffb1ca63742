"""What the adapter of this framework can do."""

from touchstone.schema.capabilities import Capabilities, Plain

CAPABILITIES = Capabilities(
    # With oneDNN's kernels where TensorFlow uses them by itself; with them on any processor; XLA.
    modes=("function", "function_onednn", "xla"),
    plain=Plain({"keras": "plain_keras"}),
    modules={"tensorflow": "tensorflow", "numpy": "numpy"},
    optimizers=("sgd", "adam", "rmsprop"),
    record_format="tfrecord",
    released="2026-03",
    replicas="devices",
    why_no_nodes="TensorFlow's replicas are devices of one process here (MirroredStrategy);"
    " MultiWorkerMirroredStrategy is not used",
    differs={
        "gpu": (
            "GPU memory grows as it is needed; by itself TensorFlow takes nearly all of it at once",
            "products in fp32 do not round to TF32; by itself TensorFlow lets them",
        ),
    },
    variables={
        "": {"TF_CPP_MIN_LOG_LEVEL": "2"},
        "keras": {"KERAS_BACKEND": "tensorflow"},
        # TensorFlow chooses its kernels when it is imported.
        "function_onednn": {"TF_ENABLE_ONEDNN_OPTS": "1"},
    },
)
