"""Write config/README.md and config/schema.json from the configuration's model."""

import argparse
import json
from collections.abc import Callable, Container, Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from touchstone.paths import ROOT
from touchstone.plan.model import SETTINGS, Cell, Study
from touchstone.plan.parts import Environment, Interleave
from touchstone.plan.read import read
from touchstone.plan.setting import TRAINING, Setting

HEAD = """# Configuration

A study is a YAML file. `config/config.yaml` is the default one; a study of yours replaces its keys,
in `defaults` and `interleave` one by one. `make run CONFIG=my-study.yaml` runs it. Unknown keys,
wrong types and settings without an effect are all reported at once before any run.

```yaml
# yaml-language-server: $schema=schema.json
study: batches
title: Three frameworks at two batch sizes, PyTorch also at a second learning rate
repeats: 3
defaults: {network: lenet5, dataset: mnist-5k}
sweeps:
  - {framework: [pytorch, tensorflow, mxnet], batch_size: [64, 128]}
  - {framework: pytorch, batch_size: 64, learning_rate: 0.02}
```

A sweep combines every value of each list with every value of the others. No cell may be in two
sweeps. With the first line an editor checks the file, if the path of `config/schema.json` is right.

A default "in `config/config.yaml`" is what a study has that leaves the key out. What follows "else"
is for a configuration that nothing is merged with, as in a module (`docs/module.md`).
"""

FIRST = ("study", "title", "repeats", "defaults", "sweeps")
"""The keys of a study that come first, with the settings of cells that most studies set."""
GROUPS: Mapping[str, Callable[[Setting], bool]] = {
    "": lambda traits: traits.common,
    "The training": lambda traits: traits.decides is not None,
    "Inference and operations": lambda traits: TRAINING not in traits.of,
    "How a cell runs, and how it is measured": lambda traits: True,
}
"""The settings as the page groups them: each is in the first group whose test its traits pass.
Those of the group without a heading come first on the page."""
FOOT = """`make docs` generates this page from `workflow/scripts/touchstone/plan/model.py`.
"""


def schema() -> dict[str, Any]:
    """The JSON schema of a configuration; a sweep's setting is a value or a list of values."""
    cell = Cell.model_json_schema()["properties"]
    sweep = {
        key: {
            "description": value.pop("description"),
            "anyOf": [value, {"type": "array", "items": value, "minItems": 1}],
        }
        for key, value in Cell.model_json_schema()["properties"].items()
    }
    study = Study.model_json_schema()
    study["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    settings = {"type": "object", "additionalProperties": False}
    study["properties"]["defaults"].update(settings, properties=cell)
    study["properties"]["sweeps"]["items"] = {**settings, "properties": sweep}
    return study


def readme() -> str:
    """The page of every key: type, default, meaning."""
    usual = read(ROOT / "config/config.yaml")
    groups: dict[str, list[str]] = {heading: [] for heading in GROUPS}
    for name, traits in SETTINGS.items():
        groups[next(heading for heading, has in GROUPS.items() if has(traits))].append(name)
    defaults = usual.get("defaults") or {}
    others = [name for name in Study.model_fields if name not in FIRST]
    parts = [HEAD, "## What most studies set\n", _table(Study, usual, FIRST)]
    parts += ["In `defaults` and in `sweeps`:\n", _table(Cell, defaults, groups.pop(""))]
    parts += ["## More of a study\n", _table(Study, usual, others)]
    in_turn = _table(Interleave, usual.get("interleave") or {})
    parts += ["## Measuring in turn, in `interleave`\n", in_turn]
    parts += ["## Environments of your own, in `environments`\n", _table(Environment)]
    parts.append("## More settings, in `defaults` and in `sweeps`\n")
    for heading, names in groups.items():
        parts += [f"### {heading}\n", _table(Cell, defaults, names)]
    return "\n".join([*parts, FOOT])


def _table(
    model: type[BaseModel],
    usual: Mapping[str, Any] = MappingProxyType({}),
    names: Container[str] | None = None,
) -> str:
    """The keys of a model, or of these names; `usual` are those that the default study sets."""
    rows = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
    properties = model.model_json_schema()["properties"]
    for key, field in model.model_fields.items():
        if names is not None and key not in names:
            continue
        meaning = (field.description or "").replace("|", "\\|")
        words = type_in_words(properties[key])
        rows.append(f"| `{key}` | {words} | {_default(field, usual.get(key))} | {meaning} |")
    return "\n".join(rows) + "\n"


def type_in_words(value: dict[str, Any]) -> str:
    """A property of a JSON schema in words, its bounds included."""
    if "$ref" in value:
        return "mapping"
    if "anyOf" in value:
        return " or ".join(type_in_words(kind) for kind in value["anyOf"])
    if "enum" in value:
        return ", ".join(f"`{word}`" for word in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    if "type" not in value:
        return "anything"
    if value["type"] == "array":
        if "enum" in value["items"]:
            return f"list of {type_in_words(value['items'])}"
        noun, _, bound = type_in_words(value["items"]).partition(" ")
        return f"list of {noun}s {bound}".strip()
    bounds = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}
    limits = [f"{sign} {value[key]:g}" for key, sign in bounds.items() if key in value]
    names = {"object": "mapping", "null": "null"}
    name = names.get(value["type"], value["type"])
    return f"{name} {' and '.join(limits)}".strip()


def _default(field: FieldInfo, usual: Any) -> str:
    """The default of a key in words; `usual` is its value in the default study, None without."""
    if field.default is PydanticUndefined:
        return "required"
    own = f"`{json.dumps(field.default)}`"
    if usual is None or usual == field.default:
        return own
    return f"`{json.dumps(usual)}` in `config/config.yaml`, else {own}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(arguments: argparse.Namespace) -> None:
    (ROOT / "config/README.md").write_text(readme(), encoding="utf-8")
    text = json.dumps(schema(), indent=2, sort_keys=True) + "\n"
    (ROOT / "config/schema.json").write_text(text, encoding="utf-8")
