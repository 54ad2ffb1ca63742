"""A runner that ends without a trace."""

import importlib.util
import sys

import numpy as np
import pytest

from plan.code import FOLDER


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("exit 3", "tracing it failed"),
        ("kill -9 $$", "tracing it was killed, as for want of memory"),
    ],
)
def test_how_it_ended_stands_where_the_trace_would(end, words, tmp_path, monkeypatch):
    # Python has a module of that name too.
    found = importlib.util.spec_from_file_location("touchstone_trace", FOLDER / "trace.py")
    trace = importlib.util.module_from_spec(found)
    found.loader.exec_module(trace)
    runner, output = tmp_path / "python", tmp_path / "mxnet.npz"
    runner.write_text(f"#!/bin/sh\n{end}\n")
    runner.chmod(0o755)
    monkeypatch.setattr(trace, "runner_python", lambda environment: str(runner))
    monkeypatch.setattr(sys, "argv", ["trace.py", "lenet5", "mxnet", "--output", str(output)])
    trace.main()
    reason = str(np.load(output)["failed"])
    assert reason == f"{words} (results/logs/trace/lenet5-mxnet.log); delete {output} to try again"
