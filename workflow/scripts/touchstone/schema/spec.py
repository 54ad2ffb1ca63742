"""What a run is to do: one type for each kind of work.

The plan makes a spec, the runner and the supervisor read it, and so do the checks of the run.
docs/contracts.md has these classes as tables: a line `name: text` of a docstring is a field's.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Union

from touchstone.schema.epochs import DROP, Epochs
from touchstone.schema.values import WrongValue, from_json, to_json

FORMAT = 1
"""Of the file `spec.json`."""
FIRST_OPTIMIZERS = {"sgd": ("momentum", "nesterov"), "adam": ("beta1", "beta2", "epsilon")}
"""The own settings of the optimizers in specs of before, where they stood among the others."""


LAST, BEST = "last", "best"
"""Which weights a run keeps: of its last epoch, or of the evaluation with the best accuracy."""
PINNED = "pinned"
"""The environment of every cell that names no other: that of `envs/<framework>.yaml`."""
UNTIL_MEASURED, UNTIL_END = "measured", "end"
"""When a run of a program ends."""
TUNED, PLAIN = "tuned", "plain"
"""Whose code a run executes: what experts write for a framework, or what its tutorials show."""


class Factors(NamedTuple):
    """The settings that tables and records name, as in the configuration.

    framework: an adapter's name
    environment: where it is installed: `pinned`, or one of the study's own
    network: of `networks/`, an operation of `operations/`, or a word for what a program does
    dataset: a data set, the shape of an operation, or a word of the user
    device: `cpu` or `gpu`
    precision: `fp64`, `fp32`, `tf32`, `bf16` or `fp16-amp`
    style: `tuned` or `plain`
    mode: an execution mode of the framework, or `best`
    input: where training batches come from: `memory`, `records` or `synthetic`
    batch_size: examples in a batch, of all replicas together
    learning_rate: of the first step after the warm-up
    optimizer: a file of `optimizers/`
    momentum: of SGD
    weight_decay: share of a weight
    schedule: `constant`, `step` or `cosine`
    epochs: passes over the training set
    steps: measured steps, where a study limits them
    workload: `inference`, of a run that predicts
    weights: `trained` or `initial`, of a run that predicts
    program: the name of a script of the user in its study
    """

    framework: str
    network: str
    dataset: str
    device: str
    precision: str
    mode: str
    input: str
    batch_size: int
    learning_rate: float
    optimizer: str
    momentum: float
    weight_decay: float
    schedule: str
    epochs: int
    steps: Optional[int] = None
    workload: Optional[str] = None
    weights: Optional[str] = None
    environment: str = PINNED
    style: str = TUNED
    program: Optional[str] = None


class Parameter(NamedTuple):
    """An array of a network, in canonical layout.

    name: `layer.kind`, as `conv1.weight`
    shape: its sizes
    init: the distribution that it starts from (docs/parity.md)
    fan_in: inputs of one output
    trainable: whether steps change it
    l1: factor of its absolute values in the loss
    l2: factor of its squares in the loss
    fan_out: outputs that read one input
    """

    name: str
    shape: List[int]
    init: str
    fan_in: int
    trainable: bool = True
    l1: float = 0.0
    l2: float = 0.0
    fan_out: int = 0


Layer = Dict[str, Any]
"""A layer of a graph: `name`, `op`, `inputs`, `shape`, and the arguments of the operation."""


class Network(NamedTuple):
    """A network as a graph of layers.

    name: a file of `networks/`
    input: shape of one example: height, width, channels; of a text steps, 1, 1
    output: the layer whose output are the logits
    parameter_count: trainable numbers
    macs: multiply-accumulate operations to predict one example
    training_macs: multiply-accumulate operations of a training step for one example
    layers: in the order in which they can be computed; each has `name`, `op`, `inputs`, `shape`
    parameters: its arrays
    vocabulary: different tokens, of a network for texts
    task: a file of `runner/tasks/`, where an example has several labels
    """

    name: str
    input: List[int]
    output: str
    parameter_count: int
    macs: int
    training_macs: int
    layers: List[Dict[str, Any]]
    parameters: List[Parameter]
    vocabulary: Optional[int] = None
    task: Optional[str] = None

    @property
    def labels(self) -> int:
        """How many labels an example has, each with its own logits."""
        outputs = [layer["shape"] for layer in self.layers if layer["name"] == self.output]
        return int(outputs[0][0]) if self.task else 1


NO_NETWORK = Network("", [], "", 0, 0, 0, [], [])
"""In the place of a network where there is none, or where its digest is known."""


class Data(NamedTuple):
    """A converted data set.

    A model input is (pixel / `pixel_maximum` - mean) / std, float32, height x width x channels.

    format: of its record files: a file of `datasets/formats/`
    encoding: of a record's image: `raw` or `jpeg`
    folder: of the record files, from the working folder
    shards: by split, its record files in stored order, without their suffixes
    shape: of an example: height, width, channels
    classes: number of labels
    train_examples: records for training
    test_examples: records for evaluation
    mean: by channel
    std: by channel
    pixel_maximum: 255; 1 of a text, whose bytes are tokens
    foreground: least value of a pixel that is part of what the label names
    """

    format: str
    encoding: str
    folder: str
    shards: Dict[str, List[str]]
    shape: List[int]
    classes: int
    train_examples: int
    test_examples: int
    mean: List[float]
    std: List[float]
    pixel_maximum: int
    foreground: Optional[int] = None


class Optimizer(NamedTuple):
    """An update equation (docs/parity.md).

    name: a file of `optimizers/` that has an equation of its own
    learning_rate: of the first step after the warm-up
    weight_decay: share of a weight
    decoupled: whether weight decay shrinks weights beside the gradient
    spared: kinds of arrays without weight decay: `bias`, `scale`, `offset`
    settings: the optimizer's own, by name
    """

    name: str
    learning_rate: float
    weight_decay: float
    decoupled: bool
    spared: List[str]
    settings: Dict[str, Any] = {}

    def to_prove(self) -> Dict[str, Any]:
        """What must be read back from the live framework, by name."""
        return dict(self.settings, learning_rate=self.learning_rate, weight_decay=self.weight_decay)


class Schedule(NamedTuple):
    """How the learning rate changes.

    name: `constant`, `step` or `cosine`
    milestones: epochs at which a `step` schedule multiplies it
    lr_gamma: by what
    lr_warmup_epochs: epochs in which it grows to its base
    """

    name: str
    milestones: List[float]
    lr_gamma: float
    lr_warmup_epochs: float


class Augmentation(NamedTuple):
    """How training images change at random.

    crop_padding: zeros on every side, from which the image is cut at a random corner
    flip: whether half of them are mirrored
    crop_area: the least share of an image of which a random window is resized to the image's size;
        0: none is
    """

    crop_padding: int
    flip: bool
    crop_area: float = 0.0


class Execution(NamedTuple):
    """How the framework executes it.

    device: `cpu` or `gpu`
    precision: `fp64`, `fp32`, `tf32`, `bf16` or `fp16-amp`
    style: `tuned` or `plain`
    mode: an execution mode of the framework
    threads: null: as many as there are cores that the process may use
    wait_policy: of idle threads: `default`, `passive` or `active`
    reader_threads: that read records one chunk ahead; 0: none; null: as many as compute
    deterministic: whether only deterministic algorithms are used
    replicas: that train one model, on each node
    nodes: machines that train one model
    batch_split: what `batch_size` counts in the configuration: a batch of each replica, or of all
    replicas_are: `processes`, `devices` of one process, or null: there are none
    why_no_replicas: why the framework has no replicas
    why_no_nodes: why its replicas are on one node
    variables: environment variables that the study sets
    """

    device: str
    precision: str
    mode: str
    threads: Optional[int]
    wait_policy: str
    reader_threads: Optional[int]
    deterministic: bool
    replicas: int = 1
    nodes: int = 1
    batch_split: Optional[str] = None
    replicas_are: Optional[str] = None
    why_no_replicas: Optional[str] = None
    why_no_nodes: Optional[str] = None
    variables: Dict[str, str] = {}
    style: str = TUNED

    @property
    def world_size(self) -> int:
        """The replicas of all nodes."""
        return self.replicas * self.nodes


class TrainingPhases(NamedTuple):
    """How long training lasts.

    epochs: passes over the training set
    evaluate_every: epochs between evaluations; 0: only at the end
    target_accuracy: whose time is a metric
    warmup_steps: of the warm-up, at least
    warmup_seconds: of the warm-up, at least, s
    chunk_seconds: that a chunk of steps lasts, about; 0: each step is waited for
    measured_steps: at which the measured phase ends; nothing is evaluated then
    measured_seconds: at which the measured phase of a trial ends, s; nothing is evaluated then
    probe_steps: instead of `epochs`, in a search for the largest batch; one batch is evaluated
    last_batch: of an epoch, if it is a partial one: `drop` or `keep`
    training_accuracy: whether the training set is evaluated too, after the last epoch
    kept_weights: those of the `last` epoch, or of the evaluation with the `best` accuracy
    """

    epochs: int
    evaluate_every: int
    target_accuracy: Optional[float]
    warmup_steps: int
    warmup_seconds: float
    chunk_seconds: float
    measured_steps: Optional[int] = None
    measured_seconds: Optional[float] = None
    probe_steps: Optional[int] = None
    last_batch: str = DROP
    training_accuracy: bool = False
    kept_weights: str = LAST


class TimedPhases(NamedTuple):
    """How long inference or an operation lasts.

    seconds: of the measured phase, and of the one for latencies, s
    warmup_steps: of the warm-up, at least
    warmup_seconds: of the warm-up, at least, s
    chunk_seconds: that a chunk of batches or calls lasts, about, s
    """

    seconds: float
    warmup_steps: int
    warmup_seconds: float
    chunk_seconds: float


class Limits(NamedTuple):
    """What ends a run early.

    seconds: of the whole run, s
    memory_mib: of the host's memory, MiB
    factor: times `estimate`, after which a run that other programs disturb is ended
    estimate: of all steps on the machine that runs it, s; none on a GPU. Of no digest
    """

    seconds: float
    memory_mib: Optional[float]
    factor: Optional[float]
    estimate: Optional[float] = None


class Trial(NamedTuple):
    """One mode, number of threads and wait policy of which `best` chooses: it takes turns with the
    others.

    mode: of the execution
    threads: null: all
    wait_policy: of idle threads
    status: how it ended
    reason: why, if not well
    throughput: images/s
    first_step_time: s
    folder: of its files, below that of the run
    ratio: its speed / that of the framework's default, which is the first trial that passed
    low: of the 95 % interval of the ratio
    high: of that interval
    sets: of processes that it took turns in with the default and that count; with one, the interval
        is from its rounds
    chosen: whether the run trains with it; absent from trials of older versions, of which the one
        with the highest throughput was chosen
    """

    mode: str
    threads: Optional[int]
    wait_policy: str
    status: str
    reason: Optional[str]
    throughput: Optional[float]
    first_step_time: Optional[float]
    folder: str
    ratio: Optional[float] = None
    low: Optional[float] = None
    high: Optional[float] = None
    sets: Optional[int] = None
    chosen: Optional[bool] = None


class Calls(NamedTuple):
    """A basic operation with its dimensions.

    name: a file of `operations/`
    dimensions: by name
    flops: floating-point operations of a call
    traffic: that a call reads and writes at least, B
    exchanged: array of each replica, B, of an operation between replicas
    """

    name: str
    dimensions: Dict[str, int]
    flops: int
    traffic: int
    exchanged: Optional[int] = None


class TrainingSpec(NamedTuple):
    """A run that trains.

    cell: the name of its cell
    repeat: from 1
    seed: the study's + `repeat` - 1
    factors: settings that tables and records name
    network: what it trains
    data: on what
    optimizer: the update equation
    schedule: of the learning rate
    augmentation: null: images stay as they are
    deviations: sentences: where the framework cannot do quite what a layer says
    execution: how the framework executes it
    phases: how long
    limits: what ends it early
    sampling_interval: of the sensors, s
    trials: of the mode `best`, in their order
    keep_weights: the file for its weights, of a run that another one predicts with. Of no digest
    """

    cell: str
    repeat: int
    seed: int
    factors: Factors
    network: Network
    data: Data
    optimizer: Optimizer
    schedule: Schedule
    augmentation: Optional[Augmentation]
    deviations: List[str]
    execution: Execution
    phases: TrainingPhases
    limits: Limits
    sampling_interval: float
    trials: Optional[List[Trial]] = None
    keep_weights: Optional[str] = None


class InferenceSpec(NamedTuple):
    """A run that predicts.

    cell: the name of its cell
    repeat: from 1
    seed: the study's + `repeat` - 1
    factors: settings that tables and records name
    network: what it predicts with
    data: on what
    deviations: sentences: where the framework cannot do quite what a layer says
    execution: how the framework executes it
    phases: how long
    limits: what ends it early
    sampling_interval: of the sensors, s
    trials: of the mode `best`, in their order
    weights: the file of its weights; none: initial ones. Of no digest
    """

    cell: str
    repeat: int
    seed: int
    factors: Factors
    network: Network
    data: Data
    deviations: List[str]
    execution: Execution
    phases: TimedPhases
    limits: Limits
    sampling_interval: float
    trials: Optional[List[Trial]] = None
    weights: Optional[str] = None


class OperationSpec(NamedTuple):
    """A run that calls a basic operation.

    cell: the name of its cell
    repeat: from 1
    seed: the study's + `repeat` - 1
    factors: settings that tables and records name
    operation: what it calls
    deviations: none
    execution: how the framework executes it
    phases: how long
    limits: what ends it early
    sampling_interval: of the sensors, s
    trials: of the mode `best`, in their order
    """

    cell: str
    repeat: int
    seed: int
    factors: Factors
    operation: Calls
    deviations: List[str]
    execution: Execution
    phases: TimedPhases
    limits: Limits
    sampling_interval: float
    trials: Optional[List[Trial]] = None


class Program(NamedTuple):
    """A script of the user.

    name: in the study
    file: its path, from the working folder
    arguments: that follow it on the command line
    until: `measured`: the run ends when enough is measured; `end`: when the script ends
    code: digest of the script, of what it imports from its own folder, and of its other files
    """

    name: str
    file: str
    arguments: List[str]
    until: str
    code: str


class ProgramSpec(NamedTuple):
    """A run of a script of the user.

    cell: the name of its cell
    repeat: from 1
    seed: the study's + `repeat` - 1
    factors: settings that tables and records name
    program: the script
    deviations: none
    execution: its device, threads and variables; the script decides the rest
    phases: how long
    limits: what ends it early
    sampling_interval: of the sensors, s
    trials: none
    """

    cell: str
    repeat: int
    seed: int
    factors: Factors
    program: Program
    deviations: List[str]
    execution: Execution
    phases: TimedPhases
    limits: Limits
    sampling_interval: float
    trials: Optional[List[Trial]] = None


class ParitySteps(NamedTuple):
    """Single steps of training, which the comparison of frameworks keeps.

    precision: in which they are computed
    optimizer: their update equation
    steps: how many
    perturbation: share of itself by which a pixel changes at most
    """

    precision: str
    optimizer: Optimizer
    steps: int
    perturbation: Optional[float] = None


class ParitySpec(NamedTuple):
    """Single steps of training, by which frameworks are compared.

    framework: an adapter's name
    seed: of weights, examples and masks
    batch_size: examples in a batch
    input: `synthetic`, or `records` in a test of readers
    network: the graph
    data: only its shape and numbers, where the input is synthetic
    schedule: of the learning rate
    augmentation: null: images stay as they are
    execution: how the framework executes it
    parity_steps: by name
    """

    framework: str
    seed: int
    batch_size: int
    input: str
    network: Network
    data: Data
    schedule: Schedule
    augmentation: Optional[Augmentation]
    execution: Execution
    parity_steps: Dict[str, ParitySteps]


class ProfileSpec(NamedTuple):
    """Some steps of a run that trains, under the framework's profiler (docs/bottleneck.md).

    training: the run
    """

    training: TrainingSpec

    @property
    def execution(self) -> Execution:
        """That of the run."""
        return self.training.execution


RunSpec = Union[TrainingSpec, InferenceSpec, OperationSpec, ProgramSpec]
"""The spec of a run of a study."""
Spec = Union[RunSpec, ParitySpec, ProfileSpec]


def epochs_of(spec: TrainingSpec) -> Epochs:
    """The epochs of a run that trains."""
    return Epochs(spec.data.train_examples, spec.factors.batch_size, spec.phases.last_batch)


KINDS: Dict[str, Any] = {
    "training": TrainingSpec,
    "inference": InferenceSpec,
    "operation": OperationSpec,
    "program": ProgramSpec,
    "parity": ParitySpec,
    "profile": ProfileSpec,
}
"""The class of each `kind` of `spec.json`."""


def kind_of(spec: Spec) -> str:
    """The kind of work that a spec asks for."""
    return next(kind for kind, cls in KINDS.items() if isinstance(spec, cls))


def spec_to_json(spec: Spec) -> Dict[str, Any]:
    """A spec as `spec.json` has it: its fields, with `format` and `kind`."""
    return dict({"format": FORMAT, "kind": kind_of(spec)}, **to_json(spec))


def spec_from_json(value: Any) -> Spec:
    """The spec of a `spec.json`.

    Raises:
        WrongValue: it has another format or an unknown kind, or a field is not of its type.
    """
    if not isinstance(value, dict):
        raise WrongValue("it is no object")
    fields = dict(value)
    if fields.pop("format", None) != FORMAT:
        raise WrongValue("'format' is {!r}, not {}".format(value.get("format"), FORMAT))
    kind = fields.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise WrongValue("'kind' is {!r}, not one of {}".format(kind, ", ".join(KINDS)))
    spec: Spec = from_json(KINDS[kind], _with_own_settings(fields))
    return spec


def _with_own_settings(fields: Dict[str, Any]) -> Dict[str, Any]:
    """The fields of a spec; of one of before, with the optimizer's own settings in their place."""
    optimizer = fields.get("optimizer")
    if not isinstance(optimizer, dict) or "settings" in optimizer:
        return fields
    own = FIRST_OPTIMIZERS.get(str(optimizer.get("name")), ())
    moved = {key for keys in FIRST_OPTIMIZERS.values() for key in keys}
    kept = {key: value for key, value in optimizer.items() if key not in moved}
    settings = {key: optimizer[key] for key in own if key in optimizer}
    return dict(fields, optimizer=dict(kept, settings=settings))
