"""The command `plot`: figures of good, failed and empty studies."""

import base64
import json
import re
from statistics import geometric_mean, median
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from matplotlib.text import Text

from fixtures.runs import make_record, write_plan
from fixtures.studies import findings_of, gathered, large, plot, speeds, studied, study_of
from touchstone.report.figures import speed
from touchstone.report.figures.evaluations import draw_evaluations, evaluates, evaluation_texts
from touchstone.report.figures.losses import draw_losses
from touchstone.report.figures.memory import draw_memory
from touchstone.report.figures.panels import INK, MUTED, marker_style, setting
from touchstone.report.figures.phases import draw_phases
from touchstone.report.figures.points import POINT_FIGURES, draw_points, point_texts
from touchstone.report.figures.render import BATCHES, drawing, make_figures, part_to_draw
from touchstone.report.figures.style import CHOSEN, darker, in_dark, panel_title, style_of
from touchstone.report.inline import data_uri
from touchstone.report.page import FIGURES
from touchstone.report.sections import strip
from touchstone.results.metrics import METRICS
from touchstone.results.study import Series, Study


@pytest.mark.parametrize("root", ["good", pytest.param("bad", marks=pytest.mark.long), "failed"])
def test_every_figure_is_a_valid_file_with_texts(request, root):
    folder = request.getfixturevalue(root) / "figures"
    expected = {f"{name}{kind}" for name in FIGURES for kind in (".svg", ".png", "-narrow.svg")}
    expected |= {"speed.svg", "speed.png", "captions.json", "SHA256SUMS"}
    assert {path.name for path in folder.iterdir()} == expected
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


def test_many_settings_of_a_framework_all_have_marks_of_their_own():
    series = [Series("jax", ("threads",), (str(number),)) for number in range(20)]
    styles = [marker_style(SimpleNamespace(series=series), one) for one in series]
    assert len({(style["marker"], style["fillstyle"]) for style in styles}) == len(series)
    assert {style["color"] for style in styles} == {CHOSEN["jax"][0]}
    assert [style["marker"] for style in styles[:6]] == [CHOSEN["jax"][1]] * 6


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
    assert "MXNet: oom" in figure_words(figure)


def test_flagged_runs_are_ringed(tmp_path):
    study = speeds(tmp_path, {"pytorch": [256.0, 256.0], "mxnet": [256.0, 512.0]})
    assert all(run.flags == ["parity_not_shown"] for run in study.runs)
    study.runs[-1].flags.append("noisy_machine")
    with drawing():
        (ax,) = draw_points(study, POINT_FIGURES[0]).axes
    rings = [x for x in ax.lines if x.get_fillstyle() == "none" and x.get_color() == MUTED]
    assert len(rings) == 1


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


def test_of_many_networks_some_are_drawn(tmp_path):
    study = large(tmp_path, 20, 2)
    some, left_out = part_to_draw(study, lambda cell: cell.facet)
    assert len(some.by_facet()) == 12 and "Only 48 of 80 cells" in left_out
    assert part_to_draw(some, lambda cell: cell.facet) == (some, "")


@pytest.mark.parametrize(
    ("left_out", "added", "cause"),
    [(len(METRICS), "", "it lacks mxnet"), (1, "mxnet,lenet5\n", "is damaged")],
)
def test_tables_of_another_study_are_refused(good, left_out, added, cause, tmp_path):
    lines = (good / "tables" / "summary.csv").read_text().splitlines(keepends=True)
    (tmp_path / "summary.csv").write_text("".join(lines[:-left_out]) + added)
    done = plot(good, tables=tmp_path)
    assert done.returncode == 1 and cause in done.stderr


def test_a_caption_says_how_often_the_cells_ran(tmp_path):
    study = speeds(tmp_path, {"pytorch": [900.0, 910.0, 905.0], "mxnet": [600.0, 610.0, 605.0]})
    assert setting(study).startswith("n = 3 runs per cell, each a fresh process. Machine: ")
    first, second = study.cells
    once = second._replace(plan=second.plan._replace(repeats=1))
    assert setting(Study([first, once])).startswith("n = 1 to 3 runs per cell")
    assert setting(Study([once])).startswith("n = 1 run per cell")


WRITTEN = re.compile(r'(?:fill|stroke)(?:: |=")(#[0-9a-f]{6})')


