"""What an adapter is to do: the part of a spec that it reads."""

from typing import NamedTuple, Optional, Union

from touchstone.schema.epochs import DROP, Epochs
from touchstone.schema.spec import (
    NO_NETWORK,
    Augmentation,
    Data,
    Execution,
    InferenceSpec,
    Network,
    OperationSpec,
    Optimizer,
    ParitySpec,
    ParitySteps,
    Schedule,
    TrainingSpec,
    kind_of,
)

NO_DATA = Data("", "raw", "", {}, [], 0, 0, 0, [], [], 255)
NO_UPDATES = Optimizer("sgd", 0.0, 0.0, False, [], {"momentum": 0.0, "nesterov": False})
NO_SCHEDULE = Schedule("constant", [], 1.0, 0.0)
"""What a job without training has."""


AdapterSpec = Union[TrainingSpec, InferenceSpec, OperationSpec]
"""The spec of a run that an adapter makes."""


class Group(NamedTuple):
    """The place of a process among those that train one model together.

    `rank` is of `size` processes, `local_rank` of the `local_size` on its node. `rendezvous` is a
    file by which they find each other, which need not be there yet, in a folder that all of them
    share and that only their user may enter. `interface` is the network interface that leads to the
    others, or None where that is unknown. On several nodes `address`, `HOST:PORT`, is free for a
    service of rank 0, which the first process of each other node knows too.
    """

    rank: int
    size: int
    rendezvous: str
    local_rank: int
    local_size: int
    interface: Optional[str]
    address: str


class Job(NamedTuple):
    """What an adapter is to do.

    `kind` is that of the spec. `batch_size` is of all replicas together. `supplied_masks` says that
    dropout multiplies by masks that it is given. Training in one process has no `group`. Of the
    `last_batch` of an epoch see `Epochs`.
    """

    kind: str
    framework: str
    seed: int
    execution: Execution
    batch_size: int
    input: str
    network: Network = NO_NETWORK
    data: Data = NO_DATA
    optimizer: Optimizer = NO_UPDATES
    schedule: Schedule = NO_SCHEDULE
    augmentation: Optional[Augmentation] = None
    supplied_masks: bool = False
    group: Optional[Group] = None
    last_batch: str = DROP

    @property
    def rest(self) -> int:
        """Examples of the partial batch at the end of an epoch; 0 where there is none."""
        return Epochs(self.data.train_examples, self.batch_size, self.last_batch).rest

    @property
    def crop_padding(self) -> int:
        """Zeros on every side of an image before it is cut at random; 0 without augmentation."""
        return self.augmentation.crop_padding if self.augmentation else 0

    @property
    def crop_area(self) -> float:
        """The least share of an image that a resized window has; 0 where there are no windows."""
        return self.augmentation.crop_area if self.augmentation else 0.0


def job_of(spec: AdapterSpec, group: Optional[Group] = None, threads: int = 1) -> Job:
    """What the adapter is to do for a run, in the process that has this place in a group and so
    many threads."""
    factors, execution = spec.factors, spec.execution
    if execution.reader_threads is None:
        execution = execution._replace(reader_threads=threads)
    job = Job(
        kind_of(spec), factors.framework, spec.seed, execution, factors.batch_size,
        factors.input, group=group,
    )  # fmt: skip
    if isinstance(spec, OperationSpec):
        return job
    job = job._replace(network=spec.network, data=spec.data)
    if isinstance(spec, InferenceSpec):
        return job
    return job._replace(
        optimizer=spec.optimizer, schedule=spec.schedule, augmentation=spec.augmentation,
        last_batch=spec.phases.last_batch,
    )  # fmt: skip


def parity_job(spec: ParitySpec, steps: ParitySteps) -> Job:
    """What the adapter is to do for these parity steps."""
    return Job(
        "parity", spec.framework, spec.seed, spec.execution._replace(precision=steps.precision),
        spec.batch_size, spec.input, spec.network, spec.data, steps.optimizer, spec.schedule,
        spec.augmentation, supplied_masks=True,
    )  # fmt: skip
