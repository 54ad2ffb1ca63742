"""All that a study shows, computed once (docs/contracts.md, `findings.json`)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from touchstone.analysis import bottleneck, comparison, effects, precision, scaling, styles, trials
from touchstone.analysis import peaks as measured_peaks
from touchstone.analysis.answer import answer
from touchstone.analysis.cells import UNITS, metrics_without_values, summaries
from touchstone.analysis.doubts import disturbed_runs, doubts
from touchstone.analysis.equal_computation import equal_computation, known_deviations
from touchstone.analysis.findings_model import Findings
from touchstone.analysis.largest_batch import largest_batches
from touchstone.analysis.outcomes import failures, flags, outcomes
from touchstone.analysis.part import SPEED_OF, Workload
from touchstone.analysis.profile import layer_profiles
from touchstone.analysis.setup import setup
from touchstone.datasets.data_report import DataReport
from touchstone.results.certificates import Certificates
from touchstone.results.max_batch import MaxBatch
from touchstone.results.study import Study
from touchstone.schema.interleaved import Interleaved
from touchstone.schema.profile import Profile


class Answers(NamedTuple):
    """The answers that have a table of their own (docs/contracts.md), with the study's cells."""

    gains: list[precision.Gain]
    verdicts: list[bottleneck.Verdict]
    trials: list[trials.Trial]
    scaled: list[scaling.Scaled]


def answers_of(study: Study) -> Answers:
    """The answers of a study that have a table of their own."""
    return Answers(
        gains=precision.gains(study),
        verdicts=bottleneck.verdicts(study),
        trials=trials.trials(study),
        scaled=scaling.scaled(study.trained),
    )


def compute(
    study: Study,
    certificates: Certificates,
    searches: Sequence[MaxBatch] = (),
    answers: Answers | None = None,
    released: Mapping[str, str | None] = MappingProxyType({}),
    interleaved: Sequence[Interleaved] = (),
    profiles: Mapping[str, Profile] = MappingProxyType({}),
    data: Mapping[str, DataReport] = MappingProxyType({}),
) -> Findings:
    """The findings of a gathered study.

    Args:
        certificates: of the study's networks, as far as there are any.
        searches: the searches for the largest batch, as far as there are any.
        answers: of the same study, where the caller has them already.
        released: by framework, the month in which its pinned version was released, `YYYY-MM`.
        interleaved: what was measured in turn.
        profiles: by cell, where the time of its steps goes.
        data: the data reports of its data sets, as far as there are any.
    """
    trained, inference = study.trained, study.inference
    answers = answers or answers_of(study)
    peaks = measured_peaks.peaks(study.operations)
    cells = summaries(study, peaks, released)
    parts: list[tuple[Workload, Study]] = [
        *(("training", trained), ("inference", inference), ("operation", study.operations))
    ]
    comparisons = [
        comparison.summary(one, workload, certificates, study)
        for workload, part in parts
        for one in comparison.compare(part, interleaved, SPEED_OF[workload])
    ]
    networks = Study([*trained.cells, *inference.cells])
    disturbed = disturbed_runs(study)
    if disturbed and comparisons:
        hold = all(one.in_turn and not one.in_turn.disturbed for one in comparisons)
        disturbed = disturbed.model_copy(update={"ratios_hold": hold})
    return Findings(
        format=2,
        units=UNITS,
        answer=answer(study, comparisons, {cell.name: cell for cell in cells}),
        disturbed=disturbed,
        doubts=doubts(study, all(one.in_turn for one in comparisons) and bool(comparisons)),
        outcomes=outcomes(study),
        flags=flags(study, comparisons),
        cells=cells,
        metrics_without_values=metrics_without_values(trained),
        comparisons=comparisons,
        curves=[
            curve
            for workload, part in parts
            for curve in effects.curves(part, workload, comparisons)
        ],
        precision=[precision.summary(gain) for gain in answers.gains],
        styles=styles.gaps(comparisons, {cell.name: cell for cell in cells}),
        bottlenecks=[bottleneck.summary(verdict) for verdict in answers.verdicts],
        scaling=[scaling.summary(scaled) for scaled in answers.scaled],
        peaks=[measured_peaks.summary(place, peak) for place, peak in peaks.items()],
        choices=[trials.summary(choice) for choice in trials.choices(answers.trials)],
        failures=failures(study),
        equal_computation=equal_computation(networks, certificates),
        known_deviations=known_deviations(networks),
        largest_batches=largest_batches(trained, searches),
        profiles=layer_profiles(study, profiles),
        setup=setup(study, data),
    )
