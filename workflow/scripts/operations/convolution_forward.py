"""A two-dimensional convolution of a batch of images."""

from operations._convolution import Convolution


class Operation(Convolution):
    wanted = "y"
