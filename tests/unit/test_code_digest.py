"""The digests that decide what is run again."""

import ast
import shutil
from pathlib import Path

import pytest

import touchstone
from touchstone.plan import code_digest
from touchstone.workflow.params import SUPERVISOR, runner

PACKAGE = {
    "__init__.py": "VERSION = 1\n",
    "operations/__init__.py": "NAMES = ()\n",
    "operations/gemm.py": "FLOPS = 1\n",
    "runner/__init__.py": "BEGIN = 0\n",
    "runner/adapters/one/__init__.py": "SET = 1\n",
    "runner/adapters/two/__init__.py": "SET = 2\n",
    "runner/train.py": '''"""Trains."""

from touchstone import operations
from touchstone.runner import batches

print(batches.Order)
''',
    "runner/batches.py": '''class Order:
    """An order."""

    seed = 1
''',
    "runner/adapters/one/adapter.py": "from touchstone.runner.batches import Order\n",
    "runner/adapters/two/adapter.py": "from touchstone.runner.batches import Order\n",
    "measure/supervisor.py": 'INTERVAL = 0.1\n"""Seconds between looks."""\n',
    "measure/sensors/cpu.py": "COLUMNS = 1\n",
    "commands/parse.py": "import touchstone.results.steadiness\n",
    "commands/plot.py": "from touchstone.report import TITLE\n",
    "report/__init__.py": "TITLE = 5.6\n",
    "results/steadiness.py": "BLOCKS = 20\n",
}
"""A package, by the path of its files."""
TRAIN = ("runner/train.py", "runner/adapters/one/adapter.py", "measure/")
FILES = 8
"""The files that count for `TRAIN`."""


@pytest.fixture
def digest(monkeypatch, tmp_path):
    """What computes a digest of the package in `tmp_path` as another process would."""
    monkeypatch.setattr(code_digest, "FOLDER", tmp_path / "touchstone")
    monkeypatch.setattr(code_digest, "NOTES", tmp_path / "notes.json")

    def forget():
        for name in ("digest", "_notes", "_found", "_module", "_imports"):
            getattr(code_digest, name).cache_clear()

    def computed(*names):
        forget()
        return code_digest.digest(*names)

    yield computed
    forget()


@pytest.fixture
def folder(tmp_path):
    """The folder of the package, which a test may edit."""
    for name, text in PACKAGE.items():
        path = tmp_path / "touchstone" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "touchstone"


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_comments_docstrings_and_layout_do_not_count(folder, digest):
    before = digest(*TRAIN)
    edit(folder / "runner/batches.py", "class Order", "# A comment.\n\n\nclass Order")
    edit(folder / "runner/batches.py", "An order", "Something else")
    edit(folder / "runner/train.py", "Trains", "Something else")
    edit(folder / "measure/supervisor.py", "Seconds between", "Changed: seconds between")
    assert digest(*TRAIN) == before


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("runner/train.py", "batches.Order", "batches.Order.seed"),
        ("runner/batches.py", "seed = 1", "seed = 2"),
        ("runner/adapters/one/adapter.py", "Order", "Order as Sampler"),
        ("measure/sensors/cpu.py", "COLUMNS = 1", "COLUMNS = 2"),
        ("measure/supervisor.py", "INTERVAL = 0.1", "INTERVAL = 0.2"),
        ("operations/__init__.py", "NAMES = ()", "NAMES = []"),
        ("runner/__init__.py", "BEGIN = 0", "BEGIN = 1"),
        ("runner/adapters/one/__init__.py", "SET = 1", "SET = 2"),
    ],
)
def test_code_that_is_named_or_imported_counts(folder, digest, name, old, new):
    before = digest(*TRAIN)
    edit(folder / name, old, new)
    assert digest(*TRAIN) != before


def test_another_frameworks_adapter_does_not_count(folder, digest):
    before = digest(*TRAIN)
    edit(folder / "runner/adapters/two/adapter.py", "Order", "Order as Sampler")
    edit(folder / "runner/adapters/two/__init__.py", "SET = 2", "SET = 3")
    edit(folder / "operations/gemm.py", "FLOPS = 1", "FLOPS = 2")
    assert digest(*TRAIN) == before


def test_what_a_script_imports_counts_and_what_it_does_not_does_not(folder, digest):
    before = digest("commands/parse.py"), digest("commands/plot.py")
    edit(folder / "results/steadiness.py", "BLOCKS = 20", "BLOCKS = 21")
    assert digest("commands/parse.py") != before[0] and digest("commands/plot.py") == before[1]
    edit(folder / "report/__init__.py", "TITLE = 5.6", "TITLE = 5.7")
    assert digest("commands/plot.py") != before[1]


def test_a_file_is_parsed_once_and_its_notes_are_believed_for_its_bytes_only(
    folder, digest, monkeypatch
):
    parsed, parse = [], code_digest._parsed
    monkeypatch.setattr(code_digest, "_parsed", lambda one: parsed.append(one) or parse(one))
    before = digest(*TRAIN)
    assert len(parsed) == FILES
    parsed.clear()
    assert digest(*TRAIN) == before and not parsed
    edit(folder / "runner/batches.py", "seed = 1", "seed = 2")
    assert digest(*TRAIN) != before and len(parsed) == 1
    edit(folder / "runner/batches.py", "seed = 2", "seed = 1")
    assert digest(*TRAIN) == before


@pytest.mark.parametrize("text", ["", "{", '{"another": {}}'])
def test_damaged_notes_are_made_again(folder, digest, text):
    before = digest(*TRAIN)
    code_digest.NOTES.write_text(text)
    assert digest(*TRAIN) == before
    assert code_digest.NOTES.read_text() != text


def test_of_our_package_what_trains_counts_and_no_other_adapter(tmp_path, digest):
    ours = Path(code_digest.__file__).parents[1]
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ours, tmp_path / "touchstone", ignore=ignored)
    names = *runner("cntk", "train"), *SUPERVISOR
    before = digest(*names)
    for name, counts in (
        ("runner/adapters/mxnet/adapter.py", False),
        ("runner/slices.py", False),
        ("measure/interleaving.py", False),
        ("__init__.py", False),
        ("runner/batches.py", True),
        ("runner/adapters/__init__.py", True),
        ("runner/adapters/cntk/__init__.py", True),
        ("runner/adapters/cntk/adapter.py", True),
        ("measure/supervisor.py", True),
        ("measure/disturbance.py", True),
        ("measure/sensors/cpu.py", True),
    ):
        with (tmp_path / "touchstone" / name).open("a") as file:
            file.write("\nADDED = 1\n")
        after = digest(*names)
        assert (after != before) == counts, name
        before = after


def test_the_outermost_package_which_counts_nowhere_only_has_the_version():
    tree = ast.parse(Path(touchstone.__file__).read_text())
    names = [ast.unparse(part.targets[0]) for part in tree.body if isinstance(part, ast.Assign)]
    assert names == ["__version__"]
    assert all(isinstance(part, ast.Assign | ast.Expr) for part in tree.body)
