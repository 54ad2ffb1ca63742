"""Start a run, watch it from outside, and say how it ended."""
