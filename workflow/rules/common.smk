# Plans the cells of the configuration, and has the functions that the rules call.
import inspect
import math
import os
import re
from collections import Counter
from functools import cache

import psutil
from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod

import networks
from analyse.disturbed import of_table
from datasets import catalogue
from in_env import digest as environment_digest
from measure import attempts, foregone, progress, trials
from plan import code, frameworks
from plan.deployment import tell_jobs
from plan.estimate import estimate
from plan.inference import is_inference
from plan.max_batch import probe_spec, searches
from plan.model import BEST
from plan.parity import REFERENCE, parity_spec, reduced
from plan.slurm import impossible, orphans, partitions, refusal
from plan.spec import data_folder, execution_of, spec_digests
from plan.study import (
    canonical,
    check_results,
    digest,
    is_operation,
    make_plan,
    paths,
)
from studies.dossier import DossierError, read_dossier

# The results folder that `snakemake compare` compares with: no part of the study, as are the
# bundles to merge, and how this machine is to be called in its own.
AGAINST = config.pop("against", None)
BUNDLES = paths(config.pop("bundles", None) or [])
MACHINE = config.pop("machine", None)
HOSTNAME = config.pop("hostname", False) is True
try:
    check_results(Path("results/config.resolved.yaml"))
    PLAN = make_plan(config, ROOT)
except ConfigError as fault:
    sys.exit(f"error: {fault}")

tell_jobs(
    ROOT,
    DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method,
    PLAN.study.mirror,
)
PRIORITIES = {run: len(PLAN.order) - place for place, run in enumerate(PLAN.order)}
TRAINED = [cell for cell in PLAN.cells.values() if not is_operation(cell)]
# Speed-up by replicas is a table and a figure of its own.
SCALING = any(cell.world_size > 1 for cell in TRAINED)
TRACED = [
    REFERENCE,
    *sorted(
        {cell.framework for cell in TRAINED} & set(frameworks.names()) - {REFERENCE}
    ),
]
# The cells whose runs leave their weights for others.
KEPT = set(PLAN.weights_from.values())
CERTIFICATES = (
    sorted({f"results/parity/{cell.network}.json" for cell in TRAINED})
    if PLAN.study.parity
    else []
)
SEARCHES = searches(PLAN)
MAX_BATCHES = [f"results/max_batch/{setting}.json" for setting in SEARCHES]
# A published study that is done again has a page of its own.
STUDY_PAGES = (
    [f"results/report/{PLAN.study.study}.html"]
    if (ROOT / f"config/claims/{PLAN.study.study}.yaml").exists()
    else []
)
BEFORE_RUNS = len(PLAN.order) + 1


wildcard_constraints:
    cell="[^/]+",
    setting="[^/]+",
    repeat=r"\d+",
    dataset="[a-z0-9-]+",
    format="[a-z]+",
    network="|".join(map(re.escape, networks.names())),
    framework="|".join(map(re.escape, frameworks.names())),


onstart:
    if left := orphans(Path.cwd()):
        sys.exit(f"error: {refusal(left)}")
    begun = list(workflow.dag.needrun_jobs())
    if workflow.executor_plugin.name == "slurm" and (known := partitions()):
        asked = [
            (job.rule.name, job.resources) for job in begun if not job.is_local
        ]
        if faults := impossible(asked, known):
            sys.exit(
                "error: Slurm cannot run this study:\n  " + "\n  ".join(faults)
            )
    if workflow.executor_plugin.name != "slurm":
        several = [
            job.wildcards.cell
            for job in begun
            if job.rule.name == "train" and nodes(job.wildcards) > 1
        ]
        if several:
            sys.exit(
                f"error: nodes: {several[0]} trains on several nodes, which Slurm has to give; use "
                "`snakemake --profile profiles/slurm` (docs/slurm.md), or leave `nodes` out"
            )
    if workflow.local_exec and (why := foregone.no_device("gpu")):
        without = sum(
            job.rule.name == "train" and gpus(job.wildcards) > 0 for job in begun
        )
        if without:
            print(
                f"warning: {without} runs want a GPU, and there is {why}",
                file=sys.stderr,
            )
    # Its limit of jobs a second would have Snakemake look at all jobs that wait once
    # a second for every job that has ended: beside a measured run.
    workflow.scheduler.job_rate_limiter = None
    needed = Counter(
        job.wildcards.cell for job in begun if job.rule.name == "train"
    )
    # How many runs this execution makes, for the line that says how long is left.
    progress.start(needed.total())
    if needed and workflow.is_main_process:
        # Whatever --cores says, a run has all of them unless its cell has threads.
        told = estimate(PLAN, needed, ROOT / "config/datasets", os.cpu_count() or 1)
        print(told.text, file=sys.stderr)


