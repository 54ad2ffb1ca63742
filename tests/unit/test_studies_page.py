"""A study's tables, figures and page, from generated results."""

import csv
import html
import io
import re
import shutil
import subprocess
from functools import cache
from xml.etree import ElementTree

import pytest
from snakemake.utils import update_config

from fixtures.runs import GPU_REASON, VERSIONS
from touchstone.plan.read import OPERATION, is_operation, read
from touchstone.plan.study import make_plan
from touchstone.published.dossier import FigureSpec, Layout, MachineTable, Total, read_dossier
from touchstone.published.exports import BLANK, Entry, as_markdown, pivot, told_apart
from touchstone.published.figures import draw
from touchstone.published.machine import sheet
from touchstone.published.page import make
from touchstone.published.points import totals
from touchstone.published.table import read_table
from touchstone.results.metrics import METRICS
from touchstone.results.study import Cell, Result, Series, Study
from touchstone.results.tables import PlannedCell

MACHINE = {
    "cpu_model": "AMD EPYC 9B14", "physical_cores": 1, "logical_cores": 2, "memory_mib": 24064,
    "os": "Debian GNU/Linux 12", "kernel": "6.1.0", "gpus": [],
}  # fmt: skip


def run(repeat, cell, **values):
    """A run with these values; every other metric has none, since there is no GPU."""
    missing = {name: GPU_REASON for name in METRICS if values.get(name) is None}
    return Result(
        repeat=repeat, status="ok", reason=None, flags=[], reasons=missing, losses=[2.0, 1.5],
        phases={},
        values={name: values.get(name) for name in METRICS}, log_tail=[],
        provenance={
            "machine": MACHINE,
            "started": "2026-11-21T05:40:00Z",
            "software": {"version": VERSIONS.get(cell and cell.framework, "1.0"), "cuda": None},
            "settings": {"effective": {"threads": 2, "deterministic": False}},
            "unknown": {"machine.gpus": "NVML: no driver"},
        },
    )  # fmt: skip


def speed_of(cell):
    """Images/s: twice as many with PyTorch, more with a larger batch, a fifth less from records."""
    speed = {"pytorch": 2000.0}.get(cell.framework, 1000.0) * cell.batch_size**0.25
    return speed * (0.8 if cell.input == "records" else 1)


def accuracy_of(cell):
    """Best at batch size 64 and rate 0.01."""
    far = abs(cell.batch_size - 64) / 2000 + abs(cell.learning_rate - 0.01) * 2
    return 0.7 - min(far, 0.5)


def factors_of(cell):
    """The factors of a cell as plan.tsv has them."""
    values = cell.model_dump()
    known = (*OPERATION, "mode", "batch_size") if is_operation(cell) else values
    return {k: str(v) if k in known and v is not None else "" for k, v in values.items()}


@cache
def made(root, name, scale="paper"):
    """The result of a generated study: its files, its page, its cells."""
    config = read(root / "config/config.yaml")
    update_config(config, read(root / f"config/studies/{name}.yaml"))
    config["scale"] = scale
    plan = make_plan(config, root)
    whole = make_plan({**config, "scale": "paper"}, root)
    cells = []
    for slug, cell in plan.cells.items():
        runs = []
        for repeat in range(1, plan.study.repeats + 1):
            speed = speed_of(cell) * (1 + 0.004 * repeat)
            values = {
                "throughput": speed,
                "step_rate": speed / cell.batch_size,
                "training_time": 500 * (1 + 0.001 * repeat),
                "test_accuracy": accuracy_of(cell) + 0.0002 * repeat,
                "time_to_accuracy": 100.0 + repeat if cell.target_accuracy else None,
                "cpu_utilization": 80.0 + repeat,
                "host_memory": 900.0 + repeat,
                "flop_rate": 100.0,
                "memory_rate": 10.0,
            }
            runs.append(run(repeat, cell, **values))
        planned = PlannedCell(slug, factors_of(cell), plan.study.repeats)
        facet = (cell.network, cell.dataset, cell.device)
        cells.append(Cell(planned, facet, cell.batch_size, Series(cell.framework), runs))
    dossier = read_dossier(root / f"config/claims/{name}.yaml")
    return make(
        plan.study.title,
        scale,
        (whole.study.repeats, plan.study.repeats),
        read_table(root / "config/published" / dossier.published),
        dossier,
        Study(cells),
        list(zip(whole.cells.values(), plan.cells.values(), strict=True)),
        f"../studies/{name}",
    )


