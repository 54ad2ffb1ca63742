"""Reading and writing `results/findings.json`."""

from pathlib import Path

from pydantic import ValidationError

from touchstone.analysis.findings_model import Findings
from touchstone.results.files import REMAKE, not_of_this_version, read_text, write_atomic


def write_findings(findings: Findings, path: Path) -> None:
    """Write the findings as JSON, all of the file or nothing."""
    write_atomic(path, findings.model_dump_json(indent=1) + "\n")


def read_findings(path: Path) -> Findings:
    """Read findings back.

    Raises:
        InputError: the file is missing, damaged or of another version.
    """
    text = read_text(path, REMAKE)
    try:
        return Findings.model_validate_json(text)
    except ValidationError as error:
        raise not_of_this_version(path, "the findings", error) from None
