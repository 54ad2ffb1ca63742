"""Whether the frameworks of a study compute the same, by their certificates."""

from touchstone.analysis.findings_model import (
    DeviationFromReference,
    EqualComputation,
    KnownDeviation,
)
from touchstone.results.certificates import Certificates, Deviation, proof
from touchstone.results.study import Study


def equal_computation(study: Study, certificates: Certificates) -> list[EqualComputation]:
    """What is known of equal computation, for every network and framework of the study."""
    pairs = dict.fromkeys((cell.facet[0], cell.series.stack) for cell in study.cells)
    return [_summary(certificates, network, framework) for network, framework in pairs]


def _summary(certificates: Certificates, network: str, framework: str) -> EqualComputation:
    result = proof(certificates, network, framework)
    return EqualComputation(
        network=network,
        framework=framework,
        verdict=result.verdict,
        why=result.why or None,
        reference=result.reference or None,
        deviations=[_deviation(deviation) for deviation in result.deviations],
        closest=_deviation(result.closest) if result.closest else None,
    )


def _deviation(deviation: Deviation) -> DeviationFromReference:
    return DeviationFromReference(**deviation._asdict())


def known_deviations(study: Study) -> list[KnownDeviation]:
    """The deviations of frameworks that the records name, each once."""
    deviations = dict.fromkeys(
        (cell.series.stack, cell.facet[0], sentence)
        for cell in study.cells
        for run in cell.runs
        for sentence in run.provenance.get("deviations", [])
    )
    return [
        KnownDeviation(framework=framework, network=network, sentence=sentence)
        for framework, network, sentence in deviations
    ]
