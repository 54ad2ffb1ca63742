"""The command `report`: the words and numbers of the page, and what it refuses."""

import ast
import csv
import json
import re
from html.parser import HTMLParser

import pytest

from fixtures.browser import NEEDED, dump
from fixtures.runs import default_telemetry, edit_json, make_record, make_study, write_plan
from fixtures.studies import built, findings_of, large, page_of, plot, report, study_of, text_of
from touchstone.analysis.again import Kept
from touchstone.analysis.disturbed import Disturbed
from touchstone.analysis.findings_file import read_findings
from touchstone.report.page import FIGURES
from touchstone.report.rows import ROWS
from touchstone.report.sections import speed
from touchstone.report.sections.answer import answer
from touchstone.results.files import InputError
from touchstone.results.max_batch import read_max_batches
from touchstone.workflow import start

MODELS = (
    "again",
    "findings_model",
    "bottleneck_model",
    "profile_model",
    "ranking_model",
    "setup_model",
    "part",
    "disturbed",
    "doubts",
)
"""The files of `analysis/` that say what findings hold, and the commands that pages print."""


class Checker(HTMLParser):
    """Collects ids, headings, images, links and unclosed tags."""

    VOID = frozenset({"meta", "img", "br", "link", "input", "source"})

    def __init__(self, page):
        super().__init__()
        self.ids, self.headings, self.images, self.stack, self.urls = [], [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag not in self.VOID:
            self.stack.append(tag)
        if "id" in values:
            self.ids.append(values["id"])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "img":
            self.images.append(values)
        self.urls += [values[name] for name in ("src", "href", "srcset") if name in values]

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag


@pytest.mark.parametrize("root", ["good", "bad", "failed"])
def test_page_is_well_formed_accessible_and_loads_nothing(request, root):
    page = page_of(request.getfixturevalue(root))
    checked = Checker(page)
    assert checked.stack == [] and len(set(checked.ids)) == len(checked.ids)
    files = ("tables/", "figures/", "../parity/", "../records/", "../max_batch/")
    inline = ("data:image/svg+xml;base64,", "#")
    assert all(url.startswith((*inline, *files)) for url in checked.urls)
    assert {url[1:] for url in checked.urls if url.startswith("#")} <= set(checked.ids)
    assert not re.findall(r"https?:|url\(|@import", page)
    assert '<html lang="en">' in page
    data = page.count('<script type="application/json" id="strips">')
    assert page.count("<script") == page.count("<script>") + data == 1 + data  # inline
    assert checked.headings[0] == 1 and checked.headings.count(1) == 1
    steps = zip(checked.headings, checked.headings[1:], strict=False)
    assert all(after - before <= 1 for before, after in steps)
    assert len(checked.images) == len(FIGURES) and all(image["alt"] for image in checked.images)


def test_page_has_the_words_for_failures(bad, golden):
    golden(answer(findings_of(bad)))
    page = text_of(bad)
    for words in (
        *answer(findings_of(bad)),
        "stopped after 600 s, at step 260",
        "the loss is nan at step 410",
        "std::bad_alloc in Forward",
        "1/3 timeout",
        "MXNet (channels last) 128 oom 0 – no number – not shown parity_not_shown 3",
    ):
        assert words in page, words
    assert "Every planned run finished" not in page


def test_the_picture_is_in_the_answer_without_a_script(good):
    page = re.sub(r"<script>.*?</script>", "", page_of(good), flags=re.DOTALL)
    answer = page[page.index('<section class="answer"') : page.index('<nav aria-label="Sections"')]
    assert answer.count("<circle") == 18 and answer.count('class="track" aria-hidden="true"') == 6
    assert answer.count('<span class="details">3 runs: ') == 6
    assert answer.count("<li>") == 3 + 6  # comparisons, and configurations
    assert page.index('id="figure-throughput"') < page.index('id="ranking"')
    assert "(max-width: 36rem)" in page[page.index('id="figure-throughput"') :]


def test_what_does_not_vary_has_no_column(tmp_path):
    cells = [{"framework": name} for name in ("pytorch", "mxnet")]
    for cell in cells:
        make_record(tmp_path / "runs", tmp_path / "records", **cell)
    write_plan(tmp_path / "plan.tsv", cells, repeats=1)
    (tmp_path / "config.resolved.yaml").write_text("title: One size\n")
    page = text_of(built(tmp_path, images=False))
    assert "Batch size" not in page and "learning rate 0.05 , epochs 2 , batch size 64 ." in page


def test_page_has_the_numbers_and_the_proof(good, golden):
    page = text_of(good)
    golden(answer(findings_of(good)))
    assert all(paragraph in page for paragraph in answer(findings_of(good)))
    assert "Every planned run finished." in page
    assert "All pairs Faster Batch size Slower" in page and "1 fastest –" in page
    assert "Do not trust" not in page
    assert "GPU" not in page  # none of its cells is on one
    assert "none differs from what was requested" in page
    assert "parameters 61706 61706 set by Touchstone PyTorch, TensorFlow, MXNet 18" in page
    assert "PyTorch 2.13.0" in page and "torch==2.13.0" in page
    assert "results_format: 3" in page


def test_page_sets_all_phases_against_the_measured_ones(tmp_path):
    """2 s before the first step, 3 to the measured phase, 3.75 measured, 0.5 of evaluation."""
    make_record(tmp_path / "runs", tmp_path / "records")
    write_plan(tmp_path / "plan.tsv", [{}], repeats=1)
    (tmp_path / "config.resolved.yaml").write_text("title: One\n")
    page = text_of(built(tmp_path, images=False))
    assert "All runs together took 9.25 s, 3.75 s of them in measured phases: 2.47 times" in page


def test_page_escapes_what_it_quotes(failed):
    page = page_of(failed)
    assert "no &lt;such&gt; layer" in page and "<such>" not in page
    assert "Nothing &lt;b&gt;works&lt;/b&gt;" in page
    assert all(paragraph in text_of(failed) for paragraph in answer(findings_of(failed)))


def test_page_names_the_factors_that_vary(tmp_path):
    cells = [
        {"framework": "pytorch", "mode": "eager", "batch_size": 32, "learning_rate": 0.1},
        {"framework": "pytorch", "mode": "eager", "batch_size": 64, "learning_rate": 0.2},
        {"framework": "mxnet", "mode": "hybrid", "batch_size": 64, "learning_rate": 0.1},
    ]
    for cell in cells:
        make_record(tmp_path / "runs", tmp_path / "records", **cell)
    write_plan(tmp_path / "plan.tsv", cells, repeats=1)
    (tmp_path / "config.resolved.yaml").write_text("title: Rates\n")
    page = text_of(built(tmp_path, images=False))
    assert "By framework, mode: PyTorch eager , MXNet hybrid" in page
    assert "Framework Batch size Throughput images/s" in page


def others_used(root, shares):
    """A study of one cell; other programs used these shares of the machine during its runs."""
    for repeat, share in enumerate(shares, 1):

        def telemetry(end, used=1.5 + 2 * share):
            rows = enumerate(default_telemetry(end))
            return [{**row, "machine_cpu_seconds": 9.0 + used * i} for i, row in rows]

        # The last one was ended, and has no throughput.
        ended = {"status": "timeout", "reason": "slow", "steps": 8} if repeat == len(shares) else {}
        place = root / "runs", root / "records"
        make_record(*place, repeat=repeat, telemetry=telemetry, **ended)
    write_plan(root / "plan.tsv", [{}], repeats=len(shares))
    (root / "config.resolved.yaml").write_text("study: others\ntitle: Others\n")
    return root


def test_the_warning_about_other_programs_is_above_the_answer(tmp_path, golden):
    root = built(others_used(tmp_path, [0.5, 0.0625, 0.25]), images=False)
    found = read_findings(root / "findings.json").disturbed
    assert found == Disturbed(runs=2, total=3, share=37.5)
    kept = Kept("others")
    line = found.line(kept)
    assert line == start.disturbance_of(root / "findings.json", kept) and line in text_of(root)
    assert line.endswith("make run CONFIG=results/report/others/config.yaml RERUN=disturbed")
    golden([line])
    # The command's configuration is that of the page.
    config = (root / "config.resolved.yaml").read_text()
    assert (root / "report/config.yaml").read_text() == config


def test_a_third_of_the_runs_may_be_disturbed(tmp_path):
    root = built(others_used(tmp_path, [0.5, 0.0625, 0.0]), images=False)
    assert "noisy_machine" in page_of(root) and "Do not trust" not in page_of(root)
    assert read_findings(root / "findings.json").disturbed is None
    assert not start.disturbance_of(root / "findings.json", Kept("others"))
    assert not start.disturbance_of(root / "none.json", Kept("others"))


SEARCH = {
    "format": 1,
    "settings": {"framework": "pytorch", "mode": "channels_last"},
    "max_batch_size": {"value": 432, "unit": "images", "reason": None},
    "status": "ok",
    "limit": {"host_memory_mib": 320.0, "from": "memory_limit"},
    "probes": [{"batch_size": 432, "status": "ok"}, {"batch_size": 433, "status": "oom"}],
}


def test_the_largest_batch_is_in_the_summary_and_on_the_page(tmp_path):
    for batch_size in (64, 128):
        make_record(tmp_path / "runs", tmp_path / "records", batch_size=batch_size)
    write_plan(tmp_path / "plan.tsv", [{}, {"batch_size": 128}], repeats=1)
    other = {**SEARCH, "settings": {"framework": "mxnet"}}
    for name, search in (("a", other), ("b", SEARCH)):
        path = tmp_path / "max_batch" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(search))
    found = read_max_batches(tmp_path / "max_batch")
    (tmp_path / "config.resolved.yaml").write_text("title: One\n")
    built(tmp_path, searches=tuple(found), images=False)
    lines = (tmp_path / "tables" / "summary.csv").read_text().splitlines()
    rows = [line for line in lines if "max_batch_size" in line]
    assert len(rows) == 2  # the search holds for both cells, the other one for none
    assert all(",max_batch_size,images,ok,1,432.0,432.0,432.0,432.0,,," in row for row in rows)
    assert study_of(tmp_path).cells[0].flags[-1] == "parity_not_shown"
    page = page_of(tmp_path)
    assert page.count("The largest batch that fits") == 2  # heading and label
    assert "<td>432</td><td>2</td>" in page and "320 MiB of host memory (memory_limit)" in page


