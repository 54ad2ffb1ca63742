"""The layers and the rest of a profile add up to a step without the profiler."""

import json
import os
import subprocess

import pytest

from calibration.calm import repeated
from fixtures.profiles import WITH_LAYERS, profile_in, profile_spec
from touchstone.measure.launch import thread_variables
from touchstone.paths import RUNNER
from touchstone.schema.spec import spec_to_json

pytestmark = pytest.mark.alone

TOLERANCE = 0.1
"""Of the sum, relative to a step."""


@pytest.mark.parametrize("framework", WITH_LAYERS)
@repeated
def test_layers_and_the_rest_add_up_to_a_step(framework, python_of, tmp_path):
    spec, path = tmp_path / "spec.json", tmp_path / "profile.json"
    spec.write_text(json.dumps(spec_to_json(profile_spec(framework, batch_size=256))))
    variables = thread_variables(len(os.sched_getaffinity(0)), "default")
    command = [python_of(framework), RUNNER, spec, path]
    ended = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = profile_in(path)
    parts = sum((one.forward or 0.0) + (one.backward or 0.0) for one in found.layers)
    assert parts + found.other == pytest.approx(found.step, rel=TOLERANCE)
    assert found.other < 0.4 * found.step
