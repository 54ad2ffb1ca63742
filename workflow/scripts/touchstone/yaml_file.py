"""YAML documents of plain values, and the keys that a mapping of theirs has more than once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

MOST_CHARACTERS = 1_000_000
DEEPEST = 30
"""Levels of lists and mappings."""
MOST_VALUES = 100_000
"""Of a document in which every alias is replaced by what it names."""
LONGEST_INTEGER = 20
"""Characters; Python itself refuses to read very long ones."""
TAG = "tag:yaml.org,2002:"
PLAIN = {TAG + kind for kind in ("null", "bool", "int", "float", "str", "seq", "map", "merge")}
DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class NotPlain(yaml.YAMLError):
    """A document holds what no file of ours needs; the message names every place."""


def parsed(text: str) -> tuple[Any, list[str]]:
    """The content of a document, and each repeated key with its lines: `epochs (lines 3, 7)`.

    Of a key that a mapping has twice, YAML's own readers take the last, and say nothing. Content
    is text, numbers, booleans, null, lists and mappings. A date, a set, binary data, an integer
    that is not decimal (0777 would be 511), control characters, an alias within itself, and more
    than the limits above are refused: they are mistakes, or attacks.

    Raises:
        yaml.YAMLError: the text is not one such document of YAML.
    """
    if len(text) > MOST_CHARACTERS:
        raise NotPlain(f"it has {len(text):,} characters, more than {MOST_CHARACTERS:,}")
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None, []
        if faults := list(dict.fromkeys(_Document().faults(node))):
            raise NotPlain("; ".join(faults))
        repeated = _repeated(node)  # before merged mappings are put into others
        return loader.construct_document(node), repeated
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """Refuses lists and mappings that are too deep before it composes them, a call a level."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node, which belongs to a parent, if any."""
        nested = self.check_event(yaml.CollectionStartEvent)
        self.depth += nested
        if self.depth > DEEPEST:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            line = event.start_mark.line + 1
            raise NotPlain(f"line {line} is more than {DEEPEST} lists and mappings deep")
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= nested
        return node


class _Document:
    """The faults of a document's nodes; an alias is the same node again."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.open: set[int] = set()

    def faults(self, node: yaml.Node) -> Iterator[str]:
        """Those of a node and of all that it holds, each with its line."""
        line = f"line {node.start_mark.line + 1}"
        if id(node) in self.open:
            yield f"{line}: an alias within what it names"
            self.sizes[id(node)] = 1
            return
        if id(node) in self.sizes:
            return
        if node.tag not in PLAIN:
            yield f"{line}: {node.tag.removeprefix(TAG)} is no plain value; write text in quotes"
        size = 1
        self.open.add(id(node))
        for child in _children(node):
            yield from self.faults(child)
            size += self.sizes.get(id(child), 1)
        self.open.discard(id(node))
        self.sizes[id(node)] = size
        if size > MOST_VALUES:
            yield f"{line}: more than {MOST_VALUES:,} values, aliases replaced by what they name"
        if isinstance(node, yaml.ScalarNode):
            yield from (f"{line}: {fault}" for fault in _scalar_faults(node))


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from (key, value)


def _scalar_faults(node: yaml.ScalarNode) -> Iterator[str]:
    if CONTROL.search(node.value):
        yield f"control characters in {node.value[:40]!r}"
    if node.tag == TAG + "int":
        if len(node.value) > LONGEST_INTEGER:
            yield f"an integer of {len(node.value)} digits"
        elif not DECIMAL.fullmatch(node.value):
            yield f"{node.value} is not a decimal integer; write it without a leading 0 or a colon"


def _repeated(node: yaml.Node) -> list[str]:
    if isinstance(node, yaml.SequenceNode):
        return [key for item in node.value for key in _repeated(item)]
    if not isinstance(node, yaml.MappingNode):
        return []
    lines: dict[str, list[int]] = {}
    for key, _ in node.value:
        lines.setdefault(str(key.value), []).append(key.start_mark.line + 1)
    own = [f"{key} (lines {', '.join(map(str, at))})" for key, at in lines.items() if len(at) > 1]
    return own + [key for _, value in node.value for key in _repeated(value)]
