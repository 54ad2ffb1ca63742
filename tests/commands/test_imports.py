"""What a command imports before it does anything: each import costs its start."""

import subprocess
import sys

from touchstone.cli import names
from touchstone.paths import CLI, SCRIPTS

MAKES_TABLES_WITH_PANDAS = {"judge"}


def test_help_and_the_commands_import_nothing_slow_that_they_do_not_need():
    modules = [
        "touchstone.commands." + name.replace("-", "_")
        for name in names()
        if name not in MAKES_TABLES_WITH_PANDAS
    ]
    slow = "{'pandas', 'scipy.optimize', 'scipy.stats'}"
    code = f"import sys, {', '.join(modules)}\nassert not {slow} & {{*sys.modules}}"
    subprocess.run([sys.executable, "-c", code], cwd=SCRIPTS, check=True)
    done = subprocess.run(
        [sys.executable, "-X", "importtime", CLI, "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "argparse" in done.stderr and "pandas" not in done.stderr
