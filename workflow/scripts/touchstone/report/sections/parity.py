"""The proof that the frameworks compute the same."""

from collections.abc import Sequence
from typing import Any

from touchstone.analysis.findings_model import EqualComputation, Findings
from touchstone.report.rows import first_rows
from touchstone.results.tables import PARITY_NOT_SHOWN

COLUMN_KINDS = ("forward", "gradients")
"""The kinds of deviation that the table of proof shows in columns, next to the closest one."""


def view(findings: Findings) -> dict[str, Any]:
    """The table of proof, and the deviations that are known."""
    return {
        "proofs": first_rows(findings.equal_computation),
        "proof_columns": proof_columns(findings.equal_computation),
        "deviations": first_rows(findings.known_deviations),
        "parity_flag": PARITY_NOT_SHOWN,
    }


def proof_columns(proofs: Sequence[EqualComputation]) -> list[tuple[str, str]]:
    """Kind and case of the deviations that the table of proof has a column for."""
    found = {
        (one.kind, one.case)
        for proof in proofs
        for one in proof.deviations
        if one.kind in COLUMN_KINDS
    }
    return sorted(found)
