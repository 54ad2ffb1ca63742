"""The digests that decide what is run again."""

import shutil

import pytest

from plan import code


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    """A copy of our scripts that a test may edit, and a digest that reads it afresh."""
    shutil.copytree(code.FOLDER, tmp_path / "scripts")
    monkeypatch.setattr(code, "FOLDER", tmp_path / "scripts")
    monkeypatch.setattr(code, "NOTES", tmp_path / "notes.json")

    def digest(*names):
        for cached in (code.digest, code._notes, code._found, code._module, code._imports):
            cached.cache_clear()
        return code.digest(*names)

    yield tmp_path / "scripts", digest
    digest("train.py")


TRAIN = ("frameworks/runtime.py", "frameworks/pytorch.py", "measure/")


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_comments_docstrings_and_layout_do_not_count(scripts):
    folder, digest = scripts
    before = digest(*TRAIN)
    edit(folder / "frameworks/runtime.py", "class Diverged", "# A comment.\n\n\nclass Diverged")
    edit(folder / "frameworks/runtime.py", '"""A loss is not finite."""', '"""Something else."""')
    edit(folder / "measure/supervisor.py", '"""Seconds between looks', '"""Changed: seconds')
    assert digest(*TRAIN) == before


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("frameworks/runtime.py", "RandomState([self.seed", "RandomState([1 + self.seed"),
        ("frameworks/pytorch.py", "fused=True", "fused=False"),
        ("measure/sensors/cpu.py", "times.nice + times.system", "times.nice"),
        ("measure/supervisor.py", "signal.SIGKILL", "signal.SIGTERM"),
    ],
)
def test_code_that_makes_numbers_counts(scripts, name, old, new):
    folder, digest = scripts
    before = digest(*TRAIN)
    edit(folder / name, old, new)
    assert digest(*TRAIN) != before


def test_another_frameworks_adapter_does_not_count(scripts):
    folder, digest = scripts
    before = digest(*TRAIN)
    edit(folder / "frameworks/mxnet.py", "static_alloc=static", "static_alloc=False")
    assert digest(*TRAIN) == before


def test_what_a_script_imports_counts_and_what_it_does_not_does_not(scripts):
    folder, digest = scripts
    before = digest("parse_run.py"), digest("plot.py")
    edit(folder / "analyse/steadiness.py", "BLOCKS = 20", "BLOCKS = 21")
    assert digest("parse_run.py") != before[0]
    edit(folder / "analyse/figures.py", "import", "import sys\nimport")
    assert digest("plot.py") != before[1]


def test_a_file_is_parsed_once_and_its_notes_are_believed_for_its_bytes_alone(scripts, monkeypatch):
    folder, digest = scripts
    parsed, parse = [], code._parsed
    monkeypatch.setattr(code, "_parsed", lambda content: parsed.append(content) or parse(content))
    before = digest(*TRAIN)
    assert len(parsed) > 5
    parsed.clear()
    assert digest(*TRAIN) == before and not parsed
    edit(folder / "frameworks/runtime.py", "RandomState([self.seed", "RandomState([1 + self.seed")
    assert digest(*TRAIN) != before and len(parsed) == 1
    edit(folder / "frameworks/runtime.py", "RandomState([1 + self.seed", "RandomState([self.seed")
    assert digest(*TRAIN) == before


@pytest.mark.parametrize("text", ["", "{", '{"another": {}}'])
def test_damaged_notes_are_made_anew(scripts, text):
    folder, digest = scripts
    before = digest(*TRAIN)
    code.NOTES.write_text(text)
    assert digest(*TRAIN) == before
    assert code.NOTES.read_text() != text
