"""What the adapter of this framework can do."""

from touchstone.schema.capabilities import Capabilities

CAPABILITIES = Capabilities(
    # What MKL chooses itself, on AMD's processors its slowest kernels; or its AVX2 kernels.
    modes=("default", "mkl_avx2"),
    modules={"cntk": "cntk", "numpy": "numpy", "PIL": "pillow"},
    optimizers=("sgd", "adam", "rmsprop"),
    record_format="png",
    released="2018-04",
    why_no_replicas="CNTK trains data-parallel over MPI; its environment has a stand-in",
    deviations={
        "records": "CNTK's ImageDeserializer follows no given order of examples, and wants "
        "libraries of Ubuntu 16.04: Pillow decodes its PNG files, and CNTK is given arrays",
    },
    # Its threads are those of OpenMP (Intel's libiomp5).
    waits=True,
    # Adam, written in CNTK's operations, keeps the result of each
    parity_bytes=288,
    # Intel's OpenMP library reads its own variable: else an idle thread spins for 200 ms.
    variables={"passive": {"KMP_BLOCKTIME": "0"}},
)
