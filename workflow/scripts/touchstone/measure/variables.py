"""The environment variables of a run: some of the shell's, those of its settings, and the study's.

A variable that a user once set in a shell can change a speed four-fold. So a run gets those of a
list only, and what a study sets is one of its settings (docs/measuring.md).
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from touchstone.containers import is_launcher
from touchstone.schema.spec import PINNED
from touchstone.schema.variables import INTO_CONTAINER as INTO

PASSED = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME", "TERM",
    "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TMP", "TEMP", "TEMPDIR", "XDG_*", "SLURM*",
    "CONDA_*", "MAMBA_*", "VIRTUAL_ENV", "PYENV_*", "*_proxy", "*_PROXY", "SSL_CERT_*",
    "COVERAGE_*", "TOUCHSTONE_*", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES",
)  # fmt: skip
"""Patterns of the shell's variables that a run gets: where things are, and the session."""
RECORDED = (
    "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CC", "CXX",
    "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME",
)  # fmt: skip
"""Those that it gets too, and whose values its record has: they choose libraries, devices,
compilers and network interfaces."""
INTO_CONTAINER = (
    "TZ", "TMPDIR", "TMP", "TEMP", "TEMPDIR", "SLURM*", "TOUCHSTONE_*", "CUDA_VISIBLE_DEVICES",
    "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME",
)  # fmt: skip
"""Patterns of those that a run in a container gets. The others say where things are on this
machine, and an image says it of itself."""
INFLUENTIAL = (
    "OMP_*", "GOMP_*", "KMP_*", "MKL_*", "OPENBLAS_*", "GOTO_*", "BLIS_*", "ONEDNN_*", "DNNL_*",
    "XLA_*", "JAX_*", "TORCH*", "PYTORCH_*", "MXNET_*", "DMLC_*", "CNTK_*", "ORT_*",
    "CUDA_*", "CUDNN_*", "CUBLAS*", "NVIDIA_*", "NCCL_*", "GLOO_*", "MALLOC_*", "GLIBC_TUNABLES",
    "LD_*", "NPROC", "NUMEXPR_*", "TF_CPP_*", "TF_CUDNN_*", "TF_DETERMINISTIC_*", "TF_DISABLE_*",
    "TF_ENABLE_*", "TF_FORCE_*", "TF_GPU_*", "TF_NUM_*", "TF_ONEDNN_*", "TF_USE_*", "TF_XLA_*",
)  # fmt: skip
"""Patterns of variables of which frameworks and their libraries are known to read some. Other
variables that begin with `TF_` are Terraform's."""
SET_BY_SNAKEMAKE = tuple(
    f"{name}_NUM_THREADS" for name in ("OMP", "MKL", "OPENBLAS", "GOTO", "NUMEXPR", "VECLIB")
)
"""What Snakemake sets in every job by the job's threads, which are not the run's."""


def of_process(python: str, shell: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The variables with which a run's Python, or the launcher of its container, is started.

    Args:
        shell: variables of this process, of which it gets those that are `passed`.
        own: what it gets beside them.
    """
    if not is_launcher(python):
        return {**passed(shell), **own}
    into = {**passed(shell, in_container=True), **own}
    # The engine needs the shell's: HOME and PATH above all.
    return {**shell, **into, INTO: " ".join(sorted(into))}


def of_environment(name: str) -> dict[str, str]:
    """The variables with which a Python of the user's own environment writes nothing there."""
    return {} if name == PINNED else {"PYTHONDONTWRITEBYTECODE": "1"}


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def passed(shell: Mapping[str, str], in_container: bool = False) -> dict[str, str]:
    """The shell's variables that a run gets."""
    patterns = INTO_CONTAINER if in_container else (*PASSED, *RECORDED)
    return {k: v for k, v in shell.items() if _matches(k, patterns)}


def recorded(shell: Mapping[str, str], in_container: bool = False) -> dict[str, str]:
    """Those of them whose values the record of the run has."""
    return {k: v for k, v in passed(shell, in_container).items() if k in RECORDED}


def dropped(shell: Mapping[str, str], in_container: bool = False) -> list[str]:
    """The names of the shell's variables that might change a speed, and that a run does not get."""
    names = {*passed(shell, in_container), *SET_BY_SNAKEMAKE}
    return sorted(k for k in shell if k not in names and _matches(k, INFLUENTIAL))
