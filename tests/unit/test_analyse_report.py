"""plot and report: files for good, failed and empty studies; words that the numbers support."""

import csv
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from matplotlib.text import Text

from fixtures.runs import (
    FACTORS,
    cell_name,
    default_telemetry,
    edit_json,
    make_record,
    make_study,
    write_plan,
)
from touchstone.analysis import findings
from touchstone.analysis.comparison import compare
from touchstone.analysis.disturbed import REPEAT, Disturbed, disturbed, of_table
from touchstone.paths import CLI
from touchstone.report.figures.losses import draw_losses
from touchstone.report.figures.panels import MUTED
from touchstone.report.figures.points import POINT_FIGURES, draw_points
from touchstone.report.figures.render import drawing, drawn
from touchstone.report.figures.style import CHOSEN, panel_title, style_of
from touchstone.report.page import FIGURES, ROWS
from touchstone.report.sections.answer import answer
from touchstone.report.text import number
from touchstone.results.files import InputError
from touchstone.results.max_batch import read_max_batches
from touchstone.results.metrics import METRICS
from touchstone.results.study import Series, read_study
from touchstone.results.tables import chosen, gather


def script(name, root, *extra):
    paths = [
        *("--plan", root / "plan.tsv", "--records", root / "records"),
        *("--tables", root / "tables"),
    ]
    command = [sys.executable, CLI, name, *paths, *extra]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def plot(root, folder="figures"):
    return script("plot", root, "--output", root / folder)


def report(root, *extra):
    return script(
        "report",
        root,
        *("--figures", root / "figures", "--config", root / "config.resolved.yaml"),
        *("--output", root / "report" / "index.html"),
        *extra,
    )


def gathered(root, certificates=None):
    gather(root / "plan.tsv", root / "records", root / "tables", certificates or {})
    return read_study(root / "plan.tsv", root / "tables", root / "records")


def built(root):
    """Tables, figures and page of a study, made by the scripts."""
    gathered(root)
    for done in (plot(root), report(root)):
        assert (done.returncode, done.stderr) == (0, "")
    return root


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return built(make_study(tmp_path_factory.mktemp("good")))


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    return built(make_study(tmp_path_factory.mktemp("bad"), failures=True))


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    root = tmp_path_factory.mktemp("failed")
    options = {"status": "unsupported", "reason": "no <such> layer"}
    make_record(root / "runs", root / "records", **options)
    write_plan(root / "plan.tsv", [{}], repeats=1)
    (root / "config.resolved.yaml").write_text("title: Nothing <b>works</b>\n")
    return built(root)


def study_of(root):
    return read_study(root / "plan.tsv", root / "tables", root / "records")


def page_of(root):
    return (root / "report" / "index.html").read_text()


