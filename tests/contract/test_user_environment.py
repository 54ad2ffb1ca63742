"""What a run has that a user's own program has not: docs/measuring.md lists all of it."""

import json
import os
import re
import signal
import subprocess
import time
from fnmatch import fnmatch
from pathlib import Path

import pytest

from fixtures.adapter import PROGRAM
from touchstone.measure.variables import passed
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.spec import make_spec
from touchstone.schema.spec import spec_to_json
from workflow.project import ENVIRONMENTS, Project

IMPORTS = {"pytorch": "torch"}
"""What a user imports; a framework that is not here has its own name."""
TRAINED = (
    """
import importlib, os, sys
importlib.import_module(sys.argv[3])
theirs = dict(os.environ)
"""
    + PROGRAM
    + """
threads = lambda: len(os.listdir("/proc/self/task"))
reader = batches.reader_of(adapter, job)
loaded = None if reader else batches.examples(adapter, job, "train")
images, labels = batches.examples(adapter, job, "test")
adapter.build(initial_weights.initial_weights(job.network.parameters, job.seed))
seen = {"build": threads()}
if loaded:
    adapter.load_examples(*loaded)
seen["load"] = threads()
order = batches.sampler_of(job)
rates = lr_schedule.LRSchedule(0.01, job.schedule, order.steps, 1)
batches, draws = order.take(2)
if reader:
    batches = reader.take(batches, order.peek(2))
adapter.losses(adapter.train_steps(batches, rates.take(0, 2), draws))
adapter.synchronize()
seen["train"] = threads()
train.evaluate(adapter, images, labels, order.batch_size)
seen["evaluate"] = threads()
print(json.dumps([seen, theirs, dict(os.environ)]))
"""
)
LARGE = 500
"""A batch size whose images have more numbers than MXNet copies in one thread (392,000)."""


def documented(root):
    """Patterns of the environment variables that docs/measuring.md lists."""
    text = (root / "docs/measuring.md").read_text()
    table = text.split("## What a run has that your shell has not")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    return [name for row in rows for name in re.findall(r"`([A-Z][A-Z_*]+)`", row, re.I)]


def changed(ours, theirs):
    """Names of variables that two environments do not have alike."""
    return {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)}


def undocumented(names, root):
    return {name for name in names if not any(fnmatch(name, p) for p in documented(root))}


def train(framework, source, study, root, execute):
    """The threads that a process has after each of its phases, and the variables in its environment
    after the framework's import and in the end."""
    mode = frameworks.modes(framework)[0]
    cell = Cell(
        framework=framework, network="lenet5", dataset="mnist-5k", mode=mode, batch_size=LARGE,
        input=source,
    )  # fmt: skip
    spec = study.folder / f"{framework}-{source}-environment.json"
    spec.write_text(json.dumps(spec_to_json(make_spec(cell, 1, root))))
    arguments = [root / "workflow/scripts", spec, IMPORTS.get(framework, framework)]
    ended = execute(framework, "-c", TRAINED, *arguments, cwd=study.folder)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize("source", ["memory", pytest.param("records", marks=pytest.mark.long)])
@pytest.mark.parametrize("framework", frameworks.names())
def test_training_brings_no_more_threads_and_variables_than_documented(
    framework, source, study, root, execute, all_cores
):
    """Loading and evaluating bring no threads beside those that train; an adapter sets no other
    variables (docs/measuring.md)."""
    threads, theirs, ours = train(framework, source, study, root, execute)
    assert threads["load"] == threads["build"]
    assert threads["evaluate"] == threads["train"]
    assert not undocumented(changed(ours, theirs), root)


def runner_environment(process, folder):
    """The environment of the first runner of the study in that folder; None if none comes."""
    while process.poll() is None:
        for each in Path("/proc").glob("[0-9]*"):
            try:
                command = (each / "cmdline").read_bytes().split(b"\0")
                environment = (each / "environ").read_bytes().decode()
                here = (each / "cwd").resolve() == folder.resolve()
            except OSError:
                continue  # it has ended
            if (
                here
                and len(command) > 2
                and command[1].endswith(b"run_in_framework.py")
                and environment
            ):
                return dict(pair.split("=", 1) for pair in environment.split("\0") if pair)
        time.sleep(0.05)
    return None


@pytest.mark.framework("mxnet")
def test_a_run_has_a_login_shells_environment_but_for_what_is_documented(root, tmp_path, python_of):
    python_of("mxnet")
    sweep = {"framework": "mxnet", "network": "lenet5", "dataset": "mnist-5k", "epochs": 2}
    sweep |= {"wait_policy": "default", "input": "synthetic", "steps": 5, "warmup_seconds": 0.0}
    study = {"study": "test", "title": "A test", "repeats": 1, "parity": False, "sweeps": [sweep]}
    project = Project(tmp_path / "project", ENVIRONMENTS, study)
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "USER") if name in os.environ}
    kept["TMPDIR"] = project.variables["TMPDIR"]
    shell = subprocess.run(
        ["bash", "-lc", "env -0"], env=kept, cwd=project.folder, capture_output=True, check=True
    )
    login = dict(each.split("=", 1) for each in shell.stdout.decode().split("\0") if each)
    project.variables = {**login, "TOUCHSTONE_ENVS": str(ENVIRONMENTS)}
    process = project.start("--cores", "1")
    found = runner_environment(process, project.folder)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    assert found, output[-3000:]
    assert found["OMP_NUM_THREADS"] == str(len(os.sched_getaffinity(0)))
    assert "OMP_WAIT_POLICY" not in found
    # Bash keeps in `_` the command that it ran last.
    left_out = login.keys() - passed(login).keys()
    assert not found.keys() & left_out
    assert not undocumented(changed(found, login) - left_out - {"_"}, root)
