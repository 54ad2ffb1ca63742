"""A real Slurm on this machine only: munge, a controller, and nodes that can lose their power.

Every node is a `slurmd` in namespaces of its own (host name, mounts, processes), so that
killing the first process of the namespace ends all that ran on the node, as a power cut does.
Nodes have their own folder for temporary files, as machines have: what runs on one does not
wait for the lock of a measured run on another.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

PACKAGES = ("munge", "slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol")
NAMESPACES = ("unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
CPUS = os.cpu_count()
MEMORY = 3000
"""MiB that a node says it has."""
PATIENCE = 300
"""How long anything is waited for, s."""
MEMORY_GROUP = Path("/sys/fs/cgroup/memory")
"""Control groups of version 1: with them Slurm has the kernel kill a job that takes too much."""

# proctrack/cgroup finds what a job left, task/cgroup holds it to its cores and memory.
WITH_GROUPS = """
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
"""
WITHOUT_GROUPS = """
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
"""
CONFIGURATION = """
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
TaskProlog={folder}/etc/prolog
MpiDefault=none
SwitchType=switch/none
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmdParameters=config_overrides
{tracking}
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/ended.txt
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
EnforcePartLimits=ALL
ReturnToService=2
SlurmdTimeout=5
KillWait=2
InactiveLimit=0
NodeName=DEFAULT CPUs={cpus} RealMemory={memory} Gres=gpu:fake:1 State=UNKNOWN
{nodes}
PartitionName=DEFAULT State=UP MaxTime=120 DefMemPerCPU=500
PartitionName=study Nodes=loopback[1-2] Default=YES
PartitionName=faults Nodes=loopback[3-4]
"""
GROUPS = """
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainCores=yes
ConstrainRAMSpace=yes
"""
NO_SWAP = "ConstrainSwapSpace=yes\nAllowedSwapSpace=0\n"
"""Else a job that takes too much is swapped out, on a machine that swaps."""


class NoSlurm(Exception):
    """Slurm cannot be installed on this machine; the message says why."""


def installed() -> bool:
    """Whether all of Slurm that we use is on this machine."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    return all(shutil.which(program, path=path) for program in PROGRAMS)


def obstacle() -> str | None:
    """Why no cluster can be made on this machine, as far as is known without installing."""
    if os.getuid() != 0:
        return "it takes root"
    if subprocess.run([*NAMESPACES, "true"], capture_output=True).returncode:
        return "this machine lets us make no namespaces, which are the nodes"
    if not installed() and not shutil.which("apt-get"):
        return f"no Slurm is installed, and there is no apt-get to do it ({', '.join(PACKAGES)})"
    return None


