"""What results depend on besides files: settings, environments and code."""

from functools import cache
from pathlib import Path
from typing import Any

from touchstone.datasets import catalogue
from touchstone.environments import digest as environment_digest
from touchstone.measure import attempts
from touchstone.plan import code_digest, frameworks
from touchstone.plan.environment import file_of
from touchstone.plan.max_batch import probe_spec
from touchstone.plan.model import Cell
from touchstone.plan.names import BEST, Stack
from touchstone.plan.parity import parity_spec
from touchstone.plan.read import canonical, digest
from touchstone.plan.setting import INFERENCE, OPERATION, PROGRAM, TRAINING, Kind
from touchstone.plan.spec import spec_digests
from touchstone.schema.spec import TUNED
from touchstone.workflow.context import Context, Wildcards, inspected
from touchstone.workflow.inputs import JobInputs

SUPERVISOR = (
    *("measure/environment.py", "measure/nodes.py", "measure/skip.py"),
    "measure/sensors/",
)
"""The code outside the framework's environment that makes a run's numbers, with all it imports."""
CHOICE = ("runner/slices.py", "results/trials.py")
"""What else decides the numbers of a run with the mode `best`: it imports `measure/trials.py`."""


class JobParams:
    """The parameters of the jobs of a study: a change of one makes their results stale."""

    def __init__(self, context: Context, inputs: JobInputs) -> None:
        self.context, self.inputs, self.plan = context, inputs, context.plan
        self.of_cell = cache(self._of_cell)
        self.environment_of = cache(self._environment_of)
        self.installed_of = cache(self._installed_of)

    def dataset(self, wildcards: Wildcards) -> str:
        """The digest of what the catalogue says of a data set."""
        folder = self.context.root / "config/datasets"
        return digest(catalogue.load(wildcards.dataset, folder).model_dump())

    def conversion(self, wildcards: Wildcards) -> str:
        """The digest of the code that writes a data set in a record format."""
        folder = self.context.root / "config/datasets"
        decoder = type(catalogue.load(wildcards.dataset, folder).decoder)
        return code_digest.digest(
            "commands/convert.py",
            "datasets/formats/__init__.py",
            f"datasets/formats/{wildcards.format}.py",
            f"datasets/decoders/{decoder.__module__.rpartition('.')[2]}.py",
        )

    @inspected
    def environment(self, wildcards: Wildcards) -> str:
        """The environment file that conda activates for a cell."""
        return self.file_of(self.context.cell(wildcards))

    def file_of(self, cell: Cell) -> str:
        """The environment file of a cell; where its interpreter exists already, or nothing can run
        it, that of the rules which need no framework."""
        return self.environment_of(cell.environment, cell.framework, cell.device, cell.style)

    def _environment_of(self, name: str, framework: str, device: str, style: str) -> str:
        path = file_of(name, framework, device, style, self.context.places)
        return str(path if path and path.exists() else self.context.root / "envs/base.yaml")

    def _installed_of(self, name: str, framework: str, device: str, style: str) -> str:
        """The name of an environment and the digest of what it installs, or has."""
        if name in self.context.places:
            return f"{name} {self.context.places[name].digest()}"
        path = self.environment_of(name, framework, device, style)
        return f"{Path(path).stem} {environment_digest(Path(path))}"

    def installed_for(self, cell: Cell) -> str:
        """The same of a cell."""
        return self.installed_of(cell.environment, cell.framework, cell.device, cell.style)

    def options_of(self, *names: str) -> list[str]:
        """The options of a command that say where these environments are."""
        envs = self.context.places
        return [word for name in sorted({*names} & {*envs}) for word in envs[name].options(name)]

    def weights(self, wildcards: Wildcards) -> str:
        """The option of a run on weights: whose to predict with, or to keep its own."""
        name, repeat = wildcards.cell, wildcards.repeat
        if source := self.plan.weights_from.get(name):
            return f"--weights results/runs/{source}/rep{repeat}"
        return "--keep-weights" if self.context.keeps_weights(name, repeat) else ""

    def _of_cell(self, name: str) -> tuple[str, list[str]]:
        """The settings of a cell, as JSON, and by repeat the digests of its specs; asked by all of
        its runs."""
        cell = self.plan.cells[name]
        settings = canonical(cell.model_dump(exclude_defaults=True))
        program = self.plan.program(cell)
        return settings, spec_digests(cell, self.plan.study.repeats, self.context.root, program)

    def program_of(self, cell: Cell) -> list[str]:
        """The option of a command that has the program of a cell, if it runs one."""
        program = self.plan.program(cell)
        return ["--program", program.model_dump_json()] if program else []

    @inspected
    def run(self, wildcards: Wildcards) -> dict[str, Any]:
        """All on which a run depends but its data, in one function: Snakemake calls it for every
        run.

        `settings` are the cell's, as JSON, from which the job makes the spec, and `weights` an
        option of its command; the rest is there so that a change is noticed.
        """
        cell = self.context.cell(wildcards)
        settings, specs = self.of_cell(wildcards.cell)
        return {
            "settings": settings,
            "spec": specs[int(wildcards.repeat) - 1],
            "pins": self.installed_for(cell),
            "environment": [*self.options_of(cell.environment), *self.program_of(cell)],
            "code": code_of_runs(cell.framework, kind_of(cell), cell.style, cell.mode == BEST),
            "errors": attempts.errors(wildcards),
            "weights": self.weights(wildcards),
        }

    def turns(self, wildcards: Wildcards) -> dict[str, Any]:
        """All on which the turns of a group depend but its first runs."""
        self.inputs.turns(wildcards)  # raises for an unknown group
        names, options = self.context.turns[wildcards.group], self.plan.study.interleave
        assert options is not None
        cells = [self.plan.cells[name] for name in names]
        runs = [
            [self.of_cell(name)[1][0],
             self.installed_for(cell),
             code_of_turns(cell.framework, kind_of(cell), cell.style)]
            for name, cell in zip(names, cells, strict=True)
        ]  # fmt: skip
        return {
            "cells": names,
            "options": options.model_dump_json(),
            "identity": digest(runs),
            "errors": attempts.faults(f"results/interleaved/{wildcards.group}"),
            "environments": self.options_of(*(cell.environment for cell in cells)),
        }

    def profile(self, wildcards: Wildcards) -> dict[str, Any]:
        """All on which a profile depends but its data and the first run."""
        self.inputs.profiled(wildcards)  # raises for an unknown cell
        cell = self.context.cell(wildcards)
        return {
            "spec": self.of_cell(wildcards.cell)[1][0],
            "pins": self.installed_for(cell),
            "environment": self.options_of(cell.environment),
            "code": code_digest.digest(*runner(cell.framework, "profile", cell.style)),
        }

    def search(self, wildcards: Wildcards) -> dict[str, Any]:
        """All on which a search for the largest batch depends but its data; as `run`."""
        cell = self.inputs.searched(wildcards)
        return {
            "settings": canonical(cell.model_dump(exclude_defaults=True)),
            "spec": digest(probe_spec(cell, 1, None, self.context.root, self.plan.program(cell))),
            "pins": self.installed_for(cell),
            "environment": [*self.options_of(cell.environment), *self.program_of(cell)],
            "code": code_digest.digest(
                *runner(cell.framework, kind_of(cell), cell.style), *SUPERVISOR, "plan/bisection.py"
            ),
            "errors": attempts.faults(f"results/max_batch/{wildcards.setting}"),
        }

    def search_environment(self, wildcards: Wildcards) -> str:
        """The environment file that conda activates for a search."""
        return self.file_of(self.inputs.searched(wildcards))

    def parity_environment(self, wildcards: Wildcards) -> str:
        """The environment file that conda activates for parity steps, which are for the CPU."""
        stack = Stack.of(wildcards.stack)
        return self.environment_of(stack.environment, stack.framework, "cpu", stack.style)

    def parity(self, wildcards: Wildcards) -> dict[str, Any]:
        """What the parity steps of a network in a stack depend on."""
        network, single = wildcards.network, wildcards.single
        stack = Stack.of(wildcards.stack)
        framework, environment, style = stack
        return {
            "framework": framework,
            "environment": self.options_of(environment),
            "style": style,
            "spec": digest(parity_spec(network, framework, bool(single), style)),
            "single": "--single" if single else "",
            "pins": self.installed_of(environment, framework, "cpu", style),
            "code": code_digest.digest(*runner(framework, "parity", style)),
        }


