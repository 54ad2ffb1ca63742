"""The scale of a study: the same cells, each as short as its `scales` say."""

from __future__ import annotations

from typing import Any


def scaled(config: dict[str, Any], faults: list[str]) -> dict[str, Any]:
    """The configuration as its `scale` changes it; what it may not change goes to `faults`.

    A scale replaces single values by single values, so the scaled study has as many cells as
    the whole one, in the same order: each replaces the one at its place.
    """
    name, scales = config.get("scale", "paper"), config.get("scales", {})
    if name == "paper" or not isinstance(scales, dict):
        return config
    if not isinstance(name, str):
        faults.append(f"scale: {name!r} is no name; write one of {', '.join(['paper', *scales])}")
        return config
    if name not in scales:
        faults.append(
            f"scale: the study has no {name!r}; describe it under scales, or take 'paper'"
        )
        return config
    scale = scales[name]
    sweeps = config.get("sweeps")
    if not isinstance(scale, dict) or not isinstance(sweeps, list):
        return config  # reported as a fault of the study
    changes = scale.get("sweeps") or [{} for _ in sweeps]
    if not isinstance(changes, list):
        return config
    if len(changes) != len(sweeps):
        faults.append(
            f"scales.{name}.sweeps: {len(changes)} mappings for {len(sweeps)} sweeps; "
            "write one for each, {} where nothing changes"
        )
        return config
    result = dict(config)
    if scale.get("repeats") is not None:
        result["repeats"] = scale["repeats"]
    defaults = config.get("defaults") or {}
    result["defaults"] = _changed(defaults, scale.get("defaults"), f"{name}.defaults", faults)
    result["sweeps"] = [
        _changed(sweep, change, f"{name}.sweeps[{index}]", faults)
        for index, (sweep, change) in enumerate(zip(sweeps, changes, strict=True))
    ]
    return result


def _changed(settings: Any, change: Any, where: str, faults: list[str]) -> Any:
    if not isinstance(settings, dict) or not isinstance(change, dict):
        return settings
    for key, value in change.items():
        if isinstance(value, list) or isinstance(settings.get(key), list):
            faults.append(
                f"scales.{where}.{key}: a list of values; a scale keeps every cell, so it replaces "
                "a single value by a single one"
            )
    return {**settings, **change}
