"""Two installations that are measured in turn: what is judged, and how the command ends."""

import argparse
import csv
import importlib.metadata
import json
import math
import os
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from fixtures.commands import call
from fixtures.interpreters import plant
from fixtures.turns import computed
from touchstone.analysis.compare_in_turn import (
    Configuration,
    Recorded,
    changes_in_turn,
    heading,
)
from touchstone.analysis.gate import CANNOT_TELL, NOT_COMPARED, PASSED, judged_in_turn
from touchstone.analysis.gate_text import as_text, verdict_of
from touchstone.commands import compare
from touchstone.paths import ROOT, RUNNER
from touchstone.plan.installations import Installation, framework_of
from touchstone.plan.parts import Interleave

STUDY = """
study: tiny
title: Small matrix products
interleave: null
defaults: {framework: scipy, operation_seconds: 0.05, warmup_seconds: 0.0}
sweeps:
  - {framework: scipy, network: sparse_gemm, dataset: 64x8x64x90}
"""
SLOW = f"""#!{sys.executable}
import os, sys
if sys.argv[1] == "-I":  # what is installed?
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
sys.path.insert(0, os.path.dirname(sys.argv[1]))
sys.argv = sys.argv[1:]
from touchstone.runner import slices
from touchstone.runner.main import main

class Slicer(slices.Slicer):
    def slice(self, seconds):
        answer = super().slice(seconds)
        return answer._replace(begin=answer.end - 8 * (answer.end - answer.begin))

slices.Slicer = Slicer
main()
"""
"""A Python that says that it needs eight times as long for the same work: a difference that shows
on a busy machine too."""
QUICK = ("--framework", "scipy", "--sets", 3, "--max-sets", 3, "--rounds", 3, "--max-seconds", 1)


RECORDED = {
    name: Recorded("pytorch", version, {"numpy": "2.4.6"})
    for name, version in (("old", "2.9.1+cu128"), ("new", "2.13.0+cpu"))
}


def configuration(speeds, **options):
    """A configuration of which two installations with these speeds took turns."""
    found = computed(speeds, **options)._replace(group="cell")
    return Configuration(found, "images/s", "CPU (EPYC)", RECORDED)


def blind(spread=0.65):
    """Turns in rounds that other programs disturbed, whose ratio varies so much from set to set."""
    pace = {}

    def noise(one):
        # A value for each slice of a set, in order: old, then new, of each round.
        pace.setdefault(id(one), []).append(one.gauss(0, spread))
        return pace[id(one)][-1]

    return configuration(
        {"old": 1.0, "new": 1.0}, sets=3, rounds=3, noise=noise, others=lambda *_: 0.5
    )


@pytest.mark.parametrize(
    ("speed", "verdict"), [(0.97, "slower"), (1.0, "no difference shown"), (1.03, "faster")]
)
def test_a_change_of_3_percent_is_found_among_slices_that_vary_by_2(speed, verdict):
    (change,) = changes_in_turn([configuration({"old": 1.0, "new": speed})])
    assert change.verdict == verdict
    assert change.basis == "5 sets, 50 of 50 rounds"


def test_the_speeds_of_both_sides_have_the_ratio_as_quotient():
    (change,) = changes_in_turn([configuration({"old": 1.0, "new": 0.9})])
    means = [math.exp(statistics.fmean(map(math.log, side))) for side in change.values]
    assert means[1] / means[0] == pytest.approx(change.ratio.value, rel=1e-9)
    assert min(means) > 5e5  # the slices had 1e6 examples/s, at paces around it


def test_versions_and_device_are_those_that_the_runners_recorded():
    found = [configuration({"old": 1.0, "new": 1.0})]
    assert heading(found) == "PyTorch 2.9.1+cu128 -> 2.13.0+cpu on CPU (EPYC)"
    assert changes_in_turn(found)[0].differences == ["version: 2.9.1+cu128 / 2.13.0+cpu"]


