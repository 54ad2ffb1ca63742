"""The names of this framework and its modes in reports; no run depends on them."""

NAME = "TensorFlow"
MODES = {"function_onednn": "function, oneDNN", "xla": "XLA"}
