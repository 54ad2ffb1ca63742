"""A study's tables: measured beside published."""

import csv
import html
import io
import re

import pytest

from fixtures.published import MACHINE, STUDIES, made, rows_of, run, verdicts
from fixtures.runs import GPU_REASON
from touchstone.plan.read import read
from touchstone.plan.study import make_plan
from touchstone.published.dossier import Layout, MachineTable, Total, read_dossier
from touchstone.published.entries import Entry, labels_that_differ, pivot
from touchstone.published.exports import BLANK, as_markdown
from touchstone.published.machine import Context, sheet
from touchstone.published.points import measured_points, totals
from touchstone.published.table import read_table
from touchstone.results.planned import PlannedCell
from touchstone.results.study import Cell, Series, Study

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def yin(root):
    return made(root, "yin2020")


@pytest.fixture(scope="module")
def check(root):
    return made(root, "machine-check")


def test_every_published_figure_is_in_a_table(root, yin):
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
    images = rows["mxnet", "cpu", "training_speed", "images/s"]
    assert "contradicts itself" in images["remark"]
    for speed in (row, images):  # no ratio of about 1,000 at the speeds of today
        assert (speed["ratio"], speed["difference"]) == ("", "")
        assert "not comparable: the column can be neither steps/s nor images/s" in speed["remark"]
    use = rows["tensorflow", "cpu", "cpu_utilization", "%"]
    assert float(use["ratio"]) == pytest.approx(float(use["measured_median"]) / 73.49)
    assert float(use["difference"]) == pytest.approx(float(use["measured_median"]) - 73.49)


@pytest.mark.parametrize(
    "name, printed", [("table-5", ("73.49", "3,249.181", "26.0")), ("table-9", ("202.54", "39.25"))]
)
def test_published_figures_have_the_digits_of_the_source(yin, name, printed):
    """39.25 was shown as 39.2; a figure in another unit than the source's has three digits."""
    for digits in printed:
        for kind in ("md", "tex"):
            assert f" {digits} / " in yin.files[f"tables/{name}.{kind}"], digits
        assert f'<span class="published">{digits}</span>' in yin.page


@pytest.mark.parametrize(
    "table, rows",
    [
        ("table-5", ("CPU utilization (%)", "CPU utilization, read as CPU utilization run (%)")),
        (
            "table-9",
            ("after 10 epochs, read as training accuracy (%)", "read as test accuracy (%)"),
        ),
        ("section-5-1", ("read as training accuracy (%)", "read as test accuracy (%)")),
    ],
)
def test_each_reading_of_a_figure_has_a_row_of_its_own(yin, table, rows):
    """Two figures shared a cell, and nothing said which was which."""
    lines = yin.files[f"tables/{table}.md"].split("Each cell:")[0].splitlines()
    for row in rows:
        assert any(f"{row} |" in line for line in lines), row
    assert not any(";" in line for line in lines)


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
    assert len(metrics) == 3 * 6
    read = {row["read as"] for row in ours}
    assert read >= {"training_accuracy", "test_accuracy", "time_to_accuracy"}


def test_accuracies_are_in_percent_and_have_only_a_difference(root):
    """On a GPU, as in the source; a cell of a CPU is beside no figure of the source."""
    result = made(root, "yin2020", device="gpu")
    rows = [r for r in rows_of(result, "table-10") if r["line"] and r["n"] != "0"]
    assert rows and all(r["unit"] == "%" and r["difference"] and not r["ratio"] for r in rows)


def test_accuracies_on_images_that_are_not_public_are_in_a_row_of_their_own(root):
    """TensorFlow's was beside the published one, whose system is not said, with a difference."""
    result = made(root, "lawrence2017")
    (row,) = [r for r in rows_of(result, "systems") if r["line"] == "6"]
    assert (row["n"], row["difference"]) == ("0", "") and "not public" in row["reason"]
    assert (row["metric"], row["unit"], row["published"]) == (
        "accuracy_after_25_epochs",
        "%",
        "87.0",
    )
    others = [
        r for r in rows_of(result, "systems") if "K80" in r["system"] or " CPU" in r["system"]
    ]
    assert {(r["published"], r["n"]) for r in others} == {("", "0")}  # not this machine's rows
    for framework in ("mxnet", "pytorch", "tensorflow"):
        ours = {
            (r["metric"], r["system"]): float(r["measured_median"])
            for r in rows_of(result, "systems")
            if (r["framework"], r["n"]) == (framework, "3")
        }
        metrics = ("accuracy_after_25_epochs", "epoch_time", "training_time")
        assert sorted(ours) == [(metric, "here (cpu)") for metric in metrics]
        speed = (2000 if framework == "pytorch" else 1000) * 50**0.25 * 1.008
        assert ours["epoch_time", "here (cpu)"] == pytest.approx(980 * 50 / speed)


