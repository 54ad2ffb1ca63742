"""What only CNTK's environment and adapter have, and that their reasons are still true."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from touchstone.environments import UNAVAILABLE, activated
from touchstone.plan.parity import REFERENCE

pytestmark = pytest.mark.framework("cntk")
TEN_STEPS = 1e-5
"""Of a weight after ten steps, absolute: single precision."""


def test_a_call_of_the_stand_in_for_mpi_ends_the_process_with_its_name(execute):
    code = "import cntk, ctypes; ctypes.CDLL('libmpi.so.12').MPI_Init_thread()"
    ended = execute("cntk", "-c", code, fresh=True)
    assert ended.returncode == -6
    assert "MPI_Init_thread was called" in ended.stderr


def test_without_a_compiler_its_script_says_what_is_missing(python_of, root):
    script = str(root / "envs/cntk.post-deploy.sh")
    variables = activated(Path(python_of("cntk")).parent.parent) | {"CC": "no-such-compiler"}
    ended = subprocess.run(["sh", script], env=variables, capture_output=True, text=True)
    assert ended.returncode == UNAVAILABLE
    assert "no C compiler no-such-compiler on PATH" in ended.stderr


def test_it_has_no_dilated_convolution_of_its_own(execute):
    code = """
import cntk as C, numpy as np
image = C.input_variable((1, 8, 8))
kernel = C.constant(np.ones((1, 1, 3, 3), np.float32))
convolved = C.convolution(kernel, image, dilation=(2, 2), auto_padding=[False])
convolved.eval({image: np.ones((1, 1, 8, 8), np.float32)})
"""
    assert "Dilated convolution on CPU is not yet implemented" in execute("cntk", "-c", code).stderr


def own_choice():
    """What MKL of 2018 chooses itself: Intel's processors' best, on others its slowest."""
    processor = Path("/proc/cpuinfo").read_text()
    if "GenuineIntel" not in processor:
        return 0
    return 7 if "avx512f" in processor else 5


@pytest.mark.parametrize("asked, expected", [(None, own_choice()), ("5", 5)])
def test_mkl_reports_the_mode_that_it_computes_in(asked, expected, execute):
    """Set before the first product, though after the import, as the adapter does."""
    code = f"""
import ctypes, os, cntk as C, numpy as np
os.environ.pop("MKL_DEBUG_CPU_TYPE", None)
if {asked!r}: os.environ["MKL_DEBUG_CPU_TYPE"] = {asked!r}
one = C.constant(np.eye(64, dtype=np.float32))
C.times(one, one).eval()
print(ctypes.CDLL("libmklml_intel.so").mkl_serv_get_cpu_type())
"""
    ended = execute("cntk", "-c", code)
    assert ended.stdout.split()[-1] == str(expected), ended.stderr


@pytest.mark.parametrize(
    "settings",
    [
        {"nesterov": True, "weight_decay_on": "weights"},
        {"momentum": 0.0, "schedule": "cosine"},
        {"optimizer": "adam", "learning_rate": 0.001},
    ],
    ids=["own Nesterov's", "own SGD, rate falls", "our Adam in single precision"],
)
def test_its_learners_take_the_reference_s_steps(settings, study):
    """The network with every layer has penalties, so that CNTK's own learners do not serve it."""
    found, expected = (study.trace(name, **settings) for name in ("cntk", REFERENCE))
    for name in expected:
        if name.startswith("weight:"):
            assert np.abs(found[name] - expected[name]).max() <= TEN_STEPS, name
