"""What reports say of this framework: names, and versions that tests have trained with, the oldest
first and the newest last. No run depends on it."""

NAME = "MXNet"
TESTED = ("1.9.1",)
