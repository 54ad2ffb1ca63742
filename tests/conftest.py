"""What every test can use, and the tiers: which tests `make test-fast` and `make test` take."""

import fcntl
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from touchstone.paths import ROOT
from workflow.project import ENVIRONMENTS

TESTS = Path(__file__).parent
LONG = {"calibration", "conda", "slurm"}
"""Folders of tests that `make test-all` adds; elsewhere a test is marked `long`."""
FAST = {"unit", "smoke"}
"""Folders of which `make test-fast` takes what is not marked `long` or `slow`."""
SLOW = {
    "unit/test_disturbance.py", "unit/test_docs_site.py", "unit/test_environments.py",
    "unit/test_report_figures.py", "unit/test_studies_figures.py", "unit/test_studies_page.py",
    "unit/test_studies_tables.py", "unit/test_supervisor.py",
}  # fmt: skip
"""Files in which every test counts as marked `slow`."""


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its tier."""
    for item in items:
        path = item.path.relative_to(TESTS)
        folder = path.parts[0]
        if path.as_posix() in SLOW:
            item.add_marker("slow")
        if folder in LONG:
            item.add_marker("long")
        marks = {mark.name for mark in item.iter_markers()}
        if folder in FAST and not marks & {"long", "slow", "network"}:
            item.add_marker("fast")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count the skipped tests by reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in skipped
        if isinstance(report.longrepr, tuple)
    )
    if reasons:
        terminalreporter.section("skipped, by reason")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:5d}  {reason}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test marked `alone` while no other process of this checkout runs a test."""
    alone = item.get_closest_marker("alone")
    folder = ROOT / ".pytest_cache"
    folder.mkdir(exist_ok=True)
    with open(folder / "alone.turn", "w") as turn, open(folder / "alone.room", "w") as room:
        # Who waits until he is alone keeps the turn, so that nobody else begins.
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(turn, fcntl.LOCK_UN)
        return (yield)


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def python_of() -> Callable[[str], str]:
    """The Python of a framework's environment, which is made if it is not there.

    The test is skipped where this machine lacks what that is made with.
    """
    from touchstone.environments import Missing, ensure

    def python(framework: str) -> str:
        try:
            return str(ensure(ROOT / f"envs/{framework}.yaml", ENVIRONMENTS))
        except Missing as fault:
            pytest.skip(str(fault))

    return python


@pytest.fixture(params=["group", "tree"])
def follow(request, monkeypatch):
    """Both ways to follow a run's processes: its control group, and /proc alone."""
    from touchstone.measure import processes

    if request.param == "tree":
        monkeypatch.setattr(processes, "make_group", lambda: (None, "the test wants none"))
        return request.param
    group, reason = processes.make_group()
    if group is None:
        pytest.skip(reason)
    group.remove()
    return request.param
