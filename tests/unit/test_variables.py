"""Which environment variables a run gets, and where that is recorded."""

import fnmatch
import re
from types import SimpleNamespace

import pytest

from touchstone.measure import variables
from touchstone.plan.read import ConfigError, name_of
from touchstone.plan.spec import make_spec, spec_digests
from touchstone.plan.study import make_plan

SHELL = {
    "PATH": "/bin", "HOME": "/home/a", "LC_ALL": "C", "SLURM_JOB_ID": "1", "https_proxy": "p",
    "LD_LIBRARY_PATH": "/cuda", "ONEDNN_MAX_CPU_ISA": "SSE41", "LD_PRELOAD": "x.so",
    "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "7", "EDITOR": "vi",
}  # fmt: skip
TRAINING = {"framework": "pytorch", "network": "lenet5", "dataset": "mnist-5k"}


def study(**settings):
    return {"study": "s", "title": "t", "sweeps": [{**TRAINING, **settings}]}


def test_of_the_shell_a_run_gets_what_is_listed():
    names = {"PATH", "HOME", "LC_ALL", "SLURM_JOB_ID", "https_proxy", "LD_LIBRARY_PATH"}
    assert set(variables.passed(SHELL)) == names
    assert variables.recorded(SHELL) == {"LD_LIBRARY_PATH": "/cuda"}


def test_what_may_change_a_speed_and_is_dropped_is_named():
    """Not an editor, and not what Snakemake sets in every job."""
    assert variables.dropped(SHELL) == ["LD_PRELOAD", "MALLOC_ARENA_MAX", "ONEDNN_MAX_CPU_ISA"]


def test_nothing_influential_is_passed_without_a_record():
    for pattern in variables.PASSED:
        assert not any(fnmatch.fnmatchcase(pattern, each) for each in variables.INFLUENTIAL) or (
            pattern in ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")
        )


def test_a_runner_gets_the_studys_variables_and_not_the_shells(watch, monkeypatch):
    for name, value in SHELL.items():
        if name not in ("PATH", "HOME"):
            monkeypatch.setenv(name, value)
    run: SimpleNamespace = watch(
        "names = ('ONEDNN_MAX_CPU_ISA', 'LD_PRELOAD', 'EDITOR', 'LC_ALL', 'MALLOC_ARENA_MAX')\n"
        "say(found={name: os.environ.get(name) for name in names});"
        "say(event='result', status='ok', reason=None)",
        variables={"ONEDNN_MAX_CPU_ISA": "AVX2"},
    )
    assert run.events[0]["found"] == {
        "ONEDNN_MAX_CPU_ISA": "AVX2", "LD_PRELOAD": None, "EDITOR": None, "LC_ALL": "C",
        "MALLOC_ARENA_MAX": None,
    }  # fmt: skip
    assert run.env["run"]["environment"] == {
        "LD_LIBRARY_PATH": "/cuda", "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    assert {"LD_PRELOAD", "MALLOC_ARENA_MAX"} <= set(run.env["run"]["dropped"])


def test_a_study_sweeps_variables_like_any_factor(root):
    settings = [{}, {"ONEDNN_MAX_CPU_ISA": "AVX2"}]
    plan = make_plan(study(variables=settings), root)
    assert [cell.variables for cell in plan.cells.values()] == settings
    assert len(plan.cells) == 2 and plan.cells.keys() == {name_of(c) for c in plan.cells.values()}
    specs = [make_spec(cell, 1, root) for cell in plan.cells.values()]
    assert [spec.execution.variables for spec in specs] == settings
    digests = [spec_digests(cell, 1, root) for cell in plan.cells.values()]
    assert digests[0] != digests[1]


def test_an_operation_has_variables_too(root):
    sweep = {"framework": "scipy", "network": "gemm", "dataset": "8x8x8"}
    one = {**study(), "sweeps": [{**sweep, "variables": {"OPENBLAS_CORETYPE": "Haswell"}}]}
    (cell,) = make_plan(one, root).cells.values()
    assert make_spec(cell, 1, root).execution.variables == {"OPENBLAS_CORETYPE": "Haswell"}


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"OMP_NUM_THREADS": "1"}, "variables: OMP_NUM_THREADS follows from the setting threads"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "OMP_WAIT_POLICY follows from the setting wait_policy"),
        ({"PYTHONPATH": "x"}, "PYTHONPATH is what the run itself is started with; leave it out"),
        ({"A B": "x"}, "variables: string should match pattern"),
        ({"A": 1}, "variables: input should be a valid string, not 1"),
        (["A=1"], "is no mapping; write `variables: {key: value}`"),
    ],
)
def test_what_is_no_variable_of_a_study_is_refused(value, fault, root):
    with pytest.raises(ConfigError) as refused:
        make_plan(study(variables=value), root)
    assert fault in str(refused.value)


def test_the_docs_list_what_is_passed(root):
    """The names in the text before the table, as far as they are no patterns."""
    text = (root / "docs/measuring.md").read_text()
    section = text.split("## What a run has that your shell has not")[1].split("\n| ")[0]
    assert set(variables.RECORDED) <= set(re.findall(r"`([A-Z_]+)`", section))
