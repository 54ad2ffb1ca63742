"""Check texts, and the names of variables, for the words that docs/style.md avoids.

Exit 1, with a line for each word found, if there is one.
"""

import argparse
import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from touchstone.errors import TouchstoneError
from touchstone.paths import ROOT

STYLE = Path("docs/style.md")
HEAD = "| avoid | write |"
"""The head of the table of words."""
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "config/README.md", "docs/**/*.md")
TEMPLATES = ("workflow/scripts/touchstone/**/*.j2",)
CODE = ("workflow/**/*.py",)
"""Of these files the strings, docstrings included, the comments and the variables are read."""
RULES = ("Snakefile", "workflow/Snakefile", "workflow/rules/*.smk")
"""Of these files the comments are read."""
OF_A_VARIABLE = "(of a variable)"
"""The remark of a row whose words are wrong as the name of a variable or parameter only."""
QUOTED = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
"""Code in a text."""
Trees = list[tuple[Path, ast.Module]]
"""The files of `CODE`, parsed."""


class StyleError(TouchstoneError):
    """The list of words cannot be read."""


class Word(NamedTuple):
    """A word or phrase to avoid in texts, or as the name of a variable, and what to write."""

    text: str
    instead: str
    of_a_variable: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--root", type=Path, default=ROOT, help="the project's folder")


def run(arguments: argparse.Namespace) -> int:
    words = read_words(arguments.root / STYLE)
    lines = list(check(arguments.root, words))
    for line in lines:
        print(line, file=sys.stderr)
    return int(bool(lines))


def read_words(path: Path) -> list[Word]:
    """The words of the table in the style page that are wrong in every sentence.

    A row with another remark in brackets than `OF_A_VARIABLE`, such as "made (of a run)", is for a
    reader to judge.

    Raises:
        StyleError: there is no such page, or it has no such table.
    """
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if HEAD not in lines:
        raise StyleError(f"{path}: no table with the head {HEAD!r}. Give the project's folder")
    words = []
    for line in lines[lines.index(HEAD) + 2 :]:
        if not line.startswith("|"):
            break
        avoid, instead = (cell.strip() for cell in line.strip("|").split("|"))
        texts = avoid.removesuffix(OF_A_VARIABLE)
        if "(" not in texts:
            words += [Word(word.strip(), instead, texts != avoid) for word in texts.split(",")]
    return words


def check(root: Path, words: list[Word]) -> Iterator[str]:
    """A line for each word to avoid: file, line, the word and what to write."""
    names = {word.text: word.instead for word in words if word.of_a_variable}
    words = [word for word in words if not word.of_a_variable]
    phrases = (r"\s+".join(map(re.escape, word.text.split())) for word in words)
    any_word = re.compile(rf"\b({'|'.join(phrases)})\b", re.IGNORECASE)
    instead = {word.text: word.instead for word in words}
    trees = [(p, ast.parse(p.read_text(encoding="utf-8"))) for p in _files(root, CODE)]
    for path, number, text in _texts(root, trees):
        for match in any_word.finditer(text):
            line = number + text[: match.start()].count("\n")
            word = " ".join(match[1].split()).lower()
            yield f"{path.relative_to(root)}:{line}: avoid {word!r}; write: {instead[word]}"
    for path, line, name in _variables(trees):
        if name in names:
            yield f"{path.relative_to(root)}:{line}: avoid {name!r}; write: {names[name]}"


def _texts(root: Path, trees: Trees) -> Iterator[tuple[Path, int, str]]:
    """Every text with its file and first line."""
    for path in _files(root, (*PAGES, *TEMPLATES)):
        text = path.read_text(encoding="utf-8")
        yield path, 1, _prose(text)
    for path, tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path, node.lineno, _prose(node.value)
    for path in _files(root, (*CODE, *RULES)):
        with tokenize.open(path) as file:
            for token in tokenize.generate_tokens(file.readline):
                if token.type == tokenize.COMMENT:
                    yield path, token.start[0], _prose(token.string)


def _variables(trees: Trees) -> Iterator[tuple[Path, int, str]]:
    """Every variable and parameter with its file and line; fields of classes are none."""
    for path, tree in trees:
        nodes = list(ast.walk(tree))
        fields = {
            statement.target
            for node in nodes if isinstance(node, ast.ClassDef)
            for statement in node.body if isinstance(statement, ast.AnnAssign)
        }  # fmt: skip
        for node in nodes:
            if node in fields:
                continue
            if isinstance(node, ast.arg):
                yield path, node.lineno, node.arg
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield path, node.lineno, node.id


def _prose(text: str) -> str:
    """The text with blanks in place of quoted code."""
    return QUOTED.sub(lambda quoted: re.sub(r"[^\n]", " ", quoted[0]), text)


def _files(root: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    for pattern in patterns:
        yield from sorted(path for path in root.glob(pattern) if path != root / STYLE)
