"""Stochastic depth drops whole examples in training, each by a draw of its own.

test_modern.py compares the networks that have it, with draws that the frameworks are given.
"""

import json
import math

import pytest

from touchstone.networks.graph import Graph
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.spec import make_spec

ONE_PASS = {
    "batch_size": 2, "learning_rate": 1e-9, "epochs": 1, "warmup_seconds": 0.0, "weight_decay": 0.0,
}  # fmt: skip


def pixels_and_a_layer(doubled):
    """Linear layers of pixels, which are doubled, or of which half of the images are dropped."""
    graph = Graph("pixels", (28, 28, 1))
    x = graph.add("x", "input", "input") if doubled else graph.stochastic_depth("x", "input", 0.5)
    x = graph.conv("conv", x, 2, 1, bias=False)
    graph.dense("logits", graph.flatten("flat", x), units=10, bias=False)
    return graph.network()


@pytest.mark.parametrize("framework", frameworks.names())
def test_examples_are_dropped_as_a_whole_and_each_by_itself(framework, study, once, root):
    """The loss of a batch of two dropped images is that of equal logits; where none is dropped, it
    is that of doubled pixels. Of 320 batches a quarter has either: 80, give or take 7.7."""
    settings = {"network": "lenet5", "dataset": "mnist-5k", **ONE_PASS}
    cell = Cell(framework=framework, mode=frameworks.modes(framework)[0], **settings)
    spec = make_spec(cell, 1, root)
    spec = spec._replace(data=spec.data._replace(**study.few(framework)))
    losses = []
    for doubled in (False, True):
        spec = spec._replace(network=pixels_and_a_layer(doubled))
        ended, path = once(framework, spec, ".jsonl", cwd=study.folder)
        assert ended.returncode == 0, ended.stderr[-3000:]
        events = [json.loads(line) for line in path.read_text().splitlines()]
        losses.append([x for each in events for x in each.get("losses", [])])
    assert [len(each) for each in losses] == [320, 320]
    dropped = sum(math.isclose(loss, math.log(10), rel_tol=1e-5) for loss in losses[0])
    kept = sum(math.isclose(*pair, rel_tol=1e-4) for pair in zip(*losses, strict=True))
    print(framework, dropped, kept)
    assert 40 < dropped < 120 and 40 < kept < 120
