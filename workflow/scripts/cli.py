"""Starts a command of Touchstone: cli.py COMMAND ..."""

import gc

from touchstone.signals import silence

silence()  # until the command has begun there is nothing to close

from touchstone.cli import main  # noqa: E402

# A large study is millions of objects, in which Python would search for cycles repeatedly.
gc.set_threshold(100_000, 50, 100)
main()
