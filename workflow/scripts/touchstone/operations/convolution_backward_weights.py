"""The gradient of a two-dimensional convolution by its filters."""

from touchstone.operations._convolution import Convolution


class Operation(Convolution):
    wanted = "w"
