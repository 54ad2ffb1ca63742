"""Documents of YAML: what is plain, and what is refused with its line."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from touchstone import yaml_file
from touchstone.plan.read import ConfigError, read
from touchstone.yaml_file import DEEPEST, NotPlain, parsed

BOMB = "\n".join(
    ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    + [
        f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]"
        for old, new in zip("abcdef", "bcdefg", strict=True)
    ]
)
ANY_TEXT = st.text(
    alphabet=st.sampled_from("ab:-[]{},&*!|>?'\"#%@`~ \n\t01e.+<"), max_size=60
)  # fmt: skip


def test_plain_values_and_repeated_keys():
    text = "a: [1, 2.5, true, null, word, '2026-01-01', 1_000]\nb: {c: 1, c: 2}\nd: &x [1]\ne: *x\n"
    value, repeated = parsed(text)
    assert value["a"] == [1, 2.5, True, None, "word", "2026-01-01", 1000]
    assert value["d"] == value["e"] == [1] and repeated == ["c (lines 2, 2)"]
    assert parsed("") == (None, [])


def test_a_merged_mapping_is_plain():
    value, repeated = parsed("a: &a {b: 1, e: 3}\nc: {<<: *a, d: 2, e: 4}")
    assert value["c"] == {"b": 1, "d": 2, "e": 4} and not repeated


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\nseed: 2026-01-01", "line 2: timestamp is no plain value; write text in quotes"),
        ("a: !!set {b, c}", "line 1: set is no plain value"),
        ("a: !!binary aGVsbG8=", "line 1: binary is no plain value"),
        ("a: !!omap [b: 1]", "line 1: omap is no plain value"),
        ("a: !!python/name:os.system b", "python/name:os.system is no plain value"),
        ("a: 0777", "0777 is not a decimal integer; write it without a leading 0 or a colon"),
        ("a: 1:30", "1:30 is not a decimal integer"),
        ("a: 0x1F", "0x1F is not a decimal integer"),
        (f"a: {'9' * 5000}", "an integer of 5000 digits"),
        ('a: "\\e[31m"', "control characters in"),
        ("a: &a [*a]", "line 1: an alias within what it names"),
        (f"a: {'[' * 2000}{']' * 2000}", f"line 1 is more than {DEEPEST} lists and mappings deep"),
        (BOMB, "more than 100,000 values, aliases replaced by what they name"),
        ("a" * (yaml_file.MOST_CHARACTERS + 1), "it has 1,000,001 characters, more than 1,000,000"),
    ],
)
def test_what_is_no_plain_value_is_refused_with_its_line(text, fault):
    with pytest.raises(NotPlain) as refused:
        parsed(text)
    assert fault in str(refused.value)


def test_all_faults_are_named_at_once():
    with pytest.raises(NotPlain) as refused:
        parsed("a: 0777\nb: 2026-01-01\nc: !!set {d}")
    assert [f"line {n}" in str(refused.value) for n in (1, 2, 3)] == [True] * 3


@given(ANY_TEXT)
def test_any_text_is_a_value_or_a_fault(text):
    try:
        value, repeated = parsed(text)
    except yaml.YAMLError as fault:
        assert str(fault)
    else:
        assert isinstance(value, dict | list | str | int | float | None)
        assert all(isinstance(key, str) for key in repeated)


@given(ANY_TEXT)
def test_any_file_is_a_mapping_or_a_message_that_names_it(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        assert isinstance(read(path), dict)
    except ConfigError as fault:
        assert str(fault).startswith(f"{path}: ")