def test_a_configuration_without_turns_is_not_compared_and_the_others_are():
    gone = configuration({"old": 1.0, "new": 1.0}, sets=0)
    gone = gone._replace(turns=gone.turns._replace(group="gone", excluded={"new": "no torch"}))
    changes = changes_in_turn([gone, configuration({"old": 1.0, "new": 2.0})])
    assert [change.verdict for change in changes] == ["not comparable", "faster"]
    gate = judged_in_turn(changes)
    assert "not comparable: gone: new: no torch" in as_text(gate)
    assert gate.status == NOT_COMPARED
    assert judged_in_turn(changes, 0.25).status == NOT_COMPARED


def test_rounds_that_others_disturbed_are_named():
    (change,) = changes_in_turn(
        [configuration({"old": 1.0, "new": 1.0}, others=lambda number, place: 0.5)]
    )
    assert change.basis.endswith("used the cores in 50 of these, so trust this less")


def test_a_comparison_that_has_seen_nothing_does_not_pass_a_tolerance():
    changes = changes_in_turn([blind()])
    low, high = changes[0].ratio.interval()
    assert low < 0.6 and high > 1.6
    assert judged_in_turn(changes).status == PASSED
    worst = f"A slowdown of up to {math.ceil(100 * (1 - low))} % is not excluded."
    assert verdict_of(judged_in_turn(changes)) == f"Nothing is shown to be slower. {worst}"
    gate = judged_in_turn(changes, 0.05)
    assert gate.status == CANNOT_TELL
    assert verdict_of(gate).startswith(f"Cannot tell. {worst} More than the tolerance of 5 %")


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study; its cells work for short slices."""
    short = partial(Interleave, slice_seconds=0.05, lead_seconds=0.01)
    monkeypatch.setattr(compare, "Interleave", short)
    # No other study is waited for.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    return path


@pytest.fixture
def python(tmp_path):
    """Writes an executable file that stands for a Python."""

    def write(text):
        path = tmp_path / "python"
        path.write_text(text)
        path.chmod(0o755)
        return path

    return write


@pytest.mark.long
def test_a_slower_python_ends_with_1_and_leaves_a_table_a_page_and_the_sets(
    study, python, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    ended = call("compare", sys.executable, python(SLOW), *QUICK, "--config", study)
    assert ended.returncode == 1, ended.stderr
    first, second, third = ended.stdout.splitlines()[:3]
    assert first == f"Compares old, {sys.executable}, with new, {tmp_path / 'python'}"
    assert second.startswith("SciPy, 1 configuration on noise in memory: about ")
    version = importlib.metadata.version("scipy")
    assert third.startswith(f"SciPy {version} -> {version} on CPU (")
    assert ended.stdout.splitlines()[-1].startswith("Slower: scipy-")
    ratio = float(ended.stdout.split("new / old ")[1].split()[0])
    assert 0.03 < ratio < 0.5
    folder = tmp_path / "results" / "compare"
    with (folder / "changes.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["verdict"], row["unit"]) == ("slower", "calls/s")
    assert float(row["ratio"]) == pytest.approx(ratio, abs=6e-4)
    (sets,) = json.loads((folder / "changes.json").read_text())
    assert len(sets["sets"]) == 3
    page = (folder / "changes.html").read_text()
    assert f"SciPy {version} -&gt; {version}" in page and ">slower<" in page


SCRIPT = """
import sys, time
from touchstone_steps import steps

_, pause = sys.argv
for item in steps(iter(int, 1), examples=2):
    time.sleep(float(pause) * (8 if "slower" in sys.prefix else 1))
