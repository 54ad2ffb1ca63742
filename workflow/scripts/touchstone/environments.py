"""Virtual environments of `envs/<name>.yaml`, installed when they are first needed."""

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from touchstone import packages
from touchstone.errors import TouchstoneError
from touchstone.paths import ROOT, RUNNER
from touchstone.requirements import RequirementFaults, Requirements, resolved
from touchstone.schema.variables import DEPLOYMENT, ENVS, TERMINAL

IMPORT = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
    try:
        importlib.import_module(module.name)
    except Exception:
        pass  # what only another environment of the framework can import
"""
"""Imports the modules of a package, but those that lack something."""
UNAVAILABLE = 69
"""How an environment's script ends where the machine lacks something (sysexits.h)."""


class EnvironmentFault(TouchstoneError):
    """An environment cannot be installed; the message says which, why, and what to do."""


class Missing(EnvironmentFault):
    """This machine lacks what the installation needs: an interpreter or a compiler."""


def read(path: Path) -> tuple[str, Requirements]:
    """The Python version and the pip requirements of a conda environment file.

    Raises EnvironmentFault if the file asks for anything that pip cannot install, or that can be
    something else tomorrow.
    """
    try:
        dependencies = yaml.safe_load(path.read_text(encoding="utf-8"))["dependencies"]
        pip = [line for entry in dependencies if isinstance(entry, dict) for line in entry["pip"]]
        requirements = [str(line) for line in pip]
        names = [str(entry) for entry in dependencies if not isinstance(entry, dict)]
    except (ValueError, KeyError, TypeError, yaml.YAMLError):
        raise EnvironmentFault(
            f"{path}: no conda environment file; write `dependencies:` with python=X.Y, pip and a "
            "list `pip:`"
        ) from None
    version, others = "", []
    for entry in names:
        if match := re.fullmatch(r"python=+(\d+\.\d+)(\..*)?", entry):
            version = match[1]
        elif entry != "pip":
            others.append(entry)
    if others or not version:
        missing = f"the conda packages {', '.join(others)}" if others else "a line python=X.Y"
        raise EnvironmentFault(
            f"{path}: it has {missing}" if others else f"{path}: it lacks {missing}"
        )
    try:
        return version, resolved(requirements, path.parent)
    except RequirementFaults as faults:
        told = "\n  ".join(faults.faults)
        raise EnvironmentFault(f"{path}: pip's list:\n  {told}") from None


