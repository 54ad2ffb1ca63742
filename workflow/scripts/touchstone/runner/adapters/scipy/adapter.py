"""NumPy and SciPy: basic operations on the CPU, which vo2021 has in them. They train nothing."""

from typing import Optional, Tuple

import numpy as np
import scipy
import scipy.sparse

from touchstone.runner.adapters import base
from touchstone.runner.adapters.scipy.capabilities import CAPABILITIES
from touchstone.runner.job import Job
from touchstone.schema.events import Software
from touchstone.schema.types import Array

DTYPES = {"fp32": np.float32, "fp64": np.float64}


class Adapter(base.Adapter):
    """Threads are those of OpenBLAS, set from outside."""

    capabilities = CAPABILITIES

    def __init__(self, job: Job, threads: int) -> None:
        execution = job.execution
        if job.kind != "operation":
            raise NotImplementedError("NumPy and SciPy have basic operations only here")
        if execution.device == "gpu":
            raise NotImplementedError("NumPy and SciPy compute on CPUs")
        if execution.precision not in DTYPES:
            message = "NumPy and SciPy have no arithmetic in {}"
            raise NotImplementedError(message.format(execution.precision))
        self.dtype = DTYPES[execution.precision]

    def matrix_products(self, a: Array, b: Array) -> Tuple[Array, Array]:
        """A dense product and a sparse one: there are no convolutions of images."""
        a, b = a.astype(self.dtype), b.astype(self.dtype)
        return a @ b, scipy.sparse.csr_matrix(a) @ b

    def synchronize(self) -> None:
        """Every call returns its results."""

    def software(self) -> Software:
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        version = "{} {}".format(blas["name"], blas["version"])
        return Software("scipy", scipy.__version__, {"blas": version})

    def device_memory_peak(self) -> Optional[float]:
        return None

    def is_out_of_memory(self, error: Exception) -> bool:
        return False  # NumPy raises MemoryError itself
