"""Every framework's basic operations give what the same in double precision gives."""

import json

import pytest

from touchstone import operations
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.spec import make_spec
from touchstone.schema.spec import spec_to_json

SHAPES = {
    "gemm": ["70x33x50"],
    "sparse_gemm": ["70x80x50x90", "70x1x50x10"],
    "memory_copy": ["1"],
    # "same", none, and a padding that has no name in any framework
    **{
        f"convolution_{way}": ["2x14x15x8x16x3x3x1x1", "2x9x9x4x6x1x1x0x2", "2x15x15x8x16x5x3x2x2"]
        for way in ("forward", "backward_data", "backward_weights")
    },
    **{f"{kind}_{way}": ["16x3x7"] for kind in ("rnn", "gru", "lstm")
       for way in ("forward", "training")},
}  # fmt: skip
PROGRAM = """
import json, sys
import numpy as np
sys.path.append(sys.argv[1])
from touchstone import operations
from touchstone.runner import adapters
from touchstone.runner.operate import host
from touchstone.runner.job import job_of
from touchstone.schema.spec import spec_from_json
shapes, job = json.loads(sys.argv[2]), job_of(spec_from_json(json.loads(sys.argv[3])))
framework = job.framework
adapter = adapters.make_adapter(job, 1)
found = {}
for name in shapes:
    operation = operations.load(name)
    if not hasattr(operation, framework):
        continue
    for shape in shapes[name]:
        random = np.random.RandomState(1)
        arrays = operation.arrays(random, **operations.dimensions(name, shape))
        made = getattr(operation, framework)(adapter, **arrays)
        call, read = made if isinstance(made, tuple) else (made, list)
        for _ in range(2):
            results = call()
        results = read([host(each) for each in results])
        right = operation.deviation(results, **arrays)
        results[0] = results[0] * np.float32(1.01)
        found[name + " " + shape] = right, operation.deviation(results, **arrays)
print(json.dumps(found))
"""


ABLE = [name for name in frameworks.adapters() if frameworks.single_purpose(name) != "inference"]


@pytest.mark.parametrize("framework", ABLE)
def test_the_results_are_those_in_double_precision(framework, root, execute):
    mode = frameworks.modes(framework)[0]
    cell = Cell(framework=framework, network="gemm", dataset="2x3x4", mode=mode)
    spec = spec_to_json(make_spec(cell, 1, root))
    arguments = [root / "workflow/scripts", json.dumps(SHAPES), json.dumps(spec)]
    answer = execute(framework, "-c", PROGRAM, *arguments)
    assert answer.returncode == 0, answer.stderr[-3000:]
    found = json.loads(answer.stdout.splitlines()[-1])
    print(framework, found)
    if not found:
        pytest.skip(f"{framework} has no basic operation")
    for name, (right, wrong) in found.items():
        assert right <= 1e-5, name
        assert wrong >= 1e-3, name


def test_every_operation_is_tried():
    alone = {name for name in operations.names() if not operations.collective(name)}
    assert set(SHAPES) == alone  # contract/test_all_reduce.py tries those between replicas
