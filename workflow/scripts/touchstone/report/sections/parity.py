"""The proof that the frameworks compute the same."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from touchstone.analysis.findings_model import EqualComputation, Findings
from touchstone.plan.names import framework_name
from touchstone.report.rows import first_rows
from touchstone.report.table import Column, Table, TableCell, below
from touchstone.report.text import dot
from touchstone.results.tables import PARITY_NOT_SHOWN

COLUMN_KINDS = ("forward", "gradients")
"""The kinds of deviation that the table of proof shows in columns, next to the closest one."""


def view(findings: Findings) -> dict[str, Any]:
    """The table of proof, and the deviations that are known."""
    return {
        "proofs": _proofs(findings.equal_computation),
        "has_certificates": bool(proof_columns(findings.equal_computation)),
        "deviations": first_rows(findings.known_deviations),
        "parity_flag": PARITY_NOT_SHOWN,
    }


def _proofs(proofs: Sequence[EqualComputation]) -> Table:
    """What the certificates say of each network in each framework."""
    deviations = [_deviation_column(*kind_and_case) for kind_and_case in proof_columns(proofs)]
    if deviations:
        deviations.append(Column("Closest to its tolerance", _closest))
    columns = (
        Column("Network", lambda proof: proof.network),
        Column("Framework", _framework, css="text"),
        Column("Verdict", _verdict, css="text"),
        *deviations,
        Column("Why", lambda proof: proof.why or None, css="wrap"),
    )
    return Table("Proof of equal computation", columns, proofs, what="pairs", whole="parity/")


def _framework(proof: EqualComputation) -> Markup:
    return Markup("{} {}").format(dot(proof.framework), framework_name(proof.framework))


def _verdict(proof: EqualComputation) -> TableCell:
    css = "text differs" if proof.verdict in ("differs", "not shown") else None
    if proof.verdict == "equal" and proof.reference:
        return TableCell(f"equal to {framework_name(proof.reference)}")
    return TableCell(proof.verdict, css)


def _deviation_column(kind: str, case: str) -> Column:
    """The largest deviation of a kind in a case, with its tolerance."""

    def text(proof: EqualComputation) -> str | None:
        shown = [
            f"{deviation.value:.1e}" + below(f"of {deviation.tolerance:.0e}")
            for deviation in proof.deviations
            if (deviation.kind, deviation.case) == (kind, case)
        ]
        return Markup("").join(shown) if shown else None

    return Column(f"{kind.capitalize()}, {case}", text, "largest, of tolerance")


def _closest(proof: EqualComputation) -> str | None:
    """The deviation that uses most of its tolerance."""
    if proof.closest is None:
        return None
    closest = proof.closest
    used = below(f"{closest.value:.1e} of {closest.tolerance:.0e}")
    return f"{closest.kind}, {closest.case}" + used


def proof_columns(proofs: Sequence[EqualComputation]) -> list[tuple[str, str]]:
    """Kind and case of the deviations that the table of proof has a column for."""
    kinds = {
        (deviation.kind, deviation.case)
        for proof in proofs
        for deviation in proof.deviations
        if deviation.kind in COLUMN_KINDS
    }
    return sorted(kinds)
