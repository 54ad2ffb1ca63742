"""What reports say of this framework: names, and versions that tests have trained with, the oldest
first and the newest last. No run depends on it."""

NAME = "CNTK"
MODES = {"mkl_avx2": "MKL AVX2"}
TESTED = ("2.5.1",)
