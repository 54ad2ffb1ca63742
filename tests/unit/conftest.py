"""Studies that several files of tests read: made once in each process of pytest."""

import copy
from pathlib import Path
from typing import Any

import pytest

from fixtures.runs import make_record, make_study, write_plan
from fixtures.studies import STUDY, built


@pytest.fixture
def study() -> dict[str, Any]:
    """The configuration of a small study, to be changed."""
    return copy.deepcopy(STUDY)


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
