"""A copy of the project that a test may edit, with its own results."""

import atexit
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import yaml

from fixtures.warm import Warm
from touchstone.environments import installed

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = installed()
"""Where the frameworks' environments lie or are made."""
SNAKEMAKE = "import runpy; runpy.run_module('snakemake', run_name='__main__', alter_sys=True)"
IN_TURN = {
    "sets": 3, "rounds": 3, "slice_seconds": 0.05, "lead_seconds": 0.01, "max_seconds": 1,
}  # fmt: skip
"""The least that measures in turn; no set waits for rounds in which no other test runs."""
OPERATION = {
    "network": "sparse_gemm", "dataset": "64x8x64x90", "operation_seconds": 0.05,
    "warmup_seconds": 0.0, "warmup_steps": 1, "sampling_interval": 0.05,
}  # fmt: skip
"""A cell of SciPy, which starts sooner than any framework that trains."""
WARM = Warm()
atexit.register(WARM.close)


class Project:
    """The workflow in `folder`, run by the Snakemake beside this Python."""

    def __init__(self, folder: Path, environments: Path, config: dict) -> None:
        self.folder = folder
        for name in ("config", "envs", "profiles", "workflow"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        # The lock of measured runs is among temporary files: no other study is waited for.
        temporary = folder.parent / "temporary"
        temporary.mkdir(exist_ok=True)
        own = {"TOUCHSTONE_ENVS": str(environments), "TMPDIR": str(temporary)}
        self.variables = {**os.environ, **own}
        self.configure(config)

    def configure(self, config: dict, sort_keys: bool = False) -> None:
        """Make `config` the default study.

        Unless it says otherwise, its idle threads sleep, and a disturbance ends no run: tests share
        the cores, and threads that spin beside other tests would take minutes. Nor are failed runs
        an exit status.
        """
        usual = {"wait_policy": "passive", "time_limit_factor": None}
        config = {"strict": False, **config, "defaults": {**usual, **config.get("defaults", {})}}
        text = yaml.safe_dump(config, sort_keys=sort_keys)
        (self.folder / "config/config.yaml").write_text(text)

    def options(self) -> list[str]:
        """What every start of Snakemake gets besides its arguments."""
        return []

    def start(self, *arguments: str) -> subprocess.Popen:
        """Start Snakemake; its output is read from `.stdout`."""
        return subprocess.Popen(
            [sys.executable, "-m", "snakemake", *arguments, *self.options()],
            cwd=self.folder,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # In the background of a script SIGINT is ignored, which a child would inherit.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def snakemake(self, *arguments: str) -> tuple[int, str]:
        """Run Snakemake to its end, in a fork of a process that has imported it: exit status,
        output."""
        ended = WARM.run(
            "snakemake", sys.executable, ["-c", SNAKEMAKE, *arguments, *self.options()],
            cwd=str(self.folder), env=self.variables, early={"PATH": os.environ["PATH"]},
        )  # fmt: skip
        return ended.returncode, ended.stdout + ended.stderr

    def run(self, *arguments: str) -> str:
        """Run Snakemake, which must succeed."""
        status, output = self.snakemake(*arguments)
        assert status == 0, output[-5000:]
        return output

    def make(self, command: str, *more: str) -> str:
        """Do what the Makefile does for `make run CONFIG=... RERUN=...`; its output."""
        make, run, *given = shlex.split(command)
        assert (make, run) == ("make", "run")
        settings = dict(word.split("=", 1) for word in given)
        said = self.command("repeat", settings["RERUN"], settings["CONFIG"])
        return said + self.run("--configfile", settings["CONFIG"], *more)

    def command(self, name: str, *arguments: str) -> str:
        """Run a command of ours, which must succeed; what it prints."""
        done = subprocess.run(
            [sys.executable, "workflow/scripts/cli.py", name, *arguments],
            cwd=self.folder, env=self.variables, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout + done.stderr

    def locked(self) -> bool:
        """Whether an execution holds the folder, or has left its lock."""
        return any((self.folder / ".snakemake/locks").glob("*.lock"))

    def jobs(self) -> dict[str, int]:
        """The jobs that a dry run would make, by rule, `all` left out."""
        output = self.run("--dry-run")
        table = re.search(r"^job +count\n-+ +-+\n(.*?)^total", output, re.M | re.S)
        if not table:
            assert "Nothing to be done" in output, output
            return {}
        counts = dict(line.split() for line in table[1].splitlines() if line.strip())
        return {rule: int(count) for rule, count in counts.items() if rule != "all"}

    def flag(self, runs: str, *flags: str) -> dict[Path, bytes]:
        """Give the records of these runs, CELL/repN with stars, such flags; what was there."""
        kept = {}
        for path in self.folder.glob(f"results/records/{runs}.json"):
            kept[path], times = path.read_bytes(), path.stat()
            path.write_text(json.dumps({**json.loads(kept[path]), "flags": list(flags)}))
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert kept
        return kept

    def change(self, module: str, **values: object) -> None:
        """Give constants of one of our modules in the copy other values."""
        self.add(module, "".join(f"{name} = {value!r}\n" for name, value in values.items()))

    def add(self, module: str, lines: str) -> None:
        """Write lines at the end of one of our modules in the copy."""
        with open(self.folder / f"workflow/scripts/touchstone/{module}.py", "a") as file:
            file.write(lines)

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace one text in one file, which must be there."""
        file = self.folder / path
        text = file.read_text()
        assert old in text, f"{old!r} is not in {path}"
        file.write_text(text.replace(old, new, 1))
