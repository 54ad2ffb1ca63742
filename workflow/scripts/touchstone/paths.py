"""Where the project's own files are."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ROOT / "workflow/scripts"
CLI = SCRIPTS / "cli.py"
"""Starts a command."""
RUNNER = SCRIPTS / "run_in_framework.py"
"""Starts a run in a framework's environment."""
RECORD_SCHEMA = ROOT / "workflow/schemas/record.schema.json"
