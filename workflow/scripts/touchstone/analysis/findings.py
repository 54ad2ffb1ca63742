"""All that a study shows, computed once (docs/contracts.md, `findings.json`)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from touchstone.analysis import peaks as measured_peaks
from touchstone.analysis.answer import answer
from touchstone.analysis.bottleneck import bottlenecks
from touchstone.analysis.cells import UNITS, metrics_without_values, summaries
from touchstone.analysis.comparison import comparisons
from touchstone.analysis.doubts import disturbed_runs, doubts
from touchstone.analysis.effects import curves
from touchstone.analysis.equal_computation import equal_computation, known_deviations
from touchstone.analysis.findings_model import Findings
from touchstone.analysis.largest_batch import largest_batches
from touchstone.analysis.outcomes import failures, flags, outcomes
from touchstone.analysis.precision import gains
from touchstone.analysis.profile import layer_profiles
from touchstone.analysis.scaling import scalings
from touchstone.analysis.setup import setup
from touchstone.analysis.styles import gaps
from touchstone.analysis.trials import choices
from touchstone.datasets.data_report import DataReport
from touchstone.results.certificates import Certificates
from touchstone.results.max_batch import MaxBatch
from touchstone.results.metrics import SPEED_OF
from touchstone.results.study import Study
from touchstone.schema.interleaved import Interleaved
from touchstone.schema.profile import Profile


def compute(
    study: Study,
    certificates: Certificates,
    searches: Sequence[MaxBatch] = (),
    released: Mapping[str, str | None] = MappingProxyType({}),
    interleaved: Sequence[Interleaved] = (),
    profiles: Mapping[str, Profile] = MappingProxyType({}),
    data: Mapping[str, DataReport] = MappingProxyType({}),
) -> Findings:
    """The findings of a gathered study.

    Args:
        certificates: of the study's networks, as far as there are any.
        searches: the searches for the largest batch, as far as there are any.
        released: by framework, the month in which its pinned version was released, `YYYY-MM`.
        interleaved: what was measured in turn.
        profiles: by cell, where the time of its steps goes.
        data: the data reports of its data sets, as far as there are any.
    """
    trained = study.trained
    peaks = measured_peaks.peaks(study.operations)
    cells = summaries(study, peaks, released)
    named = {cell.name: cell for cell in cells}
    compared = [
        comparison
        for workload in SPEED_OF
        for comparison in comparisons(study, workload, certificates, interleaved)
    ]
    in_turn = [comparison.in_turn for comparison in compared]
    networks = Study([*trained.cells, *study.inference.cells])
    if (disturbed := disturbed_runs(study)) and compared:
        hold = all(turns and not turns.disturbed for turns in in_turn)
        disturbed = disturbed.model_copy(update={"ratios_hold": hold})
    return Findings(
        format=2,
        units=UNITS,
        answer=answer(study, compared, named),
        disturbed=disturbed,
        doubts=doubts(study, all(in_turn) and bool(compared)),
        outcomes=outcomes(study),
        flags=flags(study, compared),
        cells=cells,
        metrics_without_values=metrics_without_values(trained),
        comparisons=compared,
        curves=[
            curve
            for workload in SPEED_OF
            for curve in curves(study.compared_as(workload), workload, compared)
        ],
        precision=gains(study),
        styles=gaps(compared, named),
        bottlenecks=bottlenecks(study),
        scaling=scalings(trained),
        peaks=list(peaks.values()),
        choices=choices(study),
        failures=failures(study),
        equal_computation=equal_computation(networks, certificates),
        known_deviations=known_deviations(networks),
        largest_batches=largest_batches(study, searches),
        profiles=layer_profiles(study, profiles),
        setup=setup(study, data),
    )
