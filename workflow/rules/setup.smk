# Makes our packages importable, and reads the default configuration once before Snakemake
# does, whose own message on a file that is not UTF-8 is a traceback.
import sys
from pathlib import Path

ROOT = Path(workflow.basedir)
sys.path.insert(0, str(ROOT / "workflow/scripts"))

from plan.study import ConfigError, read

try:
    read(Path("config/config.yaml"))
except ConfigError as fault:
    sys.exit(f"error: {fault}")
