"""A framework in a fork of a warm process computes what it does in a process of its own."""

from pathlib import Path

import numpy as np
import pytest

from fixtures.tiers import tiered
from fixtures.warm import MODULES
from touchstone.plan import frameworks
from touchstone.schema.spec import PLAIN, TUNED


@pytest.mark.parametrize("environment", tiered(MODULES, lambda name: name == "pytorch"))
def test_a_warm_run_is_a_fresh_run_to_the_last_bit(environment, study):
    """Warm is the second of two forks: what the first did stays with it."""
    framework, _, kind = environment.partition("-")
    mode = "keras" if kind == "keras" else kind and frameworks.modes(framework, PLAIN)[0]
    style = {"style": PLAIN, "mode": mode} if kind else {}
    found = [study.trace(framework, fresh=fresh, momentum=m, **style) for fresh, m in
             ((True, 0.9), (False, 0.5), (False, 0.9))]  # fmt: skip
    fresh, _, warm = found
    assert fresh.keys() == warm.keys() and len(set(fresh["losses"])) == 10
    for name in fresh:
        assert np.array_equal(fresh[name], warm[name]), name


@pytest.mark.parametrize("framework", sorted(set(MODULES) - {"mxnet"}))
def test_a_warm_process_has_no_thread_that_its_forks_would_lack(framework, execute):
    """OpenBLAS ends its own before a fork; MXNet, which does so too, starts them again after it."""
    code = "import os; print(len(os.listdir('/proc/%d/task' % os.getppid())))"
    more = {"KERAS_BACKEND": "torch"} if framework == "pytorch-keras" else None
    ended = execute(framework, "-c", code, more=more)
    assert (ended.stdout, ended.stderr) == ("1\n", "")


def test_every_environment_that_trains_is_warm():
    for style in (TUNED, PLAIN):
        files = {frameworks.environment(name, "cpu", style) for name in frameworks.names()}
        assert {Path(path).stem for path in files} <= set(MODULES)


@pytest.mark.framework("caffe")
@pytest.mark.parametrize("fresh", [True, False])
def test_a_program_sees_what_it_was_started_with(fresh, execute, tmp_path, monkeypatch):
    code = "import os, sys; print(sys.argv, os.getcwd(), os.environ['ASKED'], __name__)"
    for asked in ("one", "another"):
        monkeypatch.setenv("ASKED", asked)
        ended = execute("caffe", "-c", code, "x", cwd=tmp_path, fresh=fresh)
        expected = ["-c", "x"], tmp_path, asked, "__main__"
        assert (ended.returncode, ended.stderr) == (0, "")
        assert ended.stdout.split("\n")[0] == " ".join(map(str, expected))


ENDS = {
    "raise ValueError('so it is')": 1,
    "import os; os._exit(3)": 3,
    "import os; os.kill(os.getpid(), 11)": -11,
}


@pytest.mark.framework("caffe")
@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("code", ENDS)
def test_a_program_ends_as_it_would(code, fresh, execute):
    ended = execute("caffe", "-c", "print('before', flush=True)\n" + code, fresh=fresh)
    assert (ended.returncode, ended.stdout) == (ENDS[code], "before\n")
    if "raise" in code:
        assert ended.stderr.splitlines()[-1] == "ValueError: so it is"
