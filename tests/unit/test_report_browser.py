"""The report in a browser: widths, reading order, landmarks, contrast, sorting."""

import csv
import html
import json
import re
from urllib.parse import quote_plus

import pytest

from fixtures.browser import (
    ACCESSIBILITY,
    NEEDED,
    OVERFLOW,
    POLICY,
    PRINTED,
    axe,
    corner,
    dump,
    evaluate,
    faults,
    printed,
)
from fixtures.published import made
from fixtures.runs import make_record, make_study, write_plan
from fixtures.studies import built, page_of, studied
from touchstone.report.figures.style import in_dark
from touchstone.report.inline import data_uri
from touchstone.report.page import FIGURES
from touchstone.report.text import contrast_text

pytestmark = [pytest.mark.long, NEEDED]

PLACES = """
const box = (name) => document.querySelector(name)?.getBoundingClientRect().bottom;
const outside = document.body.cloneNode(true);
for (const part of outside.querySelectorAll(".fold, script, style, .skip")) part.remove();
return {
  verdict: box(".verdict"), trust: box(".trust"), strip: box(".strip"), glance: box(".glance"),
  folds: [...document.querySelectorAll(".fold")].map((fold) => fold.open),
  screens: document.querySelector(".fold").getBoundingClientRect().top / 900,
  words: outside.textContent.split(/\\s+/).filter(Boolean).length,
  dots: document.querySelectorAll(".strip circle").length,
};
"""
SORT = """
const table = document.querySelector("#ranking ~ .scroll table");
const speeds = () => [...table.tBodies[0].rows].map((row) => row.cells[COLUMN].textContent.trim());
const button = table.tHead.rows[0].cells[COLUMN].querySelector("button");
const seen = [speeds()];
for (const click of [1, 2, 3]) { button.click(); seen.push(speeds()); }
return seen;
"""

SWITCH = """
const shown = () => [...document.querySelectorAll("[data-relative]")]
  .slice(0, 3).map((one) => one.textContent);
const button = document.querySelector(".switch"), seen = [];
for (const click of [0, 1, 2]) {
  if (click) button.click();
  seen.push([button.ariaPressed, ...shown()]);
}
return seen;
"""
CHOOSER = """
const table = document.querySelector("#ranking ~ .scroll table");
const box = table.closest(".scroll").previousElementSibling;
const marks = [...box.querySelectorAll("input")];
const shown = () => [...table.rows[1].cells].map((cell) => cell.checkVisibility());
const seen = [box.className, marks.length, shown()];
for (const click of [1, 2]) { marks[0].click(); seen.push(shown()); }
return seen;
"""
PREPARED = """
const is = (table) => Boolean(table.tBodies[0].querySelector("[role=rowheader]"))
  && table.classList.contains("sortable") === Boolean(table.tHead.querySelector("button"));
const tables = [...document.querySelectorAll("table")];
const folds = [...document.querySelectorAll(".fold")];
const look = () => [null, ...folds].map((fold) =>
  tables.filter((table) => table.closest(".fold") === fold).map(is));
const seen = [look()];
folds[1].open = true;
await new Promise((done) => folds[1].addEventListener("toggle", done, {once: true}));
seen.push(look());
window.dispatchEvent(new window.Event("beforeprint"));
return [...seen, look()];
"""
PICTURES = """
const images = [...document.querySelectorAll("picture img")];
for (const image of images) image.loading = "eager";
await Promise.all(images.map((image) => image.decode()));
return images.map((image) =>
  [image.currentSrc === image.previousElementSibling.srcset, image.currentSrc === image.src]);
"""
OPENED = """
for (const fold of document.querySelectorAll(".fold")) fold.open = true;
await new Promise((done) => document.querySelector(".fold").addEventListener("toggle", done));
"""
IN_PRINT = """
dispatchEvent(new Event("beforeprint"));
for (const fold of document.querySelectorAll(".fold")) fold.open = true;
"""
ADDRESS = """
const table = document.querySelector("#ranking ~ .scroll table");
document.querySelector("#seen").textContent = "seen:" + JSON.stringify([
  document.querySelector(".switch").ariaPressed,
  [...table.tHead.rows[0].cells].map((head) => [head.checkVisibility(), head.ariaSort]),
  location.hash,
]) + ":end";
"""

