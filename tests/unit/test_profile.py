"""The time of each layer: from spans to the table, the page and the figure."""

import csv
import json

import pytest

from fixtures.runs import FACTORS, cell_name, make_record, write_plan
from fixtures.studies import built, faults, page_of, study_of, text_of
from touchstone.analysis.findings_file import read_findings
from touchstone.analysis.profile import layer_profiles
from touchstone.plan.study import make_plan
from touchstone.report.figures import profile as figure
from touchstone.report.figures.render import drawing
from touchstone.report.figures.style import style_of
from touchstone.results.files import InputError
from touchstone.results.profiles import read_profiles
from touchstone.schema.profile import (
    FORMAT,
    LayerTime,
    Profile,
    Span,
    StepTrace,
    layer_times,
    shared_time,
    without_numbers,
)
from touchstone.schema.values import to_json
from touchstone.workflow.context import Context

CELLS = [{"framework": name} for name in ("pytorch", "tensorflow", "mxnet")]
NAMES = [cell_name({**FACTORS, **cell}) for cell in CELLS]
OPS = {"conv1": "conv", "relu1": "relu", "pool1": "max_pool", "logits": "dense"}
REASON = "its records name no layers"


def profile(cell, layers, other, step):
    """A profile with these layers: names, forward and backward in ms; `other` and `step` in ms."""
    known = [
        LayerTime(names, *(None if time is None else time / 1000 for time in times))
        for names, *times in layers
    ]
    total = sum((one.forward or 0) + (one.backward or 0) for one in known) + other / 1000
    return Profile(
        FORMAT, cell, "ok", None, "its profiler", 7, 5, known, other / 1000, step / 1000, total, OPS
    )


PROFILES = [
    profile(
        NAMES[0],
        [(["conv1"], 1.0, 2.0), (["relu1"], 0.5, 0.25), (["pool1"], 0.25, 0.5),
         (["logits"], 0.125, 0.375)],
        5.0,
        8.0,
    ),
    profile(
        NAMES[1],
        [(["conv1"], None, 3.0), (["conv1", "relu1"], 1.5, None), (["relu1"], None, 0.5),
         (["pool1"], 0.5, 0.5), (["logits"], 0.25, 0.25)],
        1.5,
        10.0,
    ),
    without_numbers(NAMES[2], "unsupported", REASON),
]  # fmt: skip


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """A built study of three frameworks, of which one has no profile."""
    root = tmp_path_factory.mktemp("profiled")
    write_plan(root / "plan.tsv", CELLS)
    (root / "config.resolved.yaml").write_text("study: layers\n")
    for cell in CELLS:
        for repeat in (1, 2, 3):
            make_record(root / "runs", root / "records", **cell, repeat=repeat)
    (root / "profiles").mkdir()
    for one in PROFILES:
        (root / f"profiles/{one.cell}.json").write_text(json.dumps(to_json(one)))
    return built(root, images=False)


def test_moments_with_several_spans_are_shared():
    a, b = ("a",), ("b", "c")
    spans = [
        Span(0.0, 4.0, a, False), Span(2.0, 6.0, a, True), Span(3.0, 4.0, b, True),
        Span(8.0, 9.0, b, True), Span(8.5, 8.5, a, False),
    ]  # fmt: skip
    found = shared_time(spans)
    assert found[a, False] == pytest.approx(2 + 1 / 2 + 1 / 3)
    assert found[a, True] == pytest.approx(1 / 2 + 1 / 3 + 2)
    assert found[b, True] == pytest.approx(1 / 3 + 1)
    assert sum(found.values()) == pytest.approx(7)  # of 9: none of them lasts from 6 to 8
    assert shared_time([]) == {}


def test_times_of_layers_are_medians_of_rounds_for_one_step():
    def trace(seconds, *spans):
        return StepTrace("x", seconds, [Span(*span) for span in spans])

    late = [(0.0, 9.0, ("a",), False), (9.0, 9.5, ("b", "a"), True)]
    usual = [(0.0, 1.0, ("a",), False), (1.0, 2.0, ("b", "a"), True)]
    slow = [(0.0, 2.0, ("a",), False), (2.0, 3.5, ("b", "a"), True)]
    layers, other = layer_times([trace(99.0, *late), trace(3.0, *usual), trace(4.5, *slow)], 2,
                                ["a", "b"])  # fmt: skip
    assert layers == [LayerTime(["a"], 1.0, None), LayerTime(["a", "b"], None, 0.5)]
    assert other == 0.5