onsuccess:
    if line := progress.closing():
        print(line, file=sys.stderr)
    if workflow.is_main_process:
        if found := of_table(Path("results/tables/measurements.csv")):
            print(f"warning: {found.line}", file=sys.stderr)


def inspected(function):
    """A function with its signature, which Snakemake otherwise works out anew for every run, twice
    or thrice; it takes longer than the function."""
    function.__signature__ = inspect.signature(function)
    return function


def dataset_digest(wildcards):
    """The digest of what the catalogue says of a data set."""
    return digest(
        catalogue.load(wildcards.dataset, ROOT / "config/datasets").model_dump()
    )


@inspected
def needed(wildcards):
    """What a run reads: the manifest of its data in the format its framework reads, none for noise;
    where it predicts, the events of the run that trains its weights.

    Says so if nobody planned the run: a constraint with all names would cost a study of
    10,000 cells minutes.
    """
    if wildcards.cell not in PLAN.cells:
        raise WorkflowError(
            f"no cell of this study is named {wildcards.cell}; results/plan.tsv lists them"
        )
    if (wildcards.cell, int(wildcards.repeat)) not in PRIORITIES:
        raise WorkflowError(
            f"{wildcards.cell} has {PLAN.study.repeats} repeats in this study, and no repeat"
            f" {wildcards.repeat}"
        )
    source = PLAN.weights_from.get(wildcards.cell)
    trained = f"results/runs/{source}/rep{wildcards.repeat}/events.jsonl"
    return manifest_of(PLAN.cells[wildcards.cell]) + ([trained] if source else [])


def manifest_of(cell):
    """The manifest of a cell's data, or no file."""
    return [] if cell.input == "synthetic" else [f"{data_folder(cell)}/manifest.json"]


def runs(wildcards):
    """The events of all runs. Files by the ten thousand come from functions, since a list costs every
    start of Snakemake time and memory, whether its job is wanted or not.
    """
    return [
        f"results/runs/{cell}/rep{repeat}/events.jsonl" for cell, repeat in PLAN.order
    ]


def records(wildcards):
    """The records of all runs."""
    return [f"results/records/{cell}/rep{repeat}.json" for cell, repeat in PLAN.order]


def measured(wildcards):
    """Where all runs were made."""
    return [f"results/runs/{cell}/rep{repeat}/env.json" for cell, repeat in PLAN.order]


def manifests(wildcards):
    """The manifests of all data."""
    return sorted({path for cell in PLAN.cells.values() for path in manifest_of(cell)})


def weights(wildcards):
    """What a run is told of weights: whose to predict with, or to keep those that it trains.

    Weights that are there stay kept, so that a study that no longer predicts trains nothing anew.
    """
    if source := PLAN.weights_from.get(wildcards.cell):
        return f"--weights results/runs/{source}/rep{wildcards.repeat}"
    kept = f"results/runs/{wildcards.cell}/rep{wildcards.repeat}/weights.npz"
    return "--keep-weights" if wildcards.cell in KEPT or os.path.exists(kept) else ""


@inspected
def environment(wildcards):
    """The environment file of a cell's framework on its device."""
    cell = PLAN.cells[wildcards.cell]
    return environment_of(cell.framework, cell.device)


@cache
def environment_of(framework, device):
    """The environment file of a framework on a device."""
    return str(ROOT / frameworks.environment(framework, device))


@cache
def installed(path):
    """The name of an environment and the digest of what it installs."""
    return f"{Path(path).stem} {environment_digest(Path(path))}"


@cache
def train_code(framework, *own):
    """The digest of the code that makes a cell's numbers; `own`: that of cells of its kind."""
    adapter = f"frameworks/{framework}.py"
    return code.digest("frameworks/runtime.py", adapter, "measure/", *own)


@cache
def of_cell(name):
    """The settings of a cell, as JSON, and by repeat the digests of its specs; asked by all of its
    runs."""
    cell = PLAN.cells[name]
    settings = canonical(cell.model_dump(exclude_defaults=True))
    return settings, spec_digests(cell, PLAN.study.repeats, ROOT)


