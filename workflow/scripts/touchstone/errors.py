"""Faults that end a command in one line."""


class TouchstoneError(Exception):
    """What a user can mend: the message names the file or key, the cause and the remedy."""


class UsageError(TouchstoneError):
    """Arguments of a command that do not go together."""
