"""The exit status of an execution, and its last lines, on real runs."""

from pathlib import Path

import pytest

from touchstone.measure import skip
from workflow.project import ENVIRONMENTS, OPERATION, Project

pytestmark = pytest.mark.long

TOO_SHORT = {"framework": "scipy", "time_limit": 0.01, "seed": 2}


@pytest.fixture
def make(tmp_path):
    """A project with one repeat of each of these sweeps."""

    def make_project(*sweeps, **more):
        study = {"study": "test", "title": "A test", "repeats": 1, "defaults": OPERATION,
                 "sweeps": list(sweeps), "strict": True, **more}  # fmt: skip
        return Project(tmp_path / "project", ENVIRONMENTS, study)

    return make_project


def pages(project):
    """The page of the study, and that of all studies."""
    found = [project.folder / f"results/report/{name}index.html" for name in ("test/", "")]
    return [path.read_text() for path in found]


def test_a_run_without_a_result_is_counted_named_and_an_exit_status(make):
    project = make({"framework": "scipy"}, TOO_SHORT, {**TOO_SHORT, "seed": 3})
    status, output = project.snakemake()
    assert status == 3, output[-3000:]
    assert all("timeout" in page for page in pages(project)[:1])
    last = output[output.index("Report: ") :].splitlines()[1:]
    assert last[0] == "2 of 3 runs have no result (timeout 2):"
    assert last[1].startswith("  timeout: it ran longer than the limit of 0.01 s (scipy-")
    assert last[1].endswith(" rep1 and 1 more)") and len(last) == 2

    # Nothing is to be done, and no run has come good, whatever the terminal shows.
    for more in ((), ("--printshellcmds",)):
        status, output = project.snakemake(*more)
        assert status == 3 and "Nothing to be done" in output
        assert output.count("2 of 3 runs have no result") == 1
    assert "Traceback" not in output
    # No lock is left, and other targets and dry runs have their own status.
    assert not list((project.folder / ".snakemake/locks").glob("*"))
    assert project.jobs() == {}
    project.run("results/tables/summary.csv")

    project.edit("config/config.yaml", "strict: true", "strict: false")
    assert "2 of 3 runs have no result" in project.run()
    assert "2 of 3 runs have no result" in project.run()


def test_where_no_run_has_a_result_the_exit_status_says_so(make):
    project = make(TOO_SHORT)
    status, output = project.snakemake()
    assert status == 4 and "1 of 1 runs has no result (timeout 1):" in output
    assert Path(project.folder / "results/report/test/answer.json").exists()


def test_without_the_interpreter_that_it_needs_the_reason_is_on_the_terminal(make):
    project = make({"framework": "scipy", "seed": [1, 2]})
    project.edit("envs/scipy.yaml", "python=3.11", "python=3.99")
    status, output = project.snakemake()
    assert status == 4, output[-3000:]
    assert "2 of 2 runs have no result (unsupported 2):" in output
    assert output.count("no python3.99 with venv on PATH") == 1


def test_what_a_study_expects_is_a_result(make):
    """The same study has numbers on a machine with a GPU."""
    if skip.no_device("gpu") is None:
        pytest.skip("a GPU is on this machine, or nothing knows whether there is")
    network = {"network": "lenet5", "dataset": "mnist-5k", "input": "synthetic", "device": "gpu"}
    project = make({"framework": ["pytorch", "caffe"], **network}, defaults={}, parity=False)
    output = project.run()
    assert "2 of 2 runs are unsupported:\n" in output and "  unsupported: no NVIDIA " in output
    assert "  unsupported: no environment has caffe for GPUs: no envs/caffe-gpu.yaml" in output
    assert "no result" not in output
