"""The forward pass of a GRU layer (gated recurrent unit) over a sequence."""

from touchstone.operations._recurrent import Recurrent


class Operation(Recurrent):
    kind = "gru"
