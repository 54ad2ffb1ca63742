"""JAX as the backend of Keras: the same code as on TensorFlow."""

from typing import Any, Dict, Tuple

import jax
import jax.numpy as jnp
import keras
import numpy as np

from touchstone.runner.adapters.jax import adapter
from touchstone.runner.adapters.jax.network import pool_threads
from touchstone.runner.adapters.keras.training import KerasTraining
from touchstone.schema.events import Software
from touchstone.schema.types import Array


class Adapter(KerasTraining, adapter.Adapter):
    barriers = False
    why_no_fp64 = "on JAX, Keras takes means in single precision"

    def differs(self, device: str) -> Tuple[str, ...]:
        return super().differs(device) if device == "gpu" else ()

    def _cut(self, images: Array, draws: Array) -> Any:
        return np.array(self._augmented(jnp.asarray(images), draws))

    def synchronize(self) -> None:
        jax.block_until_ready([variable.value for variable in self.model.variables])

    def settings(self) -> Dict[str, Any]:
        arrays = [variable.value for variable in self.model.trainable_variables]
        platforms = {device.platform for array in arrays for device in array.devices()}
        precision = self.precision()
        allowed = jax.config.jax_default_matmul_precision == "tensorfloat32"
        return {
            **self.keras_settings(),
            "threads": pool_threads(self.started),
            "precision": "tf32" if precision == "fp32" and allowed else precision,
            "device": platforms.pop() if len(platforms) == 1 else str(platforms),
        }

    def software(self) -> Software:
        software = super().software()
        return software._replace(others={**software.others, "keras": keras.__version__})
