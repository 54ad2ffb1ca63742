"""Containers as environments: the engine that runs them here, their images, their Python.

The Python of an image is reached by a launcher, a script that takes Python's arguments. It becomes
the engine's own command (`exec`), which starts `start_in_container.py` in the container, which
becomes the image's Python. Nothing but the standard library is imported: each start of a run pays
for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from touchstone.errors import TouchstoneError
from touchstone.files import replacement
from touchstone.paths import ROOT, SCRIPTS
from touchstone.schema.variables import IMAGE, INTO_CONTAINER, LIFELINE

LAUNCHERS = Path("results/.containers")
"""The folder of the launchers, which are written by the jobs that use them."""
HEADER = 2**16
"""Bytes at the beginning of an image's file, in which its builder writes an id or the time."""
FIRST = 3
"""The first descriptor after those of the standard streams; podman passes on those from there."""


class NoContainer(TouchstoneError):
    """A container cannot be used here; the message has the cause and the remedy."""


class Container(NamedTuple):
    """An image and what runs it.

    engine: `apptainer` or `podman`, the command line that `program` has
    program: path of the engine
    image: what the engine gets: a path, or an image's id
    identity: names this build of the image
    """

    engine: str
    program: str
    image: str
    identity: str

    def python(self, device: str) -> tuple[str, ...]:
        """The command that takes the arguments of the image's Python, for `cpu` or `gpu`."""
        start = str(SCRIPTS / "python_in_container.py")
        return (sys.executable, "-E", "-s", start, *self, device)

    def launcher(self, name: str, device: str) -> str:
        """The path of a script that does so, which is written; `name` is the environment's."""
        path = LAUNCHERS.absolute() / f"{name}-{device}"
        with replacement(path) as script:
            script.write_text(f'#!/bin/sh\nexec {shlex.join(self.python(device))} "$@"\n')
            script.chmod(0o755)
        return str(path)


def is_launcher(python: str) -> bool:
    """Whether a run's Python is the launcher of a container."""
    return Path(python).parent.name == LAUNCHERS.name


def find(image: str, folder: Path) -> Container:
    """The container of an image, with the first engine that is on PATH.

    Args:
        image: a name as `nvcr.io/nvidia/pytorch:26.01-py3`, or for Apptainer the path of an
            image's file or folder.
        folder: where Apptainer's files of images that are given by name are expected.

    Raises:
        NoContainer: no engine that can be watched, or the image is not on this machine.
    """
    for name, engine in ENGINES.items():
        if program := shutil.which(name):
            return engine(program, image, folder)
    raise NoContainer(
        f"{image} needs a container engine, and neither apptainer nor podman is on PATH; install "
        "one of them"
    )


def _apptainer(program: str, image: str, folder: Path) -> Container:
    path = Path(image).expanduser().absolute()
    if not path.exists():
        path = folder.absolute() / f"{re.sub('[^A-Za-z0-9.-]+', '_', image)}.sif"
    if path.is_dir():
        # What is in it may change at any time: its packages are all that names it.
        return Container("apptainer", program, str(path), "a folder")
    if not path.exists():
        get = shlex.join([Path(program).name, "pull", str(path), f"docker://{image}"])
        raise NoContainer(f"{image} is not on this machine; get it with `{get}`")
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read(HEADER))
    digest.update(str(path.stat().st_size).encode())
    return Container("apptainer", program, str(path), f"sha256:{digest.hexdigest()}")


def _podman(program: str, image: str, folder: Path) -> Container:
    if Path(image).suffix == ".sif":
        raise NoContainer(f"{image} is an image of Apptainer, and only podman is here; install it")
    command = [program, "image", "inspect", "--format", "{{.Id}}", image]
    answer = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    identity = answer.stdout.strip()
    if answer.returncode or not identity:
        said = (answer.stderr.strip().splitlines() or ["podman says nothing"])[-1]
        raise NoContainer(
            f"{image} is not on this machine ({said}); get it with "
            f"`{shlex.join(['podman', 'pull', image])}`"
        )
    return Container("podman", program, identity, identity)


def _docker(program: str, image: str, folder: Path) -> NoReturn:
    raise NoContainer(
        f"{image} cannot be measured with docker: its daemon starts a container's processes, so "
        "that CPU time, memory and limits of a run are out of reach; install apptainer or podman"
    )