def test_a_damaged_search_is_refused(tmp_path):
    (tmp_path / "one.json").write_text(json.dumps({**SEARCH, "limit": None}))
    with pytest.raises(InputError, match="one.json: not a search of this version"):
        read_max_batches(tmp_path)
    assert read_max_batches(None) == []


def test_what_best_tried_is_shown_with_its_speeds_and_files(tmp_path):
    names = (
        *("mode", "threads", "wait_policy", "status", "reason", "throughput", "first_step_time"),
        "folder",
    )
    tried = [
        dict(zip(names, one, strict=True))
        for one in (
            ("static", None, "default", "ok", None, 100.0, 1.0, "trials/static"),
            ("hybrid", None, "default", "ok", None, 200.0, 1.0, "trials/hybrid"),
            ("compile", None, "default", "unsupported", "no gcc", None, None, "trials/compile"),
            ("hybrid", 1, "default", "ok", None, 50.0, 1.0, "trials/hybrid-threads1"),
            ("hybrid", None, "active", "ok", None, 400.0, 1.0, "trials/hybrid-active"),
        )
    ]
    for repeat in (1, 2, 3):
        make_record(tmp_path / "runs", tmp_path / "records", mode="best", repeat=repeat)
        (record,) = (tmp_path / "records").glob(f"*/rep{repeat}.json")
        one_thread_wins = [*tried[:3], {**tried[3], "throughput": 800.0}]
        edit_json(
            record, provenance__trials=tried if repeat < 3 else one_thread_wins,
            provenance__settings__effective__mode="hybrid",
            provenance__settings__requested__mode="hybrid",
            provenance__run=f"results/runs/c/rep{repeat}",
        )  # fmt: skip
    write_plan(tmp_path / "plan.tsv", [{"mode": "best"}], repeats=3)
    (tmp_path / "config.resolved.yaml").write_text("title: Best\n")
    page = page_of(built(tmp_path, images=False))
    chosen = "hybrid, 1 thread (1); hybrid, active waiting (2)"
    assert f"chosen: {chosen}<" in page
    assert '<td class="text">static</td><td>0 of 3</td><td>100.0</td><td>4.00</td>' in page
    assert '"text">hybrid, active waiting</td><td>2 of 2</td><td>400.0</td><td>1.000</td>' in page
    assert '"text">hybrid, 1 thread</td><td>1 of 3</td><td>50.00</td><td>8.00</td>' in page
    assert "unsupported 3" in page and "no gcc" in page
    assert '<a href="../runs/c/rep2/trials/hybrid-active/events.jsonl">run 2</a>' in page
    with open(tmp_path / "tables/trials.csv") as file:
        rows = list(csv.DictReader(file))
    shown = ("repeat", "mode", "threads", "wait_policy", "chosen", "chosen_is_faster_by")
    assert [tuple(row[name] for name in shown) for row in rows[:5]] == [
        ("1", "static", "", "default", "no", "4.0"), ("1", "hybrid", "", "default", "no", "2.0"),
        ("1", "compile", "", "default", "no", ""), ("1", "hybrid", "1", "default", "no", "8.0"),
        ("1", "hybrid", "", "active", "yes", "1.0"),
    ]  # fmt: skip
    assert rows[8]["files"] == "results/runs/c/rep2/trials/hybrid-threads1"
    with open(tmp_path / "tables/summary.csv") as file:
        summary = {(row["trained_modes"], row["best_chose"]) for row in csv.DictReader(file)}
    assert summary == {("hybrid 3", chosen)}
    with open(tmp_path / "tables/measurements.csv") as file:
        each = {(row["repeat"], row["best_chose"]) for row in csv.DictReader(file)}
    active = "hybrid, active waiting"
    assert each == {("1", active), ("2", active), ("3", "hybrid, 1 thread")}


