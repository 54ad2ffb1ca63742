"""What the adapter of this framework can do."""

from touchstone.schema.capabilities import Capabilities, Plain

CAPABILITIES = Capabilities(
    modes=("jit",),
    # Flax's: JAX has no layers of its own.
    initialisation=("lecun_normal", "zeros"),
    plain=Plain(
        {"nnx": "plain_nnx", "keras": "plain_keras"},
        {"flax": "flax", "optax": "optax", "keras": "keras"},
    ),
    variables={"keras": {"KERAS_BACKEND": "jax"}},
    modules={"jax": "jax", "numpy": "numpy"},
    optimizers=("sgd", "adam", "rmsprop"),
    record_format="lmdb",
    released="2026-06",
    replicas="devices",
    differs={
        "cpu": (
            "XLA keeps the optimisation barriers that the adapter sets"
            " (--xla_disable_hlo_passes=cse_barrier_expander)",
        ),
        "gpu": (
            "GPU memory is taken as it is needed; by itself JAX takes three quarters of it at once",
            "products in fp32 do not round to TF32; by itself JAX lets them",
        ),
    },
)
