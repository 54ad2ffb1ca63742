"""The documentation site: it is whole, needs no network, and a dead link is a fault.

Tests that build it are `long`, for `make lint` builds it too.
"""

import re
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("sphinx")


def build(source, target):
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    return subprocess.run([*command, source, target], capture_output=True, text=True)


@pytest.fixture(scope="module")
def copied(root, tmp_path_factory):
    """The pages and the configuration's reference, which one of them includes."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(root / "docs", folder / "docs")
    (folder / "config").mkdir()
    shutil.copy(root / "config/README.md", folder / "config/README.md")
    return folder


@pytest.fixture(scope="module")
def site(copied):
    done = build(copied / "docs", copied / "site")
    assert (done.returncode, done.stderr) == (0, "")
    return copied / "site"


@pytest.mark.long
def test_every_page_is_there_and_nothing_is_fetched(root, site):
    sources = [path.relative_to(root / "docs") for path in (root / "docs").rglob("*.md")]
    assert len(sources) > 20
    loaded = r"""<(?:link|script|img|iframe)\b[^>]*?(?:href|src)=["'](?:https?:)?//"""
    for path in sources:
        page = (site / path.with_suffix(".html")).read_text()
        assert not re.findall(loaded, page), path
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//|@import", style.read_text()), style


@pytest.mark.long
def test_a_page_that_includes_another_file_has_its_tables(site):
    text = (site / "configuration.html").read_text()
    assert "sampling_interval" in text and "<table" in text


@pytest.mark.long
def test_a_dead_link_is_a_fault(copied, site):
    """Added to a page of the site, of which Sphinx then builds only that page again."""
    page = copied / "docs/concepts.md"
    text = page.read_text()
    page.write_text(text + "\n[nowhere](not-there.md) and [no heading](studies.md#not-there)\n")
    try:
        done = build(copied / "docs", site)
    finally:
        page.write_text(text)
    assert done.returncode != 0
    assert "'not-there.md'" in done.stderr
    assert "not found in doc 'studies': 'not-there'" in done.stderr


def test_the_front_page_is_short_and_its_links_lead_somewhere(root):
    text = (root / "README.md").read_text()
    assert len(text.split()) < 500
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert (root / link).exists(), link
