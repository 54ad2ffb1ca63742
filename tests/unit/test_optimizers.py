"""Optimizers are files: what they declare is what cells, specs, pages and adapters have."""

import ast
import json
import re
import sys
import types

import numpy as np
import pytest

from fixtures.specs import training_spec
from touchstone import optimizers
from touchstone.plan import frameworks
from touchstone.plan.effect import missing_requirement
from touchstone.plan.model import SETTINGS, Cell
from touchstone.plan.read import ConfigError, name_of
from touchstone.plan.setting import WEIGHTS
from touchstone.plan.spec import make_spec, optimizer_of
from touchstone.plan.study import make_plan

CELL = {"framework": "pytorch", "network": "lenet5", "dataset": "mnist-5k"}
OWN = {own.name: having for own, having in optimizers.settings()}


def test_the_files_are_for_the_oldest_python_and_import_no_library(root):
    """The plan imports all of them, and so does CNTK's process."""
    for path in (root / "workflow/scripts/touchstone/optimizers").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 6))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                name = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                first = name.split(".")[0]
                assert first in sys.stdlib_module_names or first == "touchstone", path


def planned(root, **settings):
    """The cells of a study of one sweep."""
    study = {"study": "s", "title": "t", "sweeps": [{**CELL, **settings}]}
    return list(make_plan(study, root).cells.values())


def test_the_optimizers_are_the_files():
    assert optimizers.names() == ["adam", "adamw", "rmsprop", "sgd"]
    assert optimizers.equations() == ["adam", "rmsprop", "sgd"]


@pytest.mark.parametrize("name", optimizers.names())
def test_a_cell_heeds_the_settings_of_its_optimizer_only(name):
    cell = Cell(**CELL, optimizer=name)
    heeded = {setting for setting in OWN if missing_requirement(cell, setting) is None}
    assert heeded == {own.name for own in optimizers.own_settings(name)}
    assert set(optimizer_of(cell).settings) == heeded


@pytest.mark.parametrize("own", [own for own, _ in optimizers.settings()], ids=lambda o: o.name)
def test_an_own_setting_is_a_setting_of_a_cell_with_its_traits(own):
    field, traits = Cell.model_fields[own.name], SETTINGS[own.name]
    assert (field.default, field.annotation) == (own.default, type(own.default))
    assert traits.decides == WEIGHTS and traits.needs is not None
    assert traits.needs.words == f"optimizer: {' or '.join(OWN[own.name])}"
    with pytest.raises(ValueError, match=own.name):
        Cell(**CELL, **{own.name: -1})


def test_a_setting_that_two_files_declare_is_refused(monkeypatch):
    again = optimizers.OwnSetting("epsilon", 1e-7, "another epsilon")
    file = types.SimpleNamespace(SETTINGS=(again,))
    files = {**{name: optimizers.load(name) for name in optimizers.names()}, "zzz": file}
    monkeypatch.setattr(optimizers, "names", lambda: sorted(files))
    monkeypatch.setattr(optimizers, "load", files.get)
    with pytest.raises(ValueError, match=r"zzz.py declares epsilon again, which adam has"):
        optimizers.settings()


def test_adamw_is_adam_with_other_usual_values(root):
    (usual,) = planned(root, optimizer="adamw")
    (said,) = planned(root, optimizer="adam", weight_decay=0.01, weight_decay_form="decoupled")
    assert optimizer_of(usual) == optimizer_of(said)
    assert name_of(usual) != name_of(said)
    (without,) = planned(root, optimizer="adamw", weight_decay=0.0)
    assert optimizer_of(without).weight_decay == 0
    assert make_spec(usual, 1, root).factors.optimizer == "adamw"


def test_a_cell_is_the_same_after_its_way_to_the_job_that_trains_it(root):
    """It leaves out what is usual for all cells, which may not be what is usual for adamw."""
    for settings in ({}, {"weight_decay": 0.0}, {"weight_decay": 0.01}):
        (cell,) = planned(root, optimizer="adamw", **settings)
        assert Cell(**json.loads(json.dumps(cell.model_dump(exclude_defaults=True)))) == cell


