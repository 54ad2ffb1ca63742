"""Start a runner: its cores, its environment variables, its process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

from touchstone.containers import is_launcher
from touchstone.measure import processes, variables
from touchstone.schema.spec import RunSpec
from touchstone.schema.variables import LIFELINE

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
PR_SET_PDEATHSIG = 1
"""prctl(2): the signal a process gets when its parent dies."""


SHELL_SIGNAL = 128
"""What shells and container engines add to the number of the signal that ended a program."""


class Fault(RuntimeError):
    """A run ended in a way that says nothing about what was measured."""


def cores(threads: int | None) -> list[int]:
    """The cores of a run: the first `threads` of those this process may use, or all.

    Raises Fault if there are fewer.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if threads and threads > len(allowed):
        raise Fault(
            f"threads: {threads} are asked for, this machine lets us use {len(allowed)}; ask "
            "for fewer in the configuration"
        )
    return allowed[:threads]


def thread_variables(threads: int, wait_policy: str) -> dict[str, str]:
    """The environment variables that set threads alike for every framework's libraries.

    How idle threads wait is each framework's own matter, unless the study asks for a policy.
    """
    values = dict.fromkeys(THREAD_VARIABLES, str(threads))
    if wait_policy != "default":
        values["OMP_WAIT_POLICY"] = wait_policy.upper()
    return values


def variables_of(spec: RunSpec, used: Sequence[int]) -> dict[str, str]:
    """The variables of a run on these cores that follow from its settings, and those that its
    study sets."""
    values = thread_variables(len(used), spec.execution.wait_policy) | spec.execution.variables
    values |= variables.of_environment(spec.factors.environment)
    if spec.execution.device == "gpu":
        # CUDA's own order is by speed: NVML would watch another device than the run's.
        values.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    return values


class Runner(subprocess.Popen[bytes]):
    """The process of a run.

    `lifeline` is, where the run is in a container, the end of a pipe with which it ends: an engine
    may start processes in sessions of their own.
    """

    in_container = False
    lifeline = -1

    def end(self) -> None:
        """End it, and what is in its session or its container; it is still to be waited for."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.lifeline >= 0:
            os.close(self.lifeline)
            self.lifeline = -1

    def exit_code(self, status: int) -> int:
        """The exit code that the status of `wait` means; negative where a signal ended the run."""
        code = os.waitstatus_to_exitcode(status)
        return SHELL_SIGNAL - code if self.in_container and code > SHELL_SIGNAL else code


def keep_to(used: Sequence[int]) -> None:
    """Have this process, which is about to start a program, keep to some cores and die with its
    parent."""
    os.sched_setaffinity(0, used)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start_runner(
    command: Sequence[str],
    used: Sequence[int],
    own: Mapping[str, str],
    output: IO[bytes],
    descriptors: Sequence[int] = (),
    group: processes.ControlGroup | None = None,
) -> Runner:
    """Start a runner on some cores, which dies with this process.

    Args:
        used: its cores.
        own: variables beside those that it gets of this process (`variables.py`).
        output: gets what it prints.
        descriptors: of this process that it may use.
        group: the control group that it enters.
    """

    def prepare() -> None:
        if group:
            group.enter()
        keep_to(used)

    given = {**own, "PYTHONNOUSERSITE": "1"}
    in_container, held, holding = is_launcher(command[0]), -1, list[int]()
    if in_container:
        lifeline, held = os.pipe()
        given[LIFELINE], holding = str(lifeline), [lifeline]
    runner = Runner(
        command,
        stdout=output,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env=variables.of_process(command[0], os.environ, given),
        pass_fds=[*descriptors, *holding],
        start_new_session=True,
        preexec_fn=prepare,
    )
    for descriptor in holding:
        os.close(descriptor)
    runner.in_container, runner.lifeline = in_container, held
    return runner