def test_the_page_says_by_how_much_the_choice_of_best_is_faster_than_the_default(tmp_path, golden):
    default = {
        "mode": "static", "threads": None, "wait_policy": "default", "status": "ok", "reason": None,
        "throughput": 100.0, "first_step_time": None, "folder": "trials/static", "ratio": 1.0,
        "sets": 3, "chosen": False,
    }  # fmt: skip
    hybrid = {**default, "mode": "hybrid", "throughput": 150.0, "folder": "trials/hybrid"}
    hybrid |= {"ratio": 1.5, "low": 1.25, "high": 1.8}
    ill = {**default, "status": "oom", "reason": "no memory left", "throughput": None}
    ill.pop("ratio")
    tried = [
        [default, {**hybrid, "chosen": True}],
        [{**default, "chosen": True}, {**hybrid, "low": 0.9}],
        [ill, {**hybrid, "ratio": 1.0, "chosen": True}],
    ]
    for repeat, trials in enumerate(tried, 1):
        make_record(tmp_path / "runs", tmp_path / "records", mode="best", repeat=repeat)
        (record,) = (tmp_path / "records").glob(f"*/rep{repeat}.json")
        edit_json(record, provenance__trials=trials, provenance__run=f"results/runs/c/rep{repeat}")
    write_plan(tmp_path / "plan.tsv", [{"mode": "best"}], repeats=3)
    (tmp_path / "config.resolved.yaml").write_text("title: Best\n")
    root = built(tmp_path, images=False)
    page = page_of(root)
    said = speed.view(read_findings(root / "findings.json"))["choice_sentences"]
    assert len(said) == 3 and all(sentence in page for sentence in said)
    golden(said)
    with open(tmp_path / "tables/trials.csv") as file:
        shown = [
            (row["ratio_to_default"], row["low"], row["chosen"]) for row in csv.DictReader(file)
        ]
    assert shown[:4] == [
        ("1.0", "", "no"),
        ("1.5", "1.25", "yes"),
        ("1.0", "", "yes"),
        ("1.5", "0.9", "no"),
    ]