@inspected
def identity(wildcards):
    """All on which a run depends but its data, in one function: Snakemake calls it for every run.

    `settings` are the cell's, as JSON, which the job makes the spec from, and `weights` an option of
    its command; the rest is there to be noticed when it changes.
    """
    cell = PLAN.cells[wildcards.cell]
    settings, specs = of_cell(wildcards.cell)
    own = ["operations/"] if is_operation(cell) else []
    own += ["inference/"] if is_inference(cell) else []
    own += ["frameworks/_replicas.py"] if cell.world_size > 1 else []
    return {
        "settings": settings,
        "spec": specs[int(wildcards.repeat) - 1],
        "pins": installed(environment_of(cell.framework, cell.device)),
        "code": train_code(cell.framework, *own),
        "errors": attempts.errors(wildcards),
        "weights": weights(wildcards),
    }


def searched(wildcards):
    """A cell with the settings of a search for the largest batch."""
    if wildcards.setting not in SEARCHES:
        raise WorkflowError(
            f"no search of this study is named {wildcards.setting}; it needs `find_max_batch: true`"
        )
    return SEARCHES[wildcards.setting]


def searched_manifest(wildcards):
    """The manifest of the data of a search."""
    return manifest_of(searched(wildcards))


def searched_environment(wildcards):
    """The environment file of the framework of a search."""
    cell = searched(wildcards)
    return str(ROOT / frameworks.environment(cell.framework, cell.device))


def searched_code(wildcards):
    """The digest of the code that makes the result of a search."""
    adapter = f"frameworks/{searched(wildcards).framework}.py"
    return code.digest("frameworks/runtime.py", adapter, "measure/", "bisection.py")


@inspected
def minutes(wildcards):
    """What a cluster's scheduler is asked for: the run's own limit, and 10 min around it.

    The trials of the mode `best` have that limit too, each; it is asked for as many as there may be.
    """
    cell = PLAN.cells[wildcards.cell]
    runs = 1
    if cell.mode == BEST:
        modes = frameworks.modes(cell.framework)
        waits = frameworks.waits(cell.framework)
        runs += trials.most(execution_of(cell), modes, waits)
    return math.ceil(runs * cell.time_limit / 60) + 10


@inspected
def nodes(wildcards):
    """On how many nodes a run trains; inside of its job Snakemake needs one."""
    cell = PLAN.cells[wildcards.cell]
    able = frameworks.why_no_nodes(cell.framework) is None
    return cell.nodes if able and workflow.is_main_process else 1


@inspected
def gpus(wildcards):
    """How many GPUs a run needs, over all nodes; inside of the job of several it is not asked."""
    cell = PLAN.cells[wildcards.cell]
    if cell.device != "gpu":
        return 0
    if cell.nodes > 1 and not workflow.is_main_process:
        return None
    return cell.replicas * nodes(wildcards)


@inspected
def tasks(wildcards):
    """Slurm would give fewer nodes than tasks; with GPUs the plugin would make it tasks per GPU."""
    cell, count = PLAN.cells[wildcards.cell], nodes(wildcards)
    return count if count > 1 and cell.device == "cpu" else None


@inspected
def priority(wildcards):
    """Randomised blocks: each block has every cell once, in seeded random order."""
    return PRIORITIES[wildcards.cell, int(wildcards.repeat)]


def traced(wildcards):
    """The digest of the spec that a network is traced with in a framework."""
    return digest(
        parity_spec(wildcards.network, wildcards.framework, bool(wildcards.single))
    )


def traced_environment(wildcards):
    """The environment file of a framework on the CPU."""
    return str(ROOT / frameworks.environment(wildcards.framework, "cpu"))


def trace_mib(wildcards):
    """The memory that a trace takes at most, MiB."""
    parameters = reduced(wildcards.network)["parameter_count"]
    return 2048 + parameters * frameworks.trace_bytes(wildcards.framework) // 2**20


def trace_threads(wildcards):
    """So many that the traces at one time have the memory that they take."""
    at_once = psutil.virtual_memory().total // 2**20 // trace_mib(wildcards)
    return math.ceil((workflow.cores or 1) / max(at_once, 1))


def traced_code(wildcards):
    """The digest of what that environment installs, and of the code that runs in it."""
    path = Path(traced_environment(wildcards))
    adapter = f"frameworks/{wildcards.framework}.py"
    return f"{environment_digest(path)} {code.digest('frameworks/runtime.py', adapter)}"


def study_files(wildcards):
    """The claims and the published table of a study."""
    claims = ROOT / f"config/claims/{wildcards.study}.yaml"
    try:
        table = ROOT / "config/published" / read_dossier(claims).published
    except DossierError as fault:
        sys.exit(f"error: {fault}")
    return [str(claims), str(table)]
