"""TensorFlow as Keras's tutorials write it."""

from typing import Any, Dict

import keras
import tensorflow as tf
from tensorflow.python.framework import config as internal_config
from tensorflow.python.util import _pywrap_util_port as port

from touchstone.runner.adapters.keras.training import LAYOUTS, KerasTraining
from touchstone.runner.adapters.tensorflow import adapter
from touchstone.schema.types import Array


class Adapter(KerasTraining, adapter.Adapter):
    def _cut(self, images: Array, draws: Array) -> Any:
        return self._augmented(tf.constant(images), draws)

    def settings(self) -> Dict[str, Any]:
        threading, precision = tf.config.threading, self.precision()
        allowed = tf.config.experimental.tensor_float_32_execution_enabled()
        return {
            **self.keras_settings(),
            "threads": threading.get_intra_op_parallelism_threads(),
            "inter_op_threads": threading.get_inter_op_parallelism_threads() or "automatic",
            "deterministic": internal_config.is_op_determinism_enabled(),
            "layout": LAYOUTS[keras.config.image_data_format()],
            "precision": "tf32" if precision == "fp32" and allowed else precision,
            "device": "gpu" if "GPU" in self.model.trainable_variables[0].value.device else "cpu",
            "onednn": port.IsMklEnabled(),
        }
