"""Where the project's own files are."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ROOT / "workflow/scripts"
CLI = SCRIPTS / "cli.py"
"""Starts a command."""
RUNNER = SCRIPTS / "run_in_framework.py"
"""Starts a run in a framework's environment."""
RECORD_SCHEMA = ROOT / "workflow/schemas/record.schema.json"


def snakemake() -> str:
    """Snakemake as a command names it here: that of `make`, or the one of an active conda
    environment."""
    own = ".venv/bin/snakemake"
    return own if Path(own).exists() else "snakemake"