def digest(path: Path) -> str:
    """Twelve hex digits that name what the file and its script install, the content of files and
    folders that it refers to included; its comments and the hashes of its pins do not count."""
    version, requirements = read(path)
    parts = [version, *requirements.identity]
    if script(path).exists():
        parts.append(script(path).read_text(encoding="utf-8"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def usual(path: Path) -> Requirements:
    """What is installed where no index has the builds that `path` pins: those of the environment
    file that its line `# otherwise FILE` names, and the other packages of `path`. The requirements
    of `path` where it has no such line. Raises EnvironmentFault."""
    _, own = read(path)
    other = re.search(r"^# otherwise (\S+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    if other is None:
        return own
    _, registry = read(path.with_name(other[1]))
    names = {line.partition("==")[0] for line in registry.lines}
    added = [line for line in own.lines if line.partition("==")[0] not in names]
    return registry._replace(lines=registry.lines + added)


def script(path: Path) -> Path:
    """Where an environment file's script lies, if it has one: Snakemake's name for it."""
    return path.with_suffix(".post-deploy.sh")


def interpreter(version: str, path: Path) -> str:
    """A `pythonX.Y` of this machine that runs, or else one that uv gets; raises Missing."""
    # The command that pyenv puts on PATH works only where that version is chosen.
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    pythons = [shutil.which(f"python{version}")]
    pythons += sorted(map(str, pyenv.glob(f"versions/{version}.*/bin/python{version}")))
    probe = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    for python in filter(None, pythons):
        answer = subprocess.run([python, "-c", probe], capture_output=True, text=True)
        if answer.stdout.strip() == version:
            return python
    if of_uv := packages.interpreter(version, installed() / "pythons", _print_to_terminal):
        return of_uv
    raise Missing(
        f"{path}: no python{version} with venv on PATH, and uv could not get one; install it "
        f"(Debian, Ubuntu: apt install python{version}-venv; Fedora: dnf install python{version}; "
        f"or pyenv install {version}; or uv python install {version}, its folder on PATH), "
        "or run Snakemake with --use-conda"
    )


def make(path: Path, target: Path) -> None:
    """Install the virtual environment `target` of `path`; `frozen.txt` is its last file."""
    version, requirements = read(path)
    text = path.read_text(encoding="utf-8")
    only = re.search(r"^# only for (\S+)$", text, re.MULTILINE)
    if only and platform.machine() != only[1]:
        raise Missing(f"{path}: its packages exist for {only[1]} only, not {platform.machine()}")
    python = interpreter(version, path)
    what = f"{len(requirements.lines)} packages for Python {version}"
    if size := re.search(r"^# Installed: (.+)$", text, re.MULTILINE):
        what += f", {size[1]}"
    _print_to_terminal(f"installing the environment {path.stem}: {what} (once)")
    shutil.rmtree(target, ignore_errors=True)
    own, listed = target / "bin" / "python", target / "requirements.txt"
    try:
        bare = [python, "-m", "venv", "--without-pip", str(target)]
        subprocess.run(bare, check=True, stdout=sys.stderr)
        if packages.lacks_builds(own, requirements.lines) and usual(path) != requirements:
            requirements = usual(path)
            _print_to_terminal(
                f"{path.stem}: no index here has the build for CPUs; the registry's is installed"
            )
        _write_lists(requirements, listed)
        numbers = tuple(map(int, version.split(".")))
        packages.install(own, listed, numbers, _print_to_terminal, compiles=False)
        if script(path).exists():
            _run_script(path, target)
        frozen = packages.frozen(own, numbers)
    except subprocess.CalledProcessError as fault:
        raise EnvironmentFault(
            f"{path}: {' '.join(map(str, fault.cmd[:4]))} ... failed with exit status "
            f"{fault.returncode} (its own message is above); fix the cause and start again"
        ) from None
    (target / "frozen.txt").write_text(frozen, encoding="utf-8")


def _write_lists(requirements: Requirements, listed: Path) -> None:
    lines = list(requirements.lines)
    if requirements.constraints:
        constraints = listed.with_name("constraints.txt")
        constraints.write_text("".join(f"{line}\n" for line in requirements.constraints))
        lines.append(f"--constraint {constraints.name}")
    listed.write_text("".join(f"{line}\n" for line in lines))


def _print_to_terminal(line: str) -> None:
    """Print a line for the user, even where a rule redirects the job's own output to a log."""
    if descriptor := os.environ.get(TERMINAL):
        with open(int(descriptor), "w", closefd=False, encoding="utf-8") as terminal:
            print(line, file=terminal)
    else:
        print(line, file=sys.stderr, flush=True)


def _run_script(path: Path, target: Path) -> None:
    """Run the environment's script in it; raises Missing if that says 69, CalledProcessError."""
    command = ["sh", str(script(path))]
    ended = subprocess.run(command, env=activated(target), stdout=sys.stderr)
    if ended.returncode == UNAVAILABLE:
        raise Missing(f"{path}: this machine lacks what {script(path)} says above")
    ended.check_returncode()


def activated(target: Path) -> dict[str, str]:
    """The environment variables with which commands run in a virtual environment."""
    variables = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    path = f"{target / 'bin'}:{variables['PATH']}"
    return {**variables, "VIRTUAL_ENV": str(target), "PATH": path}


def installed() -> Path:
    """Where environments are installed: `TOUCHSTONE_ENVS`, or `.venvs` in the project's folder."""
    return Path(os.environ.get(ENVS, ROOT / ".venvs"))


def ensure(path: Path, folder: Path) -> Path:
    """The Python of the environment of `path` under `folder`, which is installed if necessary."""
    target = folder / f"{path.stem}-{digest(path)}"
    finished, python = target / "frozen.txt", target / "bin" / "python"
    if finished.exists():
        return python
    folder.mkdir(parents=True, exist_ok=True)
    with open(f"{target}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            make(path, target)
    return python


def import_once(python: Path, framework: str) -> None:
    """Import a framework in a new environment of ours, so that Python compiles its modules.

    To compile all modules of an environment takes longer than to install them. Without this, the
    first run would import more slowly than the next. A fault shows in the run itself.
    """
    target = python.parent.parent
    done = target / "imported"
    if done.exists() or not (target / "frozen.txt").exists():
        return
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    variables["PYTHONPATH"] = str(RUNNER.parent)
    command = [str(python), "-c", IMPORT, f"touchstone.runner.adapters.{framework}"]
    subprocess.run(command, env=variables, capture_output=True)
    with contextlib.suppress(OSError):  # others may own the environment
        done.touch()


def runner_python(path: Path) -> str:
    """The Python that runs a framework: conda's activated one, or the virtual environment's.

    `TOUCHSTONE_DEPLOYMENT` and `TOUCHSTONE_ENVS` say which, as `plan.deployment` sets them.
    Raises EnvironmentFault.
    """
    if os.environ[DEPLOYMENT] != "conda":
        return str(ensure(path, Path(os.environ[ENVS])))
    if python := shutil.which("python"):
        return python
    raise EnvironmentFault(f"{path}: conda activated no python")


def remember(path: Path, python: str) -> None:
    """Note which Python conda activated for the environment of `path`, for jobs that need several
    environments at the same time."""
    if os.environ[DEPLOYMENT] == "conda":
        note = _note(path)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{python}\n", encoding="utf-8")


def remembered_python(path: Path) -> str:
    """The Python of an environment that an earlier job of this folder ran in.

    Raises EnvironmentFault.
    """
    if os.environ[DEPLOYMENT] != "conda":
        return runner_python(path)
    note = _note(path)
    python = note.read_text(encoding="utf-8").strip() if note.exists() else ""
    if not os.access(python, os.X_OK):
        raise EnvironmentFault(
            f"{path}: where conda installed it is not known here; delete the first runs of its"
            " framework under results/runs and start again"
        )
    return python


def _note(path: Path) -> Path:
    return Path("results/.pythons") / f"{path.stem}-{digest(path)}"
