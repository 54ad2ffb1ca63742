# Makes our packages importable, and checks the configuration's files before Snakemake reads them:
# Snakemake prints a traceback if the default configuration is not UTF-8, and accepts a duplicate key
# without a message.
import gc
import sys
from pathlib import Path

ROOT = Path(workflow.basedir)
sys.path.insert(0, str(ROOT / "workflow/scripts"))

# Python's garbage collector would search millions of Snakemake's objects for cycles repeatedly, which
# takes a sixth of the time to plan a large study.
gc.set_threshold(100_000, 50, 100)

from touchstone.files import why_not_writable
from touchstone.plan.read import ConfigError, read

# Snakemake would end in a traceback.
if why := why_not_writable(Path.cwd()):
    sys.exit(f"error: {why}")
try:
    for path in ("config/config.yaml", *(workflow.overwrite_configfiles or ())):
        read(Path(path))
except ConfigError as fault:
    sys.exit(f"error: {fault}")
