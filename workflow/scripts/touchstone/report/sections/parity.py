"""The proof that the frameworks compute the same."""

from touchstone.report.text import PROVEN
from touchstone.results.certificates import Certificates, Proof, proof
from touchstone.results.study import Study


def proof_rows(study: Study, certificates: Certificates) -> list[Proof]:
    """What is known of equal computation, for every network and framework of the study."""
    pairs = dict.fromkeys((cell.facet[0], cell.series.framework) for cell in study.cells)
    return [proof(certificates, *pair) for pair in pairs]


def proof_columns(proofs: list[Proof]) -> list[tuple[str, str]]:
    """Kind and trace of the deviations that the table of proof has a column for."""
    found = {(d.kind, d.trace) for one in proofs for d in one.deviations if d.kind in PROVEN}
    return sorted(found)


def deviation_rows(study: Study) -> list[tuple[str, str, str]]:
    """Framework, network and sentence of each deviation that a record names."""
    return list(
        dict.fromkeys(
            (cell.series.framework, cell.facet[0], sentence)
            for cell in study.cells
            for run in cell.runs
            for sentence in run.provenance.get("deviations", [])
        )
    )
