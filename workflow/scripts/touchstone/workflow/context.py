"""The study that this execution of Snakemake runs."""

import inspect
import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from touchstone.analysis.again import Kept
from touchstone.datasets import catalogue, data_report
from touchstone.plan import frameworks
from touchstone.plan.environment import Place
from touchstone.plan.max_batch import searches
from touchstone.plan.model import Cell
from touchstone.plan.names import Stack
from touchstone.plan.parity import REFERENCE
from touchstone.plan.setting import OF_A_NETWORK, TRAINING
from touchstone.plan.study import Plan
from touchstone.results.turn_groups import groups

Function = TypeVar("Function", bound=Callable[..., Any])
Wildcards = Any
"""Snakemake's wildcards of a job, its attributes strings."""


class Context:
    """A planned study: `cores` are those that Snakemake has, `is_main` is false within a job."""

    def __init__(self, plan: Plan, root: Path, cores: int | None, is_main: bool) -> None:
        self.plan, self.root, self.is_main = plan, root, is_main
        self.cores = cores or 1
        self.priorities = {run: len(plan.order) - place for place, run in enumerate(plan.order)}
        self.searches = searches(plan)
        self.turns = groups(plan)

    @cached_property
    def places(self) -> dict[str, Place]:
        """By name, where the study's own environments are."""
        return {name: Place.of(env) for name, env in self.plan.study.environments.items()}

    @cached_property
    def trained(self) -> list[Cell]:
        """The cells that train or predict with a network."""
        return [cell for cell in self.plan.cells.values() if cell.kind in OF_A_NETWORK]

    @cached_property
    def scaling(self) -> bool:
        """Whether the study has cells of several replicas, which have a table of their own."""
        return any(cell.world_size > 1 for cell in self.trained)

    @cached_property
    def evaluates(self) -> bool:
        """Whether a cell is evaluated while it trains, which has a figure."""
        cells = self.plan.cells.values()
        return any(cell.kind == TRAINING and cell.evaluate_every for cell in cells)

    @cached_property
    def compared(self) -> list[str]:
        """The frameworks in their environments and styles (`Stack`) whose computation is compared,
        the reference first."""
        others = {
            str(Stack(cell.framework, cell.environment, cell.style))
            for cell in self.trained
            if cell.framework in frameworks.names()
        }
        return [REFERENCE, *sorted(others - {REFERENCE})]

    @cached_property
    def single(self) -> bool:
        """Whether one of these has single precision only."""
        names = {Stack.of(stack).framework for stack in self.compared}
        return any(map(frameworks.single_precision_only, names))

    @cached_property
    def certificates(self) -> list[str]:
        """The certificates that belong to the study."""
        if not self.plan.study.parity:
            return []
        return sorted({f"results/parity/{cell.network}.json" for cell in self.trained})

    @cached_property
    def data_reports(self) -> list[str]:
        """The data reports of the data sets, as far as `describe-folder` has written them."""
        names = sorted({cell.dataset for cell in self.plan.cells.values()})
        folder = self.root / "config/datasets"
        paths = [data_report.path_of(catalogue.path_of(name, folder)) for name in names]
        return [str(path) for path in paths if path.is_file()]

    @cached_property
    def max_batches(self) -> list[str]:
        """The results of searches for the largest batch."""
        return [f"results/max_batch/{setting}.json" for setting in self.searches]

    @cached_property
    def interleaved(self) -> list[str]:
        """The results of the groups of cells that are measured in turn."""
        return [f"results/interleaved/{group}.json" for group in self.turns]

    @cached_property
    def shared(self) -> list[str]:
        """What the study reads in folders that it shares with other studies."""
        return [*self.certificates, *self.interleaved, *self.max_batches]

    @cached_property
    def profiles(self) -> list[str]:
        """The profiles of the cells that train."""
        if not self.plan.study.profile:
            return []
        cells = self.plan.cells.items()
        names = [name for name, cell in cells if cell.kind == TRAINING]
        return [f"results/profiles/{name}.json" for name in names]

    @cached_property
    def kept(self) -> Kept:
        """The configuration that the study's report keeps."""
        return Kept.of(self.plan.resolved())

    @cached_property
    def report(self) -> str:
        """The folder of the study's report, which other studies leave as it is."""
        return f"results/report/{self.plan.study.study}"

    @cached_property
    def pages(self) -> list[str]:
        """The page of a published study that is done again."""
        name = self.plan.study.study
        claims = self.root / f"config/claims/{name}.yaml"
        return [f"{self.report}/study.html"] if claims.exists() else []

    @cached_property
    def weights_kept_by(self) -> set[str]:
        """The cells whose runs leave their weights for others."""
        return set(self.plan.weights_from.values())

    def cell(self, wildcards: Wildcards) -> Cell:
        """The cell of a job's wildcards."""
        return self.plan.cells[wildcards.cell]

    def keeps_weights(self, cell: str, repeat: str) -> bool:
        """Whether a run keeps its weights: where another cell wants them, or where they are there,
        so that a study that no longer predicts trains nothing again."""
        kept = f"results/runs/{cell}/rep{repeat}/weights.npz"
        return cell in self.weights_kept_by or os.path.exists(kept)


def inspected(function: Function) -> Function:
    """A function with its signature, which Snakemake otherwise works out again for every run, twice
    or three times; that takes longer than the function."""
    function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return function