def test_what_the_scale_makes_unlike_is_not_compared(root):
    whole, smoke = (made(root, "yin2020", scale, device="gpu") for scale in ("paper", "smoke"))
    *_, line = [r["line"] for r in rows_of(smoke, "table-10") if r["line"] and r["n"] != "0"]
    (row, *_) = [r for r in rows_of(smoke, "table-10") if r["line"] == line]
    assert row["measured_median"] and (row["difference"], row["ratio"]) == ("", "")
    why = "not comparable: dataset mnist-5k for cifar10, epochs 4 for 10"
    assert why in row["remark"] and why in smoke.files["tables/table-10.md"]
    assert why in html.unescape(smoke.page)
    (row, *_) = [r for r in rows_of(whole, "table-10") if r["line"] == line]
    assert row["difference"] and "not comparable" not in row["remark"]


@pytest.mark.parametrize("scale, compared", [("paper", True), ("smoke", False)])
def test_a_step_of_another_batch_is_not_compared(root, scale, compared):
    """On a GPU; a cell of a CPU is beside no figure of the source."""
    result = made(root, "keras3", scale, device="gpu")
    fits = [r for r in rows_of(result, "table-2") if (r["network"], r["task"]) == ("bert", "fit")]
    found = {r["system"]: r for r in fits if r["line"] and r["n"] != "0"}
    assert set(found) == {
        "native PyTorch (eager)", "native PyTorch (compiled)", "Keras 3 (TensorFlow)",
        "Keras 3 (JAX)", "Keras 3 (PyTorch)",
    }  # fmt: skip
    why = "not comparable: dataset synthetic-text for synthetic-text-512, batch size 8 for 32"
    for row in found.values():
        assert row["measured_median"] and bool(row["ratio"]) == compared
        assert (why in row["remark"]) != compared
    assert len({r["cell"] for r in fits if r["n"] != "0"}) == 9  # with those of ours only


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
    # A framework that the source has not is next to the others, under the same hardware.
    assert found["mnist", "lenet", "jax", "cpu-12-cores"]["n"] == "3"
    assert found["imagenet", "vgg16", "jax", "cpu-20-cores"]["n"] == "3"
    assert not any("here (cpu)" in row["hardware"] for row in rows)
    two = found["mnist", "lenet", "mxnet", "2xP100"]
    assert two["reason"] == "no cell with device gpu in this study"
    assert verdicts(result)["deeper-slower"] == "cannot tell"  # the generated speeds are alike
    assert verdicts(result)["deeper-power"] == "not measured"
    assert "throughput: holds in 12, cannot tell in 36 of 48" in result.files["claims.csv"]


FASHION = {("model_a", "fashion-mnist"), ("model_b", "fashion-mnist")}
"""What inference predicts."""


def test_our_cells_have_the_words_of_the_source(root):
    rows = rows_of(made(root, "vo2021"), "results")
    ours = {(r["task"], r["dataset"], r["machine"], r["precision"]) for r in rows if not r["line"]}
    models = {(m, d) for m in ("model_a", "model_b") for d in ("mnist", "fashion-mnist")}
    stack = ("conv_stack", "fashion-mnist")
    calls = {("dense_gemm", ""), ("sparse_gemm", ""), ("sparse_gemm, D left out", "")}
    whole = {(*one, "here (cpu)", "fp32") for one in {stack, *calls, *FASHION, *models}}
    assert ours == whole | {(*one, "here (cpu)", "fp16-amp") for one in models}
    times = [r for r in rows if "training_time" in r["read as"] and not r["line"]]
    assert len(times) == 4 * 2 + 1 and all(
        r["n"] == "3" for r in times
    )  # none of a cell that predicts
    assert {r["task"] for r in times if r["read as"] == "total_training_time"} == {
        "model_a",
        "model_b",
    }


