"""PyTorch as the backend of Keras: the same code as on TensorFlow."""

from typing import Any, Dict

import torch

from touchstone.runner.adapters.pytorch import plain
from touchstone.schema.events import Software
from touchstone.schema.types import Array

try:
    import keras

    from touchstone.runner.adapters.keras.training import LAYOUTS, KerasTraining
except ImportError as fault:
    raise NotImplementedError(
        "this environment has no Keras ({}); name envs/pytorch-keras.yaml in the study's "
        "environments (docs/styles.md)".format(fault)
    ) from None


class Adapter(KerasTraining, plain.Adapter):
    why_no_fp64 = "on PyTorch, Keras takes means and products in single precision"

    def extra_settings(self) -> Dict[str, Any]:
        return dict(super().extra_settings(), layout="NHWC")

    def _cut(self, images: Array, draws: Array) -> Any:
        rows = torch.from_numpy(images).permute(0, 3, 1, 2)
        cut = self._augmented(rows.to(self.device), torch.from_numpy(draws).to(self.device).long())
        return cut.permute(0, 2, 3, 1).contiguous()

    def settings(self) -> Dict[str, Any]:
        precision = self.precision()
        allowed = torch.backends.cuda.matmul.allow_tf32
        return {
            **self.keras_settings(),
            "threads": torch.get_num_threads(),
            "inter_op_threads": torch.get_num_interop_threads(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "layout": LAYOUTS[keras.config.image_data_format()],
            "precision": "tf32" if precision == "fp32" and allowed else precision,
            "device": "gpu" if self.model.trainable_variables[0].value.is_cuda else "cpu",
        }

    def software(self) -> Software:
        software = super().software()
        return software._replace(others={**software.others, "keras": keras.__version__})
