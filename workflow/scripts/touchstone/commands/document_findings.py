"""Write the reference of findings.json in docs/contracts.md from the findings' models."""

import argparse
from typing import Any

from touchstone.analysis.findings_model import Findings
from touchstone.files import with_section
from touchstone.paths import ROOT

PAGE = ROOT / "docs/contracts.md"


def reference() -> str:
    """Tables of all fields: of the file first, then of each kind of object in it, by name."""
    schema = Findings.model_json_schema(mode="serialization")
    objects = {"Findings": schema, **schema["$defs"]}
    parts = [_table(name, objects[name]) for name in objects if "properties" in objects[name]]
    return "\n".join(parts)


def _table(name: str, model: dict[str, Any]) -> str:
    lines = [f"**{name}.** {_line(model['description'])}", ""]
    lines += ["| field | value | meaning |", "| --- | --- | --- |"]
    for field, value in model["properties"].items():
        lines.append(f"| `{field}` | {_type(value)} | {_line(value['description'])} |")
    return "\n".join(lines) + "\n"


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _type(value: dict[str, Any]) -> str:
    """A property of a JSON schema in words."""
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[-1]
        return "any JSON" if name == "JsonValue" else f"`{name}`"
    if "anyOf" in value:
        return " or ".join(map(_type, value["anyOf"]))
    if "enum" in value:
        return ", ".join(f"`{word}`" for word in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    if value.get("type") == "array":
        return f"list of {_type(value['items'])}"
    if value.get("type") == "object":
        return f"object: text to {_type(value['additionalProperties'])}"
    return {"string": "text"}.get(value["type"], str(value["type"])) if "type" in value else "any"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(arguments: argparse.Namespace) -> None:
    page = with_section(PAGE.read_text(encoding="utf-8"), "findings", reference())
    PAGE.write_text(page, encoding="utf-8")
