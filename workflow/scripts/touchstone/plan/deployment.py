"""The environment variables that jobs get.

None of it enters a rule's code or params: neither a switch between conda and virtual
environments nor a move of the folder repeats a run.
"""

import os
import sys
from pathlib import Path

from touchstone.schema import variables


def set_job_variables(root: Path, conda: bool, mirror: str | None) -> None:
    """Set the variables for every job that this process starts; `root` is the project."""
    os.environ[variables.SCRIPTS] = str(root / "workflow/scripts")
    os.environ[variables.PYTHON] = sys.executable
    os.environ[variables.DEPLOYMENT] = "conda" if conda else "venv"
    os.environ.setdefault(variables.ENVS, str(root / ".venvs"))
    if mirror:
        os.environ.setdefault(variables.MIRROR, mirror)
    if not conda:
        # The rules of the base environment say `python`; under conda theirs is activated.
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
