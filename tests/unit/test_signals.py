"""A command that is interrupted."""

import signal
import subprocess
import sys

import pytest

from touchstone.signals import INTERRUPTIONS

WORKS = """
import sys, time
from touchstone import signals
signals.CLOSING_SECONDS = 1
with signals.interruptible():
    try:
        print("works", flush=True)
        time.sleep(600)
    finally:
        print("closed", flush=True)
        {closing}
"""


def heed():
    """What the tests were started with may ignore interruptions, as nohup does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def interrupted(root, number, closing="pass", times=1):
    """Interrupt a command while it works; how it ends, and what it prints."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORKS.format(closing=closing)],
        env={"PYTHONPATH": str(root / "workflow/scripts")},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=heed,
    )  # fmt: skip
    assert process.stdout.readline() == "works\n"
    for _ in range(times):
        process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    return process.returncode, output


@pytest.mark.parametrize("number", INTERRUPTIONS)
def test_an_interrupted_command_closes_what_it_has_open_and_says_nothing(root, number):
    assert interrupted(root, number, times=2) == (-number, "closed\n")


def test_a_command_that_cannot_close_ends_nevertheless(root):
    status, output = interrupted(root, signal.SIGTERM, "time.sleep(600)")
    assert (status, output) == (-signal.SIGALRM, "closed\n")


FORKS = """
import os, signal, subprocess
from touchstone import signals
with signals.interruptible():
    interrupt = lambda: os.kill(os.getpid(), signal.SIGTERM)
    print(subprocess.Popen(["sleep", "600"], preexec_fn=interrupt).wait(), flush=True)
"""


def test_a_fork_that_is_about_to_start_a_program_says_nothing(root):
    done = subprocess.run(
        [sys.executable, "-c", FORKS], env={"PYTHONPATH": str(root / "workflow/scripts")},
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("143\n", "")


def test_a_command_in_the_background_of_a_script_ignores_ctrl_c(root):
    """A shell starts it so."""
    code = "from touchstone import signals; signals.silence(); import os, signal; "
    code += "os.kill(os.getpid(), signal.SIGINT); print('lives')"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(root / "workflow/scripts")},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "lives\n"