def luminance(colour):
    """Relative luminance, as WCAG 2.2 defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_dark_screen_gets_other_colours_for_all_of_a_figure(bad):
    ground = in_dark("#FFFFFF")
    for path in (bad / "figures").glob("*.svg"):
        svg = path.read_text()
        dark = svg[svg.index("prefers-color-scheme: dark") : svg.index("</style>")]
        light = svg.replace(dark, "")
        for colour in set(WRITTEN.findall(light)):
            assert f': {colour}"]' in dark and in_dark(colour) in dark, (path.name, colour)
        assert in_dark("#FFFFFF") in dark and in_dark(INK) in dark
    texts = [INK, MUTED, *(colour for colour, _ in CHOSEN.values())]
    texts += [darker(colour) for colour, _ in CHOSEN.values()]
    for colour in texts:
        light, low = (luminance(one) + 0.05 for one in (in_dark(colour), ground))
        assert light / low >= 4.5, colour


NUMBER = re.compile(r"-?\d+\.\d+")


def test_a_figure_in_a_page_draws_the_same(good):
    for path in (good / "figures").glob("*.svg"):
        svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", path.read_text(), flags=re.DOTALL)
        inlined = base64.b64decode(data_uri(svg).partition(",")[2]).decode()
        root, copy = map(ElementTree.fromstring, (svg, inlined))
        assert [one.tag for one in copy.iter()] == [one.tag for one in root.iter()]
        ids = [one.get("id") for one in copy.iter() if one.get("id")]
        used = [one.get("href", "") for one in copy.iter() if one.tag.endswith("}use")]
        assert len(set(ids)) == len(ids) and used and {one[1:] for one in used} <= set(ids)
        numbers, copied = (list(map(float, NUMBER.findall(text))) for text in (svg, inlined))
        assert len(copied) == len(numbers) and copied == pytest.approx(numbers, abs=0.01, rel=0)
        assert sorted(set(re.findall(r"scale\([^)]*\)", inlined))) == sorted(
            set(re.findall(r"scale\([^)]*\)", svg))
        )


def test_the_chart_as_a_file_has_the_rows_of_the_page(good):
    strips = strip.view(findings_of(good))["strips"]
    with drawing():
        figure = speed.draw(strips, "Machine: one.")
    assert [ax.get_title(loc="left") for ax in figure.axes] == [one.heading for one in strips]
    for ax, one in zip(figure.axes, strips, strict=True):
        rows = one.charts[0].rows
        assert [label.get_text() for label in ax.get_yticklabels()] == [row.name for row in rows]
        texts = [text.get_text() for text in ax.texts]
        for row in rows:
            assert row.value in texts and row.against[rows[0].name].text in texts
        drawn = [line for line in ax.lines if line.get_marker() == "o"]
        assert [len(line.get_xdata()) for line in drawn] == [len(row.dots) for row in rows]
        ends = [line.get_xdata()[-1] for line in ax.lines if line.get_marker() == "|"]
        assert len(ends) == len([row for row in rows if row.against[rows[0].name].low])
        widest = 100 * max(x for line in drawn for x in line.get_xdata())
        assert widest == pytest.approx(max(float(d[:-1]) for row in rows for d in row.dots))


def test_threads_are_on_the_axis_where_the_batch_size_is_the_same(tmp_path):
    studied(tmp_path, [{"threads": n} for n in (4, 1, 2)], [[300.0], [100.0], [200.0]])
    study = study_of(tmp_path)
    with drawing():
        (ax,) = draw_points(study, POINT_FIGURES[0]).axes
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2", "4"]
    (line,) = (line for line in ax.lines if len(line.get_xdata()) == 3)
    assert list(line.get_ydata()) == pytest.approx([100, 200, 300], rel=1e-3)
    texts = point_texts(study, POINT_FIGURES[0])
    assert texts["title"] == "Training throughput by threads"
    assert "Thin lines join" in texts["caption"]


def test_memory_and_phases_are_the_medians_of_the_runs(good):
    study = study_of(good)
    with drawing():
        (memory,) = draw_memory(study, {}).axes
        (bars,) = draw_phases(study).axes
    points = [pair for line in memory.lines for pair in line.get_xydata()]
    cells = {cell.plan.name: cell for cell in study.cells}
    assert len(points) == len(cells) == len(bars.get_yticks())
    for cell in cells.values():
        near = median(cell.values("host_memory_peak")), geometric_mean(cell.values("throughput"))
        assert any(pair == pytest.approx(near) for pair in points)
    ends = [0.0] * len(cells)
    for bar in bars.patches:
        ends[round(bar.get_y() + bar.get_height() / 2)] += bar.get_width()
    for end, cell in zip(ends, cells.values(), strict=True):
        seconds = [sorted(run.phases[name] for run in cell.runs)[1] for name in cell.runs[0].phases]
        assert end == pytest.approx(sum(seconds))


def test_accuracies_are_drawn_where_the_study_evaluates_in_between(good):
    study = study_of(good)
    assert not evaluates(study)
    cell = study.cells[0]
    run = cell.runs[0]._replace(evaluations=[(1.5, 0.5), (3.0, None), (4.5, 0.75)])
    settings = cell.plan.settings.model_copy(update={"evaluate_every": 1})
    some = Study([cell._replace(plan=cell.plan._replace(settings=settings), runs=[run])])
    assert evaluates(some)
    with drawing():
        (ax,) = draw_evaluations(some).axes
        names = [drawn.name for drawn in make_figures(some)]
    assert "evaluations" in names
    assert [list(map(tuple, line.get_xydata())) for line in ax.lines] == [[(1.5, 0.5), (4.5, 0.75)]]
    assert "between 0.75 and 0.75" in evaluation_texts(some)["alt"]


def test_a_study_has_its_figure_of_accuracies_although_no_drawn_cell_has_one(good):
    """Workflow rules expect the figure of every study that evaluates in between."""
    cell = study_of(good).cells[0]
    cells = []
    for size in range(1, BATCHES + 2):
        changed = {"batch_size": size, "evaluate_every": int(size > BATCHES)}
        settings = cell.plan.settings.model_copy(update=changed)
        runs = [run._replace(evaluations=[]) for run in cell.runs]
        cells.append(cell._replace(plan=cell.plan._replace(settings=settings), runs=runs))
    with drawing():
        figures = {drawn.name: drawn.figure for drawn in make_figures(Study(cells))}
    (text,) = figures["evaluations"].texts
    assert "No run was evaluated" in text.get_text() and "None" not in text.get_text()


def test_a_missing_number_takes_no_room_from_the_panels(bad):
    with drawing():
        figure = draw_points(study_of(bad), POINT_FIGURES[0])
        figure.draw_without_rendering()
        # A line without points is at the origin of the figure.
        assert all(min(ax.get_tightbbox().p0) > 0 for ax in figure.axes)
