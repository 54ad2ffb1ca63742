"""The names of this framework and its modes in reports; no run depends on them."""

NAME = "CNTK"
MODES = {"mkl_avx2": "MKL AVX2"}
