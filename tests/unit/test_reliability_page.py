"""The page of promises names tests that exist."""

import re

from touchstone.paths import ROOT


def test_every_promise_names_a_test_that_exists():
    page = (ROOT / "docs/reliability.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and "---" not in line]
    promises = [row for row in rows if not row.startswith("| promise ")]
    assert len(promises) > 20
    for row in promises:
        named = re.findall(r"`(\w+/\w+\.py)::(\w+)`", row)
        assert named, row
        for path, name in named:
            assert f"def {name}(" in (ROOT / "tests" / path).read_text(), row
