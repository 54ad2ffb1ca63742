"""Starts a command of Touchstone: cli.py COMMAND ..."""

from touchstone.cli import main

main()
