"""Read a configuration, find all its faults at once, and list its cells."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from touchstone.plan import frameworks, inference, programs
from touchstone.plan.checks import Known, fault_of, like
from touchstone.plan.devices import with_devices
from touchstone.plan.effect import without_effect
from touchstone.plan.model import RESULTS_FORMAT, Cell, Study, cell_of, checker
from touchstone.plan.parts import Environment, Interleave, Program, Scale
from touchstone.plan.read import ConfigError, name_of, read
from touchstone.plan.scale import keeps, scaled
from touchstone.reading import share_of

MOST_CELLS = 100_000
"""Of a sweep: Snakemake itself needs 0.12 MiB for each."""
MOST_RUNS = 1_000_000
PARTS: dict[str, type[BaseModel]] = {
    "scales": Scale,
    "interleave": Interleave,
    "environments": Environment,
    "programs": Program,
}
"""The models of the parts of a study."""


@dataclass(frozen=True)
class Plan:
    """A study with its cells by name, in the order of its sweeps.

    `study.repeats` are those of the study's scale, `whole_repeats` those of the whole study.
    `weights_from` has by inference cell the training cell whose weights it predicts with.
    """

    study: Study
    cells: dict[str, Cell]
    whole_repeats: int
    weights_from: dict[str, str] = field(default_factory=dict)

    @cached_property
    def order(self) -> list[tuple[str, int]]:
        """The runs (cell, repeat) in randomised blocks: each block has every cell once.

        The order within block r depends on the cells, their seed and r only.
        """
        runs = []
        for repeat in range(1, self.study.repeats + 1):
            block = sorted(self.cells)
            seed = min(cell.seed for cell in self.cells.values())
            random.Random(f"{seed} {repeat}").shuffle(block)
            runs += [(name, repeat) for name in block]
        return runs

    def program(self, cell: Cell) -> Program | None:
        """The program that a cell runs, if it runs one."""
        return self.study.programs.get(cell.program or "")

    @property
    def unsupported_text(self) -> str:
        """A line for each reason why some of its cells cannot be run anywhere; empty if all can."""
        counts = Counter(filter(None, map(frameworks.unsupported, self.cells.values())))
        return "\n".join(f"unsupported cells: {n}, as {why}" for why, n in counts.items())

    def resolved(self) -> dict[str, Any]:
        """The configuration with nothing left out, as plain values."""
        return {**self.study.model_dump(), "repeats": self.whole_repeats}


def make_plan(config: dict[str, Any], root: Path) -> Plan:
    """The plan of a configuration; `root` is the project's folder.

    Raises ConfigError with every fault found, one a line.
    """
    faults: list[str] = []
    try:
        config = json.loads(json.dumps(config))
    except (TypeError, ValueError, RecursionError) as fault:
        raise ConfigError(
            f"the configuration holds more than text, numbers, lists and mappings ({fault}); "
            "the command check-config names the line"
        ) from None
    config = with_devices(config)
    study = _study(config, faults)
    config = scaled(config, faults)
    whole = study.repeats if study else 0
    defaults = config.get("defaults") or {}
    sweeps = config.get("sweeps")
    cells: dict[str, Cell] = {}
    origin: dict[str, int] = {}
    every: list[Cell] = []
    if isinstance(defaults, dict) and isinstance(sweeps, list):
        own_environments = study.environments if study else {}
        own_programs = study.programs if study else {}
        rules = Known(root, own_environments, own_programs)
        faults += rules.own_faults
        wrong = {
            name: programs.faults(name, program, own_environments)
            for name, program in own_programs.items()
        }
        faults += [fault for problems in wrong.values() for fault in problems]
        usual = _settings("defaults", defaults, rules, faults, lists=False)
        for index, sweep in enumerate(sweeps):
            if not isinstance(sweep, dict):
                faults.append(f"sweeps[{index}]: {sweep!r} is no mapping; write `setting: value`")
                continue
            before = len(faults)
            own = _settings(f"sweeps[{index}]", sweep, rules, faults, lists=True)
            settings = {**usual, **own}
            needed = ("framework", "network", "dataset") if "program" not in settings else ()
            for key in needed:
                if key not in sweep and key not in defaults:
                    faults.append(f"sweeps[{index}].{key}: missing; name one: {rules.listed(key)}")
            if len(faults) > before or any(not values for values in settings.values()):
                continue
            if any(wrong.get(name) for name in settings.get("program", ())):
                continue
            where = f"sweeps[{index}]"
            if (size := prod(map(len, settings.values()))) > MOST_CELLS:
                most = f"more than {MOST_CELLS:,}"
                faults.append(f"{where}: {size:,} cells, {most}; split the study")
                continue
            combinations = itertools.product(*settings.values())
            named = (dict(zip(settings, values, strict=True)) for values in combinations)
            planned = [
                cell_of(programs.filled(values, own_programs, own_environments)) for values in named
            ]
            faults += [f"{where}.{fault}" for fault in without_effect(sweep, planned)]
            faults += [
                f"{where}.{fault}" for fault in programs.unused(sweep, planned, own_programs)
            ]
            every += planned
            for draft in planned:
                for cell in rules.resolved(draft):
                    cell_faults = rules.faults(cell)
                    faults += [f"{where}.{f}" for f in cell_faults if f"{where}.{f}" not in faults]
                    if cell_faults:
                        continue
                    name = name_of(cell)
                    if name in cells:
                        faults.append(
                            f"{where}: repeats the cell {name} of sweeps[{origin[name]}]; "
                            "remove one"
                        )
                    cells[name] = cell
                    origin[name] = index
    if len(cells) * whole > MOST_RUNS:
        runs = f"{len(cells):,} cells x {whole:,} repeats"
        faults.append(f"repeats: {runs} are more than {MOST_RUNS:,} runs; split the study")
    faults += [f"defaults.{fault}" for fault in without_effect(defaults, every)]
    weights_from, without = inference.sources(cells)
    for name in [] if faults else without:  # a cell that has a fault may be the one
        faults.append(
            f"sweeps[{origin[name]}].weights: no training cell of this study leaves those of "
            f"{name}; add a sweep that trains with the same settings, say its batch size with "
            "`trained_batch_size`, or predict with `weights: initial`"
        )
    if faults or study is None:
        count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
        raise ConfigError(f"the configuration has {count}:\n" + "\n".join(f"  {f}" for f in faults))
    study = study.model_copy(update={"repeats": config.get("repeats", whole)})
    return Plan(study, cells, whole, weights_from)


def whole_cells(plan: Plan, config: dict[str, Any], root: Path) -> dict[str, Cell]:
    """By name of a planned cell, what it is in the whole study.

    A scale keeps the order of the cells. `plan` is of the configuration `config`.
    """
    whole = make_plan(keeps(config), root)
    return dict(zip(plan.cells, whole.cells.values(), strict=True))


def paths(given: Any) -> list[str]:
    """The paths of a list, or of a text with commas between them, as a command line gives it."""
    parts = given if isinstance(given, list) else str(given).split(",")
    return [str(part).strip() for part in parts if str(part).strip()]


def gate_options(against: Any, tolerance: Any) -> list[str]:
    """The old results folder, empty if none is given, and the options of `compare`, as a command
    line of Snakemake gives them.

    Raises:
        ConfigError: there is no such folder, or the tolerance is no share.
    """
    faults = []
    if against is not None and not Path(str(against)).is_dir():
        faults.append(f"against: {against} is no folder; give the old results folder")
    if tolerance is not None:
        try:
            share_of(str(tolerance))
        except ValueError as fault:
            faults.append(f"tolerance: {fault}")
    if faults:
        raise ConfigError("\n".join(faults))
    options = [] if tolerance is None else ["--tolerance", str(tolerance)]
    return ["" if against is None else str(against), *options]


def check_results(path: Path) -> None:
    """Refuse a results folder that another version of the format made.

    `path` is its `config.resolved.yaml`. Raises ConfigError, also where that file is damaged.
    """
    if not path.exists():
        return
    try:
        version = read(path).get("results_format")
    except ConfigError as fault:
        raise ConfigError(
            f"{fault}; as it was made from your study, delete it and start again: runs are kept"
        ) from None
    if version != RESULTS_FORMAT:
        raise ConfigError(
            f"{path}: results_format is {version!r}, this version writes {RESULTS_FORMAT}; "
            f"move the folder {path.parent}/ away, or use the version that made it"
        )


def _study(config: dict[str, Any], faults: list[str]) -> Study | None:
    try:
        return Study(**config)
    except ValidationError as invalid:
        for error in invalid.errors():
            key = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error["loc"])[1:]
            model = PARTS.get(str(error["loc"][0]), Study)
            faults.append(fault_of(key, error, model))
    return None


def _settings(
    where: str, given: dict[str, Any], rules: Known, faults: list[str], lists: bool
) -> dict[str, list[Any]]:
    """Every setting of `given` as the list of its values, each checked by itself."""
    settings: dict[str, list[Any]] = {}
    for key, value in given.items():
        if key not in Cell.model_fields:
            if key in Study.model_fields:
                remedy = "it is a key of the study: write it at the top level of the file"
                faults.append(f"{where}.{key}: no setting of a cell; {remedy}")
            else:
                faults.append(f"{where}.{key}: unknown setting{like(key, Cell.model_fields)}")
            continue
        many = lists and isinstance(value, list)
        if many and key == "milestones":  # whose one value is a list itself
            many = any(isinstance(item, list) for item in value)
        if many and not value:
            faults.append(f"{where}.{key}: an empty list; give it a value or remove the key")
        settings[key] = []
        for index, item in enumerate(value if many else [value]):
            place = f"{where}.{key}[{index}]" if many else f"{where}.{key}"
            try:
                checked = checker(key).validate_python(item)
            except ValidationError as invalid:
                faults.append(fault_of(place, invalid.errors()[0], Cell))
            else:
                if fault := rules.unknown(key, checked, "program" in given):
                    faults.append(f"{place}: {fault}")
                settings[key].append(checked)
    return settings
