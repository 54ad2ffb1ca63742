"""Starts `touchstone`: in a checkout, and as the module of the package that is built of it."""

import sys
from pathlib import Path


def main() -> None:
    here = Path(__file__).resolve().parent
    scripts = here / "workflow/scripts"
    sys.path.insert(0, str(scripts if scripts.exists() else here))
    from touchstone.signals import silence

    silence()  # until the command has begun there is nothing to close
    from touchstone.entry import main as command

    command()


if __name__ == "__main__":
    main()
