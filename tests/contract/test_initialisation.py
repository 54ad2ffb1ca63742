"""The first loss of every network, computed by the reference."""

import json
import math

import pytest

from fixtures.adapter import PROGRAM
from touchstone import networks
from touchstone.networks.graph import GraphError
from touchstone.plan import frameworks
from touchstone.plan.parity import REFERENCE, SIDES, TEXT_LENGTH, steps_spec
from touchstone.schema.spec import spec_to_json

pytestmark = pytest.mark.long

SMALL = ("-cifar", "-text", "-cnn", "-conv", "-a", "-b", "-b50", "lenet5", "lenet-caffe")
"""How the networks end that have ten classes; the others have the 1,000 of ImageNet."""
FIRST_LOSS = PROGRAM + (
    "images, labels = batches.examples(adapter, job, 'train')\n"
    "adapter.build(initial_weights.initial_weights(job.network.parameters, job.seed))\n"
    "adapter.load_examples(images, labels)\n"
    "adapter.set_masks(parity.dropout_masks(job.network, job.seed, job.batch_size))\n"
    "indices, _ = batches.sampler_of(job).take(1)\n"
    "print(float(adapter.losses(adapter.train_steps(indices, np.zeros(1), None))[0]))\n"
)


def described(name, scheme):
    """The network at the smallest size at which it builds."""
    classes = 10 if name.endswith(SMALL) else 1000
    for shape in [*((side, side, 3) for side in SIDES), (TEXT_LENGTH, 1, 1)]:
        try:
            return networks.build(name, shape, classes).network(scheme)
        except GraphError:
            continue
    raise AssertionError(f"{name} builds at no size")


def first_loss(name, scheme, root, execute, tmp_path):
    network = described(name, scheme)
    spec = steps_spec(network, REFERENCE, frameworks.modes(REFERENCE)[0])
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(spec_to_json(spec)))
    answer = execute(REFERENCE, "-c", FIRST_LOSS, root / "workflow/scripts", path)
    assert answer.returncode == 0, answer.stderr[-3000:]
    return float(answer.stdout), math.log(network.layers[-1]["shape"][-1])


@pytest.mark.parametrize("name", networks.names())
def test_the_first_loss_is_that_of_a_prediction_that_knows_nothing(name, root, execute, tmp_path):
    loss, expected = first_loss(name, "paper", root, execute, tmp_path)
    assert loss == pytest.approx(expected, rel=0.1)


def test_large_numbers_in_the_output_layer_are_found(root, execute, tmp_path):
    loss, expected = first_loss("lenet5", "he", root, execute, tmp_path)
    assert loss > 1.3 * expected
