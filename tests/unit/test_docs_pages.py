"""The pages of the documentation: short, linked from the index, a command for each question."""

import re

import pytest

from touchstone.paths import ROOT

DOCS = ROOT / "docs"
INDEX = (DOCS / "index.md").read_text(encoding="utf-8")
NOT_FOR_USERS = {
    "configuration.md",  # it includes config/README.md
    "contracts.md",  # generated tables of fields
    "measured.md",
    "architecture.md", "adding.md", "style.md", "reliability.md",  # for developers
}  # fmt: skip
MOST_WORDS = 20_000
MOST_WORDS_MEASURED = 6_000
COMMANDS = ("make", ".venv/bin/touchstone", ".venv/bin/snakemake", "touchstone", "snakemake")


def words(path):
    """As `wc -w` counts them."""
    return len(path.read_text(encoding="utf-8").split())


def pages():
    return {str(path.relative_to(DOCS)): path for path in sorted(DOCS.rglob("*.md"))}


def questions():
    """The rows of the first table of the index: a question, and its page."""
    table = INDEX.split("| question | page |\n")[1].split("\n\n")[0]
    return dict(re.findall(r"^\| ([^|]+\?) \| \[[^]]+\]\(([^)]+)\) \|$", table, re.M)), table


def test_the_pages_for_users_are_short_together():
    assert set(pages()) >= NOT_FOR_USERS
    users = [path for name, path in pages().items() if name not in NOT_FOR_USERS]
    total = sum(map(words, [*users, ROOT / "README.md", ROOT / "config/README.md"]))
    assert total <= MOST_WORDS


def test_the_page_of_measurements_is_short():
    assert words(DOCS / "measured.md") <= MOST_WORDS_MEASURED


def test_the_index_links_every_page_and_the_site_lists_it():
    linked = set(re.findall(r"\]\(([\w/-]+\.md)\)", INDEX))
    listed = {
        f"{line}.md"
        for tree in re.findall(r"^```\{toctree\}\n(.*?)^```$", INDEX, re.M | re.S)
        for line in tree.splitlines()
        if line and not line.startswith(":")
    }
    assert linked == listed == set(pages()) - {"index.md"}


def test_every_question_has_a_row_and_a_page_of_its_own():
    found, table = questions()
    assert len(found) == len(table.splitlines()) - 1 >= 12
    assert len(set(found.values())) == len(found)
    for words_of in (
        "new version", "batch size", "threads", "precision", "predictions", "own images",
        "own network", "own code", "cluster",
    ):  # fmt: skip
        assert any(words_of in question for question in found), words_of


@pytest.mark.parametrize("page", questions()[0].values())
def test_a_page_of_a_question_begins_with_a_command_and_what_it_prints(page):
    """After at most two sentences a block: a line `$ COMMAND`, and below it the output."""
    text = pages()[page].read_text(encoding="utf-8")
    before, block = re.match(r"# [^\n]+\n(.*?)^```\n(.*?)^```$", text, re.M | re.S).groups()
    assert len(before.split()) <= 40
    lines = block.splitlines()
    assert lines[0].startswith("$ ") and lines[0].removeprefix("$ ").split()[0] in COMMANDS
    assert [line for line in lines if not line.startswith("$ ")], "no output"
