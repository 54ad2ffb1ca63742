"""The forward pass of an LSTM layer (long short-term memory) over a sequence."""

from touchstone.operations._recurrent import Recurrent


class Operation(Recurrent):
    kind = "lstm"