CHART = """
const shown = (page) => [...page.querySelectorAll(".strip")].map((strip) => ({
  heading: strip.querySelector("h3").textContent,
  rows: [...strip.querySelectorAll("li")].map((row) => [...row.children].map((part) =>
    part.tagName === "svg" ? part.outerHTML.replace(/ xmlns="[^"]*"/g, "") : part.textContent)),
  axis: strip.querySelector(".axis").textContent,
  ticks: [...strip.querySelectorAll(".axis line, .axis text")].map((tick) => tick.outerHTML),
  notes: [...strip.querySelectorAll(".caveat")].map((note) => [note.hidden, note.textContent]),
}));
const written = new DOMParser().parseFromString(window.frameElement.srcdoc, "text/html");
const seen = {written: shown(written), start: shown(document)};
const [metric, baseline] = document.querySelectorAll(".controls select");
const pick = (list, text) => {
  list.value = text;
  list.dispatchEvent(new window.Event("change"));
  return [...list.options].map((one) => one.value);
};
seen.metrics = pick(metric, "METRIC");
seen.metric = shown(document);
const names = [...document.querySelectorAll(".strip button.name")];
names.at(-1).click();
seen.pressed = [document.activeElement.textContent, baseline.value];
seen.baseline = shown(document);
document.querySelector(".copy").click();
await new Promise((done) => setTimeout(done, 50));
seen.markdown = document.querySelector(".controls textarea")?.value;
return seen;
"""


@pytest.fixture(scope="module")
def sixty(tmp_path_factory):
    """A study of sixty cells: three frameworks, four networks, five batch sizes, two runs each."""
    root = tmp_path_factory.mktemp("sixty")
    rates = {"pytorch": 512, "mxnet": 384, "tensorflow": 256}
    cells = []
    for network in ("lenet5", "resnet20-cifar", "alexnet-cifar", "vgg16-cifar"):
        for batch in (16, 32, 64, 128, 256):
            for framework, rate in rates.items():
                cell = {"framework": framework, "network": network, "batch_size": batch}
                cells.append({**cell, "epochs": 1})
                for repeat in (1, 2):
                    speed = rate * (1 + 0.03 * repeat)
                    make_record(
                        root / "runs", root / "records", **cells[-1], repeat=repeat,
                        train_examples=batch * 10,
                        step_seconds=lambda step, b=batch, s=speed: b / s,
                    )  # fmt: skip
    write_plan(root / "plan.tsv", cells, repeats=2)
    (root / "config.resolved.yaml").write_text("title: Sixty configurations\n")
    return built(root)


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A study in which every configuration ran once, so that the page has a warning."""
    root = tmp_path_factory.mktemp("once")
    cells = [{"framework": name} for name in ("pytorch", "mxnet")]
    for cell in cells:
        make_record(root / "runs", root / "records", **cell)
    write_plan(root / "plan.tsv", cells, repeats=1)
    (root / "config.resolved.yaml").write_text("title: Once\n")
    return built(root)


@pytest.mark.parametrize("name", ["good", "bad", "failed", "sixty", "once"])
@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_is_cut_off_and_every_rule_of_accessibility_holds(request, name, width, tmp_path):
    page = page_of(request.getfixturevalue(name))
    assert faults(page, tmp_path, width) == []


@pytest.mark.parametrize("name", ["good", "sixty"])
def test_nothing_is_cut_off_in_print(request, name, tmp_path):
    page = printed(page_of(request.getfixturevalue(name)))
    assert evaluate(page, OVERFLOW, tmp_path, PRINTED) == []


@pytest.fixture(scope="module")
def default(tmp_path_factory):
    """A study such as the default one: three frameworks, three runs each."""
    root = tmp_path_factory.mktemp("default")
    return built(make_study(root, batches=(64,)))


def asked(root, cells):
    """The page's folder of a study of these cells, each with three runs."""
    studied(root, cells, [[100 * (n + 1), 101 * (n + 1), 102 * (n + 1)] for n in range(len(cells))])
    return built(root)


@pytest.fixture(scope="module")
def threads(tmp_path_factory):
    """A study of numbers of threads."""
    return asked(tmp_path_factory.mktemp("threads"), [{"threads": n} for n in (1, 2, 4)])


@pytest.fixture(scope="module")
def inference(tmp_path_factory):
    """A study that predicts."""
    frameworks = ("pytorch", "mxnet", "tensorflow")
    cells = [{"framework": n, "workload": "inference", "weights": "trained"} for n in frameworks]
    return asked(tmp_path_factory.mktemp("inference"), cells)


@pytest.mark.parametrize("name", ["default", "sixty", "threads", "inference", "once"])
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_answer_is_read_without_scrolling(request, name, width, height, tmp_path):
    page = page_of(request.getfixturevalue(name))
    found = evaluate(page, PLACES, tmp_path, width, unfolded=False)
    assert found["verdict"] < 300 and found["trust"] < found["strip"] < height
    assert len(found["folds"]) == 2 + (name != "inference") and not any(found["folds"])


def test_the_default_study_is_short_before_its_folds(default, tmp_path):
    found = evaluate(page_of(default), PLACES, tmp_path, unfolded=False)
    assert found["glance"] < 900 and found["screens"] < 3 and found["words"] < 1200
    assert found["dots"] == 9