@pytest.fixture(scope="module")
def yin(root):
    return made(root, "yin2020")


@pytest.fixture(scope="module")
def smoke(root):
    return made(root, "yin2020", scale="smoke")


def rows_of(result, name):
    return list(csv.DictReader(io.StringIO(result.files[f"tables/{name}.csv"])))


def verdicts(result):
    rows = csv.DictReader(io.StringIO(result.files["claims.csv"]))
    return {row["claim"]: row["verdict"] for row in rows if row["figures"] == "measured"}


def test_every_published_figure_stands_in_a_table(root, yin):
    table = read_table(root / "config/published/yin2020.csv")
    names = [f"table-{number}" for number in range(5, 11)]
    lines = {row["line"] for name in names for row in rows_of(yin, name)} - {""}
    assert lines == {str(row.line) for row in table.rows if row.factors["table"] != "text"}


def test_published_and_measured_stand_side_by_side(yin):
    rows = {
        (r["framework"], r["device"], r["metric"], r["unit"]): r for r in rows_of(yin, "table-5")
    }
    row = rows["mxnet", "cpu", "training_speed", "steps/s"]
    measured = 1000 * 128**0.25 * 1.008 / 128
    assert (row["published"], row["n"], row["reason"]) == ("3.65", "3", "")
    assert float(row["measured_median"]) == pytest.approx(measured)
    assert float(row["ratio"]) == pytest.approx(measured / 3.65)
    assert float(row["difference"]) == pytest.approx(measured - 3.65)
    images = rows["mxnet", "cpu", "training_speed", "images/s"]
    assert "contradicts itself" in images["remark"]


def test_what_was_not_measured_is_empty_with_its_reason(yin):
    for row in rows_of(yin, "table-8"):
        if row["device"] == "gpu":
            assert (row["measured_median"], row["n"], row["ratio"]) == ("", "0", "")
            assert row["reason"] == "no cell with device gpu in this study"
        else:  # our own sweep on the CPU, which the source has not
            assert (row["published"], row["remark"]) == ("", "not in the source")
            assert row["n"] == "3"
    text = yin.files["tables/table-8.md"]
    assert "not measured: no cell with device gpu in this study." in text
    assert not re.search(r"/ 0(\.0*)? ", text)


def test_a_metric_is_taken_from_the_cells_that_have_it_in_its_sense(yin):
    ours = [row for row in rows_of(yin, "table-9") if row["device"] == "cpu"]
    metrics = [row["metric"] for row in ours if row["n"] == "3"]
    assert sorted(set(metrics)) == ["accuracy_after_10_epochs", "time_to_60_percent"]
    assert len(metrics) == 2 * 6
    assert {row["read as"] for row in ours} >= {"test_accuracy", "time_to_accuracy"}


def test_accuracies_are_in_percent_and_have_a_difference_alone(root):
    result = made(root, "lawrence2017")
    (row,) = [r for r in rows_of(result, "systems") if r["line"] == "6"]
    assert (row["metric"], row["unit"], row["published"]) == (
        "accuracy_after_25_epochs",
        "%",
        "87.0",
    )
    others = [
        r for r in rows_of(result, "systems") if "K80" in r["system"] or " CPU" in r["system"]
    ]
    assert {(r["published"], r["n"]) for r in others} == {("", "0")}  # not this machine's rows
    ours = [r for r in rows_of(result, "systems") if r["framework"] == "mxnet" and r["n"] == "3"]
    assert {r["metric"] for r in ours} == {"accuracy_after_25_epochs", "training_time"}


