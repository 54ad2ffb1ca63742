"""What JAX's adapter must do beyond what every adapter must, in its own environment."""

import json

import numpy as np
import pytest

from fixtures.adapter import PROGRAM
from touchstone.networks.graph import Graph
from touchstone.plan.parity import steps_spec
from touchstone.schema.spec import spec_to_json

pytestmark = pytest.mark.framework("jax")
COMPILED = (
    PROGRAM
    + """
images, labels = batches.examples(adapter, job, "train")
adapter.build(initial_weights.initial_weights(job.network.parameters, 1))
adapter.load_examples(images, labels)
scalars = np.ones(3, np.float32)
batch = (np.zeros(8, np.int32),)
step = adapter.step.lower(adapter.state, adapter.data, batch, None, {}, scalars, np.uint32(0))
print(step.compile().as_text())
"""
)
POOLED = (
    PROGRAM
    + """
import jax
from touchstone.runner.adapters.jax.network import _max_pool as pool
image = np.array(json.loads(sys.argv[3]), np.float32)[None, :, :, None]
output, backward = jax.vjp(lambda x: pool(3, 2, x), image)
gradient = backward(np.arange(1, output.size + 1, dtype=np.float32).reshape(output.shape))[0]
print(json.dumps([output[0, :, :, 0].tolist(), gradient[0, :, :, 0].tolist()]))
"""
)


@pytest.fixture
def program(execute, root, tmp_path):
    """Runs a program of the adapter's with the spec of a small network, and more arguments."""
    graph = Graph("small", (8, 8, 1))
    x = graph.max_pool("pool", graph.conv("conv", "input", 4, 3, padding=1), 2)
    graph.dense("logits", graph.flatten("flatten", x), 10)

    def run(code, *more):
        spec = steps_spec(graph.network(), "jax", "jit")
        (tmp_path / "spec.json").write_text(json.dumps(spec_to_json(spec)))
        scripts = root / "workflow/scripts"
        ended = execute("jax", "-c", code, scripts, tmp_path / "spec.json", *more)
        assert ended.returncode == 0, ended.stderr[-3000:]
        return ended.stdout

    return run


def test_the_compiled_step_keeps_its_barriers_and_its_state(program):
    """XLA ignores a pass that it does not know: the speed would be lost without a word."""
    text = program(COMPILED)
    assert "opt-barrier" in text
    assert "input_output_alias={" in text


def test_the_first_of_equal_pixels_has_the_gradient(program):
    image = [[1, 2, 2, 0, 5], [2, 0, 2, 0, 5], [0, 2, 1, 5, 0], [0] * 5, [3, 0, 3, 0, 3]]
    output, gradient = json.loads(program(POOLED, json.dumps(image)).splitlines()[-1])
    assert output == [[2, 5], [3, 5]]
    expected = np.zeros((5, 5))
    expected[0, 1], expected[0, 4], expected[4, 0], expected[2, 3] = 1, 2, 3, 4
    assert gradient == expected.tolist()
