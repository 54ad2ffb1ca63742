"""NumPy and SciPy: basic operations on the CPU, which vo2021 has in them. They train nothing."""

import numpy as np
import scipy
import scipy.sparse

ONLY = "operations"
MODES = ("arrays",)
RECORD_FORMAT = "lmdb"

DTYPES = {"fp32": np.float32, "fp64": np.float64}


class Adapter:
    """See runtime.py and operations/_run.py. Threads are those of OpenBLAS, set from outside."""

    def __init__(self, spec, threads):
        execution = spec["execution"]
        if "operation" not in spec:
            raise NotImplementedError("NumPy and SciPy have basic operations alone here")
        if execution["device"] == "gpu":
            raise NotImplementedError("NumPy and SciPy compute on CPUs")
        if execution["precision"] not in DTYPES:
            message = "NumPy and SciPy have no arithmetic in {}"
            raise NotImplementedError(message.format(execution["precision"]))
        self.dtype = DTYPES[execution["precision"]]

    def products(self, a, b):
        """A dense product and a sparse one: there are no convolutions of images."""
        a, b = a.astype(self.dtype), b.astype(self.dtype)
        return a @ b, scipy.sparse.csr_matrix(a) @ b

    def synchronize(self):
        """Every call returns its results."""

    def software(self):
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return {
            "framework": "scipy",
            "version": scipy.__version__,
            "blas": "{} {}".format(blas["name"], blas["version"]),
        }

    def device_memory_peak(self):
        return None

    def is_out_of_memory(self, error):
        return False  # NumPy raises MemoryError itself
