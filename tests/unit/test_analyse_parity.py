"""What certificates and their table say where there is nothing to compare."""

import csv
import json
import re

import numpy as np
import pytest

from fixtures.commands import call
from touchstone import optimizers
from touchstone.plan.parity import OTHERS, SINGLE_STEPS
from touchstone.results.certificates import proof, read_certificates
from touchstone.results.parity import TOLERANCES, compare


@pytest.fixture
def certified(tmp_path):
    """Makes the certificate of a network for files of traces that hold a reason each."""

    def certify(network, **reasons):
        paths = {}
        for framework, told in reasons.items():
            paths[framework] = tmp_path / f"{framework}.npz"
            np.savez(paths[framework], **told)
        path = tmp_path / f"{network}.json"
        path.write_text(json.dumps(compare(network, paths)))
        return path

    return certify


@pytest.mark.parametrize(
    ("reference", "own", "entry", "why"),
    [
        ({}, {"unsupported": "no layer x"}, {"unsupported": "no layer x"},
         "unsupported: no layer x"),
        ({}, {"failed": "see its log"}, {"failed": "see its log"}, "see its log"),
        ({"unsupported": "no layer y"}, {}, {"failed": "a has no parity steps: no layer y"},
         "a has no parity steps: no layer y"),
        ({"failed": "see a log"}, {"unsupported": "no layer x"}, {"unsupported": "no layer x"},
         "unsupported: no layer x"),
    ],
)  # fmt: skip
def test_a_certificate_tells_what_cannot_be_done_from_what_failed(
    reference, own, entry, why, certified
):
    path = certified("net", a=reference, b=own)
    found = json.loads(path.read_text())["frameworks"]["b"]
    assert found == {"equal": False, "deviations": {}, "beyond": [], **entry}
    shown = proof(read_certificates([path]), "net", "b")
    assert (shown.verdict, shown.why) == ("not shown", why)


def traced(losses=0.0, gradient=0.0):
    """A trace of a network with one array, whose losses and gradient are so far from another."""
    return {
        "batches": np.arange(4), "before": np.ones(3), "after": np.ones(3),
        "losses": np.array([1.0, 1.0 + losses]), "weight:d.weight": np.ones(2),
        "moved:d.weight": np.array(0.5), "gradient:d.weight": np.array([1.0, 1.0 + gradient]),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("found", "apart", "beyond"),
    [
        ({"losses": 1e-3}, {}, [f"{name} losses" for name in sorted(SINGLE_STEPS)]),
        ({"losses": 1e-3}, {"losses": 6e-4}, []),
        ({"losses": 1e-3}, {"losses": 4e-4}, [f"{name} losses" for name in sorted(SINGLE_STEPS)]),
        ({"gradient": 1e-3}, {"gradient": 1e-2}, ["sgd32 gradients"]),
    ],
)
def test_what_rounding_sends_astray_by_chance_is_no_fault(found, apart, beyond, tmp_path):
    """The reference in single precision is exact here, as it may be by chance."""
    names = tuple(SINGLE_STEPS)
    reference = {name[:-2] + kind: traced() for name in names for kind in ("32", "64")}
    reference |= {name[:-2] + "64apart": traced(**apart) for name in names}
    files = {"c": dict.fromkeys(names, traced(**found)), "single": reference, "r": {}}
    for name, traces in files.items():
        arrays = {f"{t}/{key}": array for t, one in traces.items() for key, array in one.items()}
        np.savez(tmp_path / f"{name}.npz", **arrays)
    paths = {name: tmp_path / f"{name}.npz" for name in ("r", "c")}
    certificate = compare("net", paths, tmp_path / "single.npz")
    assert sorted(certificate["frameworks"]["c"]["beyond"]) == beyond


def steps_of(rounding, single=0.0, double=0.0, losses=0.0):
    """Parity steps whose logits in single precision are `rounding` from those in double, with a
    fault in one precision or both."""
    draw = np.random.default_rng(1)
    logits = draw.standard_normal(80)
    error = rounding * np.abs(logits).max() * draw.uniform(0.9, 1, 80)
    steps = {name: traced() | {"before": logits + double} for name in ("fp64", *OTHERS)}
    steps["fp32"] = traced(losses) | {"before": logits + error + single + double}
    return steps


@pytest.mark.parametrize(
    ("own", "theirs", "beyond"),
    [
        ({"rounding": 5e-6}, {"rounding": -1.06e-5}, []),
        ({"rounding": 5e-6}, {"rounding": -5e-5}, ["fp32 forward"]),
        ({"rounding": 1e-7}, {"rounding": -8e-6}, []),
        ({"rounding": 1e-7}, {"rounding": -1.06e-5}, ["fp32 forward"]),
        ({"rounding": 5e-6}, {"rounding": 5e-6, "single": 1e-3}, ["fp32 forward"]),
        (
            {"rounding": 5e-6},
            {"rounding": -1.06e-5, "double": 1e-9},
            ["fp64 forward", "fp32 forward"],
        ),
        ({"rounding": 5e-6}, {"rounding": 5e-6, "losses": 2e-3}, ["fp32 losses"]),
    ],
)
def test_single_precision_is_judged_by_the_references_own_rounding(own, theirs, beyond, tmp_path):
    """MobileNetV2 with ReLU6 was called different at 1.06e-5, while double precision agreed."""
    for name, steps in (("r", steps_of(**own)), ("c", steps_of(**theirs))):
        arrays = {f"{t}/{key}": array for t, one in steps.items() for key, array in one.items()}
        np.savez(tmp_path / f"{name}.npz", **arrays)
    paths = {name: tmp_path / f"{name}.npz" for name in ("r", "c")}
    found = compare("net", paths)["frameworks"]["c"]
    assert (found["beyond"], found["equal"]) == (beyond, not beyond)


