"""A small study in every framework's own format, for all tests of the adapters."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

from touchstone.measure.supervisor import thread_variables
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.spec import make_spec

FRAMEWORKS = frameworks.names()


@pytest.fixture
def planted(root, tmp_path):
    """Makes a copy of our scripts in which a text of an adapter is replaced; it is there once."""

    def plant(framework, old, new):
        scripts = tmp_path / "scripts"
        shutil.copytree(root / "workflow/scripts", scripts)
        folder = scripts / "touchstone/runner/adapters" / framework
        texts = {path: path.read_text() for path in folder.glob("*.py")}
        assert sum(text.count(old) for text in texts.values()) == 1
        for path, text in texts.items():
            path.write_text(text.replace(old, new))
        return scripts

    return plant


@pytest.fixture(scope="session")
def study(tmp_path_factory, root, python_of):
    """A folder with the data in every format, and a runner of specs in it."""
    folder = tmp_path_factory.mktemp("study")
    source = folder / "results/downloads/mnist-5k"
    scripts = root / "workflow/scripts"
    download = [scripts / "cli.py", "download", "mnist-5k", "--output", source]
    subprocess.run([sys.executable, *map(str, download)], check=True)
    for framework in FRAMEWORKS:
        kind = frameworks.record_format(framework)
        convert = [scripts / "cli.py", "convert", "mnist-5k", "--source", source]
        convert += ["--format", kind, "--output", folder / "results/data/mnist-5k" / kind]
        subprocess.run([sys.executable, *map(str, convert)], check=True)

    def launch(
        framework, output, traced=None, cwd=folder, repeat=1, data=None,
        code=scripts, **settings,
    ):  # fmt: skip
        """Run or, for so many steps, trace a cell with those settings: how it ended, its output.

        `data` replaces what the spec says of the data; `code` is the folder of the scripts.
        """
        settings = {"batch_size": 64, "learning_rate": 0.01, "weight_decay": 0.001, **settings}
        settings.setdefault("mode", frameworks.modes(framework)[0])
        cell = Cell(framework=framework, network="lenet5", dataset="mnist-5k", **settings)
        stem = hashlib.sha256(repr((cell, repeat, traced, data, code)).encode()).hexdigest()[:12]
        told = make_spec(cell, repeat, root)
        told["data"].update(data or {})
        if traced:
            one = {"precision": "fp32", "optimizer": told["optimizer"], "steps": traced}
            told["traces"] = {"one": one}
        spec = folder / f"{stem}.json"
        spec.write_text(json.dumps(told))
        path = folder / f"{stem}{output}"
        command = [python_of(framework), str(code / "run_in_framework.py"), str(spec), str(path)]
        # Tests share the cores with other tests, beside which spinning threads would take minutes.
        threads = thread_variables(len(os.sched_getaffinity(0)), "passive")
        variables = {**os.environ, **threads}
        ended = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True)
        return ended, path

    def run(framework, output, *told, **settings):
        """The path of what a run wrote that went well; see `launch`."""
        ended, path = launch(framework, output, *told, **settings)
        assert ended.returncode == 0, ended.stderr[-3000:]
        return path

    @cache
    def trace(framework, steps=10, **settings):
        arrays = np.load(run(framework, ".npz", steps, **settings))
        return {name.split("/")[1]: arrays[name] for name in arrays.files}

    run.launch, run.trace = launch, trace
    run.folder = folder
    return run
