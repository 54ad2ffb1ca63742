"""Whatever a file holds, reading it ends in a value or in one message for a user."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.mutations import KINDS, TYPED, fault_of, mutated_file

quick = settings(max_examples=40)


@pytest.fixture(params=list(KINDS), scope="module")
def made(request, tmp_path_factory):
    """A kind of file, a good file of it, and its content."""
    found = KINDS[request.param]
    path = found.make(tmp_path_factory.mktemp("good"))
    return found, path, path.read_bytes()


@pytest.fixture
def kind(made):
    """The same, whatever the last test wrote into the file."""
    _, path, content = made
    path.write_bytes(content)
    return made


def test_a_good_file_is_read(kind):
    found, path, _ = kind
    found.read(path)


@quick
@given(seed=st.integers(0, 2**32))
def test_a_damaged_file_is_a_value_or_a_message(kind, seed):
    found, path, content = kind
    damaged = mutated_file(path, content, random.Random(seed))
    if fault := fault_of(found, path, damaged):
        raise AssertionError(f"{damaged[:300]!r}") from fault


@pytest.mark.parametrize(
    ("name", "seed"),
    [("env", 2057968686), ("parity steps", 2057968960), ("parity steps", 2057969123),
     ("record in a comparison", 2057969055)],
)  # fmt: skip
def test_damage_that_fuzzing_found_is_a_value_or_a_message(name, seed, tmp_path):
    found = KINDS[name]
    path = found.make(tmp_path)
    damaged = mutated_file(path, path.read_bytes(), random.Random(seed))
    assert fault_of(found, path, damaged) is None


@pytest.mark.parametrize(
    "name",
    ["record", "plan", "summary", "findings", "certificate", "search for the largest batch",
     "parity steps", "resolved configuration"],
)  # fmt: skip
def test_a_generated_file_that_is_cut_off_says_how_it_is_made_again(name, tmp_path):
    found = KINDS[name]
    path = found.make(tmp_path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(TYPED, match="elete it and (run the workflow|start) again"):
        found.read(path)


@pytest.mark.parametrize("content", [b"", b"\0", b"\xff", b"[" * 100_000, b"{" * 100_000, b'"'])
def test_garbage_is_a_value_or_a_message(kind, content):
    found, path, _ = kind
    if fault := fault_of(found, path, content):
        raise AssertionError(content[:50]) from fault


def test_the_mutations_damage_files(kind):
    """One of a hundred is refused, of the files that can be refused at all."""
    found, path, content = kind

    def refused(seed):
        path.write_bytes(mutated_file(path, content, random.Random(seed)))
        try:
            found.read(path)
        except TYPED:
            return True
        return False

    never = ("digests", "faults of a run", "account of progress", "end of the last run")
    assert found in [KINDS[name] for name in never] or any(map(refused, range(100)))
