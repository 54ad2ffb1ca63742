"""The gradient of a two-dimensional convolution by its images."""

from operations._convolution import Convolution


class Operation(Convolution):
    wanted = "x"
