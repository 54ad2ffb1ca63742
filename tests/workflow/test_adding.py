"""The examples of docs/adding.md, written into a copy of the project and run."""

import inspect
import json
import re
import subprocess
import sys

import pytest

from fixtures.runs import make_record, write_plan
from fixtures.studies import built, page_of
from touchstone.networks.graph import Graph
from touchstone.paths import ROOT
from workflow.project import ENVIRONMENTS, Project

PAGE = (ROOT / "docs/adding.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^`([\w./-]+)`:\n\n```\w*\n(.*?)^```$", PAGE, re.M | re.S))
ENTRIES = re.findall(r"^In `(\w+)` of `([\w./-]+)`:\n\n```\w*\n(.*?)^```$", PAGE, re.M | re.S)
"""What is added to a table that the project has: its name, its file and the entry."""
EDITS = re.findall(r"^After `([^`\n]+)` of `([^`\n]+)`:\n\n```text\n(.*?)^```$", PAGE, re.M | re.S)
"""A line, the file that has it, and what to write below it."""
STUDY = "config/studies/my-study.yaml"
COUNTS = """
import importlib
from touchstone import networks
made = networks.build("my-network", (28, 28, 1), 10)
stated = importlib.import_module("touchstone.networks.my_network").__doc__
assert f"{made.parameter_count:,} parameters and {made.macs:,} multiply" in stated, stated
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project with all the examples, and nothing else touched."""
    made = Project(tmp_path_factory.mktemp("adding"), ENVIRONMENTS, {})
    for path, text in EXAMPLES.items():
        file = made.folder / path
        assert not file.exists(), f"the project has a {path}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for table, path, entry in ENTRIES:
        text, head = (made.folder / path).read_text(encoding="utf-8"), f"\n{table} = {{\n"
        assert text.count(head) == 1
        (made.folder / path).write_text(text.replace(head, head + entry), encoding="utf-8")
    for line, path, more in EDITS:
        made.edit(path, f"{line}\n", f"{line}\n{more}")
    return made


def command(project, *arguments):
    """Run a program of the copy with this Python."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=project.folder, capture_output=True, text=True
    )


def test_every_example_is_found():
    assert (len(EXAMPLES), len(ENTRIES), len(EDITS)) == (11, 1, 5)


def test_the_page_lists_every_layer_with_its_arguments():
    rows = dict(re.findall(r"^\| `(\w+)\((.*?)\)` \|", PAGE, re.M))
    layers = {
        name: ", ".join(
            str(parameter.replace(annotation=inspect.Parameter.empty))
            for parameter in list(inspect.signature(method).parameters.values())[1:]
        )
        for name, method in vars(Graph).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }
    assert rows == layers


@pytest.mark.long
def test_a_study_of_all_of_them_runs(project):
    pinned = command(project, "workflow/scripts/cli.py", "pin", "envs/my_framework.yaml")
    assert pinned.returncode == 0, pinned.stderr
    assert "--hash=sha256:" in (project.folder / "envs/my_framework.yaml").read_text()
    project.run("--cores", "all", "--configfile", STUDY)
    records = [json.loads(path.read_text()) for path in project.folder.glob("results/records/*/*")]
    found = {
        (record["factors"]["framework"], record["factors"]["optimizer"]): record
        for record in records
    }
    assert {key: record["status"] for key, record in found.items()} == {
        ("my_framework", "sgd"): "ok",
        ("my_framework", "my_adagrad"): "ok",
        ("pytorch", "sgd"): "ok",
        ("pytorch", "my_adagrad"): "unsupported",
        ("scipy", "sgd"): "ok",
    }
    reason = found["pytorch", "my_adagrad"]["reason"]
    assert reason == "this adapter has no optimizer 'my_adagrad'; it has sgd, adam, rmsprop"
    runs = {}
    for path in project.folder.glob("results/runs/my_framework-*/rep1/events.jsonl"):
        events = [json.loads(line) for line in path.read_text().splitlines()]
        settings = next(event["effective"] for event in events if event["event"] == "settings")
        runs[settings["optimizer"]] = settings
        losses = [loss for event in events for loss in event.get("losses", [])]
        assert len(losses) == 3 * (1000 // 64) and losses[-1] < losses[0]
    assert set(runs) == {"sgd", "my_adagrad"}
    assert runs["my_adagrad"]["epsilon"] == pytest.approx(1e-8)
    for telemetry in project.folder.glob("results/runs/*/rep1/telemetry.csv"):
        lines = telemetry.read_text().splitlines()
        if "pytorch" in str(telemetry) and len(lines) == 1:
            continue  # it was not run
        column = lines[0].split(",").index("load_average")
        assert float(lines[1].split(",")[column]) >= 0
    for record in (record for record in records if record["status"] == "ok"):
        metric = record["metrics"]["load_average"]  # the training may end before a sample
        assert metric["value"] is not None or metric["reason"].startswith("too few samples")
        assert record["provenance"]["environment"]["environment"]["MALLOC_ARENA_MAX"] == "2"
    page = (project.folder / "results/report/my-study/index.html").read_text()
    assert "my-network" in page and "my_operation" in page


def test_the_networks_docstring_states_its_counts(project):
    ended = subprocess.run(
        [sys.executable, "-c", COUNTS],
        cwd=project.folder / "workflow/scripts", capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr


def test_the_published_table_is_read(project):
    path = "config/published/my-table.csv"
    ended = command(project, "workflow/scripts/cli.py", "check-published", path)
    assert ended.returncode == 0, ended.stderr
    assert "2 figures of Training speed of LeNet-5, an example; 0 findings" in ended.stdout


def test_a_page_has_the_column_and_the_sentence(project, tmp_path):
    """A column is one line: each row of the table has a cell for it."""
    root = built(study_of_two(tmp_path), images=False)
    page = tmp_path / "with/index.html"
    ended = command(
        project, "workflow/scripts/cli.py", "report",
        *("--findings", str(root / "findings.json"), "--figures", str(root / "figures")),
        *("--config", str(root / "config.resolved.yaml"), "--output", str(page)),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    text = page.read_text(encoding="utf-8")
    head, *rows = re.findall(
        r"<tr.*?</tr>", text[text.index('id="ranking"') :].split("</table>")[0]
    )
    assert ">Long runs</th>" in head and ">Long runs</th>" not in page_of(root)
    assert {len(re.findall("<t[hd]", row)) for row in rows} == {len(re.findall("<th", head))}
    assert "The study has 2 configurations." in text
    assert "The study has" not in page_of(root)


def study_of_two(root):
    """A study of two frameworks."""
    cells = [{"framework": name} for name in ("pytorch", "mxnet")]
    for cell in cells:
        make_record(root / "runs", root / "records", **cell)
    write_plan(root / "plan.tsv", cells, repeats=1)
    (root / "config.resolved.yaml").write_text("title: Two\n")
    return root
