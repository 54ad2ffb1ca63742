"""What reports say of this framework: names, and versions that tests have trained with, the oldest
first and the newest last. No run depends on it."""

NAME = "Caffe"
TESTED = ("1.0.0", "1.0.0.20210829")
