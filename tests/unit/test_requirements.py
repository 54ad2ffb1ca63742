"""What an environment file refers to is found from its folder, and is a part of what it is."""

import subprocess

import pytest

from fixtures.wheels import wheel
from touchstone import environments, packages
from touchstone.plan.environment import Place, conda_faults
from touchstone.plan.parts import Environment

BACKEND = """
import zipfile
def build_wheel(folder, *_, editable=False):
    with zipfile.ZipFile(f"{folder}/local-1.0-py3-none-any.whl", "w") as archive:
        archive.write("local.py")
        about = "local-1.0.dist-info"
        text = "Metadata-Version: 2.1\\nName: local\\nVersion: 1.0\\n"
        archive.writestr(f"{about}/METADATA", text)
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        names = ("local.py", f"{about}/METADATA", f"{about}/WHEEL", f"{about}/RECORD")
        archive.writestr(f"{about}/RECORD", "".join(f"{name},,\\n" for name in names))
    return "local-1.0-py3-none-any.whl"
build_editable = build_wheel
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
PROJECT += '[project]\nname = "local"\nversion = "1.0"\n'


def project(folder, answer=42):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "backend.py").write_text(BACKEND)
    (folder / "local.py").write_text(f"ANSWER = {answer}\n")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Writes an environment file with a pip list into a folder with a space; elsewhere is where
    the process works."""
    folder, elsewhere = tmp_path / "my envs", tmp_path / "elsewhere"
    (folder / "lists").mkdir(parents=True)
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr(packages, "WHEELS", tmp_path / "none")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    for version in ("1.0", "2.0"):
        wheel(tmp_path / "index", "toy", version, answer=version)

    def write(*lines):
        path = folder / "mine.yaml"
        listed = "".join(f"      - {line}\n" for line in lines)
        path.write_text(f"dependencies:\n  - python=3.11\n  - pip\n  - pip:\n{listed}")
        return path

    return write


def change(path, text):
    """Write a file that refers to nothing, and say what it had."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


REFERENCES = {
    "-r requirements.txt": ("toy", lambda at, n: change(at / "requirements.txt", f"toy=={n}.0\n")),
    "--requirement=lists/some.txt": ("toy", lambda at, n: (
        change(at / "lists/some.txt", "-r more.txt  # beside this one\n"),
        change(at / "lists/more.txt", f"toy \\\n  =={n}.0\n"),
    )),
    "toy\n      - -c 'con straints.txt'": (
        "toy", lambda at, n: change(at / "con straints.txt", f"toy=={n}.0\n")
    ),
    "./wheels/mine-1.0-py3-none-any.whl": (
        "mine", lambda at, n: wheel(at / "wheels", "mine", "1.0", n)
    ),
    "mine @ file:wheels/mine-1.0-py3-none-any.whl": (
        "mine", lambda at, n: wheel(at / "wheels", "mine", "1.0", n)
    ),
    "mine==1.0\n      - --find-links wheels": (
        "mine", lambda at, n: wheel(at / "wheels", "mine", "1.0", n)
    ),
    "./local": ("local", lambda at, n: project(at / "local", n)),
    "-e local": ("local", lambda at, n: project(at / "local", n)),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("line", REFERENCES)
def test_what_a_line_refers_to_is_installed_and_named(line, place, tmp_path):
    """An edit elsewhere, under the same name and the same date, is another environment."""
    module, write = REFERENCES[line]
    path, said, digests = place(line), [], []
    for number in (1, 2):
        write(path.parent, number)
        digests.append(Place("file", str(path)).digest())
        assert digests[-1] == Place("file", str(path)).digest()
        python = environments.ensure(path, tmp_path / "made")
        code = f"import {module}; print({module}.ANSWER)"
        ended = subprocess.run([python, "-c", code], capture_output=True, text=True)
        said.append(float(ended.stdout))
    assert said == [1, 2] and digests[0] != digests[1]


def test_how_lines_are_given_does_not_name_an_environment(place):
    path = place("toy==1.0", "more==2.0")
    inline = environments.digest(path)
    change(
        path.parent / "all.txt", "# Comment\ntoy==1.0 \\\n   --hash=sha256:12\n\nmore==2.0 # b\n"
    )
    assert environments.digest(place("-r all.txt")) == inline


def test_what_a_build_leaves_does_not_name_a_folder(place):
    path = place("-e .")
    project(path.parent)
    before = environments.digest(path)
    for name in ("build/x.py", "local.egg-info/PKG-INFO", "__pycache__/a.pyc", ".git/HEAD"):
        change(path.parent / name, "made")
    assert environments.digest(path) == before
    change(path.parent / "inside/build/x.py", "its own")
    assert environments.digest(path) != before


UNSURE = {
    "toy": "does not say which version; write toy==VERSION",
    "toy>=1": "does not say which version",
    "toy==1.*": "does not say which version",
    "git+https://example.org/toy.git@main": "write @ and the 40 digits of the commit",
    "-e git+https://example.org/toy.git#egg=toy": "write @ and the 40 digits of the commit",
    "https://example.org/toy-1.0-py3-none-any.whl": "add #sha256=DIGEST",
    "-r https://example.org/list.txt": "save it beside this file",
    "-r none.txt": "none.txt does not exist",
    "-c none.txt": "none.txt does not exist",
    "./none": "none does not exist",
    "-r itself.txt": "it names itself",
    "toy=1": "neither a requirement of pip nor a file",
}


def test_all_lines_that_fix_nothing_are_refused_at_once(place):
    path = place(*(f"'{line}'" for line in UNSURE))
    change(path.parent / "itself.txt", "-r ../my envs/itself.txt\n")
    with pytest.raises(environments.EnvironmentFault) as refused:
        environments.digest(path)
    told = str(refused.value)
    assert [remedy for remedy in UNSURE.values() if remedy not in told] == []
    assert len(told.splitlines()) == 1 + len(UNSURE) - 2, "toy is named once"


def test_what_names_one_file_for_ever_is_taken(place):
    commit, digest = "0123456789" * 4, "ab" * 32
    lines = [
        f"git+https://example.org/toy.git@{commit}#egg=toy",
        f"https://example.org/toy-1.0-py3-none-any.whl#sha256={digest}",
        "--index-url https://example.org/simple",
        "toy===1.0 ; python_version > '3.9'",
    ]
    assert environments.read(place(*lines))[1].lines == lines


def test_conda_gets_no_file_that_refers_to_others(place):
    path = place("-r requirements.txt")
    change(path.parent / "requirements.txt", "toy==1.0\n")
    known = {"mine": Environment(framework="scipy", file=str(path))}
    (fault,) = conda_faults(known)
    assert fault.startswith("environments.mine: ") and "leave --use-conda out" in fault
    place("toy==1.0")
    assert conda_faults(known) == []
