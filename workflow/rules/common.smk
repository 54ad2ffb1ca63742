# Plans the cells of the configuration. `touchstone/workflow` has what the rules need to know of them.
import re

from snakemake.settings.types import DeploymentMethod

from touchstone import driver, networks
from touchstone.datasets import catalogue
from touchstone.measure import attempts
from touchstone.plan import code_digest, frameworks
from touchstone.plan.deployment import deployment_fault, set_job_variables
from touchstone.plan.environment import conda_faults
from touchstone.plan.parity import REFERENCE
from touchstone.plan.read import canonical, digest
from touchstone.plan.setting import OPERATION
from touchstone.plan.study import check_results, gate_options, make_plan, paths
from touchstone.workflow import interruption
from touchstone.workflow.context import Context, inspected
from touchstone.workflow.inputs import JobInputs
from touchstone.workflow.params import JobParams
from touchstone.workflow.resources import JobResources

# The workflow that uses this one as a module keeps its configuration as it is.
config = dict(config)
# These keys are no part of the study: the results folder that `snakemake compare` compares with, the
# slowdown that it tolerates, the bundles to merge, and the name of this machine in its own bundle.
GATE = config.pop("against", None), config.pop("tolerance", None)
BUNDLES = paths(config.pop("bundles", None) or [])
MACHINE = config.pop("machine", None)
HOSTNAME = config.pop("hostname", False) is True
try:
    check_results(Path("results/config.resolved.yaml"))
    PLAN = make_plan(config, ROOT)
    GATE_OPTIONS = gate_options(*GATE)
except ConfigError as fault:
    sys.exit(f"error: {fault}")

DEPLOYMENT = workflow.deployment_settings.deployment_method
if not IS_MODULE and (fault := deployment_fault(map(str, DEPLOYMENT))):
    sys.exit(f"error: {fault}")
CONDA = DeploymentMethod.CONDA in DEPLOYMENT
if CONDA and (faults := conda_faults(PLAN.study.environments)):
    sys.exit("error: " + "\n  ".join(faults))
set_job_variables(ROOT, CONDA, PLAN.study.mirror)
if workflow.is_main_process:
    interruption.prepare()
    driver.lead()
    started.note(sys.argv[1:])
    start.check_lock(sys.argv)
    start.check_profiles(sys.argv)
STUDY = Context(PLAN, ROOT, workflow.cores, workflow.is_main_process)
INPUTS = JobInputs(STUDY)
PARAMS = JobParams(STUDY, INPUTS)
RESOURCES = JobResources(STUDY)
BEFORE_RUNS = len(PLAN.order) + 1
# Of a job that measures. The Snakemake that submitted a cluster's job retries it, not the one within the
# job.
RETRIES = attempts.ATTEMPTS - 1 if workflow.is_main_process else 0


wildcard_constraints:
    cell="[^/]+",
    setting="[^/]+",
    group="[^/]+",
    repeat=r"\d+",
    dataset="[a-z0-9-]+",
    format="[a-z]+",
    network="|".join(map(re.escape, networks.names())),
    stack="|".join(map(re.escape, {*frameworks.names(), *STUDY.compared})),


onstart:
    start.begin(workflow, STUDY, RESOURCES)


onsuccess:
    start.succeed(workflow, STUDY)


onerror:
    interruption.finish()
