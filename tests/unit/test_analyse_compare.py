"""compare: two results folders, by the script that a person and CI run."""

import csv
import json
import random
import shutil

import pytest

from fixtures.commands import call
from fixtures.runs import FACTORS, cell_name, edit_json, make_record, write_plan
from fixtures.turns import computed
from touchstone.analysis.gate_text import COLUMNS
from touchstone.results import digests
from touchstone.results.gathering import gather
from touchstone.schema.values import to_json

CELLS = [{"framework": f, "batch_size": 64} for f in ("pytorch", "mxnet")]
PYTORCH, MXNET = (cell_name({**FACTORS, **cell}) for cell in CELLS)


def results(root, rates, seed=1, noise=0.02, repeats=3, cells=CELLS):
    """A results folder with the given images/s by framework and noise between runs."""
    rng = random.Random(seed)
    for cell in cells:
        for repeat in range(1, repeats + 1):
            rate = rates[cell["framework"]] * rng.gauss(1, noise)
            make_record(
                root / "runs",
                root / "records",
                repeat=repeat,
                step_seconds=lambda step, r=rate: 64 / r,
                **cell,
            )
    write_plan(root / "plan.tsv", cells, repeats)
    manifest(root, "a")
    return tables(root)


def tables(root):
    gather(root / "plan.tsv", root / "records", root / "tables", {})
    return root


def manifest(root, fingerprint):
    path = root / "data" / "mnist-5k" / "lmdb" / "manifest.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    splits = {"train": {"fingerprint": fingerprint}, "test": {"fingerprint": "t"}}
    path.write_text(json.dumps({"format": 1, "splits": splits}))


def compare(old, new, *options):
    return call("compare", old, new, "--output", new / "changes.csv", *options)


def changes(root):
    with (root / "changes.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert tuple(table[0]) == COLUMNS
    return {row["cell"]: row for row in table}


USUAL = {"pytorch": 9000.0, "mxnet": 8000.0}


@pytest.fixture
def old(tmp_path):
    return results(tmp_path / "old", USUAL)


@pytest.fixture
def new(tmp_path):
    return results(tmp_path / "new", USUAL, seed=2)


def test_the_same_again_shows_no_difference(old, new):
    done = compare(old, new)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "throughput of 2 configurations: 0 slower, 0 faster, 2 no difference shown, 0 not"
    )
    for row in changes(new).values():
        assert (
            row["verdict"] == "no difference shown" and (row["n_old"], row["n_new"]) == ("3",) * 2
        )
        assert float(row["low"]) < 1 < float(row["high"]) and float(row["p_value"]) > 0.05
        assert row["flags_old"] == "parity_not_shown 3"
        assert row["why"] == row["differences"] == ""


def test_a_planted_slowdown_of_15_per_cent_is_called_slower(old, tmp_path):
    new = results(tmp_path / "new", {**USUAL, "mxnet": 8000 / 1.15}, seed=2)
    done = compare(old, new)
    assert done.returncode == 1
    assert f"slower: {MXNET}: 7," in done.stdout and " indicative: 3 and 3 runs" in done.stdout
    found = changes(new)
    assert found[MXNET]["verdict"] == "slower"
    assert found[PYTORCH]["verdict"] == "no difference shown"
    assert float(found[MXNET]["high"]) < 1
    assert compare(new, old).returncode == 0  # faster, the other way round
    assert changes(old)[MXNET]["verdict"] == "faster"


SIX = [{"framework": f, "batch_size": b} for f in ("pytorch", "mxnet") for b in (32, 64, 128)]


