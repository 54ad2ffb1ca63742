"""Environments of the user's own: what a study may say of them, and what they change."""

import copy
import json
import re

import pytest

from fixtures.interpreters import install, plant
from touchstone.contents import Unreadable, contents
from touchstone.plan.environment import Place, file_of, runner_python
from touchstone.plan.names import Stack, framework_name, mode_name
from touchstone.plan.read import ConfigError
from touchstone.plan.study import make_plan
from touchstone.report.figures.style import style_of
from touchstone.results.planned import PlannedCell, comparable

FILE = "dependencies:\n  - python=3.11\n  - pip\n  - pip:\n      - torch==2.6.0\n"
STUDY = {
    "study": "own",
    "title": "My own",
    "defaults": {"network": "lenet5", "dataset": "mnist-5k", "batch_size": 64},
    "sweeps": [{"framework": "pytorch", "environment": ["pinned", "mine"]}],
}


@pytest.fixture(autouse=True)
def forget():
    """Every test is a planning process of its own."""
    contents.cache_clear()


@pytest.fixture
def python(tmp_path):
    """An interpreter that has what PyTorch's runs need, as far as a plan can tell."""
    found = plant(tmp_path / "mine")
    (site,) = found.parent.parent.glob("lib/*/site-packages")
    for module in ("torch", "numpy", "lmdb"):
        (site / f"{module}.py").write_text("raise SystemExit('a plan imports no framework')\n")
        install(found, module, "1.0")
    return found


def study(environments, **changes):
    return {**copy.deepcopy(STUDY), "environments": environments, **changes}


def mine(**where):
    return {"mine": {"framework": "pytorch", **where}}


def plan_of(python, root, **changes):
    return make_plan(study(mine(python=str(python)), **changes), root)


def faults_of(config, root):
    with pytest.raises(ConfigError) as refused:
        make_plan(config, root)
    return [line.strip() for line in str(refused.value).splitlines()[1:]]


def test_pinned_cells_keep_their_names_and_others_name_their_environment(python, root):
    plain = make_plan({**STUDY, "sweeps": [{"framework": "pytorch"}]}, root)
    pinned, own = plan_of(python, root).cells
    assert [pinned] == list(plain.cells) == ["pytorch-lenet5-mnist-5k-cpu-fp32-b64-lr0.01"]
    assert own == "pytorch-mine-lenet5-mnist-5k-cpu-fp32-b64-lr0.01"


def test_they_are_compared_with_each_other_and_with_other_frameworks(python, root):
    sweeps = [*STUDY["sweeps"], {"framework": "mxnet", "environment": "pinned"}]
    cells = plan_of(python, root, sweeps=sweeps).cells
    planned = [PlannedCell.of(name, cell) for name, cell in cells.items()]
    (group,) = comparable(planned)
    assert [(c.factors["framework"], c.factors["environment"]) for c in group] == [
        ("pytorch", "pinned"), ("pytorch", "mine"), ("mxnet", "pinned"),
    ]  # fmt: skip


def test_all_faults_are_reported_at_once(tmp_path, root):
    (tmp_path / "broken").write_text("#!/bin/sh\necho no libpython >&2\nexit 3\n")
    (tmp_path / "broken").chmod(0o755)
    (tmp_path / "list.yaml").write_text("- a list\n")
    (tmp_path / "conda.yaml").write_text("dependencies: [python=3.11, cudnn=9]\n")
    given = {
        "none": {"framework": "pytorch"},
        "two": {"framework": "pytorch", "python": "/usr/bin/python3", "file": "x.yaml"},
        "nothing": {"framework": "pytroch", "python": str(tmp_path / "nothing")},
        "folder": {"framework": "pytorch", "python": str(tmp_path)},
        "broken": {"framework": "pytorch", "python": str(tmp_path / "broken")},
        "missing": {"framework": "pytorch", "file": str(tmp_path / "missing.yaml")},
        "list": {"framework": "pytorch", "file": str(tmp_path / "list.yaml")},
        "conda": {"framework": "pytorch", "file": str(tmp_path / "conda.yaml")},
        "ngc": {"framework": "pytorch", "container": "nvcr.io/nvidia/pytorch:26.01-py3"},
        "pinned": {"framework": "pytorch", "file": "envs/pytorch.yaml"},
    }
    found = dict.fromkeys(given, "")
    for fault in faults_of(study(given), root):
        name = fault.removeprefix("environments.").split(":")[0]
        found[name] = found.get(name, "") + fault
    for name, words in {
        "none": "it has none of them; give it exactly one of python, file, container",
        "two": "it has python and file; give it exactly one",
        "nothing": "framework: none is named 'pytroch'",
        "folder": f"python: {tmp_path} is a folder; give the path of a file",
        "broken": "ends with exit status 3 (no libpython); give the path of a Python that runs",
        "missing": "missing.yaml does not exist; give the path of one that does",
        "list": "list.yaml: no conda environment file; write `dependencies:`",
        "conda": "it has the conda packages cudnn=9",
        "ngc": "container: nvcr.io/nvidia/pytorch:26.01-py3 ",
        "pinned": "the name is that of the environments in envs/",
        "sweeps[0].environment[1]": "no environment is named 'mine'",
    }.items():
        assert words in found[name], name
    assert f"{tmp_path / 'nothing'} does not exist" in found["nothing"]


