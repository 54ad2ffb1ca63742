"""Two installations that are measured in turn: what is judged, and how the command ends."""

import os
import sys
import tempfile
from functools import partial

import pytest

from fixtures.commands import call
from fixtures.turns import computed
from touchstone.analysis.compare_in_turn import judge
from touchstone.commands import compare
from touchstone.paths import ROOT, RUNNER
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


def turns(speeds, **options):
    """Turns of two sides with these speeds."""
    return computed(speeds, **options)._replace(group="cell")


@pytest.mark.parametrize(
    ("speed", "verdict"), [(0.97, "slower"), (1.0, "no difference shown"), (1.03, "faster")]
)
def test_a_change_of_3_percent_is_found_among_slices_that_vary_by_2(speed, verdict):
    (one,) = judge([turns({"old": 1.0, "new": speed})])
    assert one.verdict == verdict
    assert one.text.startswith("cell: new / old ") and f"], {verdict} (5 sets, 50 of" in one.text


def test_a_configuration_without_turns_is_not_compared_and_the_others_are():
    gone = turns({"old": 1.0, "new": 1.0}, sets=0)
    gone = gone._replace(group="gone", excluded={"new": "no torch"})
    found = judge([gone, turns({"old": 1.0, "new": 2.0})])
    assert [one.verdict for one in found] == ["not compared", "faster"]
    assert found[0].text == "gone: not compared: new: no torch"


def test_rounds_that_others_disturbed_are_named():
    (one,) = judge([turns({"old": 1.0, "new": 1.0}, others=lambda number, place: 0.5)])
    assert one.text.endswith("used the cores in 50 of these, so trust this less)")


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


@pytest.mark.slow
def test_a_slower_python_ends_with_1(study, python):
    ended = call("compare", sys.executable, python(SLOW), *QUICK, "--config", study)
    assert ended.returncode == 1, ended.stderr
    assert ", slower (" in ended.stdout
    ratio = float(ended.stdout.split("new / old ")[1].split()[0])
    assert 0.03 < ratio < 0.5


@pytest.mark.slow
def test_a_checkout_can_be_a_side_and_a_python_that_fails_is_not_compared(study, python):
    broken = python("#!/bin/sh\necho no scipy here\nexit 3\n")
    ended = call("compare", sys.executable, broken, *QUICK, "--config", study)
    assert ended.returncode == 2
    assert "not compared: new: its process ended with exit status 3; no scipy here" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ROOT / "none", "."), "is no folder and no Python"),
        ((".", sys.executable), "a results folder can only be compared with another one"),
        ((ROOT, ROOT, "--sets", 1, "--precision", -1), "--sets: "),
        ((ROOT, ROOT, "--output", "a.csv"), "--output is for two results folders"),
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