@pytest.mark.parametrize("name", (*STUDIES, "algoperf2025", "lambda2025", "machine-check"))
def test_every_row_of_every_published_table_is_measured_or_has_its_reason(root, name):
    """What a source prints in its running text only (`table` is `text`) is in no table."""
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
        assert rows, f"{published.label} (line {published.line}) is in no table"
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
    kept = [r for r in rows if r["task"] == "sparse_gemm, D left out"]
    assert [r["n"] for r in kept] == ["3"]
    theirs = [r for r in rows if r["task"] == "dense_gemm" and r["line"]]
    assert len(theirs) == 4
    (why,) = {r["reason"] for r in theirs}
    assert why.startswith("the source does not say how many calls its time is of")
    shapes = rows_of(made(root, "vo2021"), "operations")
    assert len({r["dataset"] for r in shapes}) == 13
    assert {r["metric"] for r in shapes} == {"flop_rate", "step_rate"}


def test_an_operation_that_was_not_measured_leaves_no_total(root):
    plan = make_plan(read(root / "config/studies/vo2021.yaml"), root)
    products = [name for name, cell in plan.cells.items() if cell.network == "gemm"]

    def called(place, rate):
        name, values = products[place], {} if rate is None else {"step_rate": rate}
        planned = PlannedCell.of(name, plan.cells[name])
        return Cell(planned, Series("mxnet"), [run(1, None, **values)])

    wanted = [Total(metric="calls_time", where={"network": "gemm"}, **{"is": {"network": "gemm"}})]
    good, bad = [called(0, 2.0), called(1, 4.0)], [called(0, 2.0), called(1, None)]
    (total,) = totals(measured_points(good, plan.cells, ["step_rate"]), wanted)
    assert total.values == {1: 0.75}
    (total,) = totals(measured_points(bad, plan.cells, ["step_rate"]), wanted)
    assert (total.values, total.reason) == ({}, f"{products[1]}: {GPU_REASON}")


def test_tables_of_machine_and_software_are_filled_from_the_runs(yin):
    machine = {r["what"]: r for r in rows_of(yin, "table-3")}
    assert machine["processor"]["published"] == "i7-8650U"
    assert machine["processor"]["here"] == "AMD EPYC 9B14"
    assert (machine["memory"]["here"], machine["memory"]["published"]) == (
        "23.5 GiB",
        "16 GB, DDR3, 1867 MHz",
    )
    for what in ("disks", "board"):  # of which the generated runs say nothing
        assert machine[what]["reason"] == "the record does not say"
    assert (machine["GPU"]["here"], machine["GPU"]["reason"]) == ("", "NVML: no driver")
    software = {(r["what"], r["of"]): r for r in rows_of(yin, "table-4")}
    version = software["version", "mxnet"]
    assert (version["published"], version["here"]) == ("1.5.0", "1.9.1")
    cuda = software["CUDA", "mxnet"]
    assert (cuda["published"], cuda["here"], cuda["reason"]) == ("10.0", "", "its build has none")
    rows = {(r["what"], r["of"]): r for r in rows_of(yin, "table-1")}
    traits = {place: row["here"] for place, row in rows.items()}
    assert [*dict.fromkeys(what for what, _ in rows)][:4] == [
        "language", "hardware", "imperative", "symbolic",
    ]  # fmt: skip
    assert traits["hardware", "mxnet"] == "CPU, GPU"
    assert traits["imperative", "mxnet"] == "imperative"
    assert traits["symbolic", "mxnet"] == "static, hybrid"
    assert rows["imperative", "tensorflow"]["reason"] == "its adapter has no such mode"
    assert (rows["symbolic", "pytorch"]["published"], traits["symbolic", "pytorch"]) == (
        "no",
        "compile",
    )
    assert traits["record format", "tensorflow"] == "tfrecord"
    assert traits["threads", "pytorch"] == "2"
    for name in ("table-1", "table-3", "table-4"):
        text = yin.files[f"tables/{name}.tex"]
        columns = len(re.search(r"begin\{tabular\}\{(\w+)\}", text)[1])
        body = text.partition("\\toprule")[2].partition("\\bottomrule")[0]
        assert {r.count(" & ") + 1 for r in body.splitlines() if r.endswith("\\\\")} == {columns}


