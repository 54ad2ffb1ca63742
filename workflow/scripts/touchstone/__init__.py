"""Touchstone: benchmark deep-learning frameworks on this machine."""

__version__ = "0.1.0"