def test_a_shift_of_the_machine_is_taken_out_of_the_cells(tmp_path):
    """All cells 6 % slower: a usual sitting. Beside it one of them is twice as slow."""
    old = results(tmp_path / "old", USUAL, cells=SIX)
    rates = {name: 0.94 * rate for name, rate in USUAL.items()}
    new = results(tmp_path / "new", rates, seed=2, cells=SIX)
    done = compare(old, new)
    assert done.returncode == 0 and "all cells together: new / old 0.9" in done.stdout
    assert (
        "]; the ratios below are without it, the speeds with it" in done.stdout
    )  # no verdict on the shift
    for row in changes(new).values():
        assert 0.95 < float(row["ratio"]) < 1.05 and float(row["p_holm"]) > 0.05
    slow = results(
        tmp_path / "slow", {"pytorch": rates["pytorch"] / 2, "mxnet": 1.0}, 2, cells=SIX[:1]
    )
    (new / "records" / cell_name({**FACTORS, **SIX[0]})).rename(tmp_path / "gone")
    shutil.copytree(slow / "records", new / "records", dirs_exist_ok=True)
    done = compare(old, tables(new))
    assert done.returncode == 1
    assert "Corrected for 6 configurations (Holm), 1 of 1 that are slower remain" in done.stdout
    assert 0.45 < float(changes(new)[cell_name({**FACTORS, **SIX[0]})]["ratio"]) < 0.55


def test_a_shift_beyond_what_sittings_do_fails(tmp_path):
    old = results(tmp_path / "old", USUAL, cells=SIX)
    rates = {name: 0.7 * rate for name, rate in USUAL.items()}
    done = compare(old, results(tmp_path / "new", rates, seed=2, cells=SIX))
    assert done.returncode == 1 and "], slower; the ratios below are without it" in done.stdout
    assert done.stdout.startswith("throughput of 6 configurations: 0 slower")


def turns(root, rates, seed, sets=5):
    """Turns of the two cells beside the runs, with a noise of 2 % in each slice."""
    speeds = {PYTORCH: rates["pytorch"] / 1e4, MXNET: rates["mxnet"] / 1e4}
    path = root / "interleaved" / "lenet5.json"
    path.parent.mkdir()
    path.write_text(json.dumps(to_json(computed(speeds, seed=seed, sets=sets))))
    return path


def test_turns_that_both_sides_have_are_compared_instead_of_noisy_runs(tmp_path):
    rates = {**USUAL, "mxnet": 4000.0}
    old = results(tmp_path / "old", USUAL, noise=0.5)
    new = results(tmp_path / "new", rates, seed=2, noise=0.5)
    assert compare(old, new).returncode == 0
    assert changes(new)[MXNET]["basis"] == "3 and 3 runs"
    turns(old, USUAL, 1)
    assert compare(old, new).returncode == 0  # only one side has them
    kept = turns(new, rates, 2)
    done = compare(old, new)
    assert done.returncode == 1 and f"slower: {MXNET}: " in done.stdout
    row = changes(new)[MXNET]
    assert (row["basis"], row["n_old"]) == ("5 and 5 sets of turns", "5")
    assert 0.4 < float(row["low"]) < 0.5 < float(row["high"]) < 0.6
    # Other metrics are the runs' own, and so are turns of another format.
    assert compare(old, new, "--metric", "training_time").returncode == 0
    edit_json(kept, format=1)
    assert compare(old, new).returncode == 0 and changes(new)[MXNET]["basis"] == "3 and 3 runs"
    kept.write_text("{")
    done = compare(old, new)
    assert done.returncode == 2 and "lenet5.json: not valid JSON" in done.stderr


def test_turns_with_other_cells_are_no_pair(tmp_path):
    sides = [results(tmp_path / name, USUAL, seed) for seed, name in enumerate(("old", "new"), 1)]
    for side in sides:
        turns(side, USUAL, 1)
    other = computed({PYTORCH: 0.9, "another": 0.8})
    (sides[1] / "interleaved" / "lenet5.json").write_text(json.dumps(to_json(other)))
    compare(*sides)
    assert changes(sides[1])[PYTORCH]["basis"] == "3 and 3 runs"


def test_a_tolerance_that_cannot_be_excluded_ends_with_3(old, new):
    assert compare(old, new, "--tolerance", "25%").returncode == 0
    done = compare(old, new, "--tolerance", "5%")
    assert done.returncode == 3
    last = done.stdout.splitlines()[-1]
    assert last.startswith("Cannot tell. A slowdown of up to ") and " in 2 of 2." in last
    page = (new / "changes.html").read_text()
    assert last in page and PYTORCH in page


def test_a_time_that_grew_is_slower(old, tmp_path):
    new = results(tmp_path / "new", {"pytorch": 9000.0, "mxnet": 4000.0})
    assert compare(old, new, "--metric", "training_time", "--session-sd", "0").returncode == 1
    assert changes(new)[MXNET]["unit"] == "s" and float(changes(new)[MXNET]["ratio"]) > 1