OF_AN_ADAPTER = ("language", "hardware", "imperative", "symbolic", "record format")
"""What is so of a framework whether it runs or not."""


def test_a_framework_that_never_began_has_its_reason_in_every_row(root):
    dossier = read_dossier(root / "config/claims/yin2020.yaml")
    missing = run(1, None)._replace(
        status="unsupported", reason="no python3.6", provenance={"machine": MACHINE, "software": {}}
    )
    row = {"framework": "cntk", "network": "n", "dataset": "d"}
    cell = Cell(PlannedCell.of_row("c", row, 1), Series("cntk"), [missing])
    for show in ("software", "frameworks"):
        asked = MachineTable(id="t", title="T", show=show)
        one = sheet(asked, Context(Study([cell]), {}, [], dossier))
        for what in one.rows:
            side = one.sides[what, "cntk"]
            told = side.reason == "no run of cntk began: no python3.6"
            assert told or what in OF_AN_ADAPTER, what


def ours(mode, **factors):
    """An entry of a cell of ours that the source has not."""
    factors = {"device": "cpu", "precision": "fp32", "mode": mode, "seed": 1.0, **factors}
    return Entry(
        "training_speed", "throughput", "images/s", factors, None, {1: 2.0}, None,
        "not in the source", (), "c", None,
    )  # fmt: skip


def test_what_the_source_lacks_is_called_once_and_cells_are_labels_that_differ():
    layout = Layout(id="t", title="T", rows=["metric", "precision"], columns=["gpu", "devices"])
    one = pivot(layout, labels_that_differ([ours("eager")], [*layout.rows, *layout.columns]))
    assert one.columns == [("here (cpu)", "")] and not one.blank
    assert "| metric | precision | here (cpu) |" in as_markdown(one, [])
    both = [ours("eager"), ours("compile", seed=2.0)]
    two = pivot(layout, labels_that_differ(both, [*layout.rows, *layout.columns]))
    assert two.columns == [("here (cpu, mode eager)", ""), ("here (cpu, mode compile)", "")]
    # Where every head is a factor of ours, the remark says it.
    found = labels_that_differ(both, ["metric", "precision"])
    assert [each.remark for each in found] == [
        "not in the source; here with mode eager", "not in the source; here with mode compile",
    ]  # fmt: skip


def test_heads_that_begin_alike_stand_together_and_a_blank_cell_is_explained(root):
    text = made(root, "lawrence2017").files["tables/systems.md"]
    heads = text.splitlines()[2]
    assert heads.count("accuracy after 25 epochs (%)") == 3
    assert re.search(r"(\| accuracy after 25 epochs \(%\), \w+ ){3}\|", heads)
    assert "\n| – | 87 /" in text and BLANK in text


def test_the_check_is_next_to_the_published_machines(check):
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


def test_what_holds_training_back_is_a_figure_or_has_its_reason(check, root):
    rows = [r for r in rows_of(check, "networks") if r["read as"] == "bottleneck"]
    found = {(r["network"], r["input"], r["framework"]): r for r in rows}
    for framework in ("pytorch", "tensorflow", "mxnet"):
        row = found["lenet5", "records", framework]
        assert float(row["measured_median"]) == pytest.approx(20)
        assert row["unit"] == "%"
        assert found["lenet5", "memory", framework]["reason"].startswith("it takes a GPU's")
    ours = [r for r in rows_of(made(root, "vo2021"), "results") if r["metric"] == "bottleneck"]
    assert len([r for r in ours if not r["line"]]) == 4 * 2 + 1
    assert all(r["reason"] for r in ours)


def test_a_figure_of_a_gpu_has_its_name_and_generation(root):
    cells = make_plan(read(root / "config/studies/yin2020.yaml"), root).cells
    slug, cell = next(iter(cells.items()))
    one = run(1, cell, throughput=9.0)
    gpus = [{"name": "NVIDIA H200", "compute_capability": "9.0"}]
    one = one._replace(provenance={**one.provenance, "machine": {**MACHINE, "gpus": gpus}})
    measured = Cell(PlannedCell.of(slug, cell), Series(cell.framework), [one])
    for device, known in (("gpu", ("NVIDIA H200", "9.0")), ("cpu", (None, None))):
        whole = cell.model_copy(update={"device": device})
        (point,) = measured_points([measured], {slug: whole}, ["throughput"])
        assert (point.factors.get("gpu"), point.factors.get("generation")) == known


