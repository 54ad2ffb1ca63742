"""Files of YAML with their faults; names and digests of cells."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from touchstone.errors import TouchstoneError
from touchstone.plan import frameworks
from touchstone.plan.model import SETTINGS, Cell, settings
from touchstone.plan.setting import INFERENCE
from touchstone.reading import parse_json
from touchstone.schema.spec import PINNED, TUNED
from touchstone.yaml_file import parsed

NAMED = settings(lambda traits: traits.in_names is not None)
"""The settings that a cell's name spells out, in this order, but not `tuned` and `pinned`."""
DEFAULTS = {key: field.default for key, field in Cell.model_fields.items()}
"""What the settings are where nobody says otherwise."""
OWN = ("study", "title", "sweeps")
"""What a study does not take from the default study."""
OMITTED_FROM_NAMES = (("style", TUNED), ("environment", PINNED), ("program", None))
"""Settings of `NAMED` with the values that no name spells out."""


class ConfigError(TouchstoneError, ValueError):
    """A configuration is refused; the message lists every fault, its key, cause and remedy."""


def canonical(value: Any) -> str:
    """JSON with sorted keys: equal for equal values, whatever their order in a file."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(value: Any) -> str:
    """Twelve hex digits of the canonical JSON of `value`."""
    return digest_of_text(canonical(value))


def digest_of_text(text: str) -> str:
    """Twelve hex digits of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def name_of(cell: Cell) -> str:
    """The cell's name: what `NAMED` lists, and a short hash of whatever else is no default."""
    values = vars(cell)
    named = [key for key in NAMED if cell.kind in SETTINGS[key].of]
    named = [key for key in named if (key, values[key]) not in OMITTED_FROM_NAMES]
    slug = "-".join(f"{SETTINGS[key].in_names}{values[key]}" for key in named)
    if cell.kind == INFERENCE:
        slug += "-inference"
    usual = {**DEFAULTS, "mode": frameworks.modes(cell.framework, cell.style)[0]}
    rest = {k: v for k, v in values.items() if k not in named and v != usual[k]}
    rest.pop("workload", None)
    if rest.get("trained_batch_size") == cell.batch_size:
        del rest["trained_batch_size"]
    return f"{slug}-{digest(rest)[:8]}" if rest else slug


def read(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; raises ConfigError that names the file, cause and remedy."""
    try:
        text = path.read_text(encoding="utf-8")
        values, repeated = (parse_json(text), []) if path.suffix == ".json" else parsed(text)
    except UnicodeDecodeError as fault:
        raise ConfigError(f"{path}: not UTF-8 at byte {fault.start}; save it as UTF-8") from None
    except OSError as fault:
        raise ConfigError(f"{path}: {fault.strerror}; check its name and permissions") from None
    except yaml.YAMLError as fault:
        cause = " ".join(str(fault).split())
        raise ConfigError(f"{path}: not valid YAML: {cause}; mend that line") from None
    except ValueError as fault:
        raise ConfigError(f"{path}: not valid JSON: {fault}; mend that place") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: holds no mapping; write `key: value` lines at its top level")
    if repeated:
        cause = f"more than once in one mapping: {'; '.join(repeated)}"
        raise ConfigError(f"{path}: {cause}; keep one each")
    return values


def read_own(paths: Iterable[Path]) -> dict[str, Any]:
    """The top-level keys of the files of a study of the user's own.

    Raises:
        ConfigError: a file cannot be read, or none of them has one of `OWN`: the default study's
            configurations would run under the user's name.
    """
    files = [Path(path) for path in paths]
    own = {key: value for path in files for key, value in read(path).items()}
    if files and (missing := [key for key in OWN if key not in own]):
        names = " and ".join(path.as_posix() for path in files)
        raise ConfigError(
            f"{names}: without {', '.join(missing)}; a study of your own names {', '.join(OWN)}"
            " (config/README.md)"
        )
    return own


def inherited_text(default: dict[str, Any], own: dict[str, Any]) -> str:
    """What a study takes from the default study, but for `defaults`; empty where that is nothing.

    Args:
        default: the default study's file, `own` the user's, or nothing.
    """
    left = {key: value for key, value in default.items() if key not in (*own, "defaults")}
    if not own or not left:
        return ""
    said = ", ".join(f"`{key}: {_flow(value)}`" for key, value in left.items())
    return f"your study does not say, so the default study's holds: {said}"


def _flow(value: Any) -> str:
    """A value as YAML on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=1000).splitlines()[0]


def read_on_default(root: Path, path: Path | None) -> dict[str, Any]:
    """A study's file on top of the default study, as the workflow reads it; without a file the
    default study. Raises ConfigError."""
    config = read(root / "config/config.yaml")
    if path:
        read_own([path])
        # The one that Snakemake's --configfile calls; it takes a while to import.
        from snakemake.utils import update_config

        update_config(config, read(path))
    return config
