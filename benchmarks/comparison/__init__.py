"""The parts of `benchmarks/compare.py`."""
