"""Limits by which both the supervisor and the report judge."""

NOISE_LIMIT = 0.10
"""Largest share of the machine's CPU time that other programs may use beside a run."""