def install() -> None:
    """Install Debian's Slurm if there is none; raises NoSlurm, which says why, if that fails."""
    if installed():
        return
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    options = ["Acquire::Retries=0", "Acquire::http::Timeout=15", "Acquire::https::Timeout=15",
               "DPkg::Lock::Timeout=60"]  # fmt: skip
    install = ["install", "--yes", "--no-install-recommends", *PACKAGES]
    # The lists may be old, or one of several sources out of reach: what counts is the packages.
    # They are fetched first, since that may be given up at any time; installing may not.
    for command, seconds in (["update"], 90), ([*install, "--download-only"], 120), (install, None):
        command = ["apt-get", "--quiet", *(f"--option={one}" for one in options), *command]
        try:
            answer = subprocess.run(
                command, env=variables, capture_output=True, text=True, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            raise NoSlurm(f"apt-get did not get Slurm's packages within {seconds} s") from None
        if answer.returncode and "update" not in command:
            fault = (answer.stderr.strip() or answer.stdout.strip() or "no word").splitlines()[-1]
            raise NoSlurm(f"apt-get install failed: {fault}")
    if not installed():
        raise NoSlurm(f"apt-get installed {', '.join(PACKAGES)}, but a program of Slurm is missing")


def wait_for(what: str, ready: Callable[[], object]) -> None:
    """Wait until `ready()` is true; raises TimeoutError, which says for `what`, after a time that
    ends what hangs even where other tests take most of the machine."""
    deadline = time.monotonic() + PATIENCE
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {PATIENCE} s")
        time.sleep(0.1)


class Cluster:
    """A running Slurm with its files in `folder`; `with` starts it, and stops it for certain."""

    NODES = ("loopback1", "loopback2", "loopback3", "loopback4")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen] = {}
        self.kills = os.access(MEMORY_GROUP / "memory.limit_in_bytes", os.W_OK)
        """Whether the kernel holds jobs to their memory; else nobody does."""
        self.variables = {
            **os.environ,
            "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
            "SLURM_CONF": str(folder / "etc/slurm.conf"),
        }

    def __enter__(self) -> "Cluster":
        try:
            self._clear()
            self._configure()
            self._start(
                "munged", "munged", "--foreground", "--force",
                f"--key-file={self.folder}/etc/munge.key", f"--socket={self.folder}/munge.sock",
                f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munge.seed",
                f"--log-file={self.folder}/munged-own.log",
            )  # fmt: skip
            wait_for("munged", (self.folder / "munge.sock").exists)
            self._start("slurmctld", "slurmctld", "-D")
            wait_for("slurmctld", lambda: "is UP" in self.ask("scontrol", "ping"))
            self.boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.NODES:
            self.switch_off(node)
        for name in "slurmctld", "munged":
            if process := self.processes.pop(name, None):
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self._clear()

    def _clear(self) -> None:
        """End what a cluster that was killed left in the nodes' control groups, suspended too: jobs
        of the same numbers would join it."""
        for node in self.NODES:
            for top in MEMORY_GROUP.parent.glob(f"*/slurm_{node}"):
                groups = [*sorted((p for p in top.rglob("*") if p.is_dir()), reverse=True), top]
                for group in groups:
                    with contextlib.suppress(OSError):
                        for process in (group / "cgroup.procs").read_text().split():
                            os.kill(int(process), signal.SIGKILL)
                for group in groups:
                    with contextlib.suppress(OSError):
                        (group / "freezer.state").write_text("THAWED")
                for group in groups:
                    with contextlib.suppress(OSError):
                        group.rmdir()

    def boot(self, nodes: tuple[str, ...] = NODES) -> None:
        """Switch on those of `nodes` that are off, and wait until all are idle."""
        for node in nodes:
            if node not in self.processes:
                self.switch_on(node)
        wait_for("nodes", lambda: all(self.states()[node] == "idle" for node in nodes))

    def switch_on(self, node: str) -> None:
        """Boot a node, which has our configuration where Slurm looks for it by default."""
        hosts, etc = self.folder / "etc/hosts", self.folder / "etc"
        script = (
            f"hostname {node} && mount --bind {hosts} /etc/hosts && mkdir -p /etc/slurm "
            f"&& mount --bind {etc} /etc/slurm && exec slurmd -D -N {node}"
        )
        self._start(node, *NAMESPACES, "sh", "-c", script)

    def switch_off(self, node: str) -> None:
        """Cut a node's power: everything that ran on it is gone at once."""
        if process := self.processes.pop(node, None):
            process.send_signal(signal.SIGKILL)
            process.wait()

    def ask(self, *command: str) -> str:
        """What a Slurm command prints, its errors included."""
        answer = subprocess.run(
            command, env=self.variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        return answer.stdout

    def states(self) -> dict[str, str]:
        """Node -> state."""
        lines = self.ask("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
        return dict(line.split() for line in lines)

    def jobs(self, folder: Path, states: str = "PENDING,RUNNING") -> dict[str, dict[str, str]]:
        """Number -> node, state and comment of the jobs of a working folder."""
        form = "--format=%i|%N|%T|%Z|%k"
        lines = self.ask("squeue", "--noheader", f"--states={states}", form).splitlines()
        fields = [line.split("|", 4) for line in lines]
        return {
            job: {"node": node, "state": state, "comment": comment}
            for job, node, state, where, comment in fields
            if where == str(folder)
        }

    def ended(self, folder: Path) -> list[dict[str, str]]:
        """The jobs of a working folder that have ended, as Slurm's own log has them."""
        log = self.folder / "ended.txt"
        lines = log.read_text().splitlines() if log.exists() else []
        jobs = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in lines]
        return [job for job in jobs if job["WorkDir"] == str(folder)]

    def _start(self, name: str, *command: str) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                command, env=self.variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def _configure(self) -> None:
        etc = self.folder / "etc"
        for name in (
            "etc",
            "state",
            *(f"{kind}-{n}" for n in self.NODES for kind in ("spool", "tmp")),
        ):
            (self.folder / name).mkdir(parents=True)
        (etc / "munge.key").write_bytes(os.urandom(1024))
        (etc / "munge.key").chmod(0o600)
        ports = free_ports(1 + len(self.NODES))
        nodes = [
            f"NodeName={node} NodeHostname={node} NodeAddr=127.0.0.1 Port={port}"
            for node, port in zip(self.NODES, ports[1:], strict=True)
        ]
        text = CONFIGURATION.format(
            host=socket.gethostname().partition(".")[0], port=ports[0], folder=self.folder,
            tracking=WITH_GROUPS if self.kills else WITHOUT_GROUPS, cpus=CPUS, memory=MEMORY,
            nodes="\n".join(nodes),
        )  # fmt: skip
        (etc / "slurm.conf").write_text(text)
        counts_swap = (MEMORY_GROUP / "memory.memsw.limit_in_bytes").exists()
        (etc / "cgroup.conf").write_text(GROUPS + NO_SWAP * counts_swap)
        # A GPU is a device file to Slurm: any will do where nothing computes on it.
        (etc / "gres.conf").write_text("AutoDetect=off\nName=gpu Type=fake File=/dev/null\n")
        hosts = "".join(f"127.0.0.1 {node}\n" for node in self.NODES)
        (etc / "hosts").write_text(Path("/etc/hosts").read_text() + hosts)
        prolog = etc / "prolog"
        prolog.write_text(f'#!/bin/sh\necho "export TMPDIR={self.folder}/tmp-$(hostname)"\n')
        prolog.chmod(0o755)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
