"""The environment variables that jobs get.

None of it enters a rule's code or params: neither a switch between conda and virtual
environments nor a move of the folder repeats a run.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from touchstone.schema import variables


def deployment_fault(methods: Iterable[str]) -> str:
    """Why the software of jobs cannot come as Snakemake was asked for; empty where it can.

    Snakemake itself ignores a method for which a rule names nothing.
    """
    without = sorted({*methods} - {"conda"})
    if not without:
        return ""
    return (
        f"--software-deployment-method {' '.join(without)}: no rule of ours has an image or a"
        " module for it; leave it out, or use conda. An image is an environment of the study:"
        " `environments: {NAME: {framework: pytorch, container: IMAGE}}` (docs/environments.md)"
    )


def set_job_variables(root: Path, conda: bool, mirror: str | None) -> None:
    """Set the variables for every job that this process starts; `root` is the project."""
    os.environ[variables.SCRIPTS] = str(root / "workflow/scripts")
    os.environ[variables.PYTHON] = sys.executable
    os.environ[variables.DEPLOYMENT] = "conda" if conda else "venv"
    here = root if os.access(root, os.W_OK) else Path.cwd()
    os.environ.setdefault(variables.ENVS, str(here / ".venvs"))
    if mirror:
        os.environ.setdefault(variables.MIRROR, mirror)
    if not conda:
        # The rules of the base environment say `python`; under conda theirs is activated.
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