def test_what_the_scale_makes_unlike_is_not_compared(root):
    whole, smoke = (made(root, "lawrence2017", scale) for scale in ("paper", "smoke"))
    (row,) = [r for r in rows_of(smoke, "systems") if r["line"] == "6"]
    assert row["measured_median"] and (row["difference"], row["ratio"]) == ("", "")
    why = "not comparable: dataset synthetic-64-small for mnist-64, epochs 4 for 25"
    assert why in row["remark"] and why in smoke.files["tables/systems.md"]
    assert why in html.unescape(smoke.page)
    (row,) = [r for r in rows_of(whole, "systems") if r["line"] == "6"]
    assert row["difference"] and "not comparable" not in row["remark"]


def test_claims_are_judged_by_the_generated_numbers(yin):
    found = verdicts(yin)
    assert found["gpu-faster"] == "not measured"
    assert found["larger-batches"] == "not measured"  # of the GPU's part
    assert found["accuracy-by-batch"] == "reproduced"
    assert found["accuracy-by-rate"] == "reproduced"
    assert found["epoch-time-by-rate"] == "reproduced"


def test_a_scale_says_so_on_every_table_it_touches(smoke, yin):
    said = "This is not the whole study but its scale 'smoke'"
    for name in ("table-6", "table-9", "table-10"):
        for kind in ("md", "tex"):
            assert said in smoke.files[f"tables/{name}.{kind}"]
            assert said not in yin.files[f"tables/{name}.{kind}"]
    assert (
        "dataset mnist-5k for cifar10; epochs 4 for 10 and 6 for 30; repeats 1 for 3"
        in (smoke.files["tables/table-9.md"])
    )
    assert said in html.unescape(smoke.page) and said not in html.unescape(yin.page)
    rows = [len(rows_of(one, "table-9")) for one in (smoke, yin)]
    assert rows[0] == rows[1]
    found = verdicts(smoke)
    assert found["accuracy-by-rate"] == "not comparable"
    assert found["epoch-time-by-rate"] == "ratio only"  # one run a cell


def test_figures_are_svg_and_png_and_draw_every_run(yin):
    names = {name for name in yin.files if name.startswith("figures/")}
    assert len(names) == 2 * 12 and "figures/figure-9-speed.svg" in names
    for name in names:
        content = yin.files[name]
        assert (
            content[:4] == b"\x89PNG" if name.endswith("png") else ElementTree.fromstring(content)
        )
    caption = re.search(r"Speed by batch size, in images/s</strong>(.*?)<a", yin.page, re.S)[1]
    assert "n = 3 a cell" in caption and "AMD EPYC 9B14, 2 logical cores" in caption
    assert "measured phase / its time" in caption and "read as images/s" in caption


def test_the_page_needs_no_network_and_tells_its_evidence(yin):
    assert not re.findall(
        r"""(?:src|href)=["'](?!data:|\.\./studies/yin2020/|index.html|#)""", yin.page
    )
    assert "The published figures themselves contradict 1 of the 6: larger batches." in yin.page
    assert "decimal point has slipped" in yin.page
    for name in re.findall(r'href="\.\./studies/yin2020/([^"]+)"', yin.page):
        assert name in yin.files


def test_latex_has_as_many_columns_as_it_says(yin):
    for name in ("table-5", "table-10"):
        text = yin.files[f"tables/{name}.tex"]
        columns = len(re.search(r"begin\{tabular\}\{(\w+)\}", text)[1])
        body = text.partition("\\toprule")[2].partition("\\bottomrule")[0]
        rows = [line for line in body.splitlines() if line.endswith("\\\\")]
        assert rows and {line.count(" & ") + 1 for line in rows} == {columns}
        assert not re.search(r"(?<!\\)[%_&](?!\d)(?=[a-z])", body)


