"""What the adapter of this framework can do."""

from touchstone.schema.capabilities import Capabilities, Plain

CAPABILITIES = Capabilities(
    modes=("static", "hybrid", "imperative"),
    initialisation=("uniform_0.07", "zeros"),
    plain=Plain({"hybrid": "plain", "imperative": "plain"}),
    modules={"mxnet": "mxnet", "numpy": "numpy"},
    optimizers=("sgd", "adam", "rmsprop"),
    record_format="recordio",
    released="2022-05",
    newest_gpu=(8, 6),
    replicas="devices",
    why_no_nodes="MXNet exchanges between machines through parameter servers (kvstore dist_sync),"
    " processes that are not started here",
    deviations={
        "batch_norm": "MXNet keeps the momentum and epsilon of batch normalisation in single "
        "precision, whatever the precision of the network",
    },
    # Its threads are those of OpenMP (libgomp).
    waits=True,
    differs={
        "cpu": ("as many threads as cores; by itself MXNet takes half of the logical processors",),
    },
)
