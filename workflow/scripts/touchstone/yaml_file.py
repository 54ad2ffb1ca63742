"""YAML documents, and the keys that a mapping of theirs has more than once."""

from __future__ import annotations

from typing import Any

import yaml


def parsed(text: str) -> tuple[Any, list[str]]:
    """The content of a document, and each repeated key with its lines: `epochs (lines 3, 7)`.

    Of a key that a mapping has twice, YAML's own readers take the last, and say nothing.

    Raises:
        yaml.YAMLError: the text is not one document of YAML.
    """
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        repeated = _repeated(node)
        return (None if node is None else loader.construct_document(node)), repeated
    finally:
        loader.dispose()


def _repeated(node: yaml.Node | None) -> list[str]:
    if isinstance(node, yaml.SequenceNode):
        return [key for item in node.value for key in _repeated(item)]
    if not isinstance(node, yaml.MappingNode):
        return []
    lines: dict[str, list[int]] = {}
    for key, _ in node.value:
        lines.setdefault(str(key.value), []).append(key.start_mark.line + 1)
    own = [f"{key} (lines {', '.join(map(str, at))})" for key, at in lines.items() if len(at) > 1]
    return own + [key for _, value in node.value for key in _repeated(value)]
