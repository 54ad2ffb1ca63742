"""What reports say of this framework: names, and versions that tests have trained with, the oldest
first and the newest last. No run depends on it."""

NAME = "JAX"
TESTED = ("0.4.36", "0.10.2")
