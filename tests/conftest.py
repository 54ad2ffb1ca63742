"""What every test can use: our packages, and the frameworks' own environments."""

import fcntl
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from touchstone.paths import ROOT
from workflow.project import ENVIRONMENTS


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test marked `alone` while no other process of this checkout runs a test."""
    alone = item.get_closest_marker("alone")
    with open(ROOT / "Makefile", "r+") as turn, open(ROOT / "pyproject.toml", "r+") as room:
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
