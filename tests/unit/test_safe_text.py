"""Text from others in tables, on terminals and in bundles."""

import csv
import importlib
import io
import re

import pytest

from touchstone.errors import TouchstoneError, explained
from touchstone.paths import SCRIPTS
from touchstone.safe_text import cell, csv_of, has_control, mapped, one_line


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_spreadsheet_takes_no_text_for_a_formula(text):
    (row,) = csv.reader(io.StringIO(csv_of([[text, "x"]])))
    assert row[0][0] == "'" and row[0][1:] == text.strip() and row[1] == "x"


@pytest.mark.parametrize("value", ["-1.5", "+3", "1e-9", "plain", "a-b", -2.0, 3, "", "–"])
def test_numbers_and_plain_text_stay(value):
    assert cell(value) == value


def test_what_is_missing_is_an_empty_cell():
    assert csv_of([["a", None], [None, 1]]) == "a,\n,1\n"


def test_no_control_character_is_left():
    hostile = "out\x1b[2J of\x07 memory\u202egnp.exe\x9b1m\r\nline"
    assert one_line(hostile) == "out [2J of  memory gnp.exe 1m line"
    assert csv_of([[hostile]]).count("\n") == 1
    value = {"a": ["fine", {"b": hostile}]}
    assert has_control(value) and has_control({hostile: 1}) and not has_control({"a": [1, None]})
    assert mapped(value, one_line) == {"a": ["fine", {"b": one_line(hostile)}]}


EXCEPTION = re.compile(r"^class \w+\(.*(Err|Exc|Faul)", re.MULTILINE)
WRAPPED = {
    "Excluded", "Failed", "FailedBeside", "Fault", "NotPlain", "NotTranslated", "StoodStill",
    "UnfitImage", "UnknownDepth",
}  # fmt: skip
"""Faults whose text goes into a record, or into the message of another one (`explained`)."""
IN_FRAMEWORKS = ("touchstone.runner", "touchstone.schema", "touchstone.operations")
"""What is imported there has no message for a terminal."""


def test_no_message_controls_a_terminal():
    """Whatever of the user's files, or of others, a fault quotes."""
    hostile = "\x1b]0;owned\x07\x1b[2J\u202efine\nnext line"
    found = [faults for faults in raised() if not faults.__name__.startswith("_")]
    assert len(found) > 10
    for kind in found:
        if issubclass(kind, TouchstoneError):
            said = str(kind.__new__(kind, hostile))
            assert not has_control(said.replace("\n", "")) and said.endswith("fine\nnext line")
        else:
            assert kind.__name__ in WRAPPED, kind
    for fault in (ValueError(hostile), FileNotFoundError(2, "No such file", f"/{hostile}")):
        assert not has_control(explained(fault).replace("\n", ""))


def raised():
    """The exceptions of our own modules."""
    for path in sorted((SCRIPTS / "touchstone").rglob("*.py")):
        name = ".".join(path.relative_to(SCRIPTS).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        if not name.startswith(IN_FRAMEWORKS) and EXCEPTION.search(text):
            for value in vars(importlib.import_module(name)).values():
                own = isinstance(value, type) and value.__module__ == name
                if own and issubclass(value, Exception):
                    yield value
