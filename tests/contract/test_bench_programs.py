"""The programs of experts and users that the bench compares ours with, in their environments."""

import csv
import json
import os
import subprocess
import sys

import pytest
import readers
from comparison import cases, sides

from touchstone.measure.launch import cores

pytestmark = pytest.mark.release
NETWORKS = ("lenet5", "alexnet-cifar", "resnet20-cifar", "lstm-text")
LACKING = {("cntk", "lstm-text"), ("caffe", "resnet20-cifar"), ("caffe", "lstm-text")}


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "mxnet", "jax", "cntk", "caffe"])
def test_users_programs_have_the_parameters_of_our_graphs(python_of, framework, monkeypatch):
    python_of(framework)
    small = {name: case._replace(batch_size=2) for name, case in cases.CASES.items()}
    monkeypatch.setattr(sides, "CASES", small)
    length = cases.Length(warmup=0, measured=1, group=1, epochs=2, batches=1)
    for network in NETWORKS:
        if (framework, network) in LACKING:
            with pytest.raises(LookupError, match="no program"):
                sides.user(framework, network, cores(None), length)
        else:  # which raises where they differ
            seen = sides.user(framework, network, cores(None), length)
            assert seen.speed > 0 and seen.memory > 50 and seen.first_step is None


STEPS = """
import json, sys
sys.path.insert(0, "benchmarks")
import expert_jax
asked = expert_jax.ASKED
training = expert_jax.Training(asked["network"], 8, 1, 1, asked["candidate"])
training.steps(3)
arrays = expert_jax.jax.tree.leaves(training.parameters)
print(json.dumps([[float(abs(a).sum()), float(a.sum()), float(a.ravel()[-1])] for a in arrays]))
"""


@pytest.mark.framework("jax")
@pytest.mark.parametrize("network", ["lenet5", "resnet20-cifar"])
def test_every_way_of_jaxs_expert_trains_as_the_plain_one_does(python_of, network, root):
    python = python_of("jax")
    found = []
    for candidate in ("plain", "all written out, barriers", "loop in one call"):
        asked = json.dumps({"network": network, "candidate": candidate})
        ended = subprocess.run(
            [python, "-c", STEPS, asked], cwd=root, capture_output=True, text=True, check=True
        )
        found.append(json.loads(ended.stdout.splitlines()[-1]))
    plain, *others = found
    for other in others:
        for one, same in zip(plain, other, strict=True):
            assert one == pytest.approx(same, rel=1e-4, abs=1e-4)


LOWERED = """
import json, re, sys
sys.path.insert(0, "benchmarks")
import expert_jax
jax, asked = expert_jax.jax, expert_jax.ASKED
training = expert_jax.Training(asked["network"], 8, 1, 1, asked["candidate"])
state = training.parameters, training.velocities, training.statistics
taken = (0, 1) if training.loop else (0,)
given = (training.images, training.labels) if training.loop else (
    training.images[0], training.labels[0]
)
step = jax.export.export(training.loop or training.step, platforms=["cuda"])
text = step(*state, *given, *taken).mlir_module()
lines = [line for line in text.splitlines() if re.search("dot_general|convolution", line)]
print(json.dumps({
    "asked": sorted({word for one in lines for word in re.findall("HIGHEST|HIGH|DEFAULT", one)}),
    "types": sorted({kind for one in lines for kind in re.findall(r"x(b?f[0-9]+)>", one)}),
    "donated": text.count("tf.aliasing_output") / len(jax.tree.leaves(state)),
}))
"""


@pytest.mark.framework("jax")
@pytest.mark.parametrize("candidate", ["plain", "loop in one call"])
@pytest.mark.parametrize(
    ("precision", "asked", "kind"),
    [("fp32", "HIGHEST", "f32"), ("tf32", "HIGH", "f32"), ("bf16", "HIGH", "bf16")],
)
def test_jaxs_expert_lowers_its_steps_for_cuda(candidate, precision, asked, kind, python_of, root):
    question = {
        "network": "resnet20-cifar", "candidate": candidate, "device": "gpu",
        "precision": precision,
    }  # fmt: skip
    ended = subprocess.run(
        [python_of("jax"), "-c", LOWERED, json.dumps(question)], cwd=root, capture_output=True,
        text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found == {"asked": [asked], "types": [kind], "donated": 1.0}


def test_flax_computes_with_the_jax_of_the_framework(root):
    pins = [
        {line.split(" ")[0] for line in (root / path).read_text().split() if "==" in line}
        for path in ("envs/jax.yaml", "envs/jax-plain.yaml")
    ]
    same = {pin for pin in pins[0] if pin.startswith(("jax==", "jaxlib==", "numpy=="))}
    assert len(same) == 3 and same <= pins[1]


@pytest.mark.framework("caffe")
def test_a_row_has_all_sides_and_is_in_the_tables(root, tmp_path, python_of):
    python_of("caffe")
    output = tmp_path / "bench.csv"
    ended = subprocess.run(
        [
            sys.executable, "benchmarks/compare.py", "--network", "lenet5", "--framework", "caffe",
            "--pairs", "1", "--seconds", "0.3", "--warmup", "0.1", "--trial-seconds", "0.1",
            "--output", str(output),
        ],
        cwd=root, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": "workflow/scripts"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    with open(output, newline="") as file:
        rows = list(csv.DictReader(file))
    for used in {"1", str(len(os.sched_getaffinity(0)))}:
        found = {row["side"] for row in rows if row["cores"] == used}
        assert {"ours", "expert", "from memory", "user"} <= found
    assert all(float(row["speed"]) > 0 for row in rows)
    assert "ours / expert" in ended.stdout and "ours / user" in ended.stdout


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "mxnet", "jax"])
def test_our_readers_are_compared_with_those_by_hand(framework, python_of, monkeypatch, capsys):
    python_of(framework)
    monkeypatch.setattr(readers, "IMAGES", 1280)
    monkeypatch.setattr(readers, "SHAPES", {"small": (28, 28, 1)})
    readers.main([framework])
    _, reading, training = capsys.readouterr().out.splitlines()
    for line, what in (reading, "reading / by hand"), (training, "records / synthetic"):
        assert line.startswith(framework) and what in line and float(line.split(what)[1].split()[0])
