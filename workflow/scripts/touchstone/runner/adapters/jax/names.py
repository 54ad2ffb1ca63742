"""What reports say of this framework: names, and versions that tests have trained with, the oldest
first and the newest last. No run depends on it."""

NAME = "JAX"
MODES = {"nnx": "Flax NNX", "keras": "Keras"}
TESTED = ("0.4.36", "0.10.2")