MODULES: dict[Kind, str] = {
    TRAINING: "train", INFERENCE: "infer", OPERATION: "operate", PROGRAM: "program",
}  # fmt: skip


def kind_of(cell: Cell) -> str:
    """The module of the runner that a cell's runs begin with."""
    return MODULES[cell.kind]


def runner(framework: str, kind: str, style: str = TUNED) -> list[str]:
    """The code that a run of that kind begins with in a framework's environment."""
    if kind == "program":
        return ["runner/main.py", "runner/program.py", "../steps/touchstone_steps.py"]
    modules = frameworks.adapter_files(framework, style)
    files = ["main.py", f"{kind}.py", *(f"adapters/{framework}/{name}.py" for name in modules)]
    # Found by their names, so that no import shows them.
    named = {"operate": ["operations/"], "infer": ["runner/tasks/"]}
    training = ["runner/tasks/", "optimizers/"]
    return [*(f"runner/{file}" for file in files), *named.get(kind, training)]


@cache
def code_of_runs(framework: str, kind: str, style: str = TUNED, best: bool = False) -> str:
    """The digest of the code that makes the numbers of runs of that kind."""
    chooses = CHOICE if best else ()
    return code_digest.digest(*runner(framework, kind, style), *SUPERVISOR, *chooses)


@cache
def code_of_turns(framework: str, kind: str, style: str = TUNED) -> str:
    """The digest of the code that makes the numbers of cells that take turns."""
    return code_digest.digest(
        *runner(framework, kind, style), "runner/slices.py", "measure/interleaving.py"
    )
