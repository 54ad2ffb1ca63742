"""The traits of each setting are what the specs of cells show, and nothing is declared without."""

from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from touchstone import optimizers
from touchstone.analysis.scaling import MAY_DIFFER_FROM_BASELINE
from touchstone.plan.effect import missing_requirement
from touchstone.plan.frameworks import modes
from touchstone.plan.inference import DECIDE
from touchstone.plan.max_batch import SHARED
from touchstone.plan.model import SETTINGS, Cell, traits_of
from touchstone.plan.parts import Program
from touchstone.plan.read import NAMED, name_of
from touchstone.plan.setting import (
    INFERENCE,
    INITIAL_WEIGHTS,
    OF_A_NETWORK,
    OF_ALL,
    OPERATION,
    PROGRAM,
    TRAINING,
    Setting,
)
from touchstone.plan.spec import FACTORS as OF_RECORDS
from touchstone.plan.spec import make_spec
from touchstone.plan.table import cell_of, settings, texts
from touchstone.results.planned import COMPARED, COMPARED_ELSE, FACTORS

CELLS = {
    TRAINING: {"framework": "pytorch", "network": "lenet5", "dataset": "mnist-5k"},
    OPERATION: {"framework": "pytorch", "network": "rnn_forward", "dataset": "64x8x4"},
}
SCRIPT = Program(file=__file__, framework="pytorch", arguments=["{batch_size}"])
CELLS[PROGRAM] = {"framework": "pytorch", "network": "n", "dataset": "d", "program": "mine"}
CELLS[INFERENCE] = {**CELLS[TRAINING], "workload": "inference"}
STEP = {"schedule": "step", "milestones": [2.0]}
CHANGES = {
    "framework": "mxnet", "program": "other", "environment": "other", "style": "plain",
    "network": "lenet-caffe",
    "dataset": "mnist-5k-32", "device": "gpu", "precision": "fp64", "mode": "compile",
    "input": "synthetic", "weights": "initial", "trained_batch_size": 32,
    "reader_threads": 3, "replicas": 2, "nodes": 2, "batch_split": "per_replica",
    "batch_size": 128, "learning_rate": 0.5, "initialisation": "he", "optimizer": "adam",
    "momentum": 0.5, "nesterov": True, "beta1": 0.5, "beta2": 0.5, "epsilon": 0.5,
    "rho": 0.5,
    "weight_decay": 0.5, "weight_decay_form": "decoupled", "weight_decay_on": "weights",
    "schedule": "cosine", "milestones": [3.0], "lr_gamma": 0.5, "lr_warmup_epochs": 1.0,
    "crop_padding": 2, "crop_area": 0.5, "flip": True, "epochs": 7, "last_batch": "keep",
    "steps": 50, "evaluate_every": 1, "target_accuracy": 0.5, "training_accuracy": True,
    "kept_weights": "best", "seed": 1, "threads": 1, "wait_policy": "passive",
    "variables": {"A": "b"}, "deterministic": True, "warmup_steps": 1, "warmup_seconds": 1.0,
    "chunk_seconds": 1.0, "operation_seconds": 1.0, "inference_seconds": 1.0,
    "program_seconds": 1.0,
    "sampling_interval": 2.0, "time_limit": 7.0, "time_limit_factor": None, "memory_limit": 7.0,
}  # fmt: skip
"""By setting, another value than the usual one; `workload` is a cell's kind."""
CONTEXT = {
    **{own.name: {"optimizer": having[0]} for own, having in optimizers.settings()},
    **dict.fromkeys(("weight_decay_form", "weight_decay_on"), {"weight_decay": 0.1}),
    **dict.fromkeys(("milestones", "lr_gamma"), STEP),
    "batch_split": {"replicas": 2},
}
"""What a setting needs to have an effect."""


OF_AN_OPERATION = {"network": "gru_forward", "dataset": "32x8x4"}


