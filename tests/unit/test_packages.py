"""Packages are installed by uv with pip's settings, and by pip where uv cannot."""

import contextlib
import shlex
import shutil
import subprocess
import sys

import pytest

from fixtures.commands import call
from fixtures.wheels import indexed, pin, wheel
from touchstone import packages
from touchstone.commands import wheels as command


def configured(*lines, **environment):
    return packages.variables("\n".join(lines), environment)


def test_pips_settings_become_uvs():
    found = configured(
        "global.index-url='https://files.example/simple'",
        "global.extra-index-url='file:///a/simple\\nfile:///b/simple'",
        "install.find-links='/wheels /more'",
        "install.no-index='true'",
        ":env:.cert='/etc/bundle.crt'",
        "global.cache-dir='/scratch/pip'",
        "freeze.timeout='1'",
    )
    assert found["UV_INDEX"] == "https://files.example/simple file:///a/simple"
    assert found["UV_DEFAULT_INDEX"] == "file:///b/simple", "the one that uv asks last"
    assert found["UV_FIND_LINKS"] == "/wheels,/more"
    assert found["SSL_CERT_FILE"] == "/etc/bundle.crt"
    assert found["UV_CACHE_DIR"] == "/scratch/pip/uv"
    assert found["UV_NO_INDEX"] == "1" and "UV_HTTP_TIMEOUT" not in found


def test_a_variable_counts_more_than_a_file_as_for_pip():
    lines = (":env:.index-url='https://one.example'", "global.index-url='https://two.example'")
    for order in (lines, lines[::-1]):
        assert configured(*order)["UV_DEFAULT_INDEX"] == "https://one.example"


def test_uvs_own_variables_choose_no_package():
    found = configured(UV_INDEX="https://other.example", UV_CACHE_DIR="/cache", HOME="/home")
    assert "UV_INDEX" not in found and found["UV_CACHE_DIR"] == "/cache"
    assert found["HOME"] == "/home"


def test_no_index_may_supply_what_an_earlier_one_has():
    """uv's strategies for that are called unsafe, and none is used, whatever the user's is."""
    found = configured("global.extra-index-url='file:///a'", UV_INDEX_STRATEGY="unsafe-best-match")
    assert not [value for value in found.values() if "unsafe" in value]
    usual, last = found["UV_INDEX"], found["UV_DEFAULT_INDEX"]
    assert usual.startswith("https://") and usual.endswith("/simple") and last == "file:///a"


def test_a_setting_that_uv_does_not_have_is_left_to_pip():
    with pytest.raises(packages.NotTranslated, match="pip's setting no-binary"):
        configured("global.no-binary=':all:'")