def test_another_machine_is_compared_and_reported(old, new):
    for path in (new / "records").glob("*/*.json"):
        edit_json(path, provenance__machine__cpu_model="Xeon")
        edit_json(path, provenance__software__packages=["numpy==9.9"])
    done = compare(old, new)
    assert done.returncode == 0
    assert "Differs in 2 configurations: cpu_model: AMD EPYC 9B14 / Xeon" in done.stdout
    assert "package numpy: 2.4.6 / 9.9" in changes(new)[PYTORCH]["differences"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda root: manifest(root, "b"), "other data (mnist-5k has another fingerprint)"),
        (lambda root: plan_with(root, "weight_decay", "0.5"), "other weight_decay (0.0 / 0.5)"),
    ],
)
def test_what_is_not_the_same_work_is_not_compared(old, new, change, why):
    change(new)
    done = compare(old, new)
    assert done.returncode == 2 and f"not comparable: {PYTORCH}: {why}" in done.stdout
    row = changes(new)[PYTORCH]
    assert (row["verdict"], row["why"], row["ratio"]) == ("not comparable", why, "")


def test_a_metric_in_the_unit_of_another_version_is_not_compared(old, new):
    for path in new.glob("records/*/*.json"):
        record = json.loads(path.read_text())
        record["metrics"]["throughput"]["unit"] = "items/s"
        path.write_text(json.dumps(record))
        digests.note(new / "runs" / path.parent.name / path.stem, path)
    assert compare(old, new).returncode == 2
    why = "new: no value (its version measured it in items/s)"
    assert {row["why"] for row in changes(new).values()} == {why}


def plan_with(root, column, value):
    path = root / "plan.tsv"
    header, *lines = (line.split("\t") for line in path.read_text().splitlines())
    for line in lines:
        line[header.index(column)] = value
    path.write_text("".join("\t".join(line) + "\n" for line in [header, *lines]))


def test_failed_runs_and_single_runs_are_not_compared(old, tmp_path):
    new = results(tmp_path / "new", USUAL, repeats=1)
    place = (new / "runs", new / "records")
    make_record(*place, status="oom", reason="full", steps=0, framework="mxnet")
    done = compare(old, tables(new))
    assert done.returncode == 2
    found = changes(new)
    assert found[PYTORCH]["why"] == "new: 1 run, too few repeats"
    assert found[MXNET]["why"] == "new: oom 1" and found[MXNET]["n_new"] == "0"


def test_a_slower_cell_outweighs_one_that_cannot_be_compared(old, tmp_path):
    new = results(tmp_path / "new", {**USUAL, "pytorch": 4500.0})
    shutil.rmtree(new / "records" / MXNET)
    write_plan(new / "plan.tsv", CELLS[:1])
    done = compare(old, tables(new))
    assert done.returncode == 1
    assert changes(new)[MXNET]["why"] == "only in the old results"


def test_a_new_cell_has_nothing_to_be_compared_with(old, new):
    write_plan(old / "plan.tsv", CELLS[:1])
    assert compare(tables(old), new).returncode == 0
    assert changes(new)[MXNET]["why"] == "only in the new results"


def test_nothing_in_common_is_not_a_pass(old, new):
    write_plan(old / "plan.tsv", CELLS[:1])
    write_plan(new / "plan.tsv", CELLS[1:])
    assert compare(tables(old), tables(new)).returncode == 2


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda root: (root / "plan.tsv").unlink(), "plan.tsv"),
        (lambda root: (root / "tables" / "summary.csv").write_text("a,b\n"), "summary.csv"),
        (lambda root: (root / "tables" / "summary.csv").unlink(), "summary.csv"),
        (lambda root: (root / "records" / MXNET / "rep2.json").write_text("{"), "rep2.json"),
        (shutil.rmtree, "is no folder"),
    ],
)
def test_a_damaged_folder_is_refused(old, new, damage, named):
    damage(old)
    done = compare(old, new)
    assert done.returncode == 2 and named in done.stderr and "Traceback" not in done.stderr
    assert "run the workflow again" not in done.stderr
    assert not (new / "changes.csv").exists()
