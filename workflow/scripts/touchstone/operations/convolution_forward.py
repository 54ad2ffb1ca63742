"""A two-dimensional convolution of a batch of images."""

from touchstone.operations._convolution import Convolution


class Operation(Convolution):
    wanted = "y"
