"""What a study does not say: keys of its own, keys in the wrong place, and files beside it."""

import shutil

import pytest

from touchstone.commands.check_config import described
from touchstone.paths import ROOT
from touchstone.plan.read import ConfigError, inherited_text, read, read_on_default, read_own
from touchstone.plan.study import make_plan

STUDY = """study: mine
title: Mine
sweeps:
  - {framework: pytorch, network: lenet5, dataset: mnist-5k}
"""


def checked(folder, text, root=ROOT):
    path = folder / "study.yaml"
    path.write_text(text)
    return make_plan(read_on_default(root, path), root)


@pytest.mark.parametrize("key", ["study", "title", "sweeps"])
def test_a_study_without_a_key_of_its_own_is_refused(tmp_path, key):
    """The default study's three configurations ran under the user's name."""
    lines = [line for line in STUDY.splitlines(True) if not line.startswith(key)]
    text = "".join(line for line in lines if key != "sweeps" or not line.startswith("  -"))
    with pytest.raises(ConfigError, match=f"study.yaml: without {key}; a study of your own names"):
        checked(tmp_path, text)
    default = read(ROOT / "config/config.yaml")
    (tmp_path / "study.yaml").write_text(STUDY)
    own = read_own([tmp_path / "study.yaml"])
    assert inherited_text(default, own).endswith(
        "holds: `repeats: 3`, `interleave: {max_seconds: 150, rounds: 6, sets: 5}`"
    )
    assert inherited_text(default, {**own, "repeats": 1, "interleave": None}) == ""
    assert inherited_text(default, {}) == ""
    assert "mine: 1 cell, 3 runs" in described(checked(tmp_path, STUDY), "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("interleave: 3", "interleave: 3 is no mapping; write `interleave: {key: value}`"),
        ("interleave: yes", "interleave: True is no mapping; write `interleave: {key: value}`"),
        ("interleave: [1]", "no mapping"),
        ("environments: 3", "no mapping"),
        ("interleave: {set: 5}", "interleave.set: unknown key; did you mean 'sets'"),
        ("interleave: {precision: 3}", "interleave.precision: input should be less than or equal"),
        ("interleave: {precision: 0.1, max_sets: 4}", "max_sets 4 is less than sets 5"),
        ("defaults: {interleave: {sets: 3}}", "it is a key of the study: write it at the top"),
        ("defaults: {repeats: 3}", "defaults.repeats: no setting of a cell; it is a key of the st"),
        ("scale: [smoke]", "scale: ['smoke'] is no name; write one of paper"),
    ],
)
def test_a_key_in_a_wrong_place_or_form_is_refused_with_the_remedy(tmp_path, text, message):
    with pytest.raises(ConfigError) as refused:
        checked(tmp_path, f"{STUDY}{text}\n")
    assert message in str(refused.value)


SHAPES = "source: me\nshapes:\n  sparse_gemm: [64x8x64x90]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source: me\n", "shapes: missing; a list of shapes"),
        ("source: me\nshapes:\n", "shapes: None is no mapping"),
        ("source: me\nshapes: [64x8]\n", "shapes: ['64x8'] is no mapping"),
        ("source: me\nshapes: text\n", "shapes: 'text' is no mapping"),
        ("source: me\nshapes: {sparse_gemm: }\n", "shapes.sparse_gemm: input should be a valid li"),
        ("source: me\nshapes: {sparse_gemm: []}\n", "shapes.sparse_gemm: list should have at lea"),
        ("source: me\nshapes: {sparse_gemm: [5]}\n", "shapes.sparse_gemm.0: input should be a val"),
        (f"{SHAPES}shape: 1\n", "shape: unknown key; did you mean 'shapes'"),
        ("source: me\nshapes: {gemm: [9x9x9]}\n", "has no shapes of sparse_gemm; list some there"),
        ("source: [\n", "mine.yaml: not valid YAML"),
    ],
)
def test_a_file_of_shapes_is_checked_like_a_study(tmp_path, text, message):
    """Unknown keys were ignored, and seven of these ended in a traceback."""
    root = tmp_path / "root"
    for name in ("config", "envs", "workflow"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    study = STUDY.replace("pytorch", "scipy").replace("lenet5", "sparse_gemm")
    study = study.replace("mnist-5k", "mine")
    (root / "config/operations/mine.yaml").write_text(SHAPES)
    assert len(checked(tmp_path, study, root).cells) == 1
    (root / "config/operations/mine.yaml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        checked(tmp_path, study, root)
    assert message in str(refused.value)
