"""The forward pass of a vanilla recurrent layer (tanh) over a sequence."""

from touchstone.operations._recurrent import Recurrent


class Operation(Recurrent):
    kind = "rnn"
