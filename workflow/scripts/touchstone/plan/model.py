"""What a configuration may say: the study, and the cell with all its settings.

The text of every field is the documentation that `config/README.md` is generated from.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter

from touchstone import operations, optimizers
from touchstone.plan.parts import YEAR, Environment, EnvironmentName, Interleave, Program, Scale
from touchstone.plan.setting import (
    ELSE,
    FIRST,
    INFERENCE,
    INITIAL_WEIGHTS,
    OF_A_NETWORK,
    OF_ALL,
    OPERATION,
    PROGRAM,
    RECORDS,
    TABLES,
    TRAINING,
    WEIGHTS,
    Kind,
    Need,
    Setting,
)
from touchstone.schema.epochs import Epochs
from touchstone.schema.spec import PINNED, Factors

RESULTS_FORMAT: Literal[3] = 3
"""Raised when the files under `results/` change in a way that older code cannot read."""
INITIAL, TRAINED = "initial", "trained"
"""The words for weights beside the names of frameworks."""

TRAINED_WEIGHTS = Need("weights: trained", lambda cell: cell.weights != INITIAL)
RECORD_FILES = Need("input: records", lambda cell: cell.input == "records")
SEVERAL = Need("several replicas or nodes", lambda cell: cell.world_size > 1)
WEIGHT_DECAY = Need("a weight_decay above 0", lambda cell: cell.weight_decay > 0)
STEP_SCHEDULE = Need("schedule: step", lambda cell: cell.schedule == "step")
ALL_EPOCHS = Need("an end with its epochs: no steps", lambda cell: cell.steps is None)
EVALUATIONS = Need(
    "evaluate_every above 0, or workload: inference",
    lambda cell: cell.evaluate_every > 0 or cell.kind == INFERENCE,
)

if TYPE_CHECKING:
    OptimizerName = str
else:
    OptimizerName = Literal[tuple(optimizers.names())]


def usual_with_optimizers() -> str:
    """What else is usual with an optimizer, in words, of those that have something."""
    by_name = {name: optimizers.usual(name) for name in optimizers.names()}
    return "".join(
        f"; with `{name}` a study that says nothing has "
        + " and ".join(f"`{key}: {value}`" for key, value in usual.items())
        for name, usual in by_name.items()
        if usual
    )


def own_setting(own: optimizers.OwnSetting, having: tuple[str, ...]) -> Any:
    """The annotation of a setting of these optimizers only."""
    needed = Need(f"optimizer: {' or '.join(having)}", lambda cell: cell.optimizer in having)
    text = f"{', '.join(f'`{name}`' for name in having)}: {own.description}"
    bounds: dict[str, Any] = own.bounds
    shown = RECORDS if own.name in Factors._fields else None
    return Annotated[
        type(own.default),
        Field(description=text, **bounds),
        Setting(OF_A_NETWORK, decides=WEIGHTS, shown=shown, needs=needed),
    ]


class Cell(BaseModel):
    """One point of a study. In `defaults` each setting has one value; in a sweep, one or a list."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    framework: Annotated[
        str,
        Field(description="a file of `touchstone/runner/adapters/`"),
        Setting(OF_ALL, in_names="", shown=TABLES, compared=FIRST, common=True),
    ]
    program: Annotated[
        str | None,
        Field(
            description="one of the study's `programs`, a script of your own, instead of a network "
            "(`docs/programs.md`)"
        ),
        Setting((PROGRAM,), in_names="", shown=TABLES, compared=FIRST),
    ] = None
    style: Annotated[
        Literal["tuned", "plain"],
        Field(
            description="whose code trains: `tuned`, what an expert writes for the framework; "
            "`plain`, what its own tutorials show, with the same weights, batches and update "
            "equation (`docs/styles.md`)"
        ),
        Setting(OF_A_NETWORK, in_names="", shown=TABLES, compared=FIRST),
    ] = "tuned"
    environment: Annotated[
        str,
        Field(
            description="where the framework is installed: `pinned`, as `envs/<framework>.yaml` "
            "says, or one of the study's `environments` (`docs/environments.md`)"
        ),
        Setting(OF_ALL, in_names="", shown=TABLES, compared=FIRST),
    ] = PINNED
    network: Annotated[
        str,
        Field(
            description="a file of `touchstone/networks/`, which is trained, or of "
            "`touchstone/operations/`, which is called repeatedly; of a program, your word for "
            "what it does: only programs with the same word are compared"
        ),
        Setting(OF_ALL, in_names="", decides=INITIAL_WEIGHTS, shown=TABLES, common=True),
    ]
    dataset: Annotated[
        str,
        Field(
            description="a file of `config/datasets/`; of an operation its shape, as "
            "`3072x128x1024`, or a file of `config/operations/`: all shapes listed there; of a "
            "program, your word"
        ),
        Setting(OF_ALL, in_names="", decides=INITIAL_WEIGHTS, shown=TABLES, common=True),
    ]
    device: Annotated[
        Literal["cpu", "gpu", "available"],
        Field(
            description="where it trains; GPU cells use `envs/<framework>-gpu.yaml`. Without that "
            "file, or on a machine without an NVIDIA GPU, they are `unsupported`, and nothing is "
            "installed. A sweep's `available` is `cpu`, and `gpu` where this machine has one"
        ),
        Setting(OF_ALL, in_names="", shown=TABLES, compared=ELSE, common=True),
    ] = "cpu"
    precision: Annotated[
        Literal["fp32", "fp64", "tf32", "bf16", "fp16-amp"],
        Field(
            description="of weights and arithmetic (`docs/precision.md`): `fp32` and `fp64` of "
            "both; `tf32`, `bf16` and `fp16-amp` (with dynamic loss scaling) of products, with "
            "weights in fp32; `unsupported` where a framework or device lacks it"
        ),
        Setting((*OF_A_NETWORK, OPERATION), in_names="", shown=TABLES, compared=ELSE, common=True),
    ] = "fp32"
    mode: Annotated[
        str | None,
        Field(
            description="execution mode, one of the framework's `MODES`; null is the first of "
            "them, and tables print its name; `best`: each run first has all modes take turns for "
            "a few seconds each, then `threads` and `wait_policy` if the study does not set them, "
            "and trains with the first mode unless others are shown to be faster "
            "(`docs/measuring.md`)"
        ),
        Setting(OF_A_NETWORK, shown=TABLES, compared=FIRST, common=True),
    ] = None
    input: Annotated[
        Literal["memory", "records", "synthetic"],
        Field(
            description="`memory`: the data set, read from the framework's record format before "
            "training; `records`: each batch is read from it during training; `synthetic`: seeded "
            "noise of the same shape, not shuffled, so that a step only computes"
        ),
        Setting(OF_A_NETWORK, shown=TABLES, compared=ELSE, common=True),
    ] = "memory"
    workload: Annotated[
        Literal["training", "inference"],
        Field(
            description="`inference`: instead of training, read weights and predict the test set "
            "in batches of `batch_size` (`docs/inference.md`)"
        ),
        Setting(OF_A_NETWORK),
    ] = "training"
    weights: Annotated[
        str,
        Field(
            description="`inference`: `trained`, the weights of the training cell with equal "
            "settings; the name of a framework, those of its training cell; `initial`, the initial "
            "weights"
        ),
        Setting((INFERENCE,)),
    ] = TRAINED
    trained_batch_size: Annotated[
        int | None,
        Field(gt=0, description="`inference`: batch size of that training cell; null is the same"),
        Setting((INFERENCE,), needs=TRAINED_WEIGHTS),
    ] = None
    reader_threads: Annotated[
        int | None,
        Field(
            ge=0,
            description="`records`: threads that read ahead, in addition to those that compute; "
            "0: read before each step; null: as many as compute, which is one per core that the "
            "run may use",
        ),
        Setting((TRAINING,), compared=ELSE, needs=RECORD_FILES),
    ] = 1
    replicas: Annotated[
        int,
        Field(
            gt=0,
            description="replicas that train one model data-parallel: devices (`gpu`), or "
            "processes or logical devices that share the threads (`cpu`); `docs/parallel.md`",
        ),
        Setting(OF_A_NETWORK, compared=ELSE, scales=True),
    ] = 1
    nodes: Annotated[
        int,
        Field(
            gt=0,
            description="nodes of a Slurm cluster, each with this number of `replicas` and "
            "`threads`; `docs/parallel.md`",
        ),
        Setting(OF_A_NETWORK, compared=ELSE, scales=True),
    ] = 1
    batch_split: Annotated[
        Literal["effective", "per_replica"],
        Field(
            description="`effective`: a batch is split evenly over the replicas; `per_replica`: "
            "each replica has its own batch of `batch_size`"
        ),
        Setting(OF_A_NETWORK, compared=ELSE, scales=True, needs=SEVERAL),
    ] = "effective"
    batch_size: Annotated[
        int,
        Field(
            gt=0, description="examples per step; of a program, what its argument `{batch_size}` is"
        ),
        Setting(
            (*OF_A_NETWORK, PROGRAM),
            in_names="b",
            probe=1,
            shown=TABLES,
            compared=ELSE,
            common=True,
        ),
    ] = 64
    learning_rate: Annotated[
        float,
        Field(gt=0, description="step size before any schedule"),
        Setting(
            OF_A_NETWORK, in_names="lr", decides=WEIGHTS, probe=1e-6, shown=TABLES, common=True
        ),
    ] = 0.01
    initialisation: Annotated[
        Literal["paper", "framework", "he", "glorot"],
        Field(
            description="of the weights, the same numbers in every framework: `paper` as the "
            "network's source states it, where it is silent He before a ReLU, Glorot elsewhere and "
            "small numbers in the output layer; `framework`: as the framework does by itself; `he` "
            "or `glorot`: in all layers (`docs/parity.md`)"
        ),
        Setting(OF_A_NETWORK, decides=INITIAL_WEIGHTS, probe="paper"),
    ] = "paper"
    optimizer: Annotated[
        OptimizerName,
        Field(
            description="the update equation, the same in every framework (`docs/parity.md`), a "
            f"file of `touchstone/optimizers/`{usual_with_optimizers()}"
        ),
        Setting(OF_A_NETWORK, decides=WEIGHTS, shown=RECORDS, common=True),
    ] = "sgd"
    for _own, _optimizers in optimizers.settings():
        __annotations__[_own.name] = own_setting(_own, _optimizers)
        vars()[_own.name] = _own.default
    del _own, _optimizers
    weight_decay: Annotated[
        float,
        Field(ge=0, description="d of the two settings below"),
        Setting(OF_A_NETWORK, decides=WEIGHTS, shown=RECORDS),
    ] = 0.0
    weight_decay_form: Annotated[
        Literal["coupled", "decoupled"],
        Field(description="`coupled`: g = g + d w; `decoupled`: w = w - rate d w before the step"),
        Setting(OF_A_NETWORK, decides=WEIGHTS, needs=WEIGHT_DECAY),
    ] = "coupled"
    weight_decay_on: Annotated[
        Literal["all", "weights"],
        Field(description="`weights` spares biases and batch normalisation's scale and offset"),
        Setting(OF_A_NETWORK, decides=WEIGHTS, needs=WEIGHT_DECAY),
    ] = "all"
    schedule: Annotated[
        Literal["constant", "step", "cosine"],
        Field(
            description="of the rate: `step` multiplies it by `lr_gamma` at each of the "
            "`milestones`, `cosine` lets it fall to 0 over the run"
        ),
        Setting(OF_A_NETWORK, decides=WEIGHTS, probe="constant", shown=RECORDS),
    ] = "constant"
    milestones: Annotated[
        list[Annotated[float, Field(gt=0)]],
        Field(
            description="`step`: epochs after which the rate changes, as [82, 123]; in a sweep a "
            "list of such lists is several values"
        ),
        Setting(OF_A_NETWORK, decides=WEIGHTS, probe=[]),
    ] = []
    lr_gamma: Annotated[
        float,
        Field(gt=0, description="`step`: what it changes by"),
        Setting(OF_A_NETWORK, decides=WEIGHTS, probe=0.1, needs=STEP_SCHEDULE),
    ] = 0.1
    lr_warmup_epochs: Annotated[
        float,
        Field(ge=0, description="the rate grows linearly over this many epochs"),
        Setting(OF_A_NETWORK, decides=WEIGHTS, probe=0.0),
    ] = 0.0
    crop_padding: Annotated[
        int,
        Field(
            ge=0,
            description="augmentation: each example is cut at random from itself with this many "
            "zeros (the mean pixel) on every side, pixels",
        ),
        Setting(OF_A_NETWORK, decides=WEIGHTS),
    ] = 0
    crop_area: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            description="augmentation: each example is a random window of itself, resized to its "
            "size; the least share of its area (0.08 is usual for photos; 0: none)",
        ),
        Setting(OF_A_NETWORK, decides=WEIGHTS),
    ] = 0.0
    flip: Annotated[
        bool,
        Field(description="augmentation: half of the examples are mirrored left to right"),
        Setting(OF_A_NETWORK, decides=WEIGHTS),
    ] = False
    epochs: Annotated[
        int,
        Field(gt=0, le=1_000_000, description="passes over the training set"),
        Setting(OF_A_NETWORK, decides=WEIGHTS, probe=1, shown=RECORDS, common=True),
    ] = 20
    last_batch: Annotated[
        Literal["drop", "keep"],
        Field(
            description="the examples that are left after the last whole batch of an epoch: "
            "`drop`, or `keep` them as a smaller batch; `unsupported` where a framework compiles "
            "for one batch size or normalises by it"
        ),
        Setting(OF_A_NETWORK, decides=WEIGHTS, probe="drop"),
    ] = "drop"
    steps: Annotated[
        int | None,
        Field(
            gt=0,
            description="the run ends after this number of measured steps, without an evaluation; "
            "its `epochs` must have twice as many steps, for the warm-up; null: it ends with its "
            "epochs",
        ),
        Setting((TRAINING,), probe=None, shown=RECORDS),
    ] = None
    evaluate_every: Annotated[
        int,
        Field(
            ge=0,
            description="epochs between evaluations on the test set, which interrupt the measured "
            "time; 0: only after the last epoch",
        ),
        Setting((TRAINING,), probe=0),
    ] = 0
    target_accuracy: Annotated[
        float | None,
        Field(
            gt=0,
            le=1,
            description="share of the test set: `time_to_accuracy` is the training time until an "
            "evaluation reaches it; null: none",
        ),
        Setting((TRAINING,), probe=None),
    ] = None
    training_accuracy: Annotated[
        bool,
        Field(
            description="also evaluate the network on its training set, after the last epoch and "
            "as on the test set (no dropout, no augmentation): the metric `training_accuracy`. Its "
            "time is in no phase and in no other metric of time"
        ),
        Setting((TRAINING,), probe=False, needs=ALL_EPOCHS),
    ] = False
    kept_weights: Annotated[
        Literal["last", "best"],
        Field(
            description="which weights inference takes: those of the `last` epoch, or with "
            "`evaluate_every` those of the evaluation with the `best` accuracy, the earliest of "
            "equal ones; an inference cell names the same as the cell that trains"
        ),
        Setting(OF_A_NETWORK, decides=WEIGHTS, probe="last", needs=EVALUATIONS),
    ] = "last"
    seed: Annotated[
        int,
        Field(
            ge=0,
            lt=2**31,
            description="of weights and order of examples; repeat n trains with seed + n - 1",
        ),
        Setting(OF_ALL, decides=INITIAL_WEIGHTS, probe=0),
    ] = 2026
    threads: Annotated[
        int | None,
        Field(gt=0, description="cores and threads of a CPU run; null: all it may use"),
        Setting(OF_ALL, compared=ELSE, scales=True, common=True),
    ] = None
    wait_policy: Annotated[
        Literal["default", "passive", "active"],
        Field(
            description="what an idle worker thread does: `default` leaves it to the framework, "
            "`passive` lets it sleep, `active` lets it spin (`OMP_WAIT_POLICY`, and what else a "
            "framework has for it)"
        ),
        Setting(OF_ALL, compared=ELSE),
    ] = "default"
    variables: Annotated[
        dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str],
        Field(
            description="environment variables of the run, as `{ONEDNN_MAX_CPU_ISA: AVX2}`; of the "
            "shell's own a run gets only those that `docs/measuring.md` lists"
        ),
        Setting(OF_ALL),
    ] = {}
    deterministic: Annotated[
        bool,
        Field(
            description="ask the framework for its deterministic algorithms, and seed its dropout; "
            "`unsupported` where it has none"
        ),
        Setting(OF_A_NETWORK, compared=ELSE),
    ] = False
    warmup_steps: Annotated[
        int, Field(ge=0, description="fewest steps before measuring"), Setting(OF_ALL, probe=0)
    ] = 20
    warmup_seconds: Annotated[
        float,
        Field(ge=0, le=YEAR, description="least time before measuring, s; at most half the steps"),
        Setting(OF_ALL, probe=0.0),
    ] = 2.0
    chunk_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=YEAR,
            description="duration of a chunk of steps, s, approximately; 0: chunks of one step, so "
            "that a chunk's time is a step's latency",
        ),
        Setting(OF_ALL, probe=0.05),
    ] = 0.05
    operation_seconds: Annotated[
        float,
        Field(gt=0, le=YEAR, description="how long an operation is measured, s"),
        Setting((OPERATION,)),
    ] = 5.0
    program_seconds: Annotated[
        float,
        Field(gt=0, le=YEAR, description="how long a program is measured, s"),
        Setting((PROGRAM,), probe=0.5),
    ] = 10.0
    inference_seconds: Annotated[
        float,
        Field(
            gt=0,
            le=YEAR,
            description="how long inference is measured, s: once for its throughput, once for "
            "the latency of every batch",
        ),
        Setting((INFERENCE,)),
    ] = 5.0
    sampling_interval: Annotated[
        float,
        Field(ge=0.05, le=3600, description="between sensor samples, s"),
        Setting(OF_ALL, probe=0.1),
    ] = 1.0
    time_limit: Annotated[
        float, Field(gt=0, le=YEAR, description="of a whole run, s"), Setting(OF_ALL)
    ] = 3600.0
    time_limit_factor: Annotated[
        float | None,
        Field(
            gt=0,
            description="a CPU run that other programs slow down ends after this multiple of the "
            "time estimated for its steps (`docs/measuring.md`); null: only at `time_limit`",
        ),
        Setting(OF_ALL, probe=None),
    ] = 10.0
    memory_limit: Annotated[
        float | None,
        Field(gt=0, description="host memory of a run, MiB; null: all there is"),
        Setting(OF_ALL),
    ] = None

    @property
    def kind(self) -> Kind:
        """What it does: `training`, `inference`, `operation` or `program`."""
        if self.program is not None:
            return PROGRAM
        return OPERATION if self.network in operations.names() else self.workload

    @property
    def reads(self) -> bool:
        """Whether it reads record files."""
        return self.kind in OF_A_NETWORK and self.input != "synthetic"

    @property
    def world_size(self) -> int:
        """The replicas of all nodes."""
        return self.replicas * self.nodes

    @property
    def global_batch_size(self) -> int:
        """Examples of a step, over all replicas."""
        return self.batch_size * (self.world_size if self.batch_split == "per_replica" else 1)

    def batches(self, examples: int) -> Epochs:
        """The batches of its epochs, which have so many examples."""
        return Epochs(examples, self.global_batch_size, self.last_batch)


