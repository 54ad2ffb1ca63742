"""What jobs ask of the machine, or of a cluster's scheduler."""

import math

import psutil

from touchstone.measure import trials
from touchstone.plan import frameworks
from touchstone.plan.names import BEST, Stack
from touchstone.plan.parity import reduced
from touchstone.plan.spec import execution_of
from touchstone.workflow.context import Context, Wildcards, inspected


class JobResources:
    """The resources of the jobs of a study."""

    def __init__(self, context: Context) -> None:
        self.context = context

    @inspected
    def minutes(self, wildcards: Wildcards) -> int:
        """The run's own time limit, and 10 min around it.

        It is asked for twice as many trials of the mode `best` as there may be too, for their turns
        may cost as much as so many runs of their own.
        """
        cell, runs = self.context.cell(wildcards), 1
        if cell.mode == BEST:
            modes = frameworks.modes(cell.framework, cell.style, cell.device)
            waits = frameworks.supports_wait_policy(cell.framework)
            runs += trials.COST * trials.most_trials(execution_of(cell), modes, waits)
        return math.ceil(runs * cell.time_limit / 60) + 10

    def turn_minutes(self, wildcards: Wildcards) -> int:
        """The time limit of a group that is measured in turn: no set begins after its
        `max_seconds`, and the last one has as much again, and 10 min."""
        options = self.context.plan.study.interleave
        return math.ceil(2 * (options.max_seconds if options else 0) / 60) + 10

    def turn_gpus(self, wildcards: Wildcards) -> int:
        """How many GPUs a group that is measured in turn needs."""
        names = self.context.turns[wildcards.group]
        return int(any(self.context.plan.cells[name].device == "gpu" for name in names))

    @inspected
    def nodes(self, wildcards: Wildcards) -> int:
        """On how many nodes a run trains; inside of its job Snakemake needs one."""
        cell = self.context.cell(wildcards)
        able = frameworks.why_no_nodes(cell.framework) is None
        return cell.nodes if able and self.context.is_main else 1

    @inspected
    def gpus(self, wildcards: Wildcards) -> int | None:
        """How many GPUs a run needs, over all nodes; None inside of the job of several nodes."""
        cell = self.context.cell(wildcards)
        if cell.device != "gpu":
            return 0
        if cell.nodes > 1 and not self.context.is_main:
            return None
        return cell.replicas * self.nodes(wildcards)

    @inspected
    def tasks(self, wildcards: Wildcards) -> int | None:
        """Slurm would give fewer nodes than tasks; with GPUs the plugin would make it tasks per
        GPU."""
        cell, count = self.context.cell(wildcards), self.nodes(wildcards)
        return count if count > 1 and cell.device == "cpu" else None

    @inspected
    def priority(self, wildcards: Wildcards) -> int:
        """Randomised blocks: each block has every cell once, in seeded random order."""
        return self.context.priorities[wildcards.cell, int(wildcards.repeat)]

    def parity_mib(self, wildcards: Wildcards) -> int:
        """The memory that parity steps take at most, MiB."""
        framework = Stack.of(wildcards.stack).framework
        taken = reduced(wildcards.network).parameter_count * frameworks.parity_bytes(framework)
        return 2048 + taken // 2**20

    def parity_threads(self, wildcards: Wildcards) -> int:
        """So many that those at one time have the memory that they take."""
        at_once = psutil.virtual_memory().total // 2**20 // self.parity_mib(wildcards)
        return math.ceil(self.context.cores / max(at_once, 1))
