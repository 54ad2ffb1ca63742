"""Counts of the basic operations, by hand, and that their shapes are read strictly."""

import ast
from pathlib import Path

import numpy as np
import pytest
import yaml

from touchstone import operations

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "workflow/scripts/touchstone/operations"
COUNTS = [
    ("gemm", "2x3x4", 2 * 2 * 3 * 4, 4 * (6 + 12 + 8)),
    # Of 4 x 5 elements 15 stay; 5 row starts, dense matrices of 5 x 3 and 4 x 3.
    ("sparse_gemm", "4x5x3x25", 2 * 15 * 3, 8 * 15 + 4 * (5 + 15 + 12)),
    # 2 images of 5 x 6 give 3 x 3 results (padding 1, stride 2) of 7 filters over 3 x 3 x 3.
    *[
        (f"convolution_{way}", "2x5x6x3x7x3x3x1x2", 2 * (2 * 7 * 3 * 3) * (3 * 3 * 3),
         4 * (2 * 3 * 5 * 6 + 7 * 3 * 3 * 3 + 2 * 7 * 3 * 3))
        for way in ("forward", "backward_data", "backward_weights")
    ],
    # Two products of 5 x 5 by 5 for each of 3 sequences, 4 steps and of the gates.
    ("rnn_forward", "5x3x4", 1 * 2 * 2 * 25 * 3 * 4, 4 * (2 * 1 * 5 * 6 + 2 * 4 * 3 * 5)),
    ("gru_forward", "5x3x4", 3 * 2 * 2 * 25 * 3 * 4, 4 * (2 * 3 * 5 * 6 + 2 * 4 * 3 * 5)),
    ("lstm_forward", "5x3x4", 4 * 2 * 2 * 25 * 3 * 4, 4 * (2 * 4 * 5 * 6 + 2 * 4 * 3 * 5)),
    ("lstm_training", "5x3x4", 3 * 4 * 2 * 2 * 25 * 3 * 4, 8 * (2 * 4 * 5 * 6 + 2 * 4 * 3 * 5)),
    ("memory_copy", "3", 0, 2 * 3 * 2**20),
    ("all_reduce", "5", 0, 2 * 4 * 5),
]  # fmt: skip


@pytest.mark.parametrize("name, shape, flops, traffic", COUNTS)
def test_operations_and_bytes_are_counted(name, shape, flops, traffic):
    operation, dimensions = operations.load(name), operations.dimensions(name, shape)
    assert operation.flops(**dimensions) == flops
    assert operation.traffic(**dimensions) == traffic
    arrays = operation.arrays(np.random.RandomState(1), **dimensions)
    again = operation.arrays(np.random.RandomState(1), **dimensions)
    assert all(np.array_equal(arrays[key], again[key]) for key in arrays)


def test_a_sparse_matrix_keeps_what_its_shape_says():
    arrays = operations.load("sparse_gemm").arrays(np.random.RandomState(1), 40, 1, 30, 90)
    assert len(arrays["values"]) == 4
    assert arrays["starts"][-1] == 4
    assert len(arrays["starts"]) == 41


@pytest.mark.parametrize("shape", ["", "3x4", "3x4x5x6", "3x4xfive", "3x-4x5", "3 x 4 x 5"])
def test_a_shape_of_another_kind_is_refused(shape):
    with pytest.raises(ValueError, match="no shape of gemm, which has rowsxinnerxcolumns"):
        operations.dimensions("gemm", shape)


@pytest.mark.parametrize(
    "name, shape, why",
    [
        ("gemm", "3x0x5", "inner is 0"),
        ("gemm", "3x4x9999999999", "larger than 2147483647"),
        ("gemm", "3x4x" + "9" * 5000, "larger than 2147483647"),
        ("gemm", "2000000000x2000000000x1", "more than machines have memory"),
        ("convolution_forward", "2x5x6x3x7x3x3x1x0", "stride is 0"),
        ("convolution_backward_data", "2x5x6x3x7x8x3x1x1", "kernel's height of 8"),
        ("convolution_backward_weights", "2x5x6x3x7x3x9x1x1", "kernel's width of 9"),
        ("convolution_forward", "60000x60000x60000x60000x7x1x1x0x1", "more than machines have"),
        ("sparse_gemm", "4x5x3x100", "leave no element"),
        ("lstm_forward", "5x3x0", "steps is 0"),
        ("memory_copy", "2147483647", "more than machines have memory"),
    ],
)
def test_an_impossible_shape_is_refused(name, shape, why):
    with pytest.raises(ValueError, match=why):
        operations.dimensions(name, shape)


@pytest.mark.parametrize("path", sorted((ROOT / "config/operations").glob("*.yaml")))
def test_every_listed_shape_is_one(path):
    listed = yaml.safe_load(path.read_text())
    assert listed["source"]
    for name, shapes in listed["shapes"].items():
        assert len(set(shapes)) == len(shapes)
        for shape in shapes:
            assert operations.load(name).traffic(**operations.dimensions(name, shape)) > 0


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_the_files_parse_as_python_3_6(path):
    ast.parse(path.read_text(), feature_version=(3, 6))