"""


@pytest.mark.long
def test_a_script_is_slower_in_another_python(study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    slower = plant(tmp_path / "slower", beside=Path(sys.executable))
    ended = call("compare", sys.executable, slower, *QUICK, "--program", "script.py 0.002")
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout.splitlines()[1].startswith("SciPy, a script: about ")
    assert ended.stdout.splitlines()[-1].startswith("Slower: scipy-script-program-own-cpu-b1")
    with (tmp_path / "results/compare/changes.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["verdict"], row["unit"]) == ("slower", "examples/s")
    assert 0.03 < float(row["ratio"]) < 0.5


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("none.py", "programs.script.file: none.py is no file"),
        ("'", "--program: No closing quotation"),
    ],
)
def test_a_script_that_cannot_be_is_refused(study, tmp_path, monkeypatch, program, message):
    monkeypatch.chdir(tmp_path)
    ended = call("compare", sys.executable, sys.executable, *QUICK, "--program", program)
    assert ended.returncode == 2 and message in ended.stderr


@pytest.mark.parametrize("asked", [(), ("--framework", "scipy")])
def test_a_python_that_does_not_run_is_named_at_once(study, python, asked):
    broken = python("#!/bin/sh\necho nothing here >&2\nexit 3\n")
    ended = call("compare", sys.executable, broken, *asked, "--config", study)
    assert ended.returncode == 2
    assert f"error: {broken}: it ends with exit status 3 (nothing here)" in ended.stderr


WITH_MODULES = """#!{python}
import os, sys
code = sys.argv.index("-c") + 1
sys.argv[code] = "import sys; sys.path.insert(0, {folder!r})\\n" + sys.argv[code]
os.execv({python!r}, [{python!r}, *sys.argv[1:]])
"""
TWO = STUDY + "  - {framework: pytorch, network: gemm, dataset: 64x64x64}\n"


@pytest.fixture
def with_modules(tmp_path):
    """Makes a Python that has these modules too."""

    def make(name, *modules):
        folder = tmp_path / f"{name}-modules"
        folder.mkdir()
        for module in modules:
            (folder / f"{module}.py").touch()
        path = tmp_path / name
        path.write_text(WITH_MODULES.format(python=sys.executable, folder=str(folder)))
        path.chmod(0o755)
        return path

    return make


def test_which_framework_is_asked_where_both_sides_have_several(study, with_modules):
    study.write_text(TWO)
    both = with_modules("one", "torch"), with_modules("other", "torch")
    ended = call("compare", *both, "--config", study)
    assert ended.returncode == 2
    assert "--framework: which one? Both sides have scipy, pytorch" in ended.stderr


def test_the_only_framework_of_both_sides_is_taken():
    sides = {name: Installation(sys.executable, ROOT) for name in ("old", "new")}
    assert framework_of(sides, ["scipy", "pytorch"], None) == "scipy"


def test_sides_without_a_framework_of_the_study_are_named(study, with_modules):
    other_study = TWO.replace("scipy", "mxnet").replace("sparse_gemm", "gemm")
    study.write_text(other_study.replace("64x8x64x90", "64x64x64"))
    one, other = with_modules("one", "torch"), with_modules("other")
    ended = call("compare", one, other, "--config", study)
    assert ended.returncode == 2
    assert "no framework of the study (mxnet, pytorch) is on both sides" in ended.stderr
    assert f"old, {one}, has pytorch, scipy; new, {other}, has scipy" in ended.stderr
    ended = call("compare", one, other, "--config", study, "--framework", "pytorch")
    assert f"--framework pytorch: new, {other}, lacks torch; install it" in ended.stderr


@pytest.mark.parametrize(
    ("text", "value"), [("5%", 0.05), ("0.05", 0.05), (" 2.5% ", 0.025), ("0", 0)]
)
def test_a_tolerance_is_a_share_or_percent(text, value):
    assert compare.share(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["5", "-1%", "5%%", "x", "1.0", "nan", ""])
def test_what_is_no_share_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="write 5% or 0.05"):
        compare.share(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ROOT / "none", "."), "is no folder and no Python"),
        ((".", sys.executable), "a results folder can only be compared with another one"),
        ((ROOT, ROOT, "--sets", 1, "--precision", -1), "--sets: "),
        ((ROOT, ROOT, "--tolerance", "5"), "--tolerance: '5' is no share from 0 to less than 1"),
        ((ROOT, ROOT), "which one? Both sides have pytorch, tensorflow, mxnet"),
        ((ROOT, ROOT, "--framework", "caffe"), "the study has no configuration of caffe"),
    ],
)
def test_sides_and_options_that_cannot_be_are_refused(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = call("compare", *arguments)
    assert ended.returncode == 2 and message in ended.stderr
    assert os.listdir(tmp_path) == []


def test_the_folder_of_a_checkout_has_the_runner():
    assert (ROOT / RUNNER.relative_to(ROOT)).is_file()