def test_piccione2018_has_its_27_figures_and_all_of_its_rows(root):
    result = made(root, "piccione2018")
    figures = {name for name in result.files if name.endswith(".svg")}
    assert len(figures) == 27 and "figures/imagenet-vgg16-power.svg" in figures
    rows = rows_of(result, "appendix-a-speed")
    assert len([row for row in rows if row["line"]]) == 225
    found = {(r["dataset"], r["network"], r["framework"], r["hardware"]): r for r in rows}
    assert found["imagenet", "vgg16", "pytorch", "cpu-20-cores"]["n"] == "3"
    hole = found["cifar10", "googlenet", "tensorflow", "cpu-12-cores"]
    assert (hole["published"], hole["n"]) == ("", "3")  # a hole of the study that is none here
    assert hole["remark"] == "not available in the study"
    # A framework that the source has not stands beside the others, under the same hardware.
    assert found["mnist", "lenet", "jax", "cpu-12-cores"]["n"] == "3"
    assert found["imagenet", "vgg16", "jax", "cpu-20-cores"]["n"] == "3"
    assert not any("here (cpu)" in row["hardware"] for row in rows)
    two = found["mnist", "lenet", "mxnet", "2xP100"]
    assert two["reason"] == "no cell with device gpu in this study"
    assert verdicts(result)["deeper-slower"] == "not measured"  # memory; the speeds are there
    assert "throughput: holds in 12, undecided in 36 of 48" in result.files["claims.csv"]


def test_our_cells_have_the_words_of_the_source(root):
    rows = rows_of(made(root, "vo2021"), "results")
    ours = {(r["task"], r["dataset"], r["machine"]) for r in rows if not r["line"]}
    models = {(m, d) for m in ("model_a", "model_b") for d in ("mnist", "fashion-mnist")}
    stack = ("conv_stack", "fashion-mnist")
    calls = {("dense_gemm", ""), ("sparse_gemm", ""), ("sparse_gemm, the shares kept", "")}
    assert ours == {(*one, "here (cpu)") for one in {*models, stack, *calls}}
    times = [r for r in rows if r["read as"] == "training_time" and not r["line"]]
    assert len(times) == 5 and all(r["n"] == "3" for r in times)  # none of a cell that predicts


STUDIES = ("lawrence2017", "piccione2018", "vo2021", "yin2020")


@pytest.mark.parametrize("name", (*STUDIES, "machine-check"))
def test_every_row_of_every_published_table_is_measured_or_has_its_reason(root, name):
    """What a source prints in its running text alone (`table` is `text`) stands in no table."""
    result = made(root, name)
    found = {}
    for file, content in result.files.items():
        if file.startswith("tables/") and file.endswith(".csv"):
            for row in csv.DictReader(io.StringIO(content)):
                if row.get("line"):
                    found.setdefault(row["line"], []).append(row)
    dossier = read_dossier(root / f"config/claims/{name}.yaml")
    table = read_table(root / "config/published" / dossier.published)
    assert table.rows
    for published in table.rows:
        if published.factors.get("table") == "text":
            continue
        rows = found.get(str(published.line), [])
        assert rows, f"{published.label} (line {published.line}) stands in no table"
        for row in rows:
            assert (int(row["n"]) > 0) != bool(row["reason"]), published.label
            assert bool(row["measured_median"]) == (int(row["n"]) > 0)
            assert row["published"] or row["remark"], published.label
        assert published.value is None or any(row["published"] for row in rows)


def test_operations_are_totalled_over_their_shapes(root):
    rows = rows_of(made(root, "vo2021"), "results")
    (ours,) = [r for r in rows if r["task"] == "dense_gemm" and not r["line"]]
    shapes = 5
    rates = [1000.0 * (1 + 0.004 * repeat) for repeat in (1, 2, 3)]  # calls/s, of each shape
    assert (ours["machine"], ours["dataset"], ours["unit"], ours["n"]) == (
        "here (cpu)",
        "",
        "s",
        "3",
    )
    assert float(ours["measured_median"]) == pytest.approx(shapes / rates[1])
    assert ours["cell"].count("; ") == shapes - 1
    kept = [r for r in rows if r["task"] == "sparse_gemm, the shares kept"]
    assert [r["n"] for r in kept] == ["3"]
    theirs = [r for r in rows if r["task"] == "dense_gemm" and r["line"]]
    assert len(theirs) == 4
    (why,) = {r["reason"] for r in theirs}
    assert why.startswith("how many calls its time is of is not at hand")
    shapes = rows_of(made(root, "vo2021"), "operations")
    assert len({r["dataset"] for r in shapes}) == 13
    assert {r["metric"] for r in shapes} == {"flop_rate", "step_rate"}


