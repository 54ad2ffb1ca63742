"""What tuned code gains over plain code, and what a plan with styles may say."""

import pytest

from fixtures.published import made
from fixtures.runs import make_record, write_plan
from fixtures.studies import built, faults, text_of
from touchstone.analysis.findings_file import read_findings
from touchstone.analysis.styles import gaps_of
from touchstone.plan import frameworks
from touchstone.plan.study import make_plan
from touchstone.results.study import read_study
from touchstone.schema.spec import PLAIN

SECONDS = {("tuned", "eager"): 0.25, ("tuned", "compile"): 0.125, ("plain", "eager"): 0.5}
"""Of a step, by style and mode."""
PLAN = {
    "study": "s",
    "title": "t",
    "defaults": {"network": "lenet5", "dataset": "mnist-5k"},
    "sweeps": [{"framework": ["pytorch", "jax"], "style": ["tuned", "plain"]}],
}


def make_study(root, seconds=None):
    """PyTorch, tuned in two modes, and plain."""
    seconds = seconds or SECONDS
    cells = [{"style": style, "mode": mode} for style, mode in seconds]
    for cell in cells:
        taken = seconds[cell["style"], cell["mode"]]
        for repeat in (1, 2, 3):
            make_record(
                root / "runs", root / "records", repeat=repeat,
                step_seconds=lambda step, t=taken: t, **cell,
            )  # fmt: skip
    write_plan(root / "plan.tsv", cells)
    (root / "config.resolved.yaml").write_text("title: Styles\n")
    return built(root, images=False)


def gaps(root):
    study = read_study(root / "plan.tsv", root / "tables", root / "records")
    gaps = gaps_of(study, ())
    assert gaps == read_findings(root / "findings.json").styles
    return gaps


def test_a_gap_is_to_the_fastest_tuned_cell(tmp_path):
    root = make_study(tmp_path)
    (gap,) = gaps(root)
    cell = read_findings(root / "findings.json").cell
    assert cell[gap.plain].factors["style"] == "plain"
    assert cell[gap.tuned].factors["mode"] == "compile"
    assert gap.ratio.value == pytest.approx(4) and gap.ratio.verdict == "faster"
    page = text_of(root)
    assert "What tuned code gains" in page and "PyTorch (plain, eager)" in page


def test_plain_code_may_be_faster(tmp_path):
    """The ratio stays tuned / plain; its interval is turned round with it."""
    root = make_study(tmp_path, {("tuned", "eager"): 0.5, ("plain", "eager"): 0.25})
    (gap,) = gaps(root)
    assert gap.ratio.value == pytest.approx(0.5) and gap.ratio.verdict == "slower"
    assert gap.ratio.low <= gap.ratio.value <= gap.ratio.high < 1


def test_without_a_tuned_cell_there_is_no_gap(tmp_path):
    root = make_study(tmp_path, {("plain", "eager"): 0.5, ("plain", "compile"): 0.25})
    assert gaps(root) == [] and "What tuned code gains" not in text_of(root)


def test_the_page_of_a_study_has_the_gaps(root):
    page = made(root, "keras3").page
    assert "What tuned code gains" in page and "TensorFlow (plain, Keras)" in page
    assert "2.00" in page.split('id="styles"')[1].split("</table>")[0]


def test_cells_of_a_style_have_names_and_modes_of_their_own(root):
    cells = make_plan(PLAN, root).cells
    assert [(c.framework, c.style, c.mode) for c in cells.values()] == [
        ("pytorch", "tuned", "eager_channels_last"), ("pytorch", "plain", "eager"),
        ("jax", "tuned", "jit"), ("jax", "plain", "nnx"),
    ]  # fmt: skip
    assert [name.split("-lenet5")[0] for name in cells] == [
        "pytorch", "pytorch-plain", "jax", "jax-plain",
    ]  # fmt: skip


def test_flax_has_an_environment_of_its_own():
    assert frameworks.environment("jax", "cpu", PLAIN) == "envs/jax-plain.yaml"
    assert frameworks.environment("jax", "gpu", PLAIN) == "envs/jax-plain-gpu.yaml"
    assert frameworks.environment("pytorch", "gpu", PLAIN) == "envs/pytorch-gpu.yaml"


@pytest.mark.parametrize(
    "sweep, fault",
    [
        ({"framework": "caffe"}, "style: caffe has no style 'plain' here"),
        ({"framework": "pytorch", "mode": "eager_channels_last"}, "no mode 'eager_channels_last'"),
        ({"framework": "pytorch", "input": "records"}, "input: the style plain has its examples"),
        ({"framework": "pytorch", "replicas": 2}, "replicas: the style plain trains one model"),
        ({"framework": "pytorch", "workload": "inference", "weights": "initial"}, "trains only"),
    ],
)
def test_what_plain_code_does_not_do_is_refused(sweep, fault, root):
    assert fault in faults({**PLAN, "sweeps": [{**sweep, "style": "plain"}]}, root)
