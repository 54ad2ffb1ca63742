"""What reports say of this framework: names, and versions that tests have trained with, the oldest
first and the newest last. No run depends on it."""

NAME = "ONNX Runtime"
MODES = {"tensorrt": "TensorRT"}
TESTED = ("1.31.1",)