def test_an_operation_that_was_not_measured_leaves_no_total(root):
    def called(slug, rate, block):
        values = {} if rate is None else {"step_rate": rate}
        one = run(block, None, **values)
        plan = PlannedCell(slug, {"framework": "mxnet"}, 2)
        return Cell(plan, ("gemm", slug, "cpu"), 1, Series("mxnet"), [one])

    whole = make_plan(read(root / "config/studies/vo2021.yaml"), root).cells
    shapes = [cell for cell in whole.values() if cell.network == "gemm"][:2]
    wanted = [Total(metric="calls_time", where={"network": "gemm"}, **{"is": {"network": "gemm"}})]
    good = [(called("a", 2.0, 1), shapes[0]), (called("b", 4.0, 1), shapes[1])]
    assert totals(good, wanted)[0].values == {1: 0.75}
    bad = [good[0], (called("b", None, 1), shapes[1])]
    assert (totals(bad, wanted)[0].values, totals(bad, wanted)[0].reason) == (
        {},
        f"b: {GPU_REASON}",
    )


def test_tables_of_machine_and_software_are_filled_from_the_runs(yin):
    machine = {r["what"]: r for r in rows_of(yin, "tables-3-4-machine")}
    assert machine["processor"]["published"] == "i7-8650U"
    assert machine["processor"]["here"] == "AMD EPYC 9B14"
    assert (machine["memory"]["here"], machine["memory"]["published"]) == ("23.5 GiB", "16 GB")
    assert (machine["GPU"]["here"], machine["GPU"]["reason"]) == ("", "NVML: no driver")
    software = {(r["what"], r["of"]): r for r in rows_of(yin, "tables-3-4-software")}
    version = software["version", "mxnet"]
    assert (version["published"], version["here"]) == ("1.5.0", "1.9.1")
    cuda = software["CUDA", "mxnet"]
    assert (cuda["published"], cuda["here"], cuda["reason"]) == ("10.0", "", "its build has none")
    traits = {(r["what"], r["of"]): r["here"] for r in rows_of(yin, "table-1")}
    assert traits["record format", "tensorflow"] == "tfrecord"
    assert traits["threads", "pytorch"] == "2"
    for name in ("table-1", "tables-3-4-machine", "tables-3-4-software"):
        text = yin.files[f"tables/{name}.tex"]
        columns = len(re.search(r"begin\{tabular\}\{(\w+)\}", text)[1])
        body = text.partition("\\toprule")[2].partition("\\bottomrule")[0]
        assert {r.count(" & ") + 1 for r in body.splitlines() if r.endswith("\\\\")} == {columns}


def test_a_framework_that_never_began_has_its_reason_in_every_row():
    missing = run(1, None)._replace(
        status="unsupported", reason="no python3.6", provenance={"machine": MACHINE, "software": {}}
    )
    cell = Cell(
        PlannedCell("c", {"framework": "cntk"}, 1), ("n", "d", "cpu"), 1, Series("cntk"), [missing]
    )
    for show in ("software", "frameworks"):
        asked = MachineTable(id="t", title="T", show=show)
        one = sheet(asked, Study([cell]))
        for what in one.rows:
            side = one.sides[what, "cntk"]
            told = side.reason == "no run of cntk began: no python3.6"
            assert told or (side.here and what in ("execution modes it has here", "record format"))


def test_the_losses_of_every_learning_rate_are_drawn(yin):
    assert ElementTree.fromstring(yin.files["figures/figure-13-loss.svg"]) is not None
    text = re.search(r"training loss by learning rate</strong>(.*?)<a", yin.page, re.S)[1]
    assert "n = 3 a cell" in text and "curves without figures" in text


