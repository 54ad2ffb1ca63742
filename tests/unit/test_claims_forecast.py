"""How many claims a machine can decide, known before anything runs."""

import pytest

from fixtures.published import STUDIES, made, verdicts
from fixtures.tiers import tiered
from touchstone.plan.read import read_on_default
from touchstone.plan.study import make_plan, whole_cells
from touchstone.published.dossier import read_dossier
from touchstone.published.forecast import forecast, forecast_of
from touchstone.workflow.context import Context
from touchstone.workflow.start import claims_line


def nothing_but_a_cpu(device, replicas=1):
    return "no NVIDIA driver" if device == "gpu" else None


def anything(device, replicas=1):
    return None


def configured(root, name, **keys):
    return {**read_on_default(root, root / f"config/studies/{name}.yaml"), **keys}


def cells_of(root, name, devices=("cpu",), **keys):
    """The cells of a study, on each of these devices, and what they are in the whole study."""
    config = configured(root, name, **keys)
    plan = make_plan(config, root)
    return [
        {
            f"{name} {device}": cell.model_copy(update={"device": device})
            for name, cell in cells.items()
            for device in devices
        }
        for cells in (plan.cells, whole_cells(plan, config, root))
    ]


@pytest.fixture(scope="module")
def yin(root):
    return read_dossier(root / "config/claims/yin2020.yaml")


def test_a_cpu_judges_a_part_of_the_claims_and_replaces_a_gpu(root, yin):
    found = forecast(yin, *cells_of(root, "yin2020", scale="paper"), nothing_but_a_cpu, 3)
    assert found.claims == len(yin.claims) and found.shortened == 0
    assert 0 < found.stand_ins < found.decided == found.judged < found.claims
    both = forecast(yin, *cells_of(root, "yin2020", ("cpu", "gpu"), scale="paper"), anything, 3)
    assert both.judged > found.judged and both.stand_ins == 0


def test_cells_of_a_gpu_that_is_not_there_judge_nothing(root, yin):
    found = forecast(yin, *cells_of(root, "yin2020", ("gpu",), scale="paper"), nothing_but_a_cpu, 3)
    assert found.judged == 0


def test_a_short_scale_leaves_out_the_claims_that_need_the_whole_study(root, yin):
    whole = forecast(yin, *cells_of(root, "yin2020", scale="paper"), nothing_but_a_cpu, 3)
    short = forecast(yin, *cells_of(root, "yin2020", scale="smoke"), nothing_but_a_cpu, 3)
    assert short.shortened > 5 and short.judged + short.shortened == whole.judged
    assert f"; {short.shortened} more need the scale 'paper'." in short.text


def test_one_run_of_each_configuration_decides_nothing_without_turns(root):
    """Turns have an interval of speeds; what is counted needs none."""
    config = configured(root, "yin2020", scale="smoke")
    config["scales"]["smoke"]["repeats"] = 1
    once = forecast_of(make_plan(config, root), config, root, nothing_but_a_cpu)
    assert "can decide none; 20 have figures without an interval, as each configuration" in once
    config["interleave"] = {}
    in_turn = forecast_of(make_plan(config, root), config, root, nothing_but_a_cpu)
    decided = int(in_turn.split("can decide ")[1].split()[0].rstrip(",;"))
    assert 0 < decided < 20 and f"; {20 - decided} have figures without an interval" in in_turn
    config = configured(root, "lawrence2017", scale="smoke")
    counted = forecast_of(make_plan(config, root), config, root, nothing_but_a_cpu)
    assert "can decide 1" in counted


@pytest.mark.parametrize("name", tiered(STUDIES, lambda name: name != "piccione2018"))
def test_what_is_decided_at_the_shortest_scale_is_what_was_forecast(root, name):
    config = configured(root, name, scale="smoke")
    line = forecast_of(make_plan(config, root), config, root, nothing_but_a_cpu)
    found = list(verdicts(made(root, name, "smoke")).values())
    decided = sum(found.count(verdict) for verdict in ("reproduced", "contradicted"))
    undecided = found.count("cannot tell")
    if make_plan(config, root).study.repeats > 1:  # what can be decided need not be
        assert decided and f"claims this machine can decide {decided + undecided}" in line
        undecided = 0
    else:
        assert f"claims this machine can decide {decided or 'none'}" in line
    assert ("without an interval" in line) == bool(undecided)
    assert not undecided or f"; {undecided} have figures without an interval" in line


AT_SMOKE = {"keras3": 0, "lawrence2017": 1, "piccione2018": 2, "vo2021": 2, "yin2020": 20}
"""How many claims the shortest scale can decide on a CPU; those of yin2020 and vo2021 were 0."""


@pytest.mark.parametrize("name", STUDIES)
def test_the_shortest_scale_decides_claims(root, name):
    config = configured(root, name, scale="smoke")
    line = forecast_of(make_plan(config, root), config, root, nothing_but_a_cpu)
    assert f" can decide {AT_SMOKE[name] or 'none'}" in line


def test_the_hosts_memory_is_a_figure_where_only_claims_on_a_gpus_name_it(root):
    """vo2021 has no metric of the host's memory, by which a CPU judges the claim on a GPU's."""
    assert "host_memory" in read_dossier(root / "config/claims/vo2021.yaml").claimed
    found = verdicts(made(root, "vo2021"))
    assert found["mixed-precision-faster"] == "reproduced"
    assert found["mixed-precision-memory"] in ("reproduced", "contradicted", "cannot tell")


@pytest.mark.parametrize("name", STUDIES)
def test_a_machine_without_a_gpu_judges_claims_of_every_study(root, name):
    """`lawrence2017` names one that a CPU decides: the number of parameters."""
    config = configured(root, name, scale="paper")
    line = forecast_of(make_plan(config, root), config, root, nothing_but_a_cpu)
    assert line.startswith("Of the study's ") and "can decide none" not in line


def test_a_study_without_claims_says_nothing(root):
    for name in ("machine-check", "scaling"):
        config = configured(root, name)
        assert forecast_of(make_plan(config, root), config, root, nothing_but_a_cpu) == ""


def test_an_execution_says_it_before_it_begins(root):
    config = configured(root, "yin2020", scale="smoke")
    line = claims_line(Context(make_plan(config, root), root, 2, True))
    assert line.startswith("Of the study's 57 claims this machine can decide 20, ")
    config = configured(root, "scaling")
    assert claims_line(Context(make_plan(config, root), root, 2, True)) == ""
