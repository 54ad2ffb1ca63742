"""Intervals and ratios."""
