"""The words that docs/style.md avoids: the list, what is read, and that the project has none."""

import pytest

from touchstone.commands.check_style import STYLE, StyleError, check, read_words

TABLE = """# Style

| avoid | write |
| --- | --- |
| told | reported |
| anew, once more | again |
| alone (of a choice) | only |
| one, found (of a variable) | the noun |

| other | table |
"""


@pytest.fixture
def project(tmp_path):
    """A folder with a style page, which itself is not checked."""
    (tmp_path / STYLE).parent.mkdir()
    (tmp_path / STYLE).write_text(TABLE)
    return tmp_path


def found(root):
    return list(check(root, read_words(root / STYLE)))


def test_the_project_avoids_the_words(root):
    words = {word.text for word in read_words(root / STYLE)}
    assert {"told", "anew", "whoever"} <= words and not {"alone", "made"} & words
    assert found(root) == []


def test_a_word_is_found_in_pages_templates_strings_and_comments_but_not_in_code(project):
    assert found(project) == []
    text = "# One\n\nIt is TOLD, `told` alone.\n\n```\nanew\n```\n"
    (project / "README.md").write_text(text)
    folder = project / "workflow/scripts/touchstone/report"
    folder.mkdir(parents=True)
    (folder / "page.html.j2").write_text("<p>\nmade anew</p>")
    code = 'def told():  # anew\n    """As `told`, told."""\n    text = f"{told} told"\n'
    (folder / "page.py").write_text(code)
    (project / "workflow/rules").mkdir()
    (project / "workflow/rules/a.smk").write_text(
        "rule told:\n    # told\n    shell:\n        'x'\n"
    )
    assert found(project) == [
        "README.md:3: avoid 'told'; write: reported",
        "workflow/scripts/touchstone/report/page.html.j2:2: avoid 'anew'; write: again",
        "workflow/scripts/touchstone/report/page.py:2: avoid 'told'; write: reported",
        "workflow/scripts/touchstone/report/page.py:3: avoid 'told'; write: reported",
        "workflow/scripts/touchstone/report/page.py:1: avoid 'anew'; write: again",
        "workflow/rules/a.smk:2: avoid 'told'; write: reported",
    ]


def test_a_phrase_is_found_across_lines(project):
    (project / "docs/page.md").write_text("Run it once\nmore.\n")
    assert found(project) == ["docs/page.md:1: avoid 'once more'; write: again"]


def test_a_variable_has_a_noun(project):
    folder = project / "workflow/scripts"
    folder.mkdir(parents=True)
    code = """
class Claim:
    found: int
def f(one, *, other=None):
    "One was found."
    found = [x.found for x in other]
    for i, found in other: g(found=i)
    return lambda found: one
"""
    (folder / "a.py").write_text(code)
    assert found(project) == [
        f"workflow/scripts/a.py:{line}: avoid {name!r}; write: the noun"
        for line, name in ((4, "one"), (6, "found"), (7, "found"), (8, "found"))
    ]


def test_a_page_without_the_table_is_refused(tmp_path):
    with pytest.raises(StyleError, match=r"style.md: no table with the head"):
        read_words(tmp_path / STYLE)
