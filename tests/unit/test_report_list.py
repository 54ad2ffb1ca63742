"""The report of each study beside those of others, and the page that lists them all."""

import html
import json
import re
import shutil

import pytest

from fixtures.browser import NEEDED, faults
from fixtures.commands import call
from fixtures.runs import make_record, make_study, write_plan
from fixtures.studies import gathered, plot

TITLE = "Two <b>bold</b> & quick"


def report(root, study, title):
    """Write the report of what is in the tables, and the list."""
    (root / "config.resolved.yaml").write_text(f"study: {study}\ntitle: {title}\n")
    done = call(
        "report",
        *("--findings", root / "findings.json", "--figures", root / "figures"),
        *("--config", root / "config.resolved.yaml", "--list", root / "report/index.html"),
        *("--output", root / f"report/{study}/index.html"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    return (root / "report/index.html").read_text()


def replace_runs(root, day):
    """Another study in the same results folder: two frameworks, one run each."""
    for folder in ("runs", "records"):
        shutil.rmtree(root / folder)
    for framework in ("pytorch", "mxnet"):
        record = make_record(root / "runs", root / "records", framework=framework)
        path = root / "records" / record["cell"] / "rep1.json"
        text = path.read_text()
        assert "2026-11-21T" in text
        path.write_text(text.replace("2026-11-21T", f"{day}T"))
    write_plan(root / "plan.tsv", [{"framework": n} for n in ("pytorch", "mxnet")], repeats=1)
    gathered(root)
    plot(root, images=False)


def files(folder):
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in found}


def listed(page):
    """The folders in their order."""
    return re.findall(r'<th scope="row"[^>]*><a href="([^"]*)/index.html">', page)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder of results with the reports of two studies, the first one's files, and the list."""
    root = make_study(tmp_path_factory.mktemp("two") / "results")
    gathered(root)
    plot(root, images=False)
    report(root, "first", "The first")
    before = files(root / "report/first")
    replace_runs(root, "2026-11-22")
    return root, before, report(root, "second", TITLE)


@pytest.fixture
def two(written, tmp_path):
    """A copy that a test may change."""
    root, before, page = written
    return shutil.copytree(root, tmp_path / "results"), before, page


def test_a_second_study_leaves_the_report_of_the_first(two):
    root, before, page = two
    assert files(root / "report/first") == before
    assert listed(page) == ["second", "first"]
    for name in listed(page):
        folder = root / "report" / name
        own = (folder / "index.html").read_text()
        links = set(re.findall(r'href="((?:tables|figures)/[^"]+)"', own))
        assert {"tables/comparisons.csv", "figures/throughput.svg"} <= links
        assert all((folder / link).is_file() for link in links)
        assert '<a href="../index.html">All studies</a>' in own
    copies = {(root / f"report/{name}/tables/summary.csv").read_bytes() for name in listed(page)}
    assert len(copies) == 2 and (root / "tables/summary.csv").read_bytes() in copies


def test_the_list_shows_answers_and_warnings_and_escapes_titles(two):
    root, _, page = two
    assert "Two &lt;b&gt;bold&lt;/b&gt; &amp; quick" in page and "<b>" not in page
    assert "2 studies on this machine" in page
    second, first = page.split('<th scope="row"')[1:]
    assert "Do not trust these numbers" in second and "Do not trust" not in first
    assert ">2026-11-22<" in second and ">2026-11-21<" in first
    for name, part in (("second", second), ("first", first)):
        entry = json.loads((root / f"report/{name}/answer.json").read_text())
        shown = [*entry["verdicts"], entry["trust"]]
        assert entry["answer"] and all(text in html.unescape(part) for text in shown)


def test_an_answer_of_an_earlier_version_is_listed_with_its_first_sentence(two):
    root, *_ = two
    path = root / "report/first/answer.json"
    entry = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in entry.items() if k not in ("verdicts", "trust")}))
    assert entry["answer"][0] in html.unescape(report(root, "second", "The second"))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("{", "not valid JSON"),
        ('{"format": 9}', "format 9, this version reads format 1"),
        ('{"format": 1, "title": "", "started": "", "answer": [3], "warnings": []}', "not the"),
        ('{"format": 1, "title": "", "started": "", "answer": "x", "warnings": []}', "not the"),
    ],
)
def test_a_damaged_answer_is_named_and_the_others_are_listed(two, text, cause):
    root, *_ = two
    path = root / "report/first/answer.json"
    path.write_text(text)
    page = html.unescape(report(root, "second", "The second"))
    assert listed(page) == ["second", "first"]
    assert f"{path}: {cause}" in page and "Delete it and run this study again." in page


def test_a_removed_study_is_not_listed(two):
    root, *_ = two
    shutil.rmtree(root / "report/first")
    page = report(root, "second", "The second")
    assert listed(page) == ["second"] and "1 study on this machine" in page


@pytest.mark.long
@NEEDED
def test_the_list_is_accessible_and_fits(two, tmp_path):
    for width in (1440, 390):
        assert faults(two[2], tmp_path, width) == []
