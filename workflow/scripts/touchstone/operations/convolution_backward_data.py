"""The gradient of a two-dimensional convolution by its images."""

from touchstone.operations._convolution import Convolution


class Operation(Convolution):
    wanted = "x"