@pytest.fixture
def listed(tmp_path, monkeypatch):
    """A list with one pin, whose wheel lies in the only folder that pip is set up to search."""
    path = wheel(tmp_path / "wheels", "toy", "1.0")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(packages, "WHEELS", tmp_path / "none")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    listed = tmp_path / "list.txt"
    listed.write_text(f"{pin(path)}\n")
    return listed


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The Python of an environment with pip, and the folder of its packages."""
    folder = tmp_path_factory.mktemp("environment") / "made"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    (found,) = folder.glob("lib/*/site-packages")
    return folder / "bin/python", found


@contextlib.contextmanager
def restored(folder):
    """Remove afterwards what was installed into the folder meanwhile."""
    before = set(folder.iterdir())
    yield
    for path in set(folder.iterdir()) - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture
def python(environment):
    """The Python of an environment with pip and nothing else."""
    with restored(environment[1]):
        yield environment[0]


def shown(python, code):
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()


INSTALLER = "from importlib.metadata import distribution as d; import toy; "
INSTALLER += "print(d('toy').read_text('INSTALLER').strip(), toy.ANSWER)"


@pytest.mark.long
def test_uv_installs(listed, python):
    said = []
    packages.install(python, listed, sys.version_info[:2], said.append)
    assert said == [] and shown(python, INSTALLER) == "uv 42"
    assert packages.frozen(python, sys.version_info[:2]).splitlines()[-1] == "toy==1.0"
    assert list(python.parent.parent.glob("lib/*/site-packages/__pycache__/toy.*.pyc"))


@pytest.fixture
def two_indexes(listed, tmp_path, monkeypatch):
    """The registry, which has all packages, and an index of builds, which has one and, of another
    package, an old version; gives a list for both."""
    indexed(tmp_path / "registry", "toy", "1.0")
    lines = [indexed(tmp_path / "builds", "toy", "1.0+cpu")]
    lines.append(indexed(tmp_path / "registry", "other", "1.0"))
    indexed(tmp_path / "builds", "other", "0.9")
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "registry").as_uri())
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", (tmp_path / "builds").as_uri())
    listed.write_text("\n".join(lines) + "\n")
    return listed


@pytest.mark.long
def test_a_build_comes_from_its_index_and_all_else_from_the_registry(two_indexes, python):
    said = []
    assert not packages.lacks_builds(python, two_indexes.read_text().splitlines())
    packages.install(python, two_indexes, sys.version_info[:2], said.append)
    assert said == []
    installed = packages.frozen(python, sys.version_info[:2]).splitlines()
    assert {"other==1.0", "toy==1.0+cpu"} <= set(installed)


def test_a_build_that_no_index_has_is_lacking(two_indexes, python, monkeypatch):
    lines = two_indexes.read_text().splitlines()
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL")
    assert packages.lacks_builds(python, lines) and not packages.lacks_builds(python, lines[1:])


@pytest.mark.long
def test_pip_is_added_where_uv_fails_and_an_environment_has_none(listed, tmp_path, monkeypatch):
    folder = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    monkeypatch.setattr(packages, "uv", lambda: None)
    python, said = folder / "bin/python", []
    packages.install(python, listed, sys.version_info[:2], said.append)
    assert said == [] and shown(python, INSTALLER) == "pip 42"
    assert "toy==1.0" in packages.frozen(python, sys.version_info[:2]).splitlines()


def test_pip_takes_over_where_uv_fails(listed, python, tmp_path, monkeypatch):
    broken = tmp_path / "uv"
    broken.write_text("#!/bin/sh\necho no room >&2; exit 2\n")
    broken.chmod(0o755)
    monkeypatch.setattr(packages, "uv", lambda: str(broken))
    said = []
    packages.install(python, listed, sys.version_info[:2], said.append)
    assert said == ["pip installs instead of uv: no room"]
    assert shown(python, INSTALLER) == "pip 42"


def test_a_file_with_another_hash_is_installed_by_neither(listed, python, capfd):
    listed.write_text(f"toy==1.0 --hash=sha256:{'0' * 64}\n")
    said = []
    with pytest.raises(subprocess.CalledProcessError):
        packages.install(python, listed, sys.version_info[:2], said.append)
    assert len(said) == 1 and "DO NOT MATCH" in capfd.readouterr().err
    assert shown(python, INSTALLER) == ""


def test_a_constraint_refuses_a_pin_and_changes_none(listed, python, tmp_path, monkeypatch, capfd):
    constraints = tmp_path / "constraints.txt"
    monkeypatch.setenv("PIP_CONSTRAINT", str(constraints))
    constraints.write_text("toy<1\n")
    said = []
    with pytest.raises(subprocess.CalledProcessError):
        packages.install(python, listed, sys.version_info[:2], said.append)
    assert len(said) == 1 and "conflict" in capfd.readouterr().err
    assert shown(python, INSTALLER) == ""
    constraints.write_text("toy<2\n")
    packages.install(python, listed, sys.version_info[:2], said.append)
    assert len(said) == 1 and shown(python, INSTALLER) == "uv 42"


@pytest.fixture
def wheels(listed, environment, tmp_path, monkeypatch):
    """The folder of wheels, filled from a place that pip is not set up to search afterwards.

    The base environment's Python makes a virtual environment, the other's copies one.
    """
    copies = tmp_path / "interpreter"
    copies.write_text(f'#!/bin/sh\ncp -a {shlex.quote(str(environment[0].parent.parent))} "$3"\n')
    copies.chmod(0o755)
    monkeypatch.setattr(command, "interpreter", lambda version, path: str(copies))
    environments = tmp_path / "home/envs"
    environments.mkdir(parents=True)
    version = ".".join(map(str, sys.version_info[:2]))
    text = f"dependencies:\n  - python={version}\n  - pip\n  - pip:\n      - {listed.read_text()}"
    for name in ("base", "toy"):
        (environments / f"{name}.yaml").write_text(text)
    monkeypatch.setattr(command, "ROOT", tmp_path / "home")
    monkeypatch.setattr(command.catalogue, "names", lambda: [])
    folder = tmp_path / "home/some wheels"
    monkeypatch.setattr(packages, "WHEELS", folder)
    monkeypatch.chdir(tmp_path)
    assert call("wheels", "toy").returncode == 0
    monkeypatch.delenv("PIP_FIND_LINKS")
    return folder


@pytest.mark.long
def test_wheels_are_the_only_place_to_search_where_they_are(
    wheels, listed, environment, monkeypatch
):
    assert [path.name for path in wheels.iterdir()] == ["toy-1.0-py3-none-any.whl"]
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    python, folder = environment
    for program in ("uv", "pip"):
        said = []
        with restored(folder):
            packages.install(python, listed, sys.version_info[:2], said.append)
            assert said == [] and shown(python, INSTALLER) == f"{program} 42"
        monkeypatch.setattr(packages, "uv", lambda: None)


def test_uv_gets_an_interpreter_that_the_machine_lacks(tmp_path, monkeypatch):
    program, said = tmp_path / "uv", []
    program.write_text(
        "#!/bin/sh\n"
        'here=$UV_PYTHON_INSTALL_DIR\n[ "$2" = find ] && { cat "$here/found"; exit; }\n'
        'mkdir -p "$here" && echo "$here/bin/python3.11" > "$here/found"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(packages, "uv", lambda: str(program))
    for _ in range(2):
        found = packages.interpreter("3.11", tmp_path / "pythons", said.append)
        assert found == str(tmp_path / "pythons/bin/python3.11")
    assert said == ["uv looks for Python 3.11, which this machine lacks (once)"]


def test_a_python_that_uv_does_not_have_is_no_interpreter(tmp_path):
    assert packages.interpreter("3.99", tmp_path / "pythons", lambda line: None) is None
