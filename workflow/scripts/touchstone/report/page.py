"""The report: one page that answers, shows its evidence, and loads nothing."""

import base64
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from touchstone.analysis import bottleneck, precision, trials
from touchstone.analysis.comparison import compare
from touchstone.analysis.disturbed import METRIC, REPEAT, disturbed
from touchstone.analysis.peaks import peaks
from touchstone.report.rendering import templates
from touchstone.report.sections.answer import answer
from touchstone.report.sections.failures import failure_rows
from touchstone.report.sections.parity import deviation_rows, proof_columns, proof_rows
from touchstone.report.sections.results import (
    COLUMNS,
    GPU_COLUMNS,
    INFERENCE_COLUMNS,
    further_columns,
    max_batch_rows,
    operation_columns,
    operation_rows,
    scaling_rows,
    summary_rows,
    trained_rows,
)
from touchstone.report.sections.setup import (
    differing_from_default,
    environment_rows,
    factors_of,
    hints_of,
    phase_rows,
    settings_rows,
    software_rows,
    time_spent,
)
from touchstone.report.text import dot, interval_text, number, ratio_text
from touchstone.results.certificates import Certificates, proof
from touchstone.results.files import InputError, parse_json, read_text
from touchstone.results.max_batch import MaxBatch
from touchstone.results.metrics import FLAGS, METRICS, PHASES, STATUS_MEANING, STATUSES
from touchstone.results.study import FACET, Study, describe_machine, distinct, machines
from touchstone.results.tables import FACTORS, PARITY_NOT_SHOWN, STUDY_FLAGS

FIGURES = ("throughput", "test_accuracy", "training_loss", "cpu_utilization", "host_memory")
WIDE = 460.0  # points; half of the page is 33.5 rem of 12 points
ROWS = 400
"""Rows that a table of the page shows at most, so that a study of any size can be read."""


def _figures(folder: Path) -> list[dict[str, Any]]:
    """The figures with their texts, images as data URIs; InputError when one is missing.

    A figure that does not fit into half of the page is `wide`.
    """
    remedy = "Make the figures again with plot"
    path = folder / "captions.json"
    try:
        captions = parse_json(read_text(path, remedy))
        more = [name for name in captions if name not in FIGURES]
        figures = [{"name": name, **captions[name]} for name in (*FIGURES, *more)]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(path, f"not the captions of this version ({error})", remedy) from None
    for figure in figures:
        svg = read_text(folder / f"{figure['name']}.svg", remedy)
        width = re.search(r'<svg[^>]* width="([0-9.]+)pt"', svg)
        figure["wide"] = width is None or float(width[1]) > WIDE
        figure["uri"] = "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
    return figures


class Part(NamedTuple):
    """The first rows of a table, and how many it would have.

    `rest` are the others, if the table can be sorted: the page has them, but shows `ROWS`.
    """

    rows: list[Any]
    total: int
    rest: Sequence[Any] = ()


def _part(items: Sequence[Any], make: Callable[[Sequence[Any]], list[Any]] = list) -> Part:
    """As many of the items as a table of the page has, made into rows."""
    return Part(make(items[:ROWS]), len(items))


def _sortable(rows: list[Any]) -> Part:
    """All rows of a table that can be sorted."""
    return Part(rows[:ROWS], len(rows), rows[ROWS:])


