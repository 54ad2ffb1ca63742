"""Studies that several files of tests read: made once in each process of pytest."""

import copy
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures import golden as golden_file
from fixtures.loopback_server import LoopbackServer
from fixtures.runs import make_record, make_study, write_plan
from fixtures.scripted import supervised
from fixtures.studies import STUDY, built
from touchstone.measure import order, supervisor


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compare paragraphs of an answer with the test's section of the golden file; a second answer
    of the test has a name of its own."""

    def check(paragraphs: Iterable[str], part: str = "") -> None:
        name = f"{request.node.name}, {part}" if part else request.node.name
        golden_file.compare(name, paragraphs)

    return check


@pytest.fixture
def study() -> dict[str, Any]:
    """The configuration of a small study, to be changed."""
    return copy.deepcopy(STUDY)


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SimpleNamespace]:
    """Supervise a runner given as Python text in `tmp_path`; see `supervised`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(order, "_last", lambda: tmp_path / "last")
    return partial(supervised, tmp_path)


@pytest.fixture
def late_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let the supervisor's clock leap by an hour once the events in `tmp_path` end with a text, so
    that a run is beyond its time when it has done what it should, on a busy machine too."""
    events = tmp_path / "events.jsonl"

    def leap(ending: str) -> None:
        def monotonic() -> float:
            written = events.exists() and events.read_text().endswith(ending)
            return time.monotonic() + 3600 * written

        monkeypatch.setattr(
            supervisor, "time", SimpleNamespace(**{**vars(time), "monotonic": monotonic})
        )

    return leap


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
    """A loopback server that is reached without a proxy."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("TOUCHSTONE_MIRROR", raising=False)
    with LoopbackServer() as running:
        yield running


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose runs are all ok, with its page."""
    return built(make_study(tmp_path_factory.mktemp("good")))


@pytest.fixture(scope="session")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of which some runs failed, with its page."""
    return built(make_study(tmp_path_factory.mktemp("bad"), failures=True))


@pytest.fixture(scope="session")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose only run failed, with its page."""
    root = tmp_path_factory.mktemp("failed")
    options = {"status": "unsupported", "reason": "no <such> layer"}
    make_record(root / "runs", root / "records", **options)
    write_plan(root / "plan.tsv", [{}], repeats=1)
    (root / "config.resolved.yaml").write_text("title: Nothing <b>works</b>\n")
    return built(root)