def test_a_coupled_adamw_is_refused(root):
    with pytest.raises(ConfigError, match="weight_decay_form: adamw is adam with decoupled decay"):
        planned(root, optimizer="adamw", weight_decay_form="coupled")


def test_names_of_cells_do_not_know_of_optimizers_that_they_have_not():
    """As they were when there was neither rmsprop nor adamw: studies go on."""
    cell = {**CELL, "mode": "eager_channels_last"}
    assert name_of(Cell(**cell)) == "pytorch-lenet5-mnist-5k-cpu-fp32-b64-lr0.01"
    for settings, digest in (
        ({"optimizer": "adam"}, "093a6d64"),
        ({"momentum": 0.5, "nesterov": True}, "9f5c087f"),
    ):
        assert name_of(Cell(**cell, **settings)).rpartition("-")[2] == digest


@pytest.mark.parametrize("framework", frameworks.names())
def test_an_optimizer_that_an_adapter_lacks_is_unsupported_before_the_run(framework, monkeypatch):
    cell = Cell(**{**CELL, "framework": framework}, optimizer="adamw", mode="x")
    assert frameworks.unsupported(cell) is None
    fewer = frameworks.capabilities(framework)._replace(optimizers=("sgd",))
    monkeypatch.setattr(frameworks, "capabilities", lambda name: fewer)
    why = "this adapter has no optimizer 'adam'; it has sgd"
    assert frameworks.unsupported(cell) == why
    assert frameworks.unsupported(cell.model_copy(update={"optimizer": "sgd"})) is None
    # It predicts with the weights that another framework's optimizer left.
    assert frameworks.unsupported(cell.model_copy(update={"workload": "inference"})) is None


@pytest.mark.parametrize("framework", frameworks.names())
def test_an_adapter_promises_optimizers_that_there_are(framework):
    promised = frameworks.capabilities(framework).optimizers
    assert set(promised) <= set(optimizers.equations())


def test_no_adapter_takes_one_optimizer_for_all_others(root):
    """None compares the optimizer's name and does something else for whatever is not that."""
    for path in (root / "workflow/scripts/touchstone/runner").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.If | ast.IfExp) and node.orelse:
                compared = ast.unparse(node.test)
                assert not re.search(r"\.optimizer\.name|optimizer\.name [=!]=", compared), path


def solved_from(name, own, precision=np.float64):
    """The settings that an equation shows in single numbers, in NumPy."""
    equation = optimizers.load(name)
    ones = [precision(1)] * len(equation.corrections(1, own))

    def stepped(gradient, states):
        numbers = [np.array(number, precision) for number in states]
        taken, new = equation.direction(precision(gradient), numbers, ones, own, np.sqrt)
        return float(taken), [float(state) for state in new]

    return equation.solved(stepped, equation.states(own))


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("sgd", {}),
        ("sgd", {"momentum": 0.0}),
        ("sgd", {"nesterov": True}),
        ("adam", {}),
        ("adam", {"beta1": 0.0, "epsilon": 1e-3}),
        ("rmsprop", {}),
        ("rmsprop", {"rho": 0.5, "epsilon": 0.25}),
    ],
)
def test_the_settings_of_an_equation_are_what_it_shows(name, change, precision):
    own = {one.name: one.default for one in optimizers.own_settings(name)} | change
    assert solved_from(name, own, precision) == pytest.approx(own, rel=1e-6)


def test_every_equation_is_in_the_document(root):
    page = (root / "docs/parity.md").read_text()
    for name in optimizers.names():
        assert f"| `{name}`" in page
        assert optimizers.load(name).__doc__.count("w = w - r") >= 1
    assert set(training_spec().optimizer.settings) == {"momentum", "nesterov"}