def test_the_table_has_every_layer_of_every_cell(profiled):
    with open(profiled / "tables/profile.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    own = [row for row in rows if row["cell"] == NAMES[1]]
    assert [row["layer"] for row in own] == [
        "conv1", "conv1 + relu1", "relu1", "pool1", "logits", "(other)",
    ]  # fmt: skip
    fused = own[1]
    assert (fused["op"], fused["backward_s"]) == ("conv + relu", "")
    assert float(fused["forward_s"]) == float(fused["total_s"]) == 0.0015
    assert float(fused["share"]) == pytest.approx(1.5 / 8)
    for name in NAMES[:2]:
        own = [row for row in rows if row["cell"] == name]
        assert sum(float(row["share"]) for row in own) == pytest.approx(1)
        assert sum(float(row["total_s"]) for row in own) == pytest.approx(
            float(own[0]["profiled_step_s"])
        )
    (last,) = (row for row in rows if row["cell"] == NAMES[2])
    assert (last["status"], last["reason"], last["layer"]) == ("unsupported", REASON, "")


def test_the_findings_put_layers_of_all_cells_side_by_side(profiled):
    (found,) = read_findings(profiled / "findings.json").profiles
    assert [one.cell for one in found.cells] == NAMES
    assert [one.ratio for one in found.cells] == [pytest.approx(1.25), pytest.approx(0.8), None]
    rows = {tuple(row.layers): row for row in found.rows}
    assert list(rows) == [
        ("conv1",), ("conv1", "relu1"), ("relu1",), ("pool1",), ("logits",),
    ]  # fmt: skip
    assert set(rows["conv1", "relu1"].seconds) == {NAMES[1]}
    assert rows["conv1", "relu1"].ops == ["conv", "relu"]
    assert rows["conv1",].seconds[NAMES[0]].share == pytest.approx(0.3)


def test_the_page_says_how_far_the_profiler_changed_the_step(profiled):
    text = text_of(profiled)
    assert "PyTorch (channels last): the layers and the rest add up to 10.0 ms" in text
    assert "which is 1.25 times a step without the profiler (its profiler)" in text
    assert "which is 0.800 times a step without the profiler" in text
    assert f"unsupported , {REASON}." in text
    assert "conv1 conv 1.00 2.00 30.0 – 3.00 37.5" in text
    assert "conv1 + relu1 conv + relu – – – 1.50 – 18.8" in text
    assert "other – 5.00 50.0 1.50 18.8" in text
    assert 'href="tables/profile.csv"' in page_of(profiled)
    assert (profiled / "report/tables/profile.csv").exists()


def test_bars_of_the_figure_are_the_times(profiled):
    study = study_of(profiled)
    found = read_profiles(profiled / "profiles", NAMES)
    with drawing():
        drawn = figure.draw(study, layer_profiles(study, found))
    (axes,) = drawn.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["conv1", "conv1 + relu1", "relu1", "pool1", "logits", "other"]
    bars = {}
    for bar in axes.patches:
        colour = "#{:02X}{:02X}{:02X}".format(*(round(255 * c) for c in bar.get_facecolor()[:3]))
        bars.setdefault(colour, []).append(bar.get_width())
    forward_and_backward = [1.0, 2.0, 0.5, 0.25, 0.25, 0.5, 0.125, 0.375, 5.0, 0.0]
    assert bars[style_of("pytorch")[0]] == pytest.approx(forward_and_backward)
    assert sum(bars[style_of("tensorflow")[0]]) == pytest.approx(8.0)
    assert style_of("mxnet")[0] not in bars
    captions = json.loads((profiled / "figures/captions.json").read_text())
    assert captions["profile"]["title"] == "Time of each layer"


def test_a_study_without_profiles_has_no_section(tmp_path):
    write_plan(tmp_path / "plan.tsv", CELLS[:1])
    (tmp_path / "config.resolved.yaml").write_text("study: none\n")
    for repeat in (1, 2, 3):
        make_record(tmp_path / "runs", tmp_path / "records", **CELLS[0], repeat=repeat)
    root = built(tmp_path, images=False)
    assert "Time of each layer" not in page_of(root)
    assert read_findings(root / "findings.json").profiles == []


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"cell": "another"}, "it is of 'another'"),
        ({"status": "fine"}, "unknown outcome 'fine'"),
        ({"layers": [{"layers": ["x"], "forward": 1.0}]}, "a profile of this version"),
        ({"ops": {}}, "it has a time of 'conv1', and no such layer"),
        ({"format": 2}, "format 2, this version reads format 1"),
    ],
)
def test_a_damaged_profile_is_refused(tmp_path, change, cause):
    path = tmp_path / f"{NAMES[0]}.json"
    path.write_text(json.dumps({**to_json(PROFILES[0]), **change}))
    with pytest.raises(InputError) as refused:
        read_profiles(tmp_path, [NAMES[0]])
    assert str(path) in str(refused.value) and cause in str(refused.value)
    assert "Delete it and run the workflow again" in str(refused.value)


STUDY = {
    "study": "s", "title": "S", "defaults": {"network": "lenet5", "dataset": "mnist-5k"},
    "sweeps": [
        {"framework": "pytorch", "batch_size": [64, 128]},
        {"framework": "pytorch", "workload": "inference"},
        {"framework": "scipy", "network": "sparse_gemm", "dataset": "7680x1500x2560x95"},
    ],
}  # fmt: skip


def test_every_cell_that_trains_is_profiled_on_request(root):
    plan = make_plan({**STUDY, "profile": True}, root)
    found = Context(plan, root, 2, True).profiles
    assert len(found) == 2 and all("pytorch-lenet5" in path for path in found)
    assert Context(make_plan(STUDY, root), root, 2, True).profiles == []


def test_a_wrong_value_of_the_key_is_named(root):
    message = faults({**STUDY, "profile": "gpu"}, root)
    assert "profile: input should be a valid boolean, not 'gpu'" in message
