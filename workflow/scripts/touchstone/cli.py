"""The command line: `touchstone COMMAND ...`, one file of `commands/` each."""

import argparse
import importlib
import sys
from pathlib import Path

from touchstone import __version__
from touchstone.driver import end_with_it
from touchstone.errors import TouchstoneError, UsageError, explained
from touchstone.signals import interruptible


def names() -> list[str]:
    """The commands, in order."""
    files = (Path(__file__).parent / "commands").glob("[a-z]*.py")
    return sorted(path.stem.replace("_", "-") for path in files)


def main(arguments: list[str] | None = None) -> None:
    """Run the command that the first argument names; only its module is imported.

    Exits with 0, with 1 and one line where the command cannot do what it is asked for, with 2
    where its arguments are wrong, or with the command's own status.
    """
    given = sys.argv[1:] if arguments is None else arguments
    commands = names()
    parser = argparse.ArgumentParser(prog="touchstone", description=__doc__)
    parser.add_argument("--version", action="version", version=f"touchstone {__version__}")
    parser.add_argument("command", choices=commands, metavar="COMMAND", help=", ".join(commands))
    name = parser.parse_args(given[:1]).command
    try:
        module = importlib.import_module("touchstone.commands." + name.replace("-", "_"))
    except ModuleNotFoundError as fault:
        if (fault.name or "").startswith(__package__):
            raise
        sys.exit(
            f"error: {sys.executable} lacks the module {fault.name}; install it there, or use"
            " .venv/bin/python, which `make` installs"
        )
    parser = argparse.ArgumentParser(
        prog=f"touchstone {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    end_with_it()
    try:
        with interruptible():
            status = module.run(parser.parse_args(given[1:]))
        sys.exit(status)
    except UsageError as fault:
        parser.error(str(fault))
    except TouchstoneError as fault:
        sys.exit(f"error: {fault}")
    except OSError as fault:
        sys.exit(f"error: {explained(fault)}")
