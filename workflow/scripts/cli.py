"""Starts a command of Touchstone: cli.py COMMAND ..."""

import gc

from touchstone.cli import main

# A large study is millions of objects, in which Python would search for cycles repeatedly.
gc.set_threshold(100_000, 50, 100)
main()
