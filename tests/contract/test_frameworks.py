"""What every adapter must do, in its own environment: read, train, agree, tell its settings.

A framework is found by its file; nothing here names one.
"""

import hashlib
import json
import os
import subprocess

import numpy as np
import pytest

from datasets import formats
from fixtures.adapter import PROGRAM
from plan import frameworks
from plan.model import Cell
from plan.spec import make_spec

FRAMEWORKS = frameworks.names()
MODES = [(framework, mode) for framework in FRAMEWORKS for mode in frameworks.modes(framework)]
FORWARD = 1e-5
"""Of logits, relative to the largest: single precision over a few hundred additions."""
LOSS = 1e-3
"""Of the loss after ten steps."""
ONE_STEP = 1e-6
"""Of a weight after one step, absolute."""


def events_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_its_own_reader_gives_the_records_in_their_order(framework, study, root, python_of):
    kind = frameworks.record_format(framework)
    code = PROGRAM + (
        "images, labels = adapter.read(runtime.stems(spec['data'], 'train'), (28, 28, 1))\n"
        "digest = hashlib.sha256(images.tobytes()).hexdigest()\n"
        "print(json.dumps([list(images.shape), digest, [int(x) for x in labels]]))"
    )
    spec = study.folder / f"{framework}-read.json"
    cell = Cell(framework=framework, network="lenet5", dataset="mnist-5k")
    mode = frameworks.modes(framework)[0]
    spec.write_text(json.dumps(make_spec(cell.model_copy(update={"mode": mode}), 1, root)))
    runtime = root / "workflow/scripts/frameworks/runtime.py"
    command = [python_of(framework), "-c", code, str(runtime), str(spec)]
    answer = subprocess.run(command, cwd=study.folder, capture_output=True, text=True, check=True)
    stem = study.folder / f"results/data/mnist-5k/{kind}/train"
    shape, digest, labels = json.loads(answer.stdout.splitlines()[-1])
    ours = list(formats.load(kind).read(stem, (28, 28, 1)))
    assert shape == [4000, 28, 28, 1]
    assert digest == hashlib.sha256(np.stack([pixels for _, pixels in ours]).tobytes()).hexdigest()
    assert labels == [label for label, _ in ours]


def deviations(found, reference):
    """The largest differences: logits (relative), losses, and weights."""
    scale = np.abs(reference["before"]).max()
    names = [name for name in reference if name.startswith("weight:")]
    assert set(names) == {name for name in found if name.startswith("weight:")}
    return {
        "forward": np.abs(found["before"] - reference["before"]).max() / scale,
        "loss": np.abs(found["losses"] - reference["losses"]).max(),
        "weights": max(np.abs(found[name] - reference[name]).max() for name in names),
    }


@pytest.mark.parametrize("framework, mode", MODES)
def test_all_frameworks_and_modes_compute_the_same(framework, mode, study):
    reference = study.trace(FRAMEWORKS[0])
    found = study.trace(framework, mode=mode)
    assert np.array_equal(found["batches"], reference["batches"])
    worst = deviations(found, reference)
    print(framework, mode, worst)
    assert worst["forward"] <= FORWARD
    assert worst["loss"] <= LOSS
    one = deviations(study.trace(framework, 1, mode=mode), study.trace(FRAMEWORKS[0], 1))
    assert one["weights"] <= ONE_STEP


@pytest.mark.parametrize("change", [{"momentum": 0.89}, {"weight_decay": 0.0}])
def test_another_update_rule_would_be_noticed(change, study):
    """The tolerances are narrow enough to tell a wrong optimiser."""
    worst = deviations(study.trace(FRAMEWORKS[0], **change), study.trace(FRAMEWORKS[0]))
    assert worst["weights"] > 10 * ONE_STEP


@pytest.mark.parametrize("framework, mode", MODES)
def test_a_run_is_ok_and_its_settings_are_read_back(framework, mode, study):
    events = events_of(study(framework, ".jsonl", mode=mode, epochs=2, warmup_seconds=0.0))
    assert events[-1] == {"event": "result", "status": "ok", "reason": None}
    settings = next(e for e in events if e["event"] == "settings")
    assert set(settings["effective"]) == set(settings["requested"])
    assert settings["requested"]["threads"] == len(os.sched_getaffinity(0))
    assert settings["effective"]["parameters"] == 61706
    evaluation = next(e for e in events if e["event"] == "evaluation")
    assert evaluation["correct"] / evaluation["examples"] > 0.8


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_absurd_learning_rate_is_seen_as_divergence(framework, study):
    events = events_of(study(framework, ".jsonl", learning_rate=1e6, epochs=2))
    assert events[-1]["status"] == "diverged"
    assert "the loss is" in events[-1]["reason"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_gpu_that_is_not_there_is_unsupported_with_the_reason(framework, study):
    if os.path.exists("/proc/driver/nvidia"):
        pytest.skip("this machine has an NVIDIA driver")
    events = events_of(study(framework, ".jsonl", device="gpu", epochs=2))
    assert events[-1]["status"] == "unsupported"
    assert "sees no" in events[-1]["reason"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_synthetic_input_reads_nothing(framework, study, tmp_path):
    path = study(framework, ".jsonl", input="synthetic", epochs=2, cwd=tmp_path)
    assert events_of(path)[-1]["status"] == "ok"
