"""A run is made again when, and only when, something that can change its numbers has changed.

Each test changes one thing in a finished project, counts the jobs of a dry run, and puts
the thing back.
"""

import copy
import json
import shutil

import pytest

from touchstone.analysis.again import Kept
from workflow.project import ENVIRONMENTS, Project

STUDY = {
    "study": "small",
    "title": "A small study",
    "repeats": 2,
    "defaults": {
        "network": "lenet5", "dataset": "mnist-5k", "epochs": 1, "warmup_seconds": 0.0,
    },
    "sweeps": [
        {"framework": "mxnet", "batch_size": [256], "learning_rate": 0.01},
        {"framework": "pytorch", "batch_size": 256, "learning_rate": 0.01},
    ],
}  # fmt: skip
TABLES = {"gather": 1, "plot": 1, "report": 1}
ONE_TRACED = {"parity_steps": 1, "certificate": 1}
BOTH_TRACED = {"parity_steps": 2, "certificate": 1}


PARTS = ("config", "envs", "profiles", "workflow")
"""Of the project, what tests change."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project") / "home"
    project = Project(folder, ENVIRONMENTS, STUDY)
    output = project.run()
    assert "run 4 of 4" in output
    return project


@pytest.fixture(scope="module")
def kept(finished, tmp_path_factory):
    """A copy of the files of the finished project that tests change."""
    folder = tmp_path_factory.mktemp("kept")
    for name in PARTS:
        shutil.copytree(finished.folder / name, folder / name)
    return folder


@pytest.fixture
def project(finished, kept):
    """The finished project, whose files are put back after the test."""
    yield finished
    for path in kept.rglob("*"):
        original = finished.folder / path.relative_to(kept)
        if path.is_file() and (not original.exists() or stamp(original) != stamp(path)):
            shutil.copy2(path, original)


def stamp(path):
    """What differs after a file was written."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


@pytest.fixture
def study():
    return copy.deepcopy(STUDY)


def test_a_batch_size_added(project, study):
    study["sweeps"][0]["batch_size"].append(512)
    project.configure(study)
    assert project.jobs() == {"plan": 1, "train": 2, "parse_run": 2, **TABLES}


def test_the_learning_rate_of_one_cell(project, study):
    study["sweeps"] = [
        {"framework": "mxnet", "batch_size": 256, "learning_rate": 0.02},
        {"framework": "pytorch", "batch_size": 256, "learning_rate": 0.01},
    ]
    project.configure(study)
    assert project.jobs() == {"plan": 1, "train": 2, "parse_run": 2, **TABLES}


def test_a_frameworks_pins(project):
    project.edit("envs/pytorch.yaml", "numpy==2.4.6", "numpy==2.4.5")
    assert project.jobs() == {"train": 2, "parse_run": 2, **ONE_TRACED, **TABLES}


def test_a_frameworks_adapter(project):
    project.edit(
        "workflow/scripts/touchstone/runner/adapters/pytorch/adapter.py",
        "fused: Optional[bool] = True",
        "fused: Optional[bool] = False",
    )
    assert project.jobs() == {"train": 2, "parse_run": 2, **ONE_TRACED, **TABLES}


def test_the_training_loop(project):
    path = "workflow/scripts/touchstone/runner/chunk_size.py"
    project.edit(path, "self.steps = 2 * steps", "self.steps = 3 * steps")
    assert project.jobs() == {"train": 4, "parse_run": 4, **TABLES}


def test_the_weights_that_all_steps_start_from(project):
    path = "workflow/scripts/touchstone/runner/initial_weights.py"
    project.edit(path, "sqrt(2 / p", "sqrt(3 / p")
    assert project.jobs() == {"train": 4, "parse_run": 4, **BOTH_TRACED, **TABLES}


def test_a_network_of_the_study(project):
    project.edit("workflow/scripts/touchstone/networks/lenet5.py", "units=84", "units=85")
    assert project.jobs() == {"train": 4, "parse_run": 4, **BOTH_TRACED, **TABLES}


def test_a_study_without_certificates(project, study):
    project.configure({**study, "parity": False})
    jobs = project.jobs()
    assert not {"train", "parity_steps", "certificate"} & set(jobs) and jobs["gather"] == 1


def test_what_changes_no_number_runs_nothing(project, study):
    """Another network, a comment among pins, comments and docstrings in code, the order of keys."""
    new = project.folder / "workflow/scripts/touchstone/networks/another.py"
    shutil.copy(project.folder / "workflow/scripts/touchstone/networks/lenet5.py", new)
    project.edit("envs/pytorch.yaml", "channels:", "# Another comment.\nchannels:")
    for name in ("runner/train.py", "runner/adapters/pytorch/adapter.py", "measure/supervisor.py"):
        path = project.folder / "workflow/scripts/touchstone" / name
        text = path.read_text()
        first = text.index('"""') + 3
        path.write_text(text[:first] + "Reworded. " + text[first:] + "\n# The end.\n")
    project.configure(study, sort_keys=True)
    turned = (project.folder / "config/config.yaml").read_text()
    assert turned.index("defaults") < turned.index("study")
    assert project.jobs() == {}
    new.unlink()


