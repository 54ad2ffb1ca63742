"""Every file of a finished study that decides a number: a change of it is named."""

import os
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from fixtures.commands import call
from touchstone.commands.verify import check_results
from touchstone.results import digests
from workflow.project import ENVIRONMENTS, IN_TURN, Project

DECIDES_NOTHING = {
    "logs/*": "what programs printed",
    "runs/*.log": "what a runner printed; the record has its end",
    "runs/*/SHA256SUMS": "the lists themselves; a changed line names a file, or is none",
    "*SHA256SUMS": "the same",
    ".order.jsonl": "the order of runs, which each env.json has",
    ".progress.jsonl": "what the terminal shows",
    "max_batch/*/*": "the files of the last probe; the result has all probes",
    "data/*/.verified-*.json": "that data were verified lately; a damaged one does not count",
    "downloads/*.done": "the mark of a download, an empty file",
}
"""Files of a results folder that nothing but people and the terminal reads, and why."""
NOT_ON_THE_PAGE = ("report/*", "data/*", "downloads/*")
"""Pages that are made again, and data, which each run verifies."""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A finished study with turns, certificates, largest batches and profiles."""
    usual = {"network": "lenet5", "dataset": "mnist-5k", "epochs": 1, "warmup_seconds": 0.0,
             "threads": 1, "memory_limit": 1500.0, "steps": 30}  # fmt: skip
    study = {"study": "test", "title": "A test", "repeats": 1, "defaults": usual,
             "sweeps": [{"framework": ["pytorch", "mxnet"]}], "profile": True,
             "find_max_batch": True, "interleave": IN_TURN, "strict": False}  # fmt: skip
    made = Project(tmp_path_factory.mktemp("changes") / "project", ENVIRONMENTS, study)
    made.change("plan/bisection", START=4000)
    made.run()
    return made


@pytest.fixture
def results(project, monkeypatch):
    monkeypatch.chdir(project.folder)
    return Path("results")


def deciding(results):
    """The files that decide a number, by their names below the results."""
    names = [path.relative_to(results).as_posix() for path in results.rglob("*") if path.is_file()]
    return [name for name in names if not any(fnmatch(name, one) for one in DECIDES_NOTHING)]


def flipped(content):
    """The content with another byte in its middle."""
    place = len(content) // 2
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


CHANGES = {"a byte": flipped, "an end": lambda content: content + b"1"}


class changed:
    """A file that is changed for a while, and keeps its time."""

    def __init__(self, path, change):
        self.path, self.change = path, change

    def __enter__(self):
        self.kept, self.times = self.path.read_bytes(), self.path.stat()
        self._write(self.change(self.kept))

    def __exit__(self, *_):
        self._write(self.kept)

    def _write(self, content):
        self.path.write_bytes(content)
        os.utime(self.path, ns=(self.times.st_atime_ns, self.times.st_mtime_ns))


def verified(results, name, capsys):
    """What `verify` says on a change of one file; of data all that it checks."""
    if name.startswith(("data", "downloads")):
        done = call("verify", results / "data")
        return done.returncode, done.stderr + done.stdout
    return check_results(results), capsys.readouterr().err


@pytest.mark.long
def test_verify_names_every_file_that_was_changed(results, capsys):
    names = deciding(results)
    kinds = {name.split("/")[0] for name in names}
    assert {
        "interleaved",
        "max_batch",
        "parity",
        "profiles",
        "runs",
        "records",
        "tables",
        "figures",
        "findings.json",
        "plan.tsv",
        "report",
        "data",
        "downloads",
    } <= kinds
    assert any(fnmatch(name, "interleaved/*/set*.json") for name in names)
    assert check_results(results) == 0
    missed = []
    for name in names:
        for change in CHANGES.values():
            with changed(results / name, change):
                status, said = verified(results, name, capsys)
            missed += [name] * (status != 1 or name not in said)
    assert not missed
    assert check_results(results) == 0


def report(results):
    """Write the page again; its text."""
    page = results / "report/test/index.html"
    sources = [path for kind in digests.SHARED for path in results.glob(f"{kind}/*.json")]
    done = call(
        "report", "--findings", results / "findings.json", "--figures", results / "figures",
        "--config", results / "config.resolved.yaml", "--output", page,
        "--list", results / "report/index.html", "--sources", *sources,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return page.read_text()


@pytest.mark.long
def test_the_page_names_what_its_answer_may_be_from(results):
    missed = []
    for name in deciding(results):
        if any(fnmatch(name, one) for one in NOT_ON_THE_PAGE):
            continue
        # A digit of a number rather than of a name: what is unreadable then ends in a message.
        content = (results / name).read_bytes()
        numbers = (rb"\.\d*?([345])", rb"([345])")
        found = (re.compile(number).search(content, len(content) // 2) for number in numbers)
        digit = next(filter(None, found), None)
        if digit is None:
            continue
        place = digit.start(1)
        change = lambda text, place=place: text[:place] + b"6" + text[place + 1 :]  # noqa: E731
        with changed(results / name, change):
            page = report(results)
        missed += [name] * (f"{name} is not what Touchstone wrote" not in page)
    assert not missed
    assert "not what Touchstone wrote" not in report(results)


@pytest.mark.long
def test_what_decides_the_answer_is_named_in_the_terminal_too(project, results):
    assert project.jobs() == {}
    for name in ("tables/summary.csv", "interleaved/*.json"):
        (path,) = results.glob(name)
        with changed(path, lambda content: content.replace(b"3", b"4", 1)):
            output = project.run()
        assert "Nothing to be done" in output
        assert f"{path.relative_to(results)} is not what Touchstone wrote" in output


@pytest.mark.long
def test_turns_that_were_changed_before_the_tables_are_made_are_named(project, results):
    (path,) = results.glob("interleaved/*.json")
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"examples": ', b'"examples": 9', 10))
    output = project.run()
    name = path.relative_to(results)
    assert f"{name} is not what Touchstone wrote" in output
    assert (
        f"{name} is not what Touchstone wrote" in Path("results/report/test/index.html").read_text()
    )
    assert f"{path}: not what Touchstone wrote" in Path("results/logs/gather.log").read_text()
    # A set that was changed is measured again, and the others are kept.
    path.unlink()
    first, second = (path.with_suffix("") / f"set{number}.json" for number in (1, 2))
    kept = second.read_bytes()
    first.write_bytes(first.read_bytes().replace(b'"examples": ', b'"examples": 9', 3))
    changed_text = first.read_bytes()
    output = project.run()
    assert f"{first}: not what Touchstone wrote; it is measured again" in output
    assert first.read_bytes() != changed_text and second.read_bytes() == kept
    assert "is not what Touchstone wrote" not in output.replace(f"{first}: not", "")
