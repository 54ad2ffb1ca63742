# Makes our packages importable, and reads the configuration's files once by ourselves: Snakemake's
# message on a default configuration that is not UTF-8 is a traceback, and it takes a key that stands
# twice without a word.
import gc
import sys
from pathlib import Path

ROOT = Path(workflow.basedir)
sys.path.insert(0, str(ROOT / "workflow/scripts"))

# Python would look for cycles among millions of objects of Snakemake's that all stay, again and again:
# a sixth of the time in which a large study is planned.
gc.set_threshold(100_000, 50, 100)

from touchstone.plan.read import ConfigError, read

try:
    for path in ("config/config.yaml", *(workflow.overwrite_configfiles or ())):
        read(Path(path))
except ConfigError as fault:
    sys.exit(f"error: {fault}")