def test_a_bar_that_is_missing_is_crossed_and_explained(root, yin):
    text = re.search(r"Speed at batch size 128, as printed.*?</strong>(.*?)<a", yin.page, re.S)[1]
    assert "3 of 6 figures were not measured, a cross each: no cell with device gpu" in text
    spec = FigureSpec(id="f", title="F", metric="step_rate", x="device", series="framework")
    factors = {"framework": "mxnet", "device": "gpu"}
    there = Entry(
        "speed", "step_rate", "steps/s", {**factors, "device": "cpu"}, 3.0, {1: 2.0}, None, None,
        (), "c", 2,
    )  # fmt: skip
    gone = Entry("speed", "step_rate", "steps/s", factors, 4.0, {}, "no GPU", None, (), None, 3)
    left, right = draw(spec, [there, gone]).axes
    crosses = [[line for line in ax.lines if line.get_marker() == "x"] for ax in (left, right)]
    assert [len(found) for found in crosses] == [0, 1]


def ours(mode, **factors):
    """An entry of a cell of ours that the source has not."""
    factors = {"device": "cpu", "precision": "fp32", "mode": mode, "seed": 1.0, **factors}
    return Entry(
        "training_speed", "throughput", "images/s", factors, None, {1: 2.0}, None,
        "not in the source", (), "c", None,
    )  # fmt: skip


def test_what_the_source_lacks_is_called_once_and_cells_are_told_apart():
    layout = Layout(id="t", title="T", rows=["metric", "precision"], columns=["gpu", "devices"])
    one = pivot(layout, told_apart([ours("eager")], [*layout.rows, *layout.columns]))
    assert one.columns == [("here (cpu)", "")] and not one.blank
    assert "| metric | precision | here (cpu) |" in as_markdown(one, [])
    both = [ours("eager"), ours("compile", seed=2.0)]
    two = pivot(layout, told_apart(both, [*layout.rows, *layout.columns]))
    assert two.columns == [("here (cpu, mode eager)", ""), ("here (cpu, mode compile)", "")]
    # Where every head is a factor of ours, the remark says it.
    found = told_apart(both, ["metric", "precision"])
    assert [each.remark for each in found] == [
        "not in the source; here with mode eager", "not in the source; here with mode compile",
    ]  # fmt: skip