def test_a_link_into_a_fold_opens_it(good, tmp_path):
    end = "document.querySelector('#seen').textContent = 'seen:' + "
    end += "[...document.querySelectorAll('.fold')].map((fold) => fold.open) + ':end'"
    page = page_of(good).replace("</body>", f'<pre id="seen"></pre><script>{end}</script></body>')
    assert "seen:false,false,true:end" in dump(page, tmp_path, "#proof")
    assert "seen:false,false,false:end" in dump(page, tmp_path)


def test_what_is_cut_off_is_found(good, tmp_path):
    wide = page_of(good).replace("max-width: 100%", "").replace("overflow: auto;", "")
    wide = wide.replace("<h1>", '<h1 style="width: 2000px">')
    (excess,) = re.findall(r"the page: (\d+) pixels", " ".join(evaluate(wide, OVERFLOW, tmp_path)))
    assert int(excess) > 500


FAULTS = [
    ('<main id="main">', "<main></main><main>"),
    ('aria-label="Table: Phases"', 'aria-label="Table: All pairs"'),
    ("<h3 id=", "<h5></h5><h4 id="),
    ("--soft: #5d5d58", "--soft: #9d9d98"),
]
"""What both find: a part of the page, and what replaces it."""


def changed(page: str, changes: list[tuple[str, str]]) -> str:
    """The page with each part replaced."""
    for part, other in changes:
        assert part in page
        page = page.replace(part, other)
    return page


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        (FAULTS[:1], {"landmark-no-duplicate-main"}),  # which breaks landmark-unique too
        (
            [*FAULTS[1:], ('<html lang="en">', "<html>")],
            {"landmark-unique", "heading-order", "color-contrast", "html-has-lang"},
        ),
    ],
)
def test_axe_finds_each_fault(good, tmp_path, changes, rules):
    found = evaluate(changed(page_of(good), changes), axe(), tmp_path)
    assert {one.partition(": ")[0] for one in found} >= rules


@pytest.mark.parametrize("name", ["bad", "once"])
def test_contrast_holds_in_the_dark_colours(request, name, tmp_path):
    page = page_of(request.getfixturevalue(name))
    dark = page.replace("(prefers-color-scheme: dark)", "all")
    assert dark != page and evaluate(dark, ACCESSIBILITY, tmp_path) == []


def test_each_rule_of_accessibility_finds_its_fault(good, tmp_path):
    others = [("<h1>", '<svg role="img"></svg><h1>'), ('id="numbers"', 'id="phases"')]
    found = " ".join(evaluate(changed(page_of(good), FAULTS + others), ACCESSIBILITY, tmp_path))
    for fault in (
        "2 main landmarks", "two regions", "h4 after h2", "contrast 2.",
        "an SVG without title or description", "id phases twice",
    ):  # fmt: skip
        assert fault in found


@pytest.mark.parametrize(("name", "scale"), [("yin2020", "smoke"), ("machine-check", "paper")])
def test_pages_of_published_studies_are_accessible_and_fit(root, name, scale, tmp_path):
    page = made(root, name, scale=scale, images=True).page
    for width in (1440, 390):
        assert faults(page, tmp_path, width) == []


def test_the_first_click_puts_the_largest_first_and_the_third_restores_the_plan(tmp_path):
    root = built(make_study(tmp_path / "study"))
    page = page_of(root)
    planned, down, up, again = (
        [float(text.replace(",", "")) for text in seen]
        for seen in evaluate(page, SORT.replace("COLUMN", "2"), tmp_path)
    )
    assert down == sorted(planned, reverse=True) and up == sorted(planned)
    assert again == planned and planned not in (up, down)


def test_one_button_shows_all_speeds_relative_to_the_highest(good, tmp_path):
    first, relative, again = evaluate(page_of(good), SWITCH, tmp_path)
    assert first == again == ["false", "9,000", "7,999", "5,997"]
    assert relative == ["true", "1 ×", "0.889 ×", "0.666 ×"]


def csv_text(rows, metric, name, baseline):
    """The ratio of one framework to another as the page has it, from comparisons.csv."""
    frameworks = {row[key]: row for row in rows for key in ("framework", "reference_framework")}
    assert {name, baseline} <= set(frameworks)
    (row,) = (
        row
        for row in rows
        if row["metric"] == metric
        and {row["framework"], row["reference_framework"]} == {name, baseline}
    )
    numbers = [float(row[key]) for key in ("ratio", "low", "high")]
    if row["framework"] != name:
        numbers = [1 / numbers[0], 1 / numbers[2], 1 / numbers[1]]
    return contrast_text(numbers, is_ratio=True)


