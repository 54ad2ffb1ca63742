"""Files that were changed after their stage wrote them: named by `verify`, tables and report."""

import json
import subprocess

import pytest

from fixtures.commands import call
from fixtures.runs import FACTORS, cell_name, make_run, write_plan
from fixtures.studies import BLANK, page_of, plot, report
from touchstone.commands import interleave
from touchstone.commands.run import _files
from touchstone.measure import attempts
from touchstone.results import digests
from touchstone.results.planned import read_plan, read_records

CELL = cell_name(FACTORS)


def parse(results, repeat):
    run, record = (results / f"{kind}/{CELL}/rep{repeat}" for kind in ("runs", "records"))
    done = call("parse", run, "--output", record.with_suffix(".json"))
    assert done.returncode == 0, done.stderr
    return done


def gather(results):
    done = call(
        "gather", "--plan", results / "plan.tsv", "--records", results / "records",
        "--output", results / "tables", "--findings", results / "findings.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def built(results, images=False):
    """The page of a study, after its tables, figures and page were made by their commands."""
    gather(results)
    for done in (plot(results, images=False), report(results)):
        assert done.returncode == 0, done.stderr
    return page_of(results)


def flags(results):
    """By repeat, the flags of the runs."""
    ((_, records),) = read_records(read_plan(results / "plan.tsv"), results / "records")
    return [record["flags"] for record in records]


def edit(path):
    """Change one digit by hand."""
    text = path.read_text()
    assert "5" in text
    path.write_text(text.replace("5", "6", 1))


@pytest.fixture(autouse=True)
def blank_figures(monkeypatch):
    """Draw nothing, which takes seconds."""
    monkeypatch.setattr("touchstone.commands.plot.render", lambda *_: BLANK)


@pytest.fixture
def results(tmp_path):
    """A study of two runs as its stages leave it, and what they wrote of their digests."""
    root = tmp_path / "results"
    for repeat in (1, 2):
        run = make_run(root / f"runs/{CELL}/rep{repeat}", repeat=repeat)
        digests.write(run, _files(run))
        parse(root, repeat)
    write_plan(root / "plan.tsv", [{}], repeats=2)
    (root / "config.resolved.yaml").write_text("results_format: 3\nstudy: fake\ntitle: Five 5\n")
    digests.write(root, [root / "plan.tsv", root / "config.resolved.yaml"])
    gather(root)
    return root


def verify(results):
    return call("verify", results / "data")


def test_what_nobody_changed_is_what_was_written(results):
    assert verify(results).returncode == 0
    assert "edited" not in str(flags(results))
    assert "not what Touchstone wrote" not in built(results, images=False)


@pytest.mark.parametrize(
    "name",
    [
        f"runs/{CELL}/rep1/telemetry.csv", f"runs/{CELL}/rep1/events.jsonl",
        f"runs/{CELL}/rep1/spec.json", f"runs/{CELL}/rep1/env.json",
        f"records/{CELL}/rep1.json", "tables/summary.csv", "tables/measurements.csv",
        "findings.json", "plan.tsv", "config.resolved.yaml",
    ],
)  # fmt: skip
def test_verify_names_the_file_that_was_changed(name, results):
    edit(results / name)
    done = verify(results)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {results / name}: not what Touchstone wrote; ")


@pytest.mark.parametrize("name", ["telemetry.csv", "env.json"])
def test_a_run_that_was_changed_is_flagged_and_the_page_names_its_file(name, results):
    path = results / f"runs/{CELL}/rep2" / name
    text = path.read_text()
    old, new = ("512.0", "500.0") if name == "telemetry.csv" else ("AMD", "Intel")
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert f"not what the run wrote: {name}" in parse(results, 2).stderr
    assert ["edited" in each for each in flags(results)] == [False, True]
    page = built(results, images=False)
    assert f"runs/{CELL}/rep2/{name} is not what Touchstone wrote" in page
    assert "edited" in (results / "tables/measurements.csv").read_text()


def test_a_record_that_was_changed_is_flagged_in_tables_and_page(results):
    path = results / f"records/{CELL}/rep1.json"
    record = json.loads(path.read_text())
    record["metrics"]["throughput"]["value"] *= 2
    path.write_text(json.dumps(record))
    page = built(results, images=False)
    assert f"records/{CELL}/rep1.json is not what Touchstone wrote" in page
    assert ["edited" in each for each in flags(results)] == [True, False]
    assert "edited 1" in (results / "tables/summary.csv").read_text()


def test_a_table_that_was_changed_is_named_on_the_page(results):
    built(results, images=False)
    edit(results / "tables/summary.csv")
    assert report(results).returncode == 0
    assert "tables/summary.csv is not what Touchstone wrote" in page_of(results)


def test_a_run_that_is_made_again_is_itself(results):
    run = results / f"runs/{CELL}/rep1"
    edit(run / "telemetry.csv")
    digests.forget(run)
    make_run(run, repeat=1)
    digests.write(run, _files(run))
    parse(results, 1)
    gather(results)
    assert verify(results).returncode == 0
    assert flags(results)[0] == flags(results)[1]


def test_a_file_that_is_gone_is_made_again_and_no_edit(results):
    (results / f"records/{CELL}/rep1.json").unlink()
    assert verify(results).returncode == 0


@pytest.mark.parametrize("text", ["", "garbage\n", "0" * 64 + "  ../../../x\n", "\0" * 100])
def test_a_damaged_list_of_digests_ends_nothing(text, results):
    (results / f"runs/{CELL}/rep1" / digests.NAME).write_text(text)
    parse(results, 1)
    gather(results)
    assert "edited" not in str(flags(results))


def test_faults_that_are_recorded_later_are_no_change_and_other_text_is(results):
    run = results / f"runs/{CELL}/rep1"
    attempts.note(run, "repeated on demand (all)")
    attempts.note(run, "the log\u2028 had \x1b[2J")
    assert verify(results).returncode == 0
    account = run / attempts.NAME
    kept = account.read_bytes()
    for text in (b"garbage\n", b"{}\n", b'{"date": 1, "reason": "x"}\n', b"\xff", b"[" * 9999):
        account.write_bytes(kept + text)
        done = verify(results)
        assert done.returncode == 1
        assert f"error: {account}: not what Touchstone wrote; " in done.stderr
        assert f"runs/{CELL}/rep1/{attempts.NAME} is not what Touchstone" in built(results)


def test_a_list_with_a_line_that_is_none_is_named(results):
    path = results / "tables" / digests.NAME
    path.write_text(path.read_text() + "garbage\n")
    assert f"error: {path}: not what Touchstone wrote; " in verify(results).stderr


def test_a_study_is_not_blamed_for_the_files_of_others(results):
    for name in ("runs/other/rep1/events.jsonl", "profiles/other.json", "interleaved/other.json",
                 "parity/other.json", "studies/other/page.html", "merged/index.html"):  # fmt: skip
        path = results / name
        folder = digests.own_folder(path)
        folder.mkdir(parents=True)
        path.write_text("5")
        digests.write(folder, [path])
        edit(path)
    assert len(verify(results).stderr.splitlines()) == 6
    assert "not what Touchstone wrote" not in built(results)


@pytest.mark.parametrize("kind", ["events.jsonl", "spec.json"])
def test_a_run_that_was_changed_takes_no_turn(kind, results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    edit(results / f"runs/{CELL}/rep1" / kind)
    taking, excluded = interleave._candidates([CELL], {}, tmp_path)
    assert not taking and f"not what the run wrote: {kind}" in excluded[CELL]


def test_parity_steps_that_were_changed_are_no_proof(tmp_path):
    steps = tmp_path / "pytorch.npz"
    steps.write_bytes(b"5")
    digests.own_folder(steps).mkdir()
    digests.write(digests.own_folder(steps), [steps])
    steps.write_bytes(b"6")
    done = call("compare-parity", "lenet5", steps, "--output", tmp_path / "lenet5.json")
    assert done.returncode == 1 and not (tmp_path / "lenet5.json").exists()
    assert f"{steps}: not what its parity steps wrote. Delete it and run" in done.stderr


def test_sha256sum_reads_the_lists(results):
    for path in results.rglob(digests.NAME):
        done = subprocess.run(
            ["sha256sum", "--check", "--quiet", "--strict", path.name],
            cwd=path.parent, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def test_no_rule_of_the_workflow_knows_the_lists(root):
    for path in [*root.glob("workflow/rules/*.smk"), root / "workflow/Snakefile"]:
        assert digests.NAME not in path.read_text()
