"""What was run, on what, with which settings: the part `setup` of the findings."""

from typing import Any

from pydantic import JsonValue

from touchstone.analysis.part import FindingsPart


class VaryingFactors(FindingsPart):
    """How the factors vary between the cells that train, or between all where none trains."""

    same: dict[str, str]
    """Factors with one value."""
    by_framework: dict[str, dict[str, str]]
    """Factors with one value for each framework and environment: factor, framework, value."""
    other: list[str]
    """Factors that vary otherwise and are not part of a cell's label."""


class SoftwareStack(FindingsPart):
    """The software of a framework's runs; there are several where runs differ in it."""

    framework: str
    """The framework; `framework@environment` where that is not the pinned one."""
    version: str | None
    """Its version; null where no run came far enough to read it."""
    libraries: dict[str, JsonValue]
    """Versions of the libraries below it."""
    packages: list[str]
    """All packages of its environment with their versions."""
    runs: int
    """Runs with this software."""


class SettingReadBack(FindingsPart):
    """A setting, requested and read back from the live framework; equal ones are one entry."""

    name: str
    """The setting."""
    requested: JsonValue
    """What the adapter was asked for; null where it is left open."""
    effective: JsonValue
    """What the framework has; null where it does not tell."""
    verdict: str
    """`as requested` by the study; `set by Touchstone` where the study says nothing: what follows
    from its other settings, or is the adapter's choice; `differs` or `left open`."""
    frameworks: list[str]
    """Frameworks with these values."""
    runs: int
    """Runs with these values."""


class ExecutionFact(FindingsPart):
    """A fact of the runs' execution environments."""

    different: int
    """How many different values it has."""
    values: list[JsonValue]
    """The first three of them."""
    low: float | None
    """The smallest value; null where not all are numbers."""
    high: float | None
    """The largest value."""


class DataRemark(FindingsPart):
    """Something that readers of a data set must know."""

    what: str
    """`transparency` or `duplicates across splits`, for example."""
    count: int
    """Images or classes that it holds for."""
    treatment: str
    """What becomes of them, or why it matters; the report beside the catalogue's file names the
    first of them."""


class DataSetRemarks(FindingsPart):
    """What `describe-folder` said of the images of a data set."""

    dataset: str
    """The data set."""
    images: dict[str, int]
    """Its images by split."""
    remarks: list[DataRemark]
    """What its data report remarks (docs/datasets.md)."""


class TimeSpent(FindingsPart):
    """Time of all phases of all runs."""

    total: float
    """Seconds."""
    measured: float
    """Seconds of measured phases."""
    total_per_measured: float | None
    """`total` / `measured`; null where nothing was measured."""


class Sitting(FindingsPart):
    """An execution of the workflow."""

    began: str
    """When it began: date and time, UTC."""
    runs: int
    """Runs of the study that it made."""


class Setup(FindingsPart):
    """Machine, software and settings of the runs."""

    machines: list[dict[str, JsonValue]]
    """The different machines, as `env.json` describes them; the host name is included."""
    software: list[SoftwareStack]
    """The different software stacks."""
    touchstone: list[list[str | None]]
    """The different versions of Touchstone, each with its git commit."""
    factors: VaryingFactors
    """How settings vary between cells."""
    settings: list[SettingReadBack]
    """Settings of networks, by name."""
    differs_from_default: dict[str, list[str]]
    """By framework, where its runs differ from what it does by itself."""
    hints: list[str]
    """What may be faster on this machine but is not a framework's own choice."""
    execution: dict[str, ExecutionFact]
    """Threads, affinity, environment variables and the like, by name."""
    data: list[DataSetRemarks] = []
    """The data sets that have a data report of the images that were trained on."""
    time: TimeSpent
    """Where the time went."""
    sittings: list[Sitting]
    """The executions that made the runs, the earliest first; none where records do not tell."""
    first_start: str
    """When the first run began: date and time, UTC."""
    last_start: str
    """When the last run began."""
    seeds: list[int]
    """Seeds of the runs."""


def setting_text(value: Any) -> str:
    """A setting as text; a float at the 7 digits that float32 can hold."""
    if value is None:
        return "–"
    return f"{value:.7g}" if isinstance(value, float) else str(value)
