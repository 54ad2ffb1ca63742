"""Where the time of training steps goes, as data of the findings."""

from touchstone.analysis.part import FindingsPart


class LayerSeconds(FindingsPart):
    """The time of layers in a step of one cell."""

    forward: float | None
    """To compute them, s; null where no operation of the framework does that for just these."""
    backward: float | None
    """To compute their gradients, s; null as above."""
    share: float
    """Both / the profiled step."""


class LayerRow(FindingsPart):
    """A layer of the graph, or layers that a framework computes in one operation."""

    layers: list[str]
    """Their names, in order of the graph."""
    ops: list[str]
    """Their operations."""
    seconds: dict[str, LayerSeconds]
    """By cell; one that computes just these layers in no operation is missing."""


class ProfiledCell(FindingsPart):
    """The profile of a cell."""

    cell: str
    """Name of the cell."""
    status: str
    """Outcome of the profile."""
    reason: str | None
    """Why there are no numbers."""
    profiler: str
    """The framework's profiler; empty where there are no numbers."""
    step: float | None
    """Duration of a step without the profiler, s."""
    other: float | None
    """Of a profiled step, in no operation of a layer, s."""
    other_share: float | None
    """The same / the profiled step."""
    profiled_step: float | None
    """All layers and `other`, s."""
    ratio: float | None
    """`profiled_step` / `step`."""


class LayerProfile(FindingsPart):
    """The profiles of cells that differ only in framework, environment, style or mode."""

    cells: list[ProfiledCell]
    """In order of the plan."""
    rows: list[LayerRow]
    """In order of the graph."""
