"""Page faults of the runner's processes."""

from touchstone.measure.sensors import COUNTER, Column, Watched

COLUMNS = {"minor_page_faults": Column("1", COUNTER), "major_page_faults": Column("1", COUNTER)}


def unavailable(watched: Watched) -> str | None:
    """Always there."""
    return None


class Sensor:
    """Cumulative: minor faults found the page in memory, major ones had to read it."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.minor, self.major = 0, 0

    def sample(self) -> dict[str, float | None]:
        """Faults of the living, and of children that were waited for."""
        account = self.watched.account()
        self.minor = max(self.minor, account.minor_faults)
        self.major = max(self.major, account.major_faults)
        return {"minor_page_faults": self.minor, "major_page_faults": self.major}