def make_report(
    study: Study,
    certificates: Certificates,
    figures: Path,
    config_path: Path,
    config: dict[str, Any],
    max_batches: Sequence[MaxBatch] = (),
    machines_section: str = "",
    pages: Sequence[str] = (),
) -> str:
    """The page as HTML.

    Args:
        certificates: of the study's networks, as far as they were asked for.
        figures: folder made by `plot.py`.
        config_path: the resolved configuration, quoted in full.
        config: its content; `title` and `study` are used when there.
        max_batches: the searches for the largest batch that were made.
        machines_section: HTML of the comparison with other machines, if there is one.
        pages: files of pages on published studies, beside this one.

    Raises:
        InputError: a figure or the captions are missing.
    """
    environment = templates()
    for function in (ratio_text, interval_text, number):
        environment.globals[function.__name__] = function
    environment.globals |= {"dot": dot, "describe": describe_machine}
    everything, study = study, study.trained
    predicting = everything.inference
    networks = Study([*study.cells, *predicting.cells])
    comparisons = compare(study)
    for one in compare(predicting):
        setting = ", ".join(filter(None, ("inference", one.setting)))
        comparisons.append(replace(one, setting=setting))
    phases = [name for name in PHASES if name != "latency" or predicting.cells]
    compared = [(c, row) for c in comparisons for row in c.rows()]
    has_gpu = any(cell.values(column.metric) for cell in study.cells for column in GPU_COLUMNS)
    columns = [*COLUMNS, *(GPU_COLUMNS if has_gpu else ())]
    rows = trained_rows(study, peaks(everything.operations), columns)
    of_operations = operation_columns(everything.operations)
    found = bottleneck.verdicts(everything)
    further = further_columns(study)
    proofs = proof_rows(networks, certificates)
    started = sorted(run.provenance["started"] for run in everything.runs)
    flags = Counter(flag for run in everything.runs for flag in run.flags)
    remarked = Counter(f for _, row in compared for f in row["remarks"].split(", ") if f)
    factors = factors_of(study if study.cells else everything)
    return environment.get_template("report.html.j2").render(
        title=str(config.get("title") or config.get("study") or "Benchmark"),
        machines_section=Markup(machines_section),
        pages=pages,
        study=everything,
        operations=_sortable(operation_rows(everything.operations, of_operations)),
        operation_columns=of_operations,
        inference=_sortable(summary_rows(predicting.cells, list(INFERENCE_COLUMNS))),
        inference_columns=INFERENCE_COLUMNS,
        answer=answer(study, comparisons),
        disturbed=disturbed((run.flags, run.values[METRIC]) for run in everything.runs),
        repeat=REPEAT,
        compared=_sortable(compared),
        settings_shown=any(c.setting for c in comparisons),
        choices=_sortable(trials.choices(study)),
        scaling=_part(scaling_rows(study)),
        proofs=_part(proofs),
        proof_of=lambda cell: proof(
            certificates, cell.facet[0], cell.series.framework, cell.plan.factors["precision"]
        ),
        proof_columns=proof_columns(proofs),
        deviations=_part(deviation_rows(networks)),
        outcomes={s: [r.status for r in everything.runs].count(s) for s in STATUSES},
        status_meaning=STATUS_MEANING,
        failures=_part(failure_rows(everything)),
        figures=_figures(figures),
        columns=columns,
        further=further,
        rows=_sortable(rows),
        shares=any(row["share"] for row in rows),
        no_shares=dict.fromkeys(row["no_share"] for row in rows),
        gains=_sortable(precision.gains(everything)),
        verdicts=_sortable(found),
        verdict_sentences=bottleneck.sentences(found),
        cannot_tell=bottleneck.CANNOT_TELL,
        further_rows=_part(study.cells, lambda cells: summary_rows(cells, further)),
        max_batches=_part(max_batch_rows(study, max_batches)),
        gpu_reason=None if has_gpu else study.why_empty("gpu_power"),
        factors=factors,
        first=(*FACTORS, "epochs", "steps"),
        facet_shown=not factors.same.keys() >= set(FACET),
        phases=phases,
        spent=time_spent(everything),
        phase_rows=_sortable(phase_rows(everything.cells, phases)),
        machines=_part(machines(everything)),
        environments=environment_rows(everything),
        software=_part(software_rows(everything)),
        settings=_part(settings_rows(networks)),
        differing_from_default=differing_from_default(networks),
        hints=hints_of(networks),
        flags={name: (text, flags[name]) for name, text in FLAGS.items()}
        | {name: (text, flags[name] or remarked[name]) for name, text in STUDY_FLAGS.items()},
        parity_flag=PARITY_NOT_SHOWN,
        metrics=METRICS,
        started=(started[0], started[-1]),
        seeds=sorted({run.provenance["seed"] for run in everything.runs}),
        versions=distinct(
            [run.provenance["software"].get(name) for name in ("touchstone", "git_commit")]
            for run in everything.runs
        ),
        config_name=config_path.name,
        config_text=read_text(config_path, "Plan the study again"),
    )
