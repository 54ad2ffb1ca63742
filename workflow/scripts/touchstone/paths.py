"""Where the project's own files are."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ROOT / "workflow/scripts"
CLI = SCRIPTS / "cli.py"
"""Starts a command."""
RUNNER = SCRIPTS / "run_in_framework.py"
"""Starts a run in a framework's environment."""
RECORD_SCHEMA = ROOT / "workflow/schemas/record.schema.json"


def default_study(root: Path) -> Path:
    """The default study: the working folder's, or if it has none, that of the project in `root`."""
    own = Path("config/config.yaml")
    return own if own.exists() else root / own


def brace_fault(root: Path) -> str:
    """Why the project cannot be used in the folder `root`; empty where it can."""
    if not {"{", "}"} & set(str(root)):
        return ""
    return (
        f"{root}: a brace in the path of this checkout, which Snakemake takes for a wildcard; move"
        " the checkout to a path without braces"
    )


def snakemake() -> str:
    """Snakemake as a command names it here: that of `make`, or the one of an active conda
    environment."""
    own = ".venv/bin/snakemake"
    return own if Path(own).exists() else "snakemake"
