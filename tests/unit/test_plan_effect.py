"""Settings that a study writes and no cell heeds are refused."""

import datetime

import pytest

from touchstone.plan.effect import missing_requirement, without_effect
from touchstone.plan.model import Cell
from touchstone.plan.read import ConfigError, read
from touchstone.plan.study import make_plan

TRAINING = {"framework": "pytorch", "network": "lenet5", "dataset": "mnist-5k"}
PRODUCT = {"framework": "pytorch", "network": "gemm", "dataset": "64x64x64"}


def study(*sweeps, **defaults):
    return {"study": "s", "title": "t", "sweeps": list(sweeps), "defaults": defaults}


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"optimizer": "adam", "momentum": 0.5}, "momentum: has no effect without optimizer: sgd"),
        ({"beta1": 0.5}, "beta1: has no effect without optimizer: adam"),
        ({"lr_gamma": 0.5}, "lr_gamma: has no effect without schedule: step"),
        ({"weight_decay_on": "weights"}, "weight_decay_on: has no effect without a weight_decay"),
        ({"reader_threads": 2}, "reader_threads: has no effect without input: records"),
        ({"operation_seconds": 2.0}, "operation_seconds: has no effect without an operation"),
        ({"weights": "initial"}, "weights: has no effect without workload: inference"),
        ({"batch_split": "per_replica"}, "batch_split: has no effect without several replicas"),
        (
            {"workload": "inference", "weights": "initial", "epochs": 5},
            "epochs: has no effect without weights: trained",
        ),
    ],
)
def test_a_setting_that_nothing_heeds_is_refused(root, settings, fault):
    with pytest.raises(ConfigError) as refused:
        make_plan(study({**TRAINING, **settings}), root)
    assert f"sweeps[0].{fault}" in str(refused.value)


def test_a_setting_of_training_is_refused_for_an_operation(root):
    with pytest.raises(ConfigError) as refused:
        make_plan(study({**PRODUCT, "batch_size": 32}), root)
    assert "sweeps[0].batch_size: has no effect without a network that is trained" in str(
        refused.value
    )


def test_one_value_of_a_sweep_that_heeds_it_is_enough(root):
    plan = make_plan(study({**TRAINING, "optimizer": ["sgd", "adam"], "momentum": 0.5}), root)
    assert len(plan.cells) == 2


def test_a_default_may_be_for_some_sweeps_only(root):
    make_plan(study(TRAINING, PRODUCT, batch_size=32, operation_seconds=1.0), root)
    with pytest.raises(ConfigError) as refused:
        make_plan(study(TRAINING, operation_seconds=1.0), root)
    assert "  defaults.operation_seconds: has no effect without an operation" in str(refused.value)


def test_without_cells_nothing_is_said():
    assert without_effect(["momentum"], []) == []


def test_what_every_training_heeds_lacks_nothing():
    cell = Cell(**TRAINING)
    for name in ("batch_size", "learning_rate", "momentum", "epochs", "threads", "seed"):
        assert missing_requirement(cell, name) is None


def test_the_shipped_studies_write_nothing_without_effect_at_any_scale(root):
    for path in [root / "config/config.yaml", *(root / "config/studies").glob("*.yaml")]:
        config = read(path)
        for scale in (None, *config.get("scales", {})):
            make_plan({**config, **({"scale": scale} if scale else {})}, root)


def test_a_study_of_too_many_runs_is_answered_at_once(root):
    seeds, epochs = list(range(1000)), list(range(1, 1001))
    for change, fault in (
        ({"repeats": 10**9}, "repeats: input should be less than or equal to 10000"),
        ({"repeats": 10_000, "sweeps": [{**TRAINING, "seed": seeds[:200]}]}, "200 cells x 10,000"),
        (
            {"sweeps": [{**TRAINING, "seed": seeds, "epochs": epochs}]},
            "sweeps[0]: 1,000,000 cells, more than 100,000; split the study",
        ),
    ):
        with pytest.raises(ConfigError) as refused:
            make_plan({**study(TRAINING), **change}, root)
        assert fault in str(refused.value)


def test_what_yaml_makes_of_a_date_is_refused_from_snakemake_too(root):
    with pytest.raises(ConfigError) as refused:
        make_plan({**study(TRAINING), "title": datetime.date(2026, 1, 1)}, root)
    assert "check-config names the line" in str(refused.value)