def specs(kind, name, root):
    """The specs of a cell and of the same with another value, without what no runner reads."""
    cell = {**CELLS[kind], **CONTEXT.get(name, {})}
    change = OF_AN_OPERATION.get(name, CHANGES[name]) if kind == OPERATION else CHANGES[name]
    script = SCRIPT if kind == PROGRAM else None
    made = [make_spec(Cell(**each), 1, root, script) for each in (cell, {**cell, name: change})]
    read = (lambda f: (f.input, f.batch_size)) if kind in OF_A_NETWORK else (lambda factors: None)
    return [spec._replace(cell="", factors=read(spec.factors)) for spec in made]


ELSEWHERE = {
    **dict.fromkeys(("framework", "environment", "network", "dataset"), OF_ALL),
    "precision": (TRAINING, INFERENCE, OPERATION),
    "program": (PROGRAM,),
    **dict.fromkeys(("weights", "trained_batch_size"), (INFERENCE,)),
    "reader_threads": (TRAINING,),
    **dict.fromkeys(
        ("style", "mode", "replicas", "nodes", "batch_split", "deterministic"),
        (TRAINING, INFERENCE),
    ),
}
"""By setting, the kinds of cells that heed it, where no spec shows it: what decides the interpreter
and the file of weights, and what the execution of every run has a place for."""


def test_each_setting_has_another_value_here():
    assert {*CHANGES, "workload"} == set(SETTINGS)
    assert SETTINGS["workload"] == Setting(OF_A_NETWORK)


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("kind", CELLS)
def test_a_setting_is_of_the_kinds_of_cells_whose_runs_it_changes(kind, name, root):
    if name in ELSEWHERE:
        assert (kind in SETTINGS[name].of) == (kind in ELSEWHERE[name])
        return
    usual, other = specs(kind, name, root)
    weights = kind == INFERENCE and SETTINGS[name].decides is not None  # which ones it reads
    assert (usual != other or weights) == (kind in SETTINGS[name].of)


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("kind", CELLS)
def test_a_setting_stands_in_the_plan_and_is_read_as_it_was(kind, name):
    if name == "program" and kind != PROGRAM:
        return  # it would be a program
    heeded = kind in OF_A_NETWORK or (kind == PROGRAM and PROGRAM in SETTINGS[name].of)
    cell = Cell(**{**CELLS[kind], **({name: CHANGES[name]} if heeded else {})})
    row = texts(cell)
    assert settings(cell_of(row)) == settings(cell)
    assert kind not in OF_A_NETWORK or cell_of(row) == cell


def test_an_operation_that_this_version_lacks_is_refused():
    with pytest.raises(ValueError, match="this version has no operation 'lenet5'"):
        cell_of({**CELLS[TRAINING], "epochs": ""})


def test_a_word_of_another_version_is_read():
    assert cell_of({**CELLS[TRAINING], "optimizer": "newer"}).optimizer == "newer"


def test_a_setting_without_traits_is_refused():
    class Bare(BaseModel):
        rate: Annotated[float, Field(gt=0)] = 1.0

    with pytest.raises(TypeError, match="Cell.rate has no traits"):
        traits_of("rate", Bare.model_fields["rate"].metadata)


def decisive(spec):
    """The parts of a spec of training that decide which weights it leaves."""
    phases = (spec.phases.epochs, spec.phases.last_batch, spec.phases.kept_weights)
    return initial(spec), spec.optimizer, spec.schedule, spec.augmentation, phases


def initial(spec):
    """Those that decide the weights before the first step, and on what it trains."""
    return spec.seed, spec.network, spec.data._replace(format="", folder="", shards={})


@pytest.mark.parametrize("name", CHANGES)
def test_a_setting_decides_weights_where_the_training_differs(name, root):
    usual, other = specs(TRAINING, name, root)
    assert (decisive(usual) != decisive(other)) == (SETTINGS[name].decides is not None)
    assert (initial(usual) != initial(other)) == (SETTINGS[name].decides == INITIAL_WEIGHTS)
    assert (name in DECIDE) == (SETTINGS[name].decides is not None)


