# Plans the cells of the configuration, and has the functions that the rules call.
import math
import os
import re
from collections import Counter
from snakemake.settings.types import DeploymentMethod

import networks
from datasets import catalogue
from in_env import digest as environment_digest
from measure import progress
from plan import code, frameworks
from plan.deployment import tell_jobs
from plan.estimate import estimate
from plan.model import BEST
from plan.parity import REFERENCE, parity_spec
from plan.slurm import orphans, refusal
from plan.spec import data_folder, make_spec
from plan.study import canonical, check_results, digest, make_plan
from studies.dossier import DossierError, read_dossier

# The results folder that `snakemake compare` compares with: no part of the study.
AGAINST = config.pop("against", None)
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
RUNS = [f"results/runs/{cell}/rep{repeat}/events.jsonl" for cell, repeat in PLAN.order]
RECORDS = [f"results/records/{cell}/rep{repeat}.json" for cell, repeat in PLAN.order]
PRIORITIES = {run: len(PLAN.order) - place for place, run in enumerate(PLAN.order)}
TRACED = [
    REFERENCE,
    *sorted({cell.framework for cell in PLAN.cells.values()} - {REFERENCE}),
]
CERTIFICATES = (
    sorted({f"results/parity/{cell.network}.json" for cell in PLAN.cells.values()})
    if PLAN.study.parity
    else []
)
# A published study that is done again has a page of its own.
STUDY_PAGES = (
    [f"results/report/{PLAN.study.study}.html"]
    if (ROOT / f"config/claims/{PLAN.study.study}.yaml").exists()
    else []
)
BEFORE_RUNS = len(PLAN.order) + 1


wildcard_constraints:
    cell="|".join(map(re.escape, PLAN.cells)),
    repeat=r"\d+",
    dataset="[a-z0-9-]+",
    format="[a-z]+",
    network="|".join(map(re.escape, networks.names())),
    framework="|".join(map(re.escape, frameworks.names())),


onstart:
    if left := orphans(Path.cwd()):
        sys.exit(f"error: {refusal(left)}")
    needed = Counter(
        job.wildcards.cell
        for job in workflow.dag.needrun_jobs()
        if job.rule.name == "train"
    )
    # How many runs this execution makes, for the line that says how long is left.
    progress.start(needed.total())
    if needed and workflow.is_main_process:
        cores = workflow.cores or os.cpu_count() or 1
        told = estimate(PLAN, needed, ROOT / "config/datasets", cores)
        print(told.text, file=sys.stderr)


def dataset_digest(wildcards):
    """The digest of what the catalogue says of a data set."""
    return digest(
        catalogue.load(wildcards.dataset, ROOT / "config/datasets").model_dump()
    )


def manifest(wildcards):
    """The manifest of the cell's data in the format its framework reads; none for noise."""
    cell = PLAN.cells[wildcards.cell]
    return [] if cell.input == "synthetic" else f"{data_folder(cell)}/manifest.json"


def settings(wildcards):
    """The cell's settings as JSON, which the job makes the spec from."""
    return canonical(PLAN.cells[wildcards.cell].model_dump())


def spec_digest(wildcards):
    """The digest of the whole spec, the network's graph included."""
    return digest(make_spec(PLAN.cells[wildcards.cell], int(wildcards.repeat), ROOT))


def environment(wildcards):
    """The environment file of a cell's framework on its device."""
    cell = PLAN.cells[wildcards.cell]
    return str(ROOT / frameworks.environment(cell.framework, cell.device))


def pins(wildcards):
    """The name of the cell's environment and the digest of what it installs."""
    path = Path(environment(wildcards))
    return f"{path.stem} {environment_digest(path)}"


def train_code(wildcards):
    """The digest of the code that makes the cell's numbers."""
    adapter = f"frameworks/{PLAN.cells[wildcards.cell].framework}.py"
    return code.digest("frameworks/runtime.py", adapter, "measure/")


def minutes(wildcards):
    """What a cluster's scheduler is asked for: the run's own limit, and 10 min around it.

    The trials of the mode `best` have that limit too, each.
    """
    cell = PLAN.cells[wildcards.cell]
    trials = len(frameworks.modes(cell.framework)) if cell.mode == BEST else 0
    return math.ceil((1 + trials) * cell.time_limit / 60) + 10


def gpus(wildcards):
    """How many GPUs a run needs."""
    return int(PLAN.cells[wildcards.cell].device == "gpu")


def priority(wildcards):
    """Randomised blocks: each block has every cell once, in seeded random order."""
    return PRIORITIES[wildcards.cell, int(wildcards.repeat)]


def traced(wildcards):
    """The digest of the spec that a network is traced with in a framework."""
    return digest(parity_spec(wildcards.network, wildcards.framework))


def traced_environment(wildcards):
    """The environment file of a framework on the CPU."""
    return str(ROOT / frameworks.environment(wildcards.framework, "cpu"))


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