def test_page_shows_a_hint_once(tmp_path):
    root = make_study(tmp_path)
    assert (
        'class="caveat hint"' not in (built(root, images=False) / "report/index.html").read_text()
    )
    for path in (root / "records").glob("tensorflow*/rep*.json"):
        record = json.loads(path.read_text())
        record["provenance"]["settings"]["hints"] = ["another mode may be faster"]
        path.write_text(json.dumps(record))
    assert text_of(built(root, images=False)).count("another mode may be faster.") == 1


def test_page_marks_a_setting_that_was_ignored(tmp_path):
    root = make_study(tmp_path)
    path = next((root / "records").glob("mxnet*/rep1.json"))
    record = json.loads(path.read_text())
    record["provenance"]["settings"]["effective"]["learning_rate"] = 0.01
    path.write_text(json.dumps(record))
    page = text_of(built(root, images=False))
    assert "Some settings that were read back" in page
    assert "learning rate 0.05 0.01 differs MXNet 1" in page


CERTIFICATE = {
    "format": 1,
    "network": "lenet5",
    "reference": "pytorch",
    "tolerances": {"fp64": {"forward": 1e-10, "gradients": 1e-8}},
    "frameworks": {
        "tensorflow": {
            "equal": True,
            "beyond": [],
            "deviations": {"fp64": {"forward": 2e-15, "gradients": 3e-12}},
        },
        "mxnet": {
            "equal": False,
            "beyond": ["fp64 gradients"],
            "deviations": {"fp64": {"forward": 2e-15, "gradients": 0.5}},
        },
    },
    "equal": False,
}


