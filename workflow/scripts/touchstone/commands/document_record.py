"""Write the JSON schema of a record and its table in docs/contracts.md from its model."""

import argparse
import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from touchstone.commands.document_config import type_in_words
from touchstone.files import with_section
from touchstone.paths import RECORD_SCHEMA, ROOT
from touchstone.results.flags import FLAGS
from touchstone.results.metrics import METRICS
from touchstone.results.record_model import Metric, Record
from touchstone.results.tables import STUDY_FLAGS

CONTRACTS = ROOT / "docs/contracts.md"


class _Generator(GenerateJsonSchema):
    """Without the titles that repeat a field's name, and without defaults: a record has none."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def schema() -> dict[str, Any]:
    """The JSON schema of a record."""
    return {"$schema": GenerateJsonSchema.schema_dialect, **_schema(Record)}


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(schema_generator=_Generator)


def table() -> str:
    """A row for each field: where it is, its type and limits, its unit, its meaning."""
    rows = ["| field | value | unit | meaning |", "| --- | --- | --- | --- |"]
    whole = schema()
    return "\n".join([*rows, *_rows(whole, whole["$defs"], "")]) + "\n"


def _rows(part: dict[str, Any], parts: dict[str, Any], place: str) -> Iterator[str]:
    for name, value in part["properties"].items():
        words = type_in_words(value) + ("" if name in part.get("required", ()) else ", or absent")
        meaning = value["description"].replace("|", "\\|")
        yield f"| `{place}{name}` | {words} | {value.get('unit', '')} | {meaning} |"
        inner = value.get("items", value).get("$ref")
        if name == "metrics":  # all are alike
            yield from _rows(_schema(Metric), parts, "metrics.*.")
        elif inner is not None:
            below = f"{place}{name}{'[]' if 'items' in value else ''}."
            yield from _rows(parts[inner.removeprefix("#/$defs/")], parts, below)


def metrics() -> str:
    """A row for each metric."""
    rows = ["| metric | unit | how |", "| --- | --- | --- |"]
    rows += [f"| `{name}` | {m.unit} | {m.definition} |" for name, m in METRICS.items()]
    return "\n".join(rows) + "\n"


def flags() -> str:
    """A row for each flag."""
    rows = ["| flag | when |", "| --- | --- |"]
    rows += [f"| `{name}` | {when} |" for name, when in (FLAGS | STUDY_FLAGS).items()]
    return "\n".join(rows) + "\n"


def contracts(text: str) -> str:
    """The text of docs/contracts.md with the tables of fields, metrics and flags as the code has
    them."""
    for name, section in (("record", table()), ("metrics", metrics()), ("flags", flags())):
        text = with_section(text, name, section)
    return text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(arguments: argparse.Namespace) -> None:
    text = json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
    RECORD_SCHEMA.write_text(text, encoding="utf-8")
    CONTRACTS.write_text(contracts(CONTRACTS.read_text(encoding="utf-8")), encoding="utf-8")