def text_of(root):
    """The page without its tags, style, script and white space."""
    page = re.sub(r"<(style|script)>.*?</\1>", "", page_of(root), flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


# Figures


@pytest.mark.parametrize("root", ["good", "bad", "failed"])
def test_every_figure_is_a_valid_file_with_texts(request, root):
    folder = request.getfixturevalue(root) / "figures"
    expected = {f"{name}.{kind}" for name in FIGURES for kind in ("svg", "png")}
    assert {path.name for path in folder.iterdir()} == expected | {"captions.json"}
    captions = json.loads((folder / "captions.json").read_text())
    for name in FIGURES:
        svg = ElementTree.parse(folder / f"{name}.svg").getroot()
        assert svg.tag == "{http://www.w3.org/2000/svg}svg"
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n")
        texts = captions[name]
        assert set(texts) == {"title", "caption", "alt"}
        assert re.search(r"\bn = (1 run|3 runs) per.*EPYC", texts["caption"])


def test_figures_are_the_same_bytes_again(bad):
    assert plot(bad, "again").returncode == 0
    for path in (bad / "figures").iterdir():
        assert path.read_bytes() == (bad / "again" / path.name).read_bytes(), path.name


def figure_words(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts] + [
        text.get_text() for text in figure.texts
    ]


def test_every_run_is_a_point_and_every_missing_one_a_word(good, bad):
    kind = POINT_FIGURES[0]
    with drawing():
        for root, points, words in (
            (good, 18, []),
            (bad, 13, ["1/3\ntimeout", "1/3\ndiverged", "oom"]),
        ):
            figure = draw_points(study_of(root), kind)
            lines = [line for ax in figure.axes for line in ax.lines]
            assert sum(len(x.get_xdata()) for x in lines if x.get_linestyle() == "None") == points
            assert figure_words(figure) == words


def test_an_empty_figure_says_why(failed):
    study = study_of(failed)
    with drawing():
        for figure in (draw_points(study, POINT_FIGURES[0]), draw_losses(study)):
            (text,) = figure_words(figure)
            assert "No run" in text and "unsupported: no <such> layer" in " ".join(text.split())


def test_loss_panels_hold_all_repeats(bad):
    with drawing():
        figure = draw_losses(study_of(bad))
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["batch size 64", "batch size 128"]
    thin = [x for ax in figure.axes for x in ax.lines if x.get_linewidth() < 1]
    assert sum(1 for line in thin if len(line.get_xdata())) == 15  # all but the three without one
    assert "mxnet: oom" in figure_words(figure)


def test_a_title_is_broken_between_its_parts_and_within_one_that_is_too_long():
    facet = ("resnet50-cifar", "cifar10-small", "cpu")
    assert panel_title(facet, 8.0) == "resnet50-cifar · cifar10-small · cpu"
    assert panel_title(facet, 8.0 / 3) == "resnet50-cifar\ncifar10-small · cpu"
    assert panel_title(("a-very-long-name-of-a-network", "cpu"), 2.0) == (
        "a-very-long-\nname-of-a-\nnetwork · cpu"
    )


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """Three panels with long names, of one epoch."""
    root = tmp_path_factory.mktemp("narrow")
    names = ("resnet50-cifar", "googlenet-cifar", "alexnet-grouped-cifar")
    cells = [{"network": name, "dataset": "synthetic-224-small", "epochs": 1} for name in names]
    for cell in cells:
        make_record(root / "runs", root / "records", **cell)
    write_plan(root / "plan.tsv", cells, repeats=1)
    return gathered(root)


@pytest.mark.parametrize("draw", [lambda s: draw_points(s, POINT_FIGURES[0]), draw_losses])
def test_titles_stay_within_their_panels(narrow, draw):
    with drawing():
        figure = draw(narrow)
        figure.draw_without_rendering()
        titles = [
            next(
                child.get_window_extent()
                for child in ax.get_children()
                if isinstance(child, Text) and child.get_text() == ax.get_title(loc="left")
            )
            for ax in figure.axes
        ]
    assert len(titles) == 3
    ends = [titles[1].x0, titles[2].x0, figure.bbox.x1]
    assert all(title.x1 < end for title, end in zip(titles, ends, strict=True))


def test_one_epoch_is_one_tick_without_an_offset(narrow):
    with drawing():
        figure = draw_losses(narrow)
        figure.draw_without_rendering()
    for ax in figure.axes:
        low, high = ax.get_xlim()
        assert [tick for tick in ax.get_xticks() if low <= tick <= high] == [1]
        assert ax.yaxis.get_offset_text().get_text() == ""


def test_styles_are_fixed_and_distinct():
    assert len({colour for colour, _ in CHOSEN.values()}) == len(CHOSEN) == 6
    assert len({marker for _, marker in CHOSEN.values()}) == 6
    assert style_of("paddle") == style_of("paddle")
    assert style_of("paddle")[0] not in {colour for colour, _ in CHOSEN.values()}


def test_execution_modes_are_never_mixed_under_one_name(tmp_path):
    cells = [{"mode": mode, "epochs": 2} for mode in ("eager", "compile")]
    for cell in cells:
        make_record(tmp_path / "runs", tmp_path / "records", **cell)
    write_plan(tmp_path / "plan.tsv", cells, repeats=1)
    study = gathered(tmp_path)
    assert [series.label for series in study.series] == ["pytorch (eager)", "pytorch (compile)"]


def test_factors_that_vary_are_told(tmp_path):
    cells = [
        {"framework": "pytorch", "mode": "eager", "batch_size": 32, "learning_rate": 0.1},
        {"framework": "pytorch", "mode": "eager", "batch_size": 64, "learning_rate": 0.2},
        {"framework": "mxnet", "mode": "hybrid", "batch_size": 64, "learning_rate": 0.1},
    ]
    for cell in cells:
        make_record(tmp_path / "runs", tmp_path / "records", **cell)
    write_plan(tmp_path / "plan.tsv", cells, repeats=1)
    (tmp_path / "config.resolved.yaml").write_text("title: Rates\n")
    page = text_of(built(tmp_path))
    assert "By framework, mode: pytorch eager , mxnet hybrid" in page
    assert "Framework Batch size Learning rate Runs" in page


def test_threads_and_waiting_that_a_study_sweeps_are_in_the_labels(tmp_path):
    cells = [{"mode": "eager"}, {"mode": "compile"}]
    for cell in cells:
        make_record(tmp_path / "runs", tmp_path / "records", **cell)
    write_plan(tmp_path / "plan.tsv", cells, repeats=1)
    own = ["threads\twait_policy", "\tdefault", "1\tpassive"]
    rows = (tmp_path / "plan.tsv").read_text().splitlines()
    lines = (f"{row}\t{values}\n" for row, values in zip(rows, own, strict=True))
    (tmp_path / "plan.tsv").write_text("".join(lines))
    assert [series.label for series in gathered(tmp_path).series] == [
        "pytorch (eager, threads –, wait policy default)",
        "pytorch (compile, threads 1, wait policy passive)",
    ]


# The answer


def speeds(root, table, batch=64):
    """A study with the given throughputs (images/s) by framework, three repeats or more."""
    for framework, rates in table.items():
        for repeat, rate in enumerate(rates, start=1):
            make_record(
                root / "runs",
                root / "records",
                framework=framework,
                repeat=repeat,
                batch_size=batch,
                step_seconds=lambda step, r=rate: batch / r,
            )
    cells = [{"framework": framework, "batch_size": batch} for framework in table]
    write_plan(root / "plan.tsv", cells, repeats=len(next(iter(table.values()))))
    return gathered(root)


def test_a_clear_winner_is_named_with_ratio_n_and_caveat(tmp_path):
    study = speeds(tmp_path, {"mxnet": [256, 258, 260], "pytorch": [512, 516, 520]})
    (comparison,) = compare(study)
    assert comparison.winner == Series("pytorch") and comparison.n == 3
    assert comparison.reference.series == Series("mxnet")
    result, caveat = answer(study, [comparison])
    words = "pytorch was fastest at batch size 64, at 2.00 [2.00, 2.00] times the throughput of"
    assert f"{words} mxnet" in result
    assert caveat.startswith("n = 3, indicative") and "95 %" in caveat


def test_what_slows_a_whole_block_is_paired_away(tmp_path):
    """The ranges overlap by far, but in each block the ratio is about 1.2."""
    rates = {"mxnet": [200, 400, 300], "pytorch": [240, 484, 357]}
    (comparison,) = compare(speeds(tmp_path, rates))
    assert comparison.winner == Series("pytorch")


def test_an_interval_that_holds_1_is_not_ranked(tmp_path):
    study = speeds(tmp_path, {"mxnet": [256, 258, 400], "pytorch": [399, 516, 520]})
    (comparison,) = compare(study)
    assert comparison.winner is None
    result, _ = answer(study, [comparison])
    assert "no difference shown between the fastest, pytorch and mxnet" in result
    assert "fastest at" not in result


def test_the_fastest_must_beat_all_others_not_only_the_next(tmp_path):
    rates = {"pytorch": [300, 310, 320], "mxnet": [280, 289, 298], "tensorflow": [100, 200, 305]}
    study = speeds(tmp_path, rates)
    (comparison,) = compare(study)
    assert comparison.fastest.series == Series("pytorch") and comparison.winner is None
    result, _ = answer(study, [comparison])
    assert "no difference shown between the fastest, pytorch and tensorflow" in result


def test_with_more_rivals_each_interval_is_wider(tmp_path):
    """Logarithms 0.06, 0.09, 0.12 have a t of 5.2: above 4.3 (95 %), below 6.2 (97.5 %)."""
    rates = {"mxnet": [100, 100, 100], "pytorch": [106.18, 109.42, 112.75]}
    (two,) = compare(speeds(tmp_path / "two", rates))
    assert two.winner == Series("pytorch")
    (three,) = compare(speeds(tmp_path / "three", {**rates, "tensorflow": [50, 50, 50]}))
    assert three.winner is None
    assert [cell.series for cell in three.rivals] == [Series("mxnet")]


def test_one_run_is_too_few_to_rank(tmp_path):
    study = speeds(tmp_path, {"mxnet": [100], "pytorch": [500]})
    result, caveat = answer(study, compare(study))
    assert "too few runs to rank the fastest, mxnet and pytorch" in result and not caveat


def test_six_runs_are_no_longer_indicative(tmp_path):
    study = speeds(tmp_path, {"mxnet": [256] * 6, "pytorch": [512] * 6})
    assert answer(study, compare(study))[1].startswith("n = 6: ")


def test_nothing_to_compare_is_said(failed):
    study = study_of(failed)
    assert compare(study) == []
    assert "no throughput to compare" in answer(study, [])[0]


@pytest.mark.parametrize(
    ("value", "text"),
    [(14012.5, "14,010"), (9.996, "9.996"), (99.996, "100.0"), (0.01234567, "0.01235"), (0, "0"),
     (None, "–"), (256.0, "256.0"), (1e-9, "1e-09")],
)  # fmt: skip
def test_numbers_have_four_digits(value, text):
    assert number(value) == text


# The page


class Checker(HTMLParser):
    """Collects ids, headings, images, links and unclosed tags."""

    VOID = frozenset({"meta", "img", "br", "link", "input"})

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
    assert all(url.startswith(("data:image/svg+xml;base64,", "#")) for url in checked.urls)
    assert {url[1:] for url in checked.urls if url.startswith("#")} <= set(checked.ids)
    assert "http" not in page and "url(" not in page and "@import" not in page
    assert '<html lang="en">' in page
    assert page.count("<script") == page.count("<script>") == 1  # inline
    assert checked.headings[0] == 1 and checked.headings.count(1) == 1
    steps = zip(checked.headings, checked.headings[1:], strict=False)
    assert all(after - before <= 1 for before, after in steps)
    assert len(checked.images) == len(FIGURES) and all(image["alt"] for image in checked.images)


def test_page_has_the_words_for_failures(bad):
    page = text_of(bad)
    for words in (
        "5 of 18 runs gave no full result (diverged 1, oom 3, timeout 1)",
        "stopped after 600 s, at step 260",
        "the loss is nan at step 410",
        "std::bad_alloc in Forward",
        "1/3 timeout",
        "mxnet 128 oom 0 – no number – not shown parity_not_shown 3",
    ):
        assert words in page, words
    assert "Every planned run finished" not in page


def test_page_has_the_numbers_and_the_proof(good):
    page = text_of(good)
    assert "Every planned run finished." in page
    assert "pytorch was fastest at batch size 64" in page
    assert "at batch size 128 no difference shown between the fastest, pytorch and mxnet" in page
    assert "No GPU columns, because no run has a value: no NVIDIA driver" in page
    assert "none differs from what was requested" in page
    assert "parameters 61706 61706 as requested pytorch, tensorflow, mxnet 18" in page
    assert "pytorch 2.13.0" in page and "torch==2.13.0" in page
    assert "results_format: 2" in page


def test_page_sets_all_phases_against_the_measured_ones(tmp_path):
    """2 s before the first step, 3 to the measured phase, 3.75 measured, 0.5 of evaluation."""
    make_record(tmp_path / "runs", tmp_path / "records")
    write_plan(tmp_path / "plan.tsv", [{}], repeats=1)
    (tmp_path / "config.resolved.yaml").write_text("title: One\n")
    page = text_of(built(tmp_path))
    assert "All runs together took 9.25 s, 3.75 s of them in measured phases: 2.47 times" in page


SEARCH = {
    "format": 1,
    "settings": {"framework": "pytorch", "mode": "channels_last"},
    "max_batch_size": {"value": 432, "unit": "images", "reason": None},
    "status": "ok",
    "limit": {"host_memory_mib": 320.0, "from": "memory_limit"},
    "probes": [{"batch_size": 432, "status": "ok"}, {"batch_size": 433, "status": "oom"}],
}


# Other programs


def beside_others(root, shares):
    """The study of one cell, beside whose runs others used these shares of the machine."""
    for repeat, share in enumerate(shares, 1):

        def telemetry(end, used=1.5 + 2 * share):
            rows = enumerate(default_telemetry(end))
            return [{**row, "machine_cpu_seconds": 9.0 + used * i} for i, row in rows]

        # The last one was ended, and has no throughput.
        ended = {"status": "timeout", "reason": "slow", "steps": 8} if repeat == len(shares) else {}
        place = root / "runs", root / "records"
        make_record(*place, repeat=repeat, telemetry=telemetry, **ended)
    write_plan(root / "plan.tsv", [{}], repeats=len(shares))
    (root / "config.resolved.yaml").write_text("title: Others\n")
    return root


def test_a_study_beside_other_programs_is_not_to_be_trusted(tmp_path):
    root = built(beside_others(tmp_path, [0.5, 0.0625, 0.25]))
    fault = (
        "Do not trust these numbers: other programs used the CPU during 2 of 3 runs "
        "(38 % of the machine at the median)"
    )
    page = text_of(root)
    told = f"{fault}. End those programs and repeat the runs; finished ones are not repeated"
    assert f"{told} otherwise: {REPEAT} The answer" in page  # nothing between it and the answer
    found = of_table(root / "tables/measurements.csv")
    assert found == Disturbed(2, 3, 37.5)
    assert found.line == f"{fault}. End those programs and repeat the runs: {REPEAT}"


def test_a_third_of_the_runs_may_be_disturbed(tmp_path):
    root = built(beside_others(tmp_path, [0.5, 0.0625, 0.0]))
    assert "noisy_machine" in page_of(root) and "Do not trust" not in page_of(root)
    assert of_table(root / "tables/measurements.csv") is None
    assert of_table(root / "tables/none.csv") is None
    runs = [(["drifting", "noisy_machine"], 40.0)] * 4 + [([], 1.0)] * 8
    assert disturbed(runs) is None and disturbed(runs[:-1]) == Disturbed(4, 11, 40.0)
    assert disturbed([]) is None


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
    gather(tmp_path / "plan.tsv", tmp_path / "records", tmp_path / "tables", {}, found)
    lines = (tmp_path / "tables" / "summary.csv").read_text().splitlines()
    rows = [line for line in lines if "max_batch_size" in line]
    assert len(rows) == 2  # the search holds for both cells, the other one for none
    assert all(",max_batch_size,images,ok,1,432.0,432.0,432.0,432.0,,," in row for row in rows)
    assert study_of(tmp_path).cells[0].flags[-1] == "parity_not_shown"
    (tmp_path / "config.resolved.yaml").write_text("title: One\n")
    for done in (plot(tmp_path), report(tmp_path, "--max-batches", tmp_path / "max_batch")):
        assert (done.returncode, done.stderr) == (0, "")
    page = page_of(tmp_path)
    assert page.count("The largest batch that fits") == 2  # heading and label
    assert "<td>432</td><td>2</td>" in page and "320 MiB of host memory (memory_limit)" in page


def test_a_damaged_search_is_refused(tmp_path):
    (tmp_path / "one.json").write_text(json.dumps({**SEARCH, "limit": None}))
    with pytest.raises(InputError, match="one.json: not a search of this version"):
        read_max_batches(tmp_path)
    assert read_max_batches(None) == []


def test_page_escapes_what_it_quotes(failed):
    page = page_of(failed)
    assert "no &lt;such&gt; layer" in page and "<such>" not in page
    assert "Nothing &lt;b&gt;works&lt;/b&gt;" in page
    assert "there is no throughput to compare" in page


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
    page = page_of(built(tmp_path))
    told = "hybrid, 1 thread (1); hybrid, active waiting (2)"
    assert f"chosen: {told}<" in page
    assert '<td class="text">static</td><td>0 of 3</td><td>100.0</td><td>4.00</td>' in page
    assert '"text">hybrid, active waiting</td><td>2 of 2</td><td>400.0</td><td>1.000</td>' in page
    assert '"text">hybrid, 1 thread</td><td>1 of 3</td><td>50.00</td><td>8.00</td>' in page
    assert "unsupported 3" in page and "no gcc" in page
    assert '<a href="../runs/c/rep2/trials/hybrid-active/events.jsonl">run 2</a>' in page
    findings.write(study_of(tmp_path), tmp_path / "tables")
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
    assert summary == {("hybrid 3", told)}
    with open(tmp_path / "tables/measurements.csv") as file:
        each = {(row["repeat"], row["best_chose"]) for row in csv.DictReader(file)}
    active = "hybrid, active waiting"
    assert each == {("1", active), ("2", active), ("3", "hybrid, 1 thread")}


def test_what_threads_are_is_no_choice_of_best_where_the_study_says_it():
    first = {"mode": "static", "threads": 4, "wait_policy": "active", "throughput": 1.0}
    assert chosen({"trials": [first]}) == "static"
    assert chosen({"trials": [first, {**first, "mode": "hybrid", "throughput": 2.0}]}) == "hybrid"
    two = {**first, "threads": 2, "wait_policy": "passive", "throughput": 2.0}
    assert chosen({"trials": [first, two]}) == "static, 2 threads, passive waiting"
    assert chosen({"trials": [{**first, "throughput": None}]}) == chosen({"trials": []}) == ""


def test_page_shows_a_hint_once(tmp_path):
    root = make_study(tmp_path)
    assert 'class="caveat hint"' not in (built(root) / "report/index.html").read_text()
    for path in (root / "records").glob("tensorflow*/rep*.json"):
        record = json.loads(path.read_text())
        record["provenance"]["settings"]["hints"] = ["another mode may be faster"]
        path.write_text(json.dumps(record))
    assert text_of(built(root)).count("another mode may be faster.") == 1


def test_page_marks_a_setting_that_was_ignored(tmp_path):
    root = make_study(tmp_path)
    path = next((root / "records").glob("mxnet*/rep1.json"))
    record = json.loads(path.read_text())
    record["provenance"]["settings"]["effective"]["learning_rate"] = 0.01
    path.write_text(json.dumps(record))
    page = text_of(built(root))
    assert "Some settings that were read back" in page
    assert "learning rate 0.05 0.01 differs mxnet 1" in page


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


def test_page_shows_the_proof_beside_the_speeds(tmp_path):
    root = make_study(tmp_path)
    for path in (root / "records").glob("mxnet*/*.json"):
        record = json.loads(path.read_text())
        record["provenance"]["deviations"] = ["keeps epsilon in <single> precision"]
        path.write_text(json.dumps(record))
    (root / "lenet5.json").write_text(json.dumps(CERTIFICATE))
    gathered(root, {"lenet5": CERTIFICATE})
    assert plot(root).returncode == 0
    done = script(
        "report",
        root,
        *("--figures", root / "figures", "--config", root / "config.resolved.yaml"),
        *("--certificates", root / "lenet5.json", "--output", root / "report" / "index.html"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    page = text_of(root)
    assert "lenet5 pytorch reference" in page
    assert "lenet5 tensorflow equal to pytorch 2.0e-15 of 1e-10 3.0e-12 of 1e-08" in page
    assert "lenet5 mxnet differs" in page and "beyond the tolerance: fp64 gradients" in page
    assert "mxnet, lenet5 keeps epsilon in &lt;single&gt; precision" in page
    assert "differs parity_not_shown 3" in page and "6 runs." in page
    captions = json.loads((root / "figures" / "captions.json").read_text())
    for texts in captions.values():
        assert "†: equal computation is not shown (mxnet on lenet5)" in texts["caption"]
    assert "parity_not_shown" not in captions["throughput"]["caption"]


def test_a_page_without_certificates_says_so(good):
    page = text_of(good)
    assert "No certificate was asked for in this study" in page
    assert "pytorch not shown" in page and "parity_not_shown 3" in page


def test_flagged_runs_are_ringed(tmp_path):
    study = speeds(tmp_path, {"pytorch": [256.0, 256.0], "mxnet": [256.0, 512.0]})
    flagged = sum(run.flags != ["parity_not_shown"] for run in study.runs)
    assert flagged == 1  # the fast run is over before a third sample
    with drawing():
        (ax,) = draw_points(study, POINT_FIGURES[0]).axes
    rings = [x for x in ax.lines if x.get_fillstyle() == "none" and x.get_color() == MUTED]
    assert len(rings) == flagged


def large(root, networks, batches):
    """A gathered study of two frameworks, one repeat, from copies of one record."""
    record = make_record(root / "runs", root / "one")
    cells = [
        {"framework": framework, "network": f"net{n}", "batch_size": b}
        for n in range(networks)
        for b in range(1, batches + 1)
        for framework in ("pytorch", "mxnet")
    ]
    for cell in cells:
        name = cell_name({**FACTORS, **cell})
        (root / "records" / name).mkdir(parents=True)
        text = json.dumps({**record, "cell": name})
        (root / "records" / name / "rep1.json").write_text(text)
    write_plan(root / "plan.tsv", cells, repeats=1)
    (root / "config.resolved.yaml").write_text("title: Large\n")
    return gathered(root)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A study of more cells than a table shows."""
    root = tmp_path_factory.mktemp("many")
    large(root, 1, ROWS // 2 + 5)
    return built(root)


def test_the_page_of_a_large_study_is_bounded(many):
    page = text_of(many)
    assert f"The first {ROWS} of {ROWS + 10} cells are shown" in page
    assert f"The first {ROWS} of {ROWS + 10} rows are shown: all are in results/tables/comp" in page
    captions = json.loads((many / "figures" / "captions.json").read_text())
    assert f"Only 16 of {ROWS + 10} cells are drawn" in captions["throughput"]["caption"]
    assert "at most 12 panels" in captions["training_loss"]["caption"]


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on PATH")
def test_sorting_and_filtering_take_the_rows_that_are_not_shown_into_account(many, tmp_path):
    """By batch size, descending: 205 first, and the smallest that is shown is 6.

    The filter finds every row of MXNet, those that were not shown too.
    """
    page = page_of(many)
    clicks = """<script>
    const table = document.querySelector("#numbers ~ .scroll table");
    const sizes = () => [...table.tBodies[0].rows].map((row) => row.cells[1].textContent);
    const told = [sizes()];
    for (const click of [1, 2]) {
      table.tHead.rows[0].cells[1].querySelector("button").click();
      told.push(sizes());
    }
    const field = document.querySelector("#numbers ~ label.filter input");
    field.value = " MXNet ";
    field.dispatchEvent(new Event("input"));
    told.push([table.tBodies[0].rows.length]);
    document.body.replaceChildren("told:" + told.map((one) => one.join()).join(";") + ".");
    </script></body>"""
    (tmp_path / "clicked.html").write_text(page.replace("</body>", clicks))
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        + [f"--user-data-dir={tmp_path}/browser", f"file://{tmp_path}/clicked.html"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    told = re.search(r"told:([\d,;]+)\.", done.stdout)[1].split(";")
    first, up, down, kept = ([int(size) for size in one.split(",")] for one in told)
    assert first == up == [size for size in range(1, 201) for _ in range(2)]
    assert down == [size for size in range(205, 5, -1) for _ in range(2)]
    assert kept == [ROWS // 2 + 5]


def test_many_networks_are_neither_all_drawn_nor_all_told(tmp_path):
    study = large(tmp_path, 20, 2)
    some, left_out = drawn(study, lambda cell: cell.facet)
    assert len(some.by_facet()) == 12 and "Only 48 of 80 cells" in left_out
    assert drawn(some, lambda cell: cell.facet) == (some, "")
    result, _ = answer(study, compare(study))
    assert result.count("On net") == 6 and "14 more are in the table of speeds" in result


@pytest.mark.parametrize(
    ("missing", "maker"),
    [
        ("tables/summary.csv", plot),
        ("plan.tsv", plot),
        ("figures/captions.json", report),
        ("figures/throughput.svg", report),
        ("config.resolved.yaml", report),
        ("tables/summary.csv", report),
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


@pytest.mark.parametrize(
    ("left_out", "added", "cause"),
    [(len(METRICS), "", "it lacks mxnet"), (1, "mxnet,lenet5\n", "is damaged")],
)
def test_tables_of_another_study_are_refused(good, left_out, added, cause, tmp_path):
    lines = (good / "tables" / "summary.csv").read_text().splitlines(keepends=True)
    (tmp_path / "summary.csv").write_text("".join(lines[:-left_out]) + added)
    arguments = ("--tables", tmp_path, "--output", tmp_path / "figures")
    done = script("plot", good, *arguments)
    assert done.returncode == 1 and cause in done.stderr
