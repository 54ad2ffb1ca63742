"""The environments of the frameworks: what makes one, what names it, what is missing."""

import ast
import re
import subprocess

import pytest

from fixtures.wheels import indexed, write_list
from touchstone import environments, packages
from touchstone.plan import frameworks

EMPTY = "dependencies:\n  - python={}\n  - pip\n  - pip: []\n"


@pytest.fixture
def described(tmp_path):
    """Writes an environment file of that Python, and its script; returns the file's path."""

    def write(version, script=None):
        path = tmp_path / "toy.yaml"
        path.write_text(EMPTY.format(version))
        if script is not None:
            (tmp_path / "toy.post-deploy.sh").write_text(script)
        return path

    return write


@pytest.mark.parametrize("framework", frameworks.adapters())
def test_the_python_of_its_environment_parses_what_runs_in_it(framework, root):
    version, _ = environments.read(root / f"envs/{framework}.yaml")
    folder = root / "workflow/scripts/touchstone/runner"
    for path in (*(folder / "adapters" / framework).glob("*.py"), *folder.glob("*.py")):
        text = path.read_text()
        ast.parse(text, feature_version=tuple(map(int, version.split("."))))


def test_every_package_of_every_environment_has_its_hash(root):
    """Also of what is installed where no index has the build that a file pins."""
    files = sorted((root / "envs").glob("*.yaml"))
    lists = {path.name: environments.read(path)[1].lines for path in files}
    lists |= {f"otherwise {path.name}": environments.usual(path).lines for path in files}
    pinned = re.compile(r"\S+==\S+( ; .+)?( --hash=sha256:[0-9a-f]{64})+")
    assert {name: [line for line in lines if not pinned.fullmatch(line)]
            for name, lines in lists.items()} == {name: [] for name in lists}  # fmt: skip
    assert len(files) > 10 and len(lists["otherwise pytorch.yaml"]) > len(lists["pytorch.yaml"])


def test_what_the_registry_has_replaces_a_build_that_no_index_has(tmp_path, monkeypatch):
    folder, index = tmp_path / "envs", tmp_path / "index"
    folder.mkdir()
    lines = {version: indexed(index, "toy", version) for version in ("1.0", "1.0+cpu")}
    other = indexed(index, "other", "1.0")
    for name, listed in (("toy", [lines["1.0+cpu"], other]), ("toy-gpu", [lines["1.0"]])):
        text = EMPTY.format("3.11").replace("[]", str(listed))
        (folder / f"{name}.yaml").write_text("# otherwise toy-gpu.yaml\n" * (name == "toy") + text)
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", index.as_uri())
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(packages, "WHEELS", tmp_path / "none")
    for build in ("1.0+cpu", "1.0"):
        environments.ensure(folder / "toy.yaml", tmp_path / build)
        (frozen,) = (tmp_path / build).glob("*/frozen.txt")
        assert frozen.read_text().split() == ["other==1.0", f"toy=={build}"]
        for wheel in (index / "toy").glob("*+cpu*"):
            wheel.unlink()
        write_list(index / "toy")


LINE = "installing the environment toy: 0 packages for Python 3.11 (once)\n"


def test_the_script_of_an_environment_names_it_and_is_run_in_it(described, tmp_path, capfd):
    path = described("3.11")
    without = environments.digest(path)
    path = described("3.11", "python -c \"import sys; open(sys.prefix + '/told', 'w').close()\"")
    assert environments.digest(path) != without
    path.write_text(f"# Installed: 3 MB\n{path.read_text()}")
    python = environments.ensure(path, tmp_path / "made")
    assert python.parent.parent.name == f"toy-{environments.digest(path)}"
    assert (python.parent.parent / "told").exists()
    assert capfd.readouterr().err == LINE.replace(" (once)", ", 3 MB (once)")


def test_a_new_environment_imports_its_framework_once(described, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    python = environments.ensure(described("3.11"), tmp_path / "made")
    (folder,) = python.parent.parent.glob("lib/*/site-packages")
    for name in ("numpy", "unused"):
        (folder / f"{name}.py").write_text("ANSWER = 42\n")
    environments.import_once(python, "scipy")
    (compiled,) = folder.glob("__pycache__/*.pyc")
    assert compiled.name.startswith("numpy.")
    compiled.unlink()
    environments.import_once(python, "scipy")
    assert not compiled.exists()


def test_a_script_that_lacks_something_leaves_no_environment(
    described, tmp_path, capfd, monkeypatch
):
    path, shown = described("3.11", "echo no compiler >&2; exit 69"), tmp_path / "terminal"
    with open(shown, "w") as terminal:
        monkeypatch.setenv(environments.TERMINAL, str(terminal.fileno()))
        with pytest.raises(environments.Missing, match=r"toy\.post-deploy\.sh says above"):
            environments.ensure(path, tmp_path / "made")
    assert shown.read_text() == LINE and capfd.readouterr().err == "no compiler\n"
    assert not list((tmp_path / "made").glob("*/frozen.txt"))


def test_an_environment_for_other_machines_is_missing_and_comments_do_not_name_it(
    described, tmp_path, monkeypatch
):
    path = described("3.11")
    before = environments.digest(path)
    path.write_text(f"# only for x86_64\n{path.read_text()}")
    assert environments.digest(path) == before
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(environments.Missing, match="exist for x86_64 only, not aarch64"):
        environments.ensure(path, tmp_path / "made")


def test_hashes_of_other_machines_do_not_name_an_environment(described):
    path = described("3.11")
    digests = set()
    for hashes in ("", " --hash=sha256:1", " --hash=sha256:1 --hash=sha256:2"):
        path.write_text(EMPTY.format("3.11").replace("[]", f"['toy==1{hashes}']"))
        digests.add(environments.digest(path))
    path.write_text(EMPTY.format("3.11").replace("[]", "['toy==2']"))
    assert len(digests) == 1 and environments.digest(path) not in digests


def test_a_python_that_is_not_there_is_missing_with_the_way_to_get_it(described, tmp_path):
    with pytest.raises(
        environments.Missing, match=r"toy\.yaml: no python3\.99 .*pyenv install 3\.99"
    ):
        environments.ensure(described("3.99"), tmp_path)


def test_a_python_of_pyenv_is_found_after_a_command_that_fails(described, tmp_path, monkeypatch):
    command, real = tmp_path / "bin/python3.98", tmp_path / "versions/3.98.1/bin/python3.98"
    for path, text in ((command, "exit 127"), (real, "echo 3.98")):
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent), prepend=":")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert subprocess.run([command]).returncode == 127
    assert environments.interpreter("3.98", described("3.98")) == str(real)