def test_the_title(project, study):
    project.configure({**study, "title": "Another title"})
    # plan.tsv is made again with the resolved configuration, and equal inputs rerun nothing;
    # a dry run cannot know that they will be equal.
    assert "train" not in project.jobs()


def test_the_plotting_code(project):
    run = "def run(arguments: argparse.Namespace) -> None:"
    project.edit("workflow/scripts/touchstone/commands/plot.py", run, run + "\n    pass")
    assert project.jobs() == {"plot": 1, "report": 1}


def test_the_judging_of_runs(project):
    project.edit("workflow/scripts/touchstone/results/steadiness.py", "BLOCKS = 20", "BLOCKS = 21")
    jobs = project.jobs()
    assert "train" not in jobs and jobs["parse_run"] == 4


def test_a_data_sets_normalisation(project):
    project.edit("config/datasets/mnist-5k.yaml", "mean: [0.1308]", "mean: [0.13]")
    assert project.jobs()["train"] == 4


def test_with_more_cores(project):
    assert "Nothing to be done" in project.run("--dry-run", "--cores", "2")


def test_the_folder_moved(project):
    home, moved = project.folder, project.folder.with_name("moved")
    home.rename(moved)
    project.folder = moved
    try:
        assert project.jobs() == {}
    finally:
        moved.rename(home)
        project.folder = home


def test_one_run_deleted(project):
    cell = "mxnet-lenet5-mnist-5k-cpu-fp32-b256-lr0.01"
    cells = sorted(path.name for path in (project.folder / "results/runs").iterdir())
    cell = next(name for name in cells if name.startswith(cell))
    events = project.folder / f"results/runs/{cell}/rep2/events.jsonl"
    kept = events.with_suffix(".kept")
    events.rename(kept)
    try:
        assert project.jobs() == {"train": 1, "parse_run": 1, **TABLES}
    finally:
        kept.rename(events)


def test_a_data_set_that_was_repaired(project):
    """Finished runs stay if it is made again before the next execution, as `verify` says."""
    manifest = project.folder / "results/data/mnist-5k/recordio/manifest.json"
    before = manifest.read_bytes()
    manifest.unlink()
    assert project.jobs() == {}
    events = next((project.folder / "results/runs").glob("mxnet-*/rep2/events.jsonl"))
    kept = events.with_suffix(".kept")
    events.rename(kept)
    try:
        assert project.jobs() == {"convert_dataset": 1, "train": 2, "parse_run": 2, **TABLES}
        project.run(str(manifest.relative_to(project.folder)))
        assert manifest.read_bytes() == before
        assert project.jobs() == {"train": 1, "parse_run": 1, **TABLES}
    finally:
        kept.rename(events)
    assert project.jobs() == {}


def test_runs_followed_the_randomised_blocks(finished):
    """The order really executed, from the runs' own clocks, is the planned one."""
    from touchstone.plan.read import read
    from touchstone.plan.study import make_plan

    planned = read(finished.folder / "config/config.yaml")
    started = {}
    for path in finished.folder.glob("results/runs/*/rep*/events.jsonl"):
        first = json.loads(path.read_text().splitlines()[0])
        started[path.parts[-3], int(path.parts[-2].removeprefix("rep"))] = first["t"]
    assert (
        sorted(started, key=lambda run: started[run]) == make_plan(planned, finished.folder).order
    )


def written(folder, pattern):
    """When each file was written."""
    return {path: path.stat().st_mtime_ns for path in folder.glob(pattern)}


@pytest.mark.long
def test_a_command_of_a_page_repeats_the_disturbed_runs_of_its_study_and_nothing_else(
    finished, study
):
    """Another study of the same folder, which has the same cells, ran last."""
    finished.configure({**study, "study": "another", "repeats": 1})
    finished.run()
    kept = finished.flag("*/rep*", "threads_sleep")
    assert "small: 0 of 4 runs are repeated" in finished.make(
        Kept("small").again("disturbed"), "--dry-run"
    )
    finished.flag("mxnet-*/rep2", "noisy_machine")
    finished.flag("pytorch-*/rep2", "threads_sleep", "throttled")
    flagged = {path.parent.name for path in finished.folder.glob("results/records/*/rep2.json")}
    before = written(finished.folder, "results/runs/*/rep*/events.jsonl")
    proofs = written(finished.folder, "results/parity/*.json")
    output = finished.make(Kept("small").again("disturbed"))
    assert "small: 2 of 4 runs are repeated" in output
    assert "2 runs: about" in output and "run 2 of 2" in output
    after = written(finished.folder, "results/runs/*/rep*/events.jsonl")
    changed = {path.parts[-3:-1] for path in before if before[path] != after[path]}
    assert changed == {(cell, "rep2") for cell in flagged}
    assert proofs == written(finished.folder, "results/parity/*.json")
    finished.configure(study)
    assert finished.jobs() == {}
    for path in (path for path in kept if path.name == "rep1.json"):
        path.write_bytes(kept[path])