ENGINES: dict[str, Callable[[str, str, Path], Container]] = {
    "apptainer": _apptainer,
    "singularity": _apptainer,
    "podman": _podman,
    "docker": _docker,
}
"""By the name of a program, in the order in which they are looked for, what makes a container."""


def replace_process(container: Container, device: str, arguments: Sequence[str]) -> NoReturn:
    """Become the image's Python with these arguments, in the container.

    It gets this process's inheritable descriptors, its cores, and those of its environment
    variables that `INTO_CONTAINER` lists. Where `LIFELINE` names a descriptor, it ends when the
    other end of that pipe is closed.
    """
    descriptors = _inherited()
    names = os.environ.get(INTO_CONTAINER, "").split()
    passed = {name: os.environ[name] for name in names if name in os.environ}
    temporary = tempfile.gettempdir()
    start = {
        "variables": {**passed, IMAGE: container.identity, "HOME": temporary},
        "descriptors": descriptors,
        "cores": sorted(os.sched_getaffinity(0)),
        "lifeline": int(os.environ.get(LIFELINE, -1)),
    }
    inside = ["-I", "-S", "-B", str(SCRIPTS / "start_in_container.py"), json.dumps(start)]
    command = engine_command(container, device, len(descriptors), mounts(temporary))
    _renumber(descriptors)
    os.execv(container.program, [*command, *inside, *arguments])


def engine_command(
    container: Container, device: str, descriptors: int, folders: Sequence[str]
) -> list[str]:
    """The engine's command that takes the arguments of the image's Python.

    The container has this machine's network and shared memory, which replicas use, and no control
    group but this process's own.

    Args:
        descriptors: how many it gets, from 3 on.
        folders: of this machine that it has at the same paths.
    """
    gpu, here = device == "gpu", os.getcwd()
    if container.engine == "apptainer":
        binds = [f"--bind={folder}" for folder in folders]
        options = ["--cleanenv", "--no-home", *binds, f"--pwd={here}", *["--nv"] * gpu]
        return [container.program, "exec", *options, container.image, "python3"]
    user = os.getuid()
    return [
        container.program, "run", "--rm", "--pull=never", "--network=host", "--ipc=host",
        "--cgroups=disabled", *_limits(), "--log-driver=none",
        "--security-opt=label=disable", f"--user={user}:{os.getgid()}",
        *["--userns=keep-id"] * (user != 0), f"--preserve-fds={descriptors}",
        *(f"--volume={folder}:{folder}" for folder in folders), f"--workdir={here}",
        *["--device=nvidia.com/gpu=all"] * gpu, "--entrypoint=python3", container.image,
    ]  # fmt: skip


def _limits() -> list[str]:
    """podman's options that leave this process's limits as they are; it would raise these two,
    which not every root may. No limit of processes has an effect beyond the kernel's `pid_max`."""
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    processes = [most if n < 0 else min(n, most) for n in resource.getrlimit(resource.RLIMIT_NPROC)]
    limits = {"nofile": resource.getrlimit(resource.RLIMIT_NOFILE), "nproc": processes}
    return [f"--ulimit={name}={soft}:{hard}" for name, (soft, hard) in limits.items()]


def mounts(temporary: str) -> list[str]:
    """The folders that a run needs: the project's, the one it is in, those that its results and
    data are links to, and the one of temporary files. None is inside another."""
    folders = [ROOT, Path.cwd(), Path("results"), Path("results/data"), Path(temporary)]
    paths = sorted({path.resolve() for path in folders if path.exists()})
    return [str(path) for path in paths if not any(other in path.parents for other in paths)]


def _inherited() -> list[int]:
    """The descriptors that this process was given beside the standard streams."""
    descriptors = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) >= FIRST and os.get_inheritable(int(name)):
                descriptors.append(int(name))
        except OSError:
            continue  # that of the folder itself
    return sorted(descriptors)


def _renumber(descriptors: Sequence[int]) -> None:
    """Give descriptors, in ascending order, the numbers from `FIRST` on."""
    for number, descriptor in enumerate(descriptors, start=FIRST):
        if number != descriptor:
            os.dup2(descriptor, number)
            os.close(descriptor)