def test_heads_that_begin_alike_stand_together_and_a_blank_cell_is_explained(root):
    text = made(root, "lawrence2017").files["tables/systems.md"]
    heads = text.splitlines()[2]
    assert heads.count("accuracy after 25 epochs (%)") == 3
    assert re.search(r"(\| accuracy after 25 epochs \(%\), \w+ ){3}\|", heads)
    assert "\n| – | 87 /" in text and BLANK in text


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on PATH")
def test_the_page_sorts_and_filters_in_a_browser_without_a_fault(yin, tmp_path):
    """By table 6's first column: rows ascend, then descend; the filter leaves the rows it names."""
    head = """<head><script>
    window.faults = [];
    addEventListener("error", (event) => faults.push(event.message));
    console.error = (...words) => faults.push(words.join(" "));
    </script>"""
    clicks = """<script>
    const table = document.querySelector("#table-6 ~ .scroll table");
    const keys = () => [...table.tBodies[0].rows].map((row) => row.cells[2].dataset.key);
    const button = table.tHead.rows[0].cells[2].querySelector("button");
    const told = [];
    for (const click of [1, 2]) { button.click(); told.push(keys().filter(Boolean).join()); }
    const field = document.querySelector("#table-6 ~ label.filter input");
    field.value = "MEMORY cpu";
    field.dispatchEvent(new Event("input"));
    told.push(table.tBodies[0].rows.length, faults.length);
    document.body.replaceChildren("told:" + told.join(";") + ".");
    </script></body>"""
    page = yin.page.replace("<head>", head).replace("</body>", clicks)
    (tmp_path / "page.html").write_text(page)
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        + [f"--user-data-dir={tmp_path}/browser", f"file://{tmp_path}/page.html"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    up, down, kept, faults = re.search(r"told:([^<]*)\.\s*<", done.stdout)[1].split(";")
    values = [float(one) for one in up.split(",")]
    assert values == sorted(values) and len(values) > 4
    assert [float(one) for one in down.split(",")] == sorted(values, reverse=True)
    rows = {
        (r["device"], r["unit"]) for r in rows_of(yin, "table-6") if r["metric"] == "cpu_memory"
    }
    assert (int(kept), faults) == (len(rows), "0")


def test_a_figure_repeated_for_factors_has_our_own_cells_of_these_alone(root):
    """JAX is not in the source; its bars stand in the figures of their network and data set."""
    names = ("mnist-execution-time", "fashion-mnist-execution-time")
    found = made(root, "vo2021").files
    assert {name for name in found if name.endswith(".svg")} == {f"figures/{n}.svg" for n in names}
    page = made(root, "piccione2018").page
    text = re.search(r"Training speed: cifar10, vgg16</strong>(.*?)<a", page, re.S)[1]
    assert "n = 3 a cell" in text
    counts = re.search(r"(\d+) of (\d+) figures were not measured", text)
    assert int(counts[2]) - int(counts[1]) == 6  # all of our frameworks, on the CPU


# A check of the machine


@pytest.fixture(scope="module")
def check(root):
    return made(root, "machine-check")


def test_the_check_stands_beside_the_published_machines(check):
    rows = rows_of(check, "machines")
    ours = {r["task"]: r for r in rows if not r["line"]}
    assert set(ours) == {"dense_gemm", "sparse_gemm"}  # of model A they stand in the same rows
    rate = 1000.0 * 1.004  # calls/s, of each of TensorFlow's shapes
    assert float(ours["dense_gemm"]["measured_median"]) == pytest.approx(5 / rate)
    assert float(ours["sparse_gemm"]["measured_median"]) == pytest.approx(4 / rate)
    theirs = [r for r in rows if r["line"] and r["task"] == "model_a" and r["n"]]
    assert len(theirs) == 4 * 3  # two trainings and an inference of each machine
    for row in theirs:
        if row["metric"] == "total_execution_time":
            steps_per_second = 1000.0 * 32**0.25 * 1.004 / 32
            assert float(row["measured_median"]) == pytest.approx(187_500 / steps_per_second)
            assert float(row["ratio"]) == pytest.approx(
                float(row["measured_median"]) / float(row["published"])
            )
        else:
            assert row["reason"].startswith("this check predicts nothing")
    head = check.files["tables/machines.md"].splitlines()[2]
    assert "| Setup 1, i7-10750H, RTX 2060 |" in head and "| here (cpu) |" in head


def test_the_check_says_what_is_comparable_and_claims_nothing(check, yin):
    assert "What is comparable, and what is not" in check.page
    assert "how many calls its time is of is not at hand" in check.page
    assert "The claims</h2>" not in check.page and "The claims</h2>" in yin.page
    assert "Of 0 claims" not in check.page
    told = "This machine reached 100 GFLOP/s in matrix products and 10 GB/s in copies on the cpu."
    assert told in check.page
    assert "What is comparable" not in yin.page


def test_what_holds_training_back_is_a_figure_or_has_its_reason(check, root):
    rows = [r for r in rows_of(check, "networks") if r["read as"] == "bottleneck"]
    found = {(r["network"], r["input"], r["framework"]): r for r in rows}
    for framework in ("pytorch", "tensorflow", "mxnet"):
        row = found["lenet5", "records", framework]
        assert float(row["measured_median"]) == pytest.approx(20)
        assert row["unit"] == "%"
        assert found["lenet5", "memory", framework]["reason"].startswith("it takes a GPU's")
    ours = [r for r in rows_of(made(root, "vo2021"), "results") if r["metric"] == "bottleneck"]
    assert len([r for r in ours if not r["line"]]) == 5
    assert all(r["reason"] for r in ours)