def test_the_steps_of_every_optimizer_are_judged():
    assert set(TOLERANCES) == {"fp64", "fp32", *OTHERS}


def certificate_of(folder, **traces):
    """The certificate of a framework `c` whose parity steps are these, by name; the reference `r`
    has all of them and is exact."""
    whole = dict.fromkeys(TOLERANCES, traced())
    for name, steps in (("r", whole), ("c", {**whole, **traces})):
        arrays = {f"{t}/{key}": array for t, one in steps.items() for key, array in one.items()}
        np.savez(folder / f"{name}.npz", **arrays)
    path = folder / "net.json"
    path.write_text(json.dumps(compare("net", {name: folder / f"{name}.npz" for name in "rc"})))
    return path, json.loads(path.read_text())["frameworks"]["c"]


@pytest.mark.parametrize("lacking", OTHERS)
def test_an_optimizer_that_a_framework_lacks_leaves_the_rest_of_its_certificate(lacking, tmp_path):
    reason = {"unsupported": np.array("no such optimizer")}
    path, found = certificate_of(tmp_path, **{lacking: reason})
    assert found["equal"] and found["lacking"] == {lacking: "no such optimizer"}
    assert set(found["deviations"]) == set(TOLERANCES) - {lacking}
    shown = proof(read_certificates([path]), "net", "c")
    assert (shown.verdict, shown.why) == ("equal", f"without {lacking}: no such optimizer")
    ended, verdicts = tabulate(tmp_path, c=found)
    assert ended.returncode == 0, ended.stderr
    assert verdicts == {"c": f"yes, without {lacking}"}
    # The speed of a cell with that optimizer has no proof, of others it has.
    names = [name for name in optimizers.names() if optimizers.equation(name) == lacking]
    for name in optimizers.names():
        of_cell = proof(read_certificates([path]), "net", "c", optimizer=name)
        assert of_cell.shown == (name not in names)
    assert proof(read_certificates([path]), "net", "c", "fp32", names[0]).why == (
        f"no parity steps of {lacking}: no such optimizer"
    )
    # What it has is judged all the same.
    _, found = certificate_of(tmp_path, **{lacking: reason, "fp64": traced(losses=1e-3)})
    assert found["beyond"] == ["fp64 losses"]


@pytest.mark.parametrize("case", ["fp32", "fp64"])
def test_without_the_steps_of_the_network_itself_nothing_is_shown(case, tmp_path):
    _, found = certificate_of(tmp_path, **{case: {"unsupported": np.array("no such precision")}})
    assert found == {**NOTHING, "unsupported": "no such precision"}


def tabulate(folder, **entries):
    """How the table of one certificate ends, and by framework what its row says."""
    certificate = {
        "format": 1, "network": "net", "reference": "a", "tolerances": {}, "frameworks": entries,
    }  # fmt: skip
    path, output = folder / "net.json", folder / "parity.csv"
    path.write_text(json.dumps(certificate))
    ended = call("tabulate-parity", path, "--output", output)
    with open(output, newline="") as file:
        return ended, {row["framework"]: row["equal"] for row in csv.DictReader(file)}


NOTHING = {"equal": False, "deviations": {}, "beyond": []}
EQUAL = {"equal": True, "deviations": {}, "beyond": []}


def test_what_a_framework_cannot_do_is_a_row_and_no_difference(tmp_path):
    cannot = {**NOTHING, "unsupported": "no layer x"}
    single = {**EQUAL, "single_precision_only": True}
    ended, verdicts = tabulate(tmp_path, b=EQUAL, c=cannot, d=single)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "1 networks compared; 0 differences, 1 unsupported\n"
    assert verdicts == {"b": "yes", "c": "unsupported: no layer x", "d": "in single precision"}


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({**NOTHING, "failed": "see its log"}, "see its log"),
        ({**NOTHING, "beyond": ["fp64 update", "adam update"]}, "fp64 update, adam update"),
    ],
)
def test_what_failed_or_differs_ends_the_table_with_an_error(entry, why, tmp_path):
    ended, verdicts = tabulate(tmp_path, b=EQUAL, c=entry)
    assert ended.returncode == 1
    assert ended.stderr == f"error: not shown to be equal: net in c ({why})\n"
    assert verdicts == {"b": "yes", "c": f"no: {why}"}


def test_the_page_on_certificates_has_their_tolerances(root):
    rows = re.findall(
        r"^\| (`.*`) \| (.*) \| (.*) \|$", (root / "docs/parity.md").read_text(), re.M
    )
    found = {
        (column, measure): limits.split(", ")[place]
        for columns, text, limits in rows
        for column in re.findall("`(.*?)`", columns)
        for place, measure in enumerate(re.findall("`(.*?)`", text))
        if column in TOLERANCES and limits[0].isdigit()
    }
    for measure in ("forward", "gradients", "update", "statistics", "evaluation"):
        assert float(found["fp64", measure]) == TOLERANCES["fp64"][measure], measure
    for optimizer in ("adam", "rmsprop"):
        assert float(found[optimizer, "update"]) == TOLERANCES[optimizer]["update"]
        assert float(found[optimizer, "losses"]) == TOLERANCES[optimizer]["losses"]
