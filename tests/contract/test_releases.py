"""Other releases of frameworks than the pinned ones, installed as a user's environment files say.

`TESTED` in an adapter's `names.py` has the oldest and the newest release of the last two years.
"""

import json
import subprocess

import numpy as np
import pytest
import yaml

from fixtures.specs import FEW_STEPS
from touchstone.contents import contents
from touchstone.environments import ensure
from touchstone.measure.launch import thread_variables
from touchstone.plan import frameworks, names
from touchstone.plan.model import Cell
from touchstone.plan.spec import make_spec
from touchstone.results.untested import installed_version
from touchstone.schema.spec import spec_to_json

RELEASES = {
    ("pytorch", "2.6.0"): ["torch==2.6.0", "numpy==2.2.6", "lmdb==1.6.2"],
    ("pytorch", "2.14.1"): ["torch==2.14.1", "numpy==2.4.6", "lmdb==3.0.0"],
    ("tensorflow", "2.18.1"): ["tensorflow-cpu==2.18.1", "numpy==2.0.2"],
    ("jax", "0.4.36"): ["jax==0.4.36", "jaxlib==0.4.36", "numpy==2.2.6", "lmdb==1.6.2"],
}
"""The packages of each release that is not pinned, for Python 3.11."""
COMPARED = 10
"""Steps whose losses are compared: later, rounding has grown."""
LOSS = 1e-3
"""Of a loss, as between two frameworks (test_frameworks.py)."""


def trained(path):
    """The result of a run, the losses of its first steps, and the version of its framework."""
    events = [json.loads(line) for line in path.read_text().splitlines()]
    losses = [loss for event in events if event["event"] == "chunk" for loss in event["losses"]]
    (version,) = [event["version"] for event in events if event["event"] == "software"]
    return events[-1], losses[:COMPARED], version


@pytest.mark.release
@pytest.mark.network
@pytest.mark.parametrize(("framework", "version"), sorted(RELEASES))
def test_a_release_trains_as_the_pinned_one_does(framework, version, study, root, tmp_path):
    file = tmp_path / f"{framework}-{version}.yaml"
    listed = ["python=3.11", "pip", {"pip": RELEASES[framework, version]}]
    file.write_text(yaml.safe_dump({"dependencies": listed}))
    python = ensure(file, tmp_path / "environments")
    pinned = study(framework, ".jsonl", **FEW_STEPS)
    cell = Cell(
        framework=framework, network="lenet5", dataset="mnist-5k", batch_size=64,
        learning_rate=0.01, weight_decay=0.001, mode=frameworks.modes(framework)[0], **FEW_STEPS,
    )  # fmt: skip
    spec, events = tmp_path / "spec.json", tmp_path / "events.jsonl"
    spec.write_text(json.dumps(spec_to_json(make_spec(cell, 1, root))))
    ended = subprocess.run(
        [python, root / "workflow/scripts/run_in_framework.py", spec, events],
        cwd=study.folder, capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **thread_variables(1, "passive")},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    result, losses, found = trained(events)
    assert result == {"event": "result", "status": "ok", "reason": None}
    assert found.partition("+")[0] == version
    assert len(losses) == COMPARED
    np.testing.assert_allclose(losses, trained(pinned)[1], rtol=0, atol=LOSS)


@pytest.mark.parametrize("framework", frameworks.names())
def test_the_pinned_version_counts_as_tested(framework, python_of):
    found = installed_version(framework, contents(str(python_of(framework))).packages)
    assert found and found.partition("+")[0] in names.tested_versions(framework)


def test_the_ends_of_what_is_tested_are_tested_or_pinned(root):
    """What `names.py` says of a release rests on a test."""
    for framework in {framework for framework, _ in RELEASES}:
        pins = (root / f"envs/{framework}.yaml").read_text()
        for version in names.tested_versions(framework):
            assert (framework, version) in RELEASES or f"=={version}" in pins
    said = {(name, one) for name in frameworks.names() for one in names.tested_versions(name)}
    assert said >= RELEASES.keys()
