"""How many steps a chunk has: as many as take about `chunk_seconds` (phases of a spec)."""


class ChunkSize:
    """The steps of a chunk, which grow.

    Chunks double until one lasts half as long as it should; then they have as many steps as fit.
    While other programs use the cores a step may take a hundred times as long, which looks as if
    one step were enough. So a chunk also doubles later whenever one lasts less than half as long.

    Attributes:
        steps: of a chunk, at least 1.
        settled: whether a chunk lasted long enough.
    """

    def __init__(self, seconds: float) -> None:
        """`seconds`: that a chunk should last; 0: a chunk has one step."""
        self.seconds, self.steps, self.settled = seconds, 1, seconds == 0

    def learn(self, steps: int, seconds: float) -> None:
        """Update the size from a measured chunk; one of fewer steps than `steps` is ignored."""
        if steps < self.steps or not self.seconds:
            return
        if seconds < self.seconds / 2:
            self.steps = 2 * steps
        elif not self.settled:
            self.steps = max(1, int(round(self.seconds * steps / seconds)))
            self.settled = True
