"""The command `judge`: a study's results and other machines' bundles become its page."""

import csv
import json

import pytest
import yaml

from fixtures.commands import call
from fixtures.runs import edit_json, make_study
from touchstone.results.bundle import pack


def results(root, model, bundles=()):
    """The results of a study with the claims of yin2020, on a machine of that model."""
    make_study(root)
    for path in root.glob("records/*/*.json"):
        accuracy = {"value": 0.9, "unit": "1"}
        edit_json(path, provenance__machine__cpu_model=model, metrics__training_accuracy=accuracy)
    for path in root.glob("runs/*/*/env.json"):
        edit_json(path, machine__cpu_model=model)
    config = {
        "study": "yin2020",
        "title": "Three frameworks",
        "results_format": 3,
        "repeats": 3,
        "defaults": {"network": "lenet5", "dataset": "mnist-5k", "learning_rate": 0.05},
        "sweeps": [{"framework": ["pytorch", "tensorflow", "mxnet"], "batch_size": [64, 128]}],
        "compare_with": list(map(str, bundles)),
    }
    (root / "config.resolved.yaml").write_text(yaml.safe_dump(config))
    manifest = root / "data/mnist-5k/lmdb/manifest.json"
    manifest.parent.mkdir(parents=True)
    splits = {"train": {"fingerprint": "a"}, "test": {"fingerprint": "t"}}
    manifest.write_text(json.dumps({"format": 1, "splits": splits}))
    plan, records, tables = root / "plan.tsv", root / "records", root / "tables"
    arguments = ("--plan", plan, "--records", records, "--output", tables)
    assert call("gather", *arguments, "--findings", root / "findings.json").returncode == 0
    return root


def judge(root):
    places = ("plan.tsv", "config.resolved.yaml", "tables", "records")
    options = ("--plan", "--config", "--tables", "--records")
    given = [
        part for pair in zip(options, (root / p for p in places), strict=True) for part in pair
    ]
    page = root / "report/yin2020/study.html"
    return call("judge", *given, "--output", root / "studies/yin2020", "--page", page)


@pytest.mark.long
def test_a_bundle_of_another_machine_counts_for_the_claims(tmp_path):
    other = results(tmp_path / "other", "Intel(R) Xeon(R) CPU @ 2.20GHz")
    pack(other, tmp_path / "other.zip", "office")
    root = results(tmp_path / "own", "AMD EPYC 9B14", [tmp_path / "other.zip"])
    done = judge(root)
    assert (done.returncode, done.stderr) == (0, "")
    with (root / "studies/yin2020/claims.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["figures"] == "measured"]
    alike = [row["group"] for row in rows if row["claim"] == "frameworks-alike"]
    assert sum("this machine" in group for group in alike) == 2
    assert sum("office" in group for group in alike) == 2


@pytest.mark.slow
def test_the_bundle_of_this_machine_does_not_count_twice(tmp_path):
    root = results(tmp_path / "own", "AMD EPYC 9B14")
    pack(root, tmp_path / "own.zip")
    config = yaml.safe_load((root / "config.resolved.yaml").read_text())
    config["compare_with"] = [str(tmp_path / "own.zip")]
    (root / "config.resolved.yaml").write_text(yaml.safe_dump(config))
    done = judge(root)
    assert done.returncode == 1 and "18 of its runs are those of" in done.stderr
