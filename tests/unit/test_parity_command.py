"""A runner that ends without its parity steps."""

import numpy as np
import pytest

from touchstone import cli
from touchstone.commands import parity


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("exit 3", "computing its parity steps failed"),
        ("kill -9 $$", "computing its parity steps was killed, as for want of memory"),
    ],
)
def test_how_it_ended_is_where_the_trace_would_be(end, words, tmp_path, monkeypatch):
    runner, output = tmp_path / "python", tmp_path / "mxnet.npz"
    runner.write_text(f"#!/bin/sh\n{end}\n")
    runner.chmod(0o755)
    monkeypatch.setattr(parity, "runner_python", lambda *given: str(runner))
    with pytest.raises(SystemExit) as ended:
        cli.main(["parity", "lenet5", "mxnet", "--output", str(output)])
    assert not ended.value.code
    reason = str(np.load(output)["failed"])
    assert (
        reason
        == f"{words} (results/logs/parity_steps/lenet5-mxnet.log); delete {output} to try again"
    )
