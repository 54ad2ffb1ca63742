"""What every test can use, and the tiers: which tests each `make test...` takes."""

import fcntl
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from fixtures.cores import every_core
from fixtures.scheduling import ByFramework
from touchstone.paths import ROOT
from touchstone.plan import frameworks
from touchstone.schema.spec import PLAIN, TUNED
from workflow.project import ENVIRONMENTS

TESTS = Path(__file__).parent
# Else each process that a test starts compiles what it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Messages name the commands of who uses `make`.
os.environ["TOUCHSTONE_STARTED"] = "make"
# The same examples each time, and no judgement of how long one takes.
settings.register_profile(
    "tests", derandomize=True, database=None, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
settings.load_profile("tests")
LONG = {"calibration", "conda", "slurm"}
"""Folders of tests that `make test-all` adds; elsewhere a test is marked `long`."""
FAST = {"unit", "smoke"}
"""Folders of which `make test-fast` takes what is not marked `long` or `slow`."""
SLOW = {
    "smoke/test_module.py", "unit/test_containers.py", "unit/test_disturbance.py",
    "unit/test_environments.py", "unit/test_interleaving.py",
    "unit/test_mutations.py", "unit/test_packages.py", "unit/test_report_figures.py",
    "unit/test_runner_output.py", "unit/test_supervisor.py",
}  # fmt: skip
"""Files in which every test counts as marked `slow`."""
CORE = {"test_frameworks.py", "test_parity.py", "test_truth.py"}
"""The contract tests that `make test` runs in every framework, but for those marked `shared`. It
runs the others in PyTorch, or in the frameworks that `FRAMEWORKS` asks for."""
COMPARED = "test_all_frameworks_and_modes_compute_the_same"
"""The contract test that CI has of `torch.compile` too."""


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFramework:
    """Have one process run all tests of a framework."""
    return ByFramework(config, log)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its tier and its framework.

    Tests of frameworks that `FRAMEWORKS` does not ask for are skipped.
    """
    asked = os.environ.get("FRAMEWORKS", "").split()
    if unknown := set(asked) - set(frameworks.adapters()):
        raise pytest.UsageError(f"FRAMEWORKS: {', '.join(sorted(unknown))}: no such framework")
    for item in items:
        path = item.path.relative_to(TESTS)
        folder = path.parts[0]
        if path.as_posix() in SLOW:
            item.add_marker("slow")
        if folder in LONG:
            item.add_marker("long")
        if folder == "contract" and (mode := _other_mode(item)):
            released = mode.startswith("compile") and not item.name.startswith(COMPARED)
            item.add_marker("release" if released else "long")
        framework = _framework(item) if folder == "contract" else None
        everywhere = path.name in CORE and not item.get_closest_marker("shared")
        if framework and not everywhere and framework not in (asked or ["pytorch"]):
            item.add_marker("long")
        marks = {mark.name for mark in item.iter_markers()}
        if "release" in marks:
            item.add_marker("long")
        if folder in FAST and not marks & {"long", "slow", "network"}:
            item.add_marker("fast")
        if framework and "framework" not in marks:
            item.add_marker(pytest.mark.framework(framework))
        if framework and asked and framework not in asked:
            item.add_marker(pytest.mark.skip(reason="not asked for"))


def _framework(item: pytest.Item) -> str | None:
    """The framework that a test starts: that of its mark, or its parameter."""
    if marker := item.get_closest_marker("framework"):
        return str(marker.args[0])
    case = getattr(item, "callspec", None)
    return case.params.get("framework") if case else None


def _other_mode(item: pytest.Item) -> str | None:
    """The mode of a test, if it is none of a framework's usual ones: the first of each style, and
    Keras on PyTorch."""
    case = getattr(item, "callspec", None)
    if case is None or "mode" not in case.params:
        return None
    framework, mode = case.params["framework"], case.params["mode"]
    usual = {name for style in (TUNED, PLAIN) for name in frameworks.modes(framework, style)[:1]}
    return None if mode in usual | ({"keras"} if framework == "pytorch" else set()) else mode


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
    """Run a test marked `alone` on all cores while no other process of this checkout tests."""
    alone = item.get_closest_marker("alone")
    folder = ROOT / ".pytest_cache"
    folder.mkdir(exist_ok=True)
    with open(folder / "alone.turn", "w") as turn, open(folder / "alone.room", "w") as room:
        # Who waits until he is alone keeps the turn, so that nobody else begins.
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(turn, fcntl.LOCK_UN)
        with every_core() if alone else nullcontext():
            return (yield)


@pytest.fixture
def all_cores() -> Iterator[None]:
    """Let a test, and what it starts, use all cores, beside those of other processes."""
    with every_core():
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def python_of() -> Callable[[str], str]:
    """The Python of a framework's environment, which is made if it is not there.

    `TEST_PYTHON` takes its place. The test is skipped where this machine lacks what that is made
    with.
    """
    from touchstone.environments import Missing, ensure, import_once

    def python(framework: str) -> str:
        if given := os.environ.get("TEST_PYTHON"):
            return given
        try:
            found = ensure(ROOT / f"envs/{framework}.yaml", ENVIRONMENTS)
        except Missing as fault:
            pytest.skip(str(fault))
        import_once(found, framework.partition("-")[0])
        return str(found)

    return python


@pytest.fixture(params=["group", "tree"])
def follow(request, monkeypatch):
    """Both ways to follow a run's processes: its control group, and /proc only."""
    from touchstone.measure import processes

    if request.param == "tree":
        monkeypatch.setattr(processes, "make_group", lambda: (None, "the test wants none"))
        return request.param
    group, reason = processes.make_group()
    if group is None:
        pytest.skip(reason)
    group.remove()
    return request.param
