"""The digests that decide what is run again."""

import shutil

import pytest

from touchstone.plan import code_digest


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    """A copy of our scripts that a test may edit, and a digest that reads it afresh."""
    folder = tmp_path / "touchstone"
    shutil.copytree(code_digest.FOLDER, folder)
    monkeypatch.setattr(code_digest, "FOLDER", folder)
    monkeypatch.setattr(code_digest, "NOTES", tmp_path / "notes.json")

    def digest(*names):
        for name in ("digest", "_notes", "_found", "_module", "_imports"):
            getattr(code_digest, name).cache_clear()
        return code_digest.digest(*names)

    yield folder, digest
    digest("commands/run.py")


TRAIN = ("runner/train.py", "runner/adapters/pytorch/adapter.py", "measure/")


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_comments_docstrings_and_layout_do_not_count(scripts):
    folder, digest = scripts
    before = digest(*TRAIN)
    edit(folder / "runner/outcome.py", "class Diverged", "# A comment.\n\n\nclass Diverged")
    edit(folder / "runner/outcome.py", '"""A loss is not finite."""', '"""Something else."""')
    edit(folder / "measure/supervisor.py", '"""Seconds between looks', '"""Changed: seconds')
    assert digest(*TRAIN) == before


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("runner/batches.py", "RandomState([self.seed", "RandomState([1 + self.seed"),
        ("runner/adapters/pytorch/adapter.py", "fused=True", "fused=False"),
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
    edit(folder / "runner/adapters/mxnet/adapter.py", "static_alloc=static", "static_alloc=False")
    assert digest(*TRAIN) == before


def test_what_a_script_imports_counts_and_what_it_does_not_does_not(scripts):
    folder, digest = scripts
    before = digest("commands/parse.py"), digest("commands/plot.py")
    edit(folder / "results/steadiness.py", "BLOCKS = 20", "BLOCKS = 21")
    assert digest("commands/parse.py") != before[0]
    edit(folder / "report/figures/style.py", "TITLE_LETTER = 5.6", "TITLE_LETTER = 5.7")
    assert digest("commands/plot.py") != before[1]


def test_a_file_is_parsed_once_and_its_notes_are_believed_for_its_bytes_alone(scripts, monkeypatch):
    folder, digest = scripts
    parsed, parse = [], code_digest._parsed
    monkeypatch.setattr(code_digest, "_parsed", lambda one: parsed.append(one) or parse(one))
    before = digest(*TRAIN)
    assert len(parsed) > 5
    parsed.clear()
    assert digest(*TRAIN) == before and not parsed
    edit(folder / "runner/batches.py", "RandomState([self.seed", "RandomState([1 + self.seed")
    assert digest(*TRAIN) != before and len(parsed) == 1
    edit(folder / "runner/batches.py", "RandomState([1 + self.seed", "RandomState([self.seed")
    assert digest(*TRAIN) == before


@pytest.mark.parametrize("text", ["", "{", '{"another": {}}'])
def test_damaged_notes_are_made_anew(scripts, text):
    folder, digest = scripts
    before = digest(*TRAIN)
    code_digest.NOTES.write_text(text)
    assert digest(*TRAIN) == before
    assert code_digest.NOTES.read_text() != text
