"""What reports say of this framework: names, and versions that tests have trained with, the oldest
first and the newest last. No run depends on it."""

NAME = "PyTorch"
MODES = {
    "keras": "Keras",
    "eager_channels_last": "eager, channels last",
    "compile_graphs": "compile, CUDA graphs",
}
TESTED = ("2.6.0", "2.13.0", "2.14.1")
