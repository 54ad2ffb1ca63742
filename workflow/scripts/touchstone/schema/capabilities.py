"""What a framework's adapter can do, which a plan asks before anything runs."""

from typing import Dict, NamedTuple, Optional, Tuple


class Plain(NamedTuple):
    """How the code of a framework's own tutorials is run: the style `plain`.

    `modes` has its execution modes, the usual one first, each with the module of the adapter's
    folder that has its class `Adapter`. `modules` has, by the name of each module that it needs
    beside those of every run, the package that brings it; where there are some, its environment is
    `envs/<framework>-plain.yaml`.
    """

    modes: Dict[str, str]
    modules: Dict[str, str] = {}


class Capabilities(NamedTuple):
    """What an adapter can do.

    `modes` are its execution modes, the usual one first, and `gpu_modes` those that are for a GPU
    only. `record_format` is a file of
    `datasets/formats/`. `released` is the month of the pinned version, `YYYY-MM`.

    `only` is `inference` or `operations`, where the adapter does nothing else. `replicas` is
    `processes`, of which each has a rank, or `devices` of one process; else `why_no_replicas` is
    the reason why there are none, and `why_no_nodes` why they are on one node (docs/parallel.md).

    `deviations` is a sentence by the operation of a layer, or by the name of an input, that the
    adapter cannot do quite as the graph says. `single_precision_only` is true of a framework
    without double precision (docs/parity.md). `waits` is true where idle threads heed
    `wait_policy`. `parity_bytes` is the memory that parity steps take at most, bytes for each
    parameter; 170 is what PyTorch takes in both precisions.

    `optimizers` are those of `optimizers/`, with an equation of their own, that it trains with: of
    each it has a function that makes the framework's, or works with any equation.

    `newest_gpu` is the newest compute capability of an NVIDIA GPU that the pinned version computes
    on, where it is not made for all of today.

    `initialisation` has the distributions from which the framework itself draws the weights and
    the biases of convolutions and dense layers (`runner/initial_weights.py`).

    `plain` says how the style `plain` is run, of a framework that has it (docs/styles.md).

    `modules` has, by the name of each module that every run imports, the package that brings it.

    `differs` has, by device, sentences on where a run has not what the framework does by itself.
    `variables` are environment variables that must be set before the framework is imported: by
    mode, by wait policy, and those of all runs by "", which leave what the user has set.
    """

    modes: Tuple[str, ...]
    record_format: str
    gpu_modes: Tuple[str, ...] = ()
    newest_gpu: Optional[Tuple[int, int]] = None
    released: Optional[str] = None
    only: Optional[str] = None
    replicas: Optional[str] = None
    why_no_replicas: Optional[str] = None
    why_no_nodes: Optional[str] = None
    deviations: Dict[str, str] = {}
    single_precision_only: bool = False
    waits: bool = False
    parity_bytes: int = 170
    optimizers: Tuple[str, ...] = ("sgd",)
    initialisation: Tuple[str, str] = ("glorot_uniform", "zeros")
    plain: Optional[Plain] = None
    modules: Dict[str, str] = {}
    differs: Dict[str, Tuple[str, ...]] = {}
    variables: Dict[str, Dict[str, str]] = {}

    def why_no_optimizer(self, name: str) -> Optional[str]:
        """Why the adapter does not train with the update equation of that name, or None."""
        if name in self.optimizers:
            return None
        message = "this adapter has no optimizer '{}'; it has {}"
        return message.format(name, ", ".join(self.optimizers))
