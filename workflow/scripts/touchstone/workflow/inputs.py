"""The files that jobs read."""

import os
import sys

from snakemake.exceptions import WorkflowError

from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.spec import data_folder
from touchstone.published.dossier import DossierError, claim_files, read_dossier
from touchstone.published.table import PublishedError, read_table
from touchstone.workflow.context import Context, Wildcards, inspected


class JobInputs:
    """The files that the jobs of a study read.

    Files by the ten thousand come from functions: a list would cost every start of Snakemake time
    and memory, whether its job is wanted or not.
    """

    def __init__(self, context: Context) -> None:
        self.context, self.plan = context, context.plan

    @inspected
    def run(self, wildcards: Wildcards) -> list[str]:
        """What a run reads: the manifest of its data in the format its framework reads, none for
        noise; where it predicts, the events of the run that trains its weights.

        Raises WorkflowError if nobody planned the run: a constraint with all names would cost a
        study of 10,000 cells minutes.
        """
        name, repeat = wildcards.cell, wildcards.repeat
        if name not in self.plan.cells:
            raise WorkflowError(
                f"no cell of this study is named {name}; results/plan.tsv lists them"
            )
        if (name, int(repeat)) not in self.context.priorities:
            count = self.plan.study.repeats
            raise WorkflowError(f"{name} has {count} repeats in this study, and no repeat {repeat}")
        source = self.plan.weights_from.get(name)
        trained = f"results/runs/{source}/rep{repeat}/events.jsonl"
        return _manifest(self.plan.cells[name]) + ([trained] if source else [])

    def runs(self, wildcards: Wildcards) -> list[str]:
        """The events of all runs."""
        return [f"results/runs/{cell}/rep{repeat}/events.jsonl" for cell, repeat in self.plan.order]

    def records(self, wildcards: Wildcards) -> list[str]:
        """The records of all runs."""
        return [f"results/records/{cell}/rep{repeat}.json" for cell, repeat in self.plan.order]

    def environments(self, wildcards: Wildcards) -> list[str]:
        """Where all runs were measured."""
        return [f"results/runs/{cell}/rep{repeat}/env.json" for cell, repeat in self.plan.order]

    def manifests(self, wildcards: Wildcards) -> list[str]:
        """The manifests of all data."""
        return sorted({path for cell in self.plan.cells.values() for path in _manifest(cell)})

    def not_there_to_pack(self, wildcards: Wildcards) -> list[str]:
        """What a bundle needs and is not there: what is there is packed as it is, so that no run is
        made again."""
        wanted = (
            *self.records(wildcards),
            *self.environments(wildcards),
            *self.manifests(wildcards),
            *self.context.certificates,
        )
        return [path for path in wanted if not os.path.exists(path)]

    def searched(self, wildcards: Wildcards) -> Cell:
        """A cell with the settings of a search for the largest batch."""
        if wildcards.setting not in self.context.searches:
            raise WorkflowError(
                f"no search of this study is named {wildcards.setting};"
                " it needs `find_max_batch: true`"
            )
        return self.context.searches[wildcards.setting]

    def search(self, wildcards: Wildcards) -> list[str]:
        """The manifest of the data of a search."""
        return _manifest(self.searched(wildcards))

    def turns(self, wildcards: Wildcards) -> list[str]:
        """The events of the first runs of the cells of a group: only what ran well takes turns."""
        if wildcards.group not in self.context.turns:
            raise WorkflowError(
                f"no comparison of this study that is measured in turn is named {wildcards.group}"
            )
        names = self.context.turns[wildcards.group]
        return [f"results/runs/{name}/rep1/events.jsonl" for name in names]

    def profiled(self, wildcards: Wildcards) -> list[str]:
        """What a profile reads: the data, and the events of the cell's first run."""
        if wildcards.cell not in self.plan.cells:
            raise WorkflowError(f"no cell of this study is named {wildcards.cell}")
        cell = self.plan.cells[wildcards.cell]
        return [f"results/runs/{wildcards.cell}/rep1/events.jsonl", *_manifest(cell)]

    def study_files(self, wildcards: Wildcards) -> list[str]:
        """The claims and the published table of a study, which are read before the first run."""
        claims = self.context.root / f"config/claims/{wildcards.study}.yaml"
        try:
            table = self.context.root / "config/published" / read_dossier(claims).published
            read_table(table)
        except (DossierError, PublishedError) as fault:
            sys.exit(f"error: {fault}")
        return [str(claims), *map(str, claim_files(claims)), str(table)]


def _manifest(cell: Cell) -> list[str]:
    """The manifest of a cell's data, or no file."""
    reads = cell.reads and not frameworks.unsupported(cell)
    return [f"{data_folder(cell)}/manifest.json"] if reads else []
