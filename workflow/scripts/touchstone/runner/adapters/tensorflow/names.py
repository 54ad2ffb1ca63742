"""What reports say of this framework: names, and versions that tests have trained with, the oldest
first and the newest last. No run depends on it."""

NAME = "TensorFlow"
MODES = {"keras": "Keras", "function_onednn": "function, oneDNN", "xla": "XLA"}
TESTED = ("2.18.1", "2.21.0")