def test_the_keys_of_an_environment_are_checked_like_all_others(root):
    found = faults_of(study({"mine": {"framwork": "pytorch"}, "a/b": {"framework": "mxnet"}}), root)
    assert "environments.mine.framework: missing; the framework that is installed there" in found
    assert any(f.startswith("environments.mine.framwork: unknown key; did you") for f in found)
    assert any("a/b" in fault and "should match pattern" in fault for fault in found)


def test_an_environment_is_of_one_framework(python, root):
    sweeps = [{"framework": ["pytorch", "mxnet"], "environment": "mine"}]
    (fault,) = faults_of(study(mine(python=str(python)), sweeps=sweeps), root)
    assert fault == (
        "sweeps[0].environment: mine has pytorch, not mxnet; write a sweep of its own for each "
        "framework"
    )


def test_the_message_on_lacking_modules_has_the_command_that_installs_them(tmp_path, root):
    bare = plant(tmp_path / "with a blank")
    (fault,) = faults_of(study(mine(python=str(bare))), root)
    command = f"'{bare}' -m pip install torch numpy lmdb"
    assert fault.startswith("sweeps[0].environment: mine lacks what a run needs; install it with")
    assert f"`{command}`" in fault
    sweeps = [{**STUDY["sweeps"][0], "input": "synthetic"}]
    (fault,) = faults_of(study(mine(python=str(bare)), sweeps=sweeps), root)
    assert "install torch numpy`" in fault


def test_the_digest_is_of_versions_and_files_and_of_nothing_else(python):
    def digest():
        contents.cache_clear()
        return Place("python", str(python)).digest()

    install(python, "plain", "1.0", "plain.py,sha256=aa,1\n")
    first = digest()
    (site,) = python.parent.parent.glob("lib/*/site-packages")
    (site / "note.txt").write_text("no package")
    assert digest() == first and re.fullmatch("[0-9a-f]{12}", first)
    install(python, "plain", "1.0", "plain.py,sha256=bb,1\n")
    assert (rebuilt := digest()) != first
    install(python, "plain", "1.1", "plain.py,sha256=bb,1\n")
    assert digest() not in (first, rebuilt)
    install(python, "plain", "1.0", "plain.py,sha256=aa,1\n")
    assert digest() == first


def test_reading_an_interpreter_writes_nothing_there_and_is_done_once(python, tmp_path, root):
    before = sorted(python.parent.parent.rglob("*"))
    plan_of(python, root)
    assert sorted(python.parent.parent.rglob("*")) == before
    assert contents.cache_info().misses == 1


def test_neither_the_users_packages_nor_pythonpath_count(python, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    (tmp_path / "path").mkdir()
    (tmp_path / "path/elsewhere.py").touch()
    found = contents(str(python), ("elsewhere", "lmdb"))
    assert found.lacking == ["elsewhere"]
    assert [line for line in found.packages if line.startswith("torch==")] == ["torch==1.0"]


def test_what_is_no_python_is_unreadable():
    with pytest.raises(Unreadable, match="does not list its packages; is it a Python"):
        contents("/bin/true")


def test_a_file_is_named_by_what_it_installs(tmp_path):
    path = tmp_path / "old.yaml"
    path.write_text(FILE)
    place = Place("file", str(path))
    first = place.digest()
    path.write_text(f"# A comment.\n{FILE}")
    assert place.digest() == first
    path.write_text(FILE.replace("2.6.0", "2.6.1"))
    assert place.digest() != first
    assert file_of("old", "pytorch", "gpu", "tuned", {"old": place}) == path


def test_commands_find_the_interpreter(python, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    relative = Place("python", "mine/bin/python")
    assert relative.options("mine") == ["--environment", "mine", "python", "mine/bin/python"]
    assert runner_python("mine", "pytorch", "cpu", "tuned", {"mine": relative}) == str(python)
    assert file_of("mine", "pytorch", "cpu", "tuned", {"mine": relative}) is None
    assert file_of("pinned", "pytorch", "gpu", "tuned", {}).name == "pytorch-gpu.yaml"


def test_reports_name_the_environment_beside_the_framework():
    stack = str(Stack("pytorch", "nightly"))
    assert (stack, Stack.of(stack)) == ("pytorch@nightly", Stack("pytorch", "nightly", "tuned"))
    assert (str(Stack("pytorch")), Stack.of("pytorch")) == ("pytorch", Stack("pytorch"))
    plain = Stack("jax", "mine", "plain")
    assert (str(plain), Stack.of(str(plain))) == ("jax+plain@mine", plain)
    assert framework_name("jax+plain@mine") == "JAX (plain, mine)"
    assert framework_name(stack) == "PyTorch (nightly)" and framework_name("pytorch") == "PyTorch"
    assert mode_name(stack, "eager_channels_last") == "eager, channels last"
    assert style_of(stack) == style_of("pytorch")


def test_the_resolved_study_says_it_all(python, root):
    resolved = json.loads(json.dumps(plan_of(python, root).resolved()))
    assert list(make_plan(resolved, root).cells) == list(plan_of(python, root).cells)
