"""The scale of a study: its cells, each as short as its `scales` say, or some of them."""

from __future__ import annotations

from typing import Any


def scaled(config: dict[str, Any], faults: list[str]) -> dict[str, Any]:
    """The configuration as its `scale` changes it; what it may not change goes to `faults`.

    A scale replaces single values by single values, and lists by parts of them. So the scaled
    study has the cells that it `keeps` of the whole one, in the same order: each replaces the one
    at its place.
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


def keeps(config: dict[str, Any]) -> dict[str, Any]:
    """The whole study, with only those cells that its scale keeps."""
    scale = (config.get("scales") or {}).get(config.get("scale", "paper")) or {}
    changes = scale.get("sweeps") or [{} for _ in config["sweeps"]]
    sweeps = [
        {**sweep, **{key: value for key, value in change.items() if isinstance(value, list)}}
        for sweep, change in zip(config["sweeps"], changes, strict=True)
    ]
    return {**config, "sweeps": sweeps, "scale": "paper"}


def _changed(settings: Any, change: Any, where: str, faults: list[str]) -> Any:
    if not isinstance(settings, dict) or not isinstance(change, dict):
        return settings
    for key, value in change.items():
        there = settings.get(key)
        if isinstance(value, list) and isinstance(there, list):
            faults += [
                f"scales.{where}.{key}: {v!r} is not among the values of the sweep; a scale keeps"
                " some of its cells, and adds none"
                for v in value
                if v not in there
            ]
        elif isinstance(value, list) or isinstance(there, list):
            faults.append(
                f"scales.{where}.{key}: a list of values for a single one, or the reverse; a scale "
                "replaces a single value by a single one, and a list by a part of it"
            )
    return {**settings, **change}