def cell_of(values: dict[str, Any]) -> Cell:
    """The cell with these settings; where they say nothing, with what is usual with its
    optimizer."""
    return Cell(**{**optimizers.usual(values.get("optimizer", "")), **values})


@cache
def checker(name: str) -> TypeAdapter[Any]:
    """What checks a single value of a setting."""
    field = Cell.model_fields[name]
    annotation: Any = field.annotation
    for constraint in field.metadata:
        annotation = Annotated[annotation, constraint]
    return TypeAdapter(annotation, config=ConfigDict(strict=True, allow_inf_nan=False))


def traits_of(name: str, metadata: list[Any]) -> Setting:
    """The traits of a setting; raises TypeError for one that is declared without them."""
    for item in metadata:
        if isinstance(item, Setting):
            return item
    raise TypeError(f"Cell.{name} has no traits: add a Setting(...) to its declaration")


SETTINGS = {name: traits_of(name, field.metadata) for name, field in Cell.model_fields.items()}
"""The traits of each setting, in the order of the declarations."""


def settings(chosen: Callable[[Setting], bool]) -> tuple[str, ...]:
    """The names of the settings whose traits are as `chosen` says."""
    return tuple(name for name, traits in SETTINGS.items() if chosen(traits))


class Study(BaseModel):
    """The top level of a configuration."""

    model_config = ConfigDict(extra="forbid", strict=True)

    results_format: Annotated[
        Literal[3],
        Field(description="version of the layout of `results/`; written into the resolved file"),
    ] = RESULTS_FORMAT
    study: Annotated[
        str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="a short name of the study")
    ]
    title: Annotated[
        str,
        StringConstraints(strip_whitespace=True),
        Field(min_length=1, description="the report's heading"),
    ]
    repeats: Annotated[int, Field(gt=0, le=10_000, description="fresh processes per cell")] = 3
    parity: Annotated[
        bool,
        Field(
            description="compute the certificates of the study's networks too; without them every "
            "speed has the flag that equal computation is not shown"
        ),
    ] = True
    strict: Annotated[
        bool,
        Field(
            description="end with an exit status other than 0 if a planned run has no result, after"
            " all tables and pages are written (`docs/commands.md`)"
        ),
    ] = True
    find_max_batch: Annotated[
        bool,
        Field(
            description="also search for the largest batch that fits into `memory_limit` or the "
            "device's memory, once for all cells whose settings need equal memory"
        ),
    ] = False
    interleave: Annotated[
        Interleave | None,
        Field(
            description="also measure the cells of each comparison in turn, slice by slice, and"
            " take the ratios of speeds from there: noise of the machine changes all cells alike"
            " (`docs/measuring.md`); null: no"
        ),
    ] = None
    profile: Annotated[
        bool,
        Field(
            description="also profile some steps of every cell that trains, after its runs and in"
            " a process of its own: the time of each layer, forward and backward, in every"
            " framework (`docs/bottleneck.md`)"
        ),
    ] = False
    environments: Annotated[
        dict[EnvironmentName, Environment],
        Field(
            description="environments of your own beside the pinned ones, by name: `{nightly: "
            "{framework: pytorch, python: /opt/nightly/bin/python}}` (`docs/environments.md`)"
        ),
    ] = {}
    programs: Annotated[
        dict[EnvironmentName, Program],
        Field(
            description="scripts of your own, by name, as `{mine: {file: train.py, framework: "
            "pytorch}}` (`docs/programs.md`); a sweep runs them with `program: [mine]`"
        ),
    ] = {}
    compare_with: Annotated[
        list[str],
        Field(
            description="bundles of other machines' results (`docs/machines.md`), as paths: the "
            "report shows them beside this machine's, and a published study's claims count them"
        ),
    ] = []
    mirror: Annotated[
        str | None,
        Field(
            pattern=r"^https?://[^/\s]\S*$",
            description="a base URL that is tried before a data set's own sources",
        ),
    ] = None
    price_per_hour: Annotated[
        str | None,
        Field(
            pattern=r"^[0-9]+(\.[0-9]+)? [A-Z]{3}$",
            description="what the machine costs, as `0.40 USD`: the report shows what a million"
            " examples cost",
        ),
    ] = None
    scale: Annotated[
        Literal["paper", "hour", "smoke"],
        Field(
            description="how much of the study is done: all of it, or each cell as short as one of "
            "the `scales` says (`docs/studies.md`)"
        ),
    ] = "paper"
    scales: Annotated[
        dict[Literal["hour", "smoke"], Scale],
        Field(
            description="what a shorter scale changes: `repeats`, single settings of `defaults`, "
            "and of the `sweeps`, a mapping for each of them"
        ),
    ] = {}
    defaults: Annotated[
        dict[str, Any],
        Field(description="settings for every cell, one value each; a sweep's own come first"),
    ] = {}
    sweeps: Annotated[
        list[dict[str, Any]],
        Field(
            min_length=1,
            description="each a cross of its settings: every value of every list with every other",
        ),
    ]