@pytest.mark.parametrize(
    ("label", "metric"), [("Memory, peak", "host_memory_peak"), ("First step", "first_step_time")]
)
def test_the_chart_shows_another_metric_and_baseline_with_the_numbers_of_the_table(
    default, label, metric, tmp_path
):
    page = page_of(default)
    found = evaluate(page, CHART.replace("METRIC", label), tmp_path)
    assert found["written"] == found["start"] and found["start"][0]["rows"]
    assert found["metrics"][0] == "Speed" and label in found["metrics"]
    with (default / "tables/comparisons.csv").open() as file:
        rows = list(csv.DictReader(file))
    for state, place in (("metric", 0), ("baseline", -1)):
        (drawn,) = found[state]
        names = [row[0] for row in drawn["rows"]]
        assert len(names) == 3
        baseline = names[place]
        for name, _, _, against, _ in drawn["rows"]:
            key, other = (one.split()[0].lower() for one in (name, baseline))
            text = "baseline" if name == baseline else csv_text(rows, metric, key, other)
            assert against == text
    assert found["pressed"] == [names[-1]] * 2
    copied = found["markdown"].splitlines()
    assert label.lower() in copied[2] and len(copied) == 7 and names[-1] in copied[2]


def test_the_address_keeps_metric_baseline_and_comparison(sixty, tmp_path):
    comparison = "vgg16-cifar with mnist-5k (CPU), batch size 32"
    view = f"#?show=First+step&to=MXNet+(channels+last)&at={quote_plus(comparison)}"
    shown = dump(page_of(sixty), tmp_path, view)
    strip_ = shown[shown.index('class="strip"') :]
    assert f"<h3>{comparison}</h3>" in strip_, re.findall("<h3[^>]*>[^<]*", strip_)[:3]
    (pressed,) = re.findall('aria-pressed="true"[^>]*>([^<]*)<', strip_.partition("</ul>")[0])
    assert pressed == "MXNet (channels last)"


def test_a_column_can_be_hidden_and_shown_but_for_the_first(good, tmp_path):
    name, marks, before, hidden, after = evaluate(page_of(good), CHOOSER, tmp_path)
    assert name == "columns" and marks == len(before) - 1
    assert before == after == [True] * len(before)
    assert hidden == [True, False, *[True] * (len(before) - 2)]


@pytest.mark.parametrize("begin", [OPENED, IN_PRINT])
def test_the_address_of_a_page_keeps_its_view(good, begin, tmp_path):
    view = "#?speeds=relative&speed-compared.sort=3-ascending&speed-compared.hide=2"
    end = f'<pre id="seen"></pre><script type="module">{begin}{ADDRESS}</script></body>'
    shown = dump(page_of(good).replace("</body>", end), tmp_path, view)
    found = re.search(r"seen:(.*):end</pre>", shown)
    pressed, heads, address = json.loads(html.unescape(found[1]))
    assert pressed == "true" and [seen for seen, _ in heads[:3]] == [True, False, True]
    assert (
        heads[2][1] == "ascending" and [order for _, order in heads].count(None) == len(heads) - 1
    )
    assert {*address[2:].split("&")} == {*view[2:].split("&")}


def test_a_table_is_prepared_when_its_fold_opens_or_a_print_begins(default, tmp_path):
    start, opened, in_print = evaluate(page_of(default), PREPARED, tmp_path, unfolded=False)
    outside, _, numbers, trust = start
    assert outside == [True] and len(numbers) > 2 and len(trust) > 1
    assert not any(numbers + trust)
    assert opened[0] == [True] and all(opened[2]) and not any(opened[3])
    assert all(sum(in_print, []))


@pytest.mark.parametrize("width", [1440, 390])
def test_a_phone_gets_the_narrow_figures(sixty, width, tmp_path):
    found = evaluate(page_of(sixty), PICTURES, tmp_path, width)
    assert found == [[width == 390, width == 1440]] * len(FIGURES)


def test_a_figure_in_a_page_is_dark_on_a_dark_screen(default, tmp_path):
    source = data_uri((default / "figures/throughput.svg").read_text())
    page = '<meta name="color-scheme" content="light dark"><body style="margin:0">'
    page += f'<img src="{source}">'
    assert corner(page, tmp_path, is_dark=False) == "#FFFFFF"
    assert corner(page, tmp_path, is_dark=True) == in_dark("#FFFFFF")


def test_a_page_runs_its_own_script_and_no_other(good, tmp_path):
    other = "<script>document.title = 'changed'</script></body>"
    assert len(POLICY.findall(page_of(good))) == 1
    page = page_of(good).replace("</body>", other)
    shown = dump(page, tmp_path, has_policy=True)
    assert 'class="switch"' in shown and "<title>changed" not in shown
    assert "<title>changed" in dump(page, tmp_path)
