"""What was run, on what, with which settings."""

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any

from touchstone.analysis.setup_model import (
    DataRemark,
    DataSetRemarks,
    ExecutionFact,
    SettingReadBack,
    Setup,
    Sitting,
    SoftwareStack,
    TimeSpent,
    VaryingFactors,
    setting_text,
)
from touchstone.datasets.data_report import DataReport
from touchstone.results.flags import differing_settings
from touchstone.results.study import FACET, Study, distinct, machines

SHOWN_VALUES = 3
"""Values of a fact of execution that are kept, of however many there are."""
NOT_LIBRARIES = ("framework", "version", "packages", "environment", "touchstone", "git_commit")
"""Entries of a run's software that are no library."""


def setup(study: Study, data: Mapping[str, DataReport] = MappingProxyType({})) -> Setup:
    """Machine, software and settings of all runs of a study; `data` has its data reports."""
    trained = study.trained
    networks = Study([*trained.cells, *study.inference.cells])
    starts = sorted(run.provenance["started"] for run in study.runs)
    return Setup(
        machines=machines(study),
        software=_software(study),
        touchstone=distinct(
            [run.provenance["software"].get(name) for name in ("touchstone", "git_commit")]
            for run in study.runs
        ),
        factors=_factors(trained if trained.cells else study),
        settings=_settings(networks),
        differs_from_default=_differs_from_default(networks),
        hints=_hints(networks),
        execution=_execution(study),
        data=[_remarks(name, report) for name, report in data.items()],
        time=_time(study),
        sittings=_sittings(study),
        first_start=starts[0],
        last_start=starts[-1],
        seeds=sorted({run.provenance["seed"] for run in study.runs}),
    )


def _remarks(name: str, report: DataReport) -> DataSetRemarks:
    remarks = [DataRemark(**remark.model_dump(exclude={"first"})) for remark in report.remarks]
    return DataSetRemarks(dataset=name, images=report.images, remarks=remarks)


def _sittings(study: Study) -> list[Sitting]:
    counts = Counter(run.execution for run in study.runs if run.execution)
    return [Sitting(began=began, runs=counts[began]) for began in sorted(counts)]


def _factors(study: Study) -> VaryingFactors:
    same: dict[str, str] = {}
    by_framework: dict[str, dict[str, str]] = {}
    other: list[str] = []
    for name, value in study.cells[0].plan.factors.items():
        if name in ("framework", "environment", "style", "batch_size"):
            continue
        by_stack: dict[str, set[str]] = {}
        for cell in study.cells:
            by_stack.setdefault(cell.series.stack, set()).add(cell.plan.factors[name])
        if set().union(*by_stack.values()) == {value}:
            same[name] = value
        elif all(len(values) == 1 for values in by_stack.values()):
            by_framework[name] = {f: next(iter(values)) for f, values in by_stack.items()}
        elif name not in (*FACET, *study.cells[0].series.factors):
            other.append(name)
    return VaryingFactors(same=same, by_framework=by_framework, other=other)


def _software(study: Study) -> list[SoftwareStack]:
    """Each different software stack of a framework, in order of first use."""
    runs: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for cell in study.cells:
        for run in cell.runs:
            software = run.provenance["software"]
            # Equal ones are one object.
            runs.setdefault((cell.series.stack, id(software)), []).append(software)
    return [
        SoftwareStack(
            framework=framework,
            version=software.get("version"),
            libraries={
                name: value
                for name, value in software.items()
                if name not in NOT_LIBRARIES and value is not None
            },
            packages=software.get("packages") or [],
            runs=1 + len(others),
        )
        for (framework, _), (software, *others) in runs.items()
    ]


def _settings(study: Study) -> list[SettingReadBack]:
    """Each setting with what was requested and read back, by name; equal ones are one entry."""
    values: dict[tuple[str, str, str, str], tuple[Any, Any]] = {}
    frameworks: dict[tuple[str, str, str, str], list[str]] = {}
    for cell in study.cells:
        for run in cell.runs:
            settings = run.provenance["settings"]
            differing = differing_settings(settings)
            for name, requested in settings.get("requested", {}).items():
                effective = settings["effective"].get(name)
                # A factor that the plan leaves empty is not the study's wish.
                verdict = "as requested" if cell.plan.factors.get(name) else "set by Touchstone"
                if name in differing:
                    verdict = "differs"
                elif requested is None:
                    verdict = "left open"
                key = (name, setting_text(requested), setting_text(effective), verdict)
                values.setdefault(key, (requested, effective))
                frameworks.setdefault(key, []).append(cell.series.stack)
    return [
        SettingReadBack(
            name=key[0],
            requested=values[key][0],
            effective=values[key][1],
            verdict=key[3],
            frameworks=list(dict.fromkeys(frameworks[key])),
            runs=len(frameworks[key]),
        )
        for key in sorted(values, key=lambda key: key[0])
    ]


def _differs_from_default(study: Study) -> dict[str, list[str]]:
    """By framework, where its runs differ from what it does by itself."""
    by_framework: dict[str, dict[str, None]] = {}
    for cell in study.cells:
        sentences = by_framework.setdefault(cell.series.stack, {})
        if (wait := cell.plan.settings.wait_policy) != "default":
            sentences[f"idle threads wait in the {wait} way, as the study asks"] = None
        for run in cell.runs:
            sentences |= dict.fromkeys(run.provenance["settings"].get("differs", ()))
    return {framework: list(sentences) for framework, sentences in by_framework.items()}


def _hints(study: Study) -> list[str]:
    """What may be faster on this machine but is not a framework's own choice."""
    hints = (run.provenance["settings"].get("hints", ()) for run in study.runs)
    return distinct(chain.from_iterable(hints))


def _execution(study: Study) -> dict[str, ExecutionFact]:
    """Each fact of the runs' execution environments, but for what differs in every run."""
    by_name: dict[str, list[Any]] = {}
    for environment in distinct(run.provenance["environment"] for run in study.runs):
        for name, value in environment.items():
            if name not in ("load_before", "core_latency"):
                by_name.setdefault(name, []).append(value)
    return {name: _fact(distinct(values)) for name, values in by_name.items()}


def _fact(values: list[Any]) -> ExecutionFact:
    numbers = [value for value in values if isinstance(value, int | float)]
    all_numbers = len(numbers) == len(values)
    return ExecutionFact(
        different=len(values),
        values=values[:SHOWN_VALUES],
        low=min(numbers) if all_numbers else None,
        high=max(numbers) if all_numbers else None,
    )


def _time(study: Study) -> TimeSpent:
    total = sum(seconds for run in study.runs for seconds in run.phases.values())
    measured = sum(run.phases.get("measured", 0.0) for run in study.runs)
    return TimeSpent(
        total=total,
        measured=measured,
        total_per_measured=total / measured if measured else None,
    )