def test_page_shows_the_proof_next_to_the_speeds(tmp_path):
    root = make_study(tmp_path)
    for path in (root / "records").glob("mxnet*/*.json"):
        record = json.loads(path.read_text())
        record["provenance"]["deviations"] = ["keeps epsilon in <single> precision"]
        path.write_text(json.dumps(record))
    page = text_of(built(root, {"lenet5": CERTIFICATE}, images=False))
    assert "lenet5 PyTorch reference" in page
    assert "lenet5 TensorFlow equal to PyTorch 2.0e-15 of 1e-10 3.0e-12 of 1e-08" in page
    assert "lenet5 MXNet differs" in page and "beyond the tolerance: fp64 gradients" in page
    assert "MXNet, lenet5 keeps epsilon in &lt;single&gt; precision" in page
    assert "differs parity_not_shown 3" in page and "6 runs." in page
    captions = json.loads((root / "figures" / "captions.json").read_text())
    for texts in captions.values():
        assert "†: equal computation is not shown (MXNet on lenet5)" in texts["caption"]
    assert "parity_not_shown" not in captions["throughput"]["caption"]


def test_a_page_without_certificates_says_so(good):
    page = text_of(good)
    assert "This study asks for no certificate" in page
    assert "PyTorch not shown" in page and "parity_not_shown 3" in page


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A study of more cells than a table shows."""
    root = tmp_path_factory.mktemp("many")
    large(root, 1, ROWS // 2 + 5)
    return built(root)


@pytest.mark.long
def test_the_page_of_a_large_study_is_bounded(many):
    page = text_of(many)
    assert f"The first {ROWS} of {ROWS + 10} cells are shown" in page
    assert f"The first {ROWS} of {ROWS + 10} rows are shown: all are in tables/comp" in page
    captions = json.loads((many / "figures" / "captions.json").read_text())
    assert f"Only 16 of {ROWS + 10} cells are drawn" in captions["throughput"]["caption"]
    assert "at most 12 panels" in captions["training_loss"]["caption"]


@pytest.mark.long  # a browser
@NEEDED
def test_sorting_and_filtering_take_the_rows_that_are_not_shown_into_account(many, tmp_path):
    """By batch size, descending: 205 first, and the smallest that is shown is 6; then ascending.

    The filter finds every row of MXNet, those that were not shown too.
    """
    page = page_of(many)
    clicks = """<script type="module">
    const fold = document.querySelector("#fold-numbers");
    fold.open = true;
    await new Promise((done) => fold.addEventListener("toggle", done));
    const table = document.querySelector("#numbers ~ .scroll table");
    const sizes = () => [...table.tBodies[0].rows].map((row) => row.cells[1].textContent);
    const seen = [sizes()];
    for (const click of [1, 2]) {
      table.tHead.rows[0].cells[1].querySelector("button").click();
      seen.push(sizes());
    }
    const field = document.querySelector("#numbers ~ label.filter input");
    field.value = " MXNet ";
    field.dispatchEvent(new Event("input"));
    seen.push([table.tBodies[0].rows.length]);
    document.body.replaceChildren("seen:" + seen.map((one) => one.join()).join(";") + ".");
    </script></body>"""
    shown = dump(page.replace("</body>", clicks), tmp_path)
    seen = re.search(r"seen:([\d,;]+)\.", shown)[1].split(";")
    first, down, up, kept = ([int(size) for size in one.split(",")] for one in seen)
    assert first == up == [size for size in range(1, 201) for _ in range(2)]
    assert down == [size for size in range(205, 5, -1) for _ in range(2)]
    assert kept == [ROWS // 2 + 5]


def test_the_page_computes_nothing(root):
    """Its code knows the findings' model, and none of what computes findings."""
    package = root / "workflow/scripts/touchstone"
    files = [package / f"report/{name}.py" for name in ("page", "rows", "text")]
    for path in [*files, *(package / "report/sections").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            module = getattr(node, "module", None) or ""
            if module.startswith("touchstone.analysis"):
                assert module.split(".")[-1] in MODELS, path
            if module == "touchstone.results.study":
                assert {alias.name for alias in node.names} <= {"FACET", "describe_machine"}, path
            assert not module.startswith(("touchstone.statistics", "statistics")), path


@pytest.mark.parametrize(
    ("missing", "maker"),
    [
        ("tables/summary.csv", plot),
        ("plan.tsv", plot),
        ("findings.json", report),
        ("figures/captions.json", report),
        ("figures/throughput.svg", report),
        ("config.resolved.yaml", report),
    ],
)
def test_missing_inputs_are_refused_in_one_line(good, missing, maker):
    path = good / missing
    kept = path.read_bytes()
    path.unlink()
    page = good / "report" / "index.html"
    before = page.stat().st_mtime_ns
    try:
        done = maker(good)
    finally:
        path.write_bytes(kept)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: ") and missing.split("/")[-1] in done.stderr
    assert page.stat().st_mtime_ns == before
