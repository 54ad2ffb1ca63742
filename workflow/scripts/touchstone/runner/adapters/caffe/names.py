"""The names of this framework and its modes in reports; no run depends on them."""

NAME = "Caffe"
