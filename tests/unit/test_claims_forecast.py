"""How many claims a machine can judge, known before anything runs."""

import pytest

from touchstone.plan.read import read_on_default
from touchstone.plan.study import make_plan
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


def pairs_of(root, name, devices=("cpu",), **keys):
    """The cells of a study, on each of these devices."""
    plans = [
        make_plan({**configured(root, name, **keys), "scale": scale}, root)
        for scale in ("paper", keys["scale"])
    ]
    return [
        tuple(cell.model_copy(update={"device": device}) for cell in pair)
        for device in devices
        for pair in zip(*(plan.cells.values() for plan in plans), strict=True)
    ]


@pytest.fixture(scope="module")
def yin(root):
    return read_dossier(root / "config/claims/yin2020.yaml")


def test_a_cpu_judges_a_part_of_the_claims_and_replaces_a_gpu(root, yin):
    found = forecast(yin, pairs_of(root, "yin2020", scale="paper"), nothing_but_a_cpu)
    assert found.claims == len(yin.claims) and found.shortened == 0
    assert 0 < found.stand_ins < found.judged < found.claims
    both = forecast(yin, pairs_of(root, "yin2020", ("cpu", "gpu"), scale="paper"), anything)
    assert both.judged > found.judged and both.stand_ins == 0


def test_cells_of_a_gpu_that_is_not_there_judge_nothing(root, yin):
    found = forecast(yin, pairs_of(root, "yin2020", ("gpu",), scale="paper"), nothing_but_a_cpu)
    assert found.judged == 0


def test_a_short_scale_leaves_out_the_claims_that_need_the_whole_study(root, yin):
    whole = forecast(yin, pairs_of(root, "yin2020", scale="paper"), nothing_but_a_cpu)
    short = forecast(yin, pairs_of(root, "yin2020", scale="smoke"), nothing_but_a_cpu)
    assert short.shortened > 5 and short.judged + short.shortened == whole.judged
    assert f"; {short.shortened} more need the scale 'paper'." in short.text


@pytest.mark.parametrize("name", ["keras3", "lawrence2017", "piccione2018", "vo2021", "yin2020"])
def test_a_machine_without_a_gpu_judges_claims_of_every_study(root, name):
    """`lawrence2017` names one that a CPU decides: the number of parameters."""
    config = configured(root, name, scale="paper")
    line = forecast_of(make_plan(config, root), config, root, nothing_but_a_cpu)
    assert line.startswith("Of the study's ") and "can judge 0" not in line


def test_a_study_without_claims_says_nothing(root):
    for name in ("machine-check", "scaling"):
        config = configured(root, name)
        assert forecast_of(make_plan(config, root), config, root, nothing_but_a_cpu) == ""


def test_an_execution_says_it_before_it_begins(root):
    config = configured(root, "yin2020", scale="smoke")
    line = claims_line(Context(make_plan(config, root), root, 2, True))
    assert line.startswith("Of the study's 57 claims this machine can judge ")
    config = configured(root, "scaling")
    assert claims_line(Context(make_plan(config, root), root, 2, True)) == ""
