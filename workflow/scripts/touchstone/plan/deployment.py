"""What jobs are told through their environment variables.

None of it enters a rule's code or params: neither a switch between conda and virtual
environments nor a move of the folder makes a run again.
"""

import os
import sys
from pathlib import Path


def tell_jobs(root: Path, conda: bool, mirror: str | None) -> None:
    """Set the variables for every job that this process starts; `root` is the project."""
    os.environ["TOUCHSTONE_SCRIPTS"] = str(root / "workflow/scripts")
    os.environ["TOUCHSTONE_PYTHON"] = sys.executable
    os.environ["TOUCHSTONE_DEPLOYMENT"] = "conda" if conda else "venv"
    os.environ.setdefault("TOUCHSTONE_ENVS", str(root / ".venvs"))
    if mirror:
        os.environ.setdefault("TOUCHSTONE_MIRROR", mirror)
    if not conda:
        # The rules of the base environment say `python`; under conda theirs is activated.
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