def test_the_tables_of_piccione2018_have_machines_versions_parameters_and_networks(root):
    """Its figures 4.1.b, 4.3, 4.5 and 5.1."""
    result = made(root, "piccione2018")
    rows = {(r["what"], r["of"]): r for r in rows_of(result, "figure-4-1-b")}
    assert rows["processor", "this machine"]["published"] == "E5-2630"
    assert rows["processor", "this machine"]["here"] == MACHINE["cpu_model"]
    rows = {(r["what"], r["of"]): r for r in rows_of(result, "figure-4-3")}
    assert (rows["version", "mxnet"]["published"], rows["version", "mxnet"]["here"]) == (
        "1.2.0",
        "1.9.1",
    )
    assert rows["version", "jax"]["published"] == ""
    rows = {(r["what"], r["of"]): r for r in rows_of(result, "figure-4-5")}
    assert len(rows) == 9 * 3
    for (network, what), row in rows.items():
        ours = row["here"] == row["published"]
        diverges = network in ("imagenet, googlenet", "imagenet, vgg16") and what == "learning rate"
        assert ours != diverges, (network, what, row)
    rows = {(r["what"], r["of"]): r for r in rows_of(result, "figure-5-1")}
    lacking = {place for place, row in rows.items() if row["published"] == "no"}
    assert lacking == {
        ("cifar10, alexnet", "cntk"), ("cifar10, googlenet", "tensorflow"),
        ("cifar10, googlenet", "pytorch"), ("cifar10, vgg16", "tensorflow"),
        ("cifar10, vgg16", "cntk"), ("imagenet, googlenet", "pytorch"),
    }  # fmt: skip
    assert {row["here"] for row in rows.values()} == {"yes"} and len(rows) == 9 * 6


def test_appendix_a_has_one_column_for_the_two_cpus(root):
    text = made(root, "piccione2018").files["tables/appendix-a-speed.md"]
    heads = [part.strip() for part in text.splitlines()[2].split("|")[1:-1]]
    assert heads == [
        "dataset", "network", "framework", "CPU, E5-2630, 12 or 20 cores", "1xK20m", "1xP100",
        "2xK20m", "2xP100",
    ]  # fmt: skip
    of_the_source = [
        line for line in text.splitlines() if re.match(r"\| \w+ \| \w+ \| (?!jax)", line)
    ]
    assert len(of_the_source) == 45 + 1 and not any("|  |" in line for line in of_the_source)


def test_what_of_a_source_is_left_out_is_said_with_its_reason(yin):
    text = html.unescape(yin.page)
    assert "What of the source is left out" in text and "Table 2 and figure 1: " in text


def test_a_gpu_is_next_to_every_gpu_of_lambdas_table(root):
    """Of one device, in both precisions; SSD is no network here."""
    rows = rows_of(made(root, "lambda2025", device="gpu"), "throughput")
    measured = {(r["gpu"], r["precision"]) for r in rows if r["line"] and r["n"] != "0"}
    one = ("H100 80GB PCIe", "H100 80GB SXM5", "GH200 96GB", "H200 140GB SXM", "B200 192GB")
    assert measured == {(gpu, precision) for gpu in one for precision in ("fp16", "fp32")}
    assert all(r["ratio"] for r in rows if r["line"] and r["n"] != "0")
    reasons = {r["reason"] for r in rows if r["network"] == "ssd"}
    assert reasons == {"no network here finds objects in images"}


def test_two_networks_of_algoperf_are_next_to_their_times_of_a_step(root):
    """In JAX and in compiled PyTorch, read as seconds, for the source prints no unit."""
    rows = rows_of(made(root, "algoperf2025", device="gpu"), "step-time")
    measured = {(r["network"], r["framework"]): r for r in rows if r["line"] and r["n"] != "0"}
    workloads = ("imagenet_resnet", "imagenet_vit")
    assert set(measured) == {(one, f) for one in workloads for f in ("jax", "pytorch")}
    assert [float(measured["imagenet_vit", f]["published"]) for f in ("jax", "pytorch")] == [
        386,
        321,
    ]
    assert all(row["ratio"] and row["unit"] == "ms" for row in measured.values())