def test_names_spell_these_out_and_no_others():
    cell = {**CELLS[TRAINING], "style": "plain", "environment": "mine", "mode": "eager"}
    assert name_of(Cell(**cell)) == "pytorch-plain-mine-lenet5-mnist-5k-cpu-fp32-b64-lr0.01"
    name, _, digest = name_of(Cell(**CELLS[OPERATION])).rpartition("-")
    assert (name, len(digest)) == ("pytorch-rnn_forward-64x8x4-cpu-fp32", 8)
    assert name_of(Cell(**CELLS[PROGRAM], mode=modes("pytorch")[0])) == "pytorch-mine-n-d-cpu-b64"
    assert len(NAMED) == 10


def test_memory_does_not_depend_on_these():
    assert SHARED == {
        "batch_size": 1, "learning_rate": 1e-6, "initialisation": "paper", "schedule": "constant",
        "milestones": [], "lr_gamma": 0.1, "lr_warmup_epochs": 0.0, "epochs": 1,
        "last_batch": "drop", "training_accuracy": False, "kept_weights": "last", "steps": None,
        "evaluate_every": 0, "target_accuracy": None, "seed": 0, "warmup_steps": 0,
        "warmup_seconds": 0.0, "chunk_seconds": 0.05, "sampling_interval": 0.1,
        "time_limit_factor": None, "program_seconds": 0.5,
    }  # fmt: skip
    Cell(**{**CELLS[TRAINING], **SHARED})


NEEDED = {
    "trained_batch_size": {"workload": "inference", "weights": "trained"},
    "reader_threads": {"input": "records"},
    "batch_split": {"nodes": 2},
    "weight_decay_form": {"weight_decay": 0.1},
    "weight_decay_on": {"weight_decay": 0.1},
    "lr_gamma": STEP,
    "training_accuracy": {"steps": None},
    "kept_weights": {"evaluate_every": 1},
    **{own.name: {"optimizer": having[-1]} for own, having in optimizers.settings()},
}
"""By setting that needs others: settings with which it has an effect."""
WITHOUT = {
    "trained_batch_size": {"workload": "inference", "weights": "initial"},
    "training_accuracy": {"steps": 50},
    **dict.fromkeys(("momentum", "nesterov"), {"optimizer": "adam"}),
}
"""By setting: those without, where they are not the usual ones."""


@pytest.mark.parametrize("name", NEEDED)
def test_a_setting_has_an_effect_only_with_what_it_needs(name):
    usual = CELLS[TRAINING]
    assert missing_requirement(Cell(**usual, **NEEDED[name]), name) is None
    assert missing_requirement(Cell(**usual, **WITHOUT.get(name, {})), name) is not None


def test_the_others_need_nothing():
    needing = [name for name, traits in SETTINGS.items() if traits.needs]
    assert set(needing) == set(NEEDED)


def test_these_come_first_in_the_list_for_users():
    assert {name for name, traits in SETTINGS.items() if traits.common} == {
        "framework", "network", "dataset", "device", "precision", "mode", "input", "batch_size",
        "learning_rate", "optimizer", "epochs", "threads",
    }  # fmt: skip


def test_tables_and_records_show_these():
    assert FACTORS == (
        "framework", "program", "style", "environment", "network", "dataset", "device",
        "precision", "mode",
        "input", "batch_size", "learning_rate",
    )  # fmt: skip
    more = {"optimizer", "momentum", "weight_decay", "schedule", "epochs", "steps"}
    assert {*FACTORS, *more} - {"batch_size"} == OF_RECORDS


def test_compared_cells_may_differ_in_these():
    assert COMPARED == ("framework", "program", "style", "environment", "mode")
    assert set(COMPARED_ELSE) == {
        "device", "precision", "input", "reader_threads", "batch_size", "threads", "wait_policy",
        "deterministic", "replicas", "nodes", "batch_split",
    }  # fmt: skip
    assert set(MAY_DIFFER_FROM_BASELINE) == {"nodes", "replicas", "batch_split", "threads"}
