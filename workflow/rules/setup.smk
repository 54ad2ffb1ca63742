# Finds the project's own files, from which other workflows may use it as a module (docs/module.md).
# Makes our packages importable, and checks the configuration's files before Snakemake reads them:
# Snakemake prints a traceback if the default configuration is not UTF-8, and accepts a duplicate key
# without a message.
import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

RULES = workflow.current_basedir
if RULES.is_local:
    ROOT = Path(RULES.get_path_or_uri(secret_free=True)).parents[1]
else:
    # Snakemake keeps a bare clone of the repository that a module was taken from. Our jobs need the
    # files of its commit.
    clone = RULES.hosted_repo.repo
    ROOT = Path(".snakemake/touchstone", clone.commit(RULES.ref).hexsha).absolute()
    if not ROOT.exists():
        ROOT.parent.mkdir(parents=True, exist_ok=True)
        unfinished = tempfile.mkdtemp(dir=ROOT.parent)
        git = ["git", "-C", unfinished]
        clone_it = ["clone", "--quiet", "--no-checkout", clone.git_dir, "."]
        subprocess.run([*git, *clone_it], check=True)
        subprocess.run([*git, "checkout", "--quiet", ROOT.name], check=True)
        os.rename(unfinished, ROOT)
    os.environ.setdefault("TOUCHSTONE_ENVS", str(Path(".venvs").absolute()))
# A module gets its configuration from the workflow that uses it.
IS_MODULE = not workflow.modifier.is_main_snakefile()
sys.path.insert(0, str(ROOT / "workflow/scripts"))

# Python's garbage collector would search millions of Snakemake's objects for cycles repeatedly, which
# takes a sixth of the time to plan a large study.
gc.set_threshold(100_000, 50, 100)

from touchstone import started
from touchstone.files import why_not_writable
from touchstone.paths import brace_fault, default_study
from touchstone.plan.read import ConfigError, inherited_text, read, read_own
from touchstone.workflow import start, terminal

# Before Snakemake reads the configuration, of which it prints a line. `STUDY` is planned later.
terminal.quieten(
    workflow,
    lambda: start.up_to_date(workflow, STUDY),
    (lambda: start.preview(workflow, STUDY)) if started.by_touchstone() else None,
)

# Snakemake would end in a traceback.
if why := brace_fault(ROOT) or why_not_writable(Path.cwd()):
    sys.exit(f"error: {why}")
DEFAULT_STUDY = default_study(ROOT)
try:
    if IS_MODULE:
        for path in workflow.overwrite_configfiles or ():
            read(Path(path))
    else:
        own = read_own(workflow.overwrite_configfiles or ())
        given = (
            {**own, **(workflow.config_settings.overwrite_config or {})} if own else {}
        )
        inherited = inherited_text(read(DEFAULT_STUDY), given)
        if inherited and workflow.is_main_process:
            print(f"note: {inherited}", file=sys.stderr)
except ConfigError as fault:
    sys.exit(f"error: {fault}")
