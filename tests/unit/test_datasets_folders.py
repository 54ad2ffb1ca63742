"""Image folders: what is described, converted and refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from fixtures import archives
from fixtures.commands import Done, call
from fixtures.toy_dataset import ToyDataset, lines_of
from touchstone.datasets import catalogue, formats


def image_folder(folder: Path, count: int = 10) -> Path:
    """Two classes of `count` PNG and JPEG images of 12 x 9 pixels (width x height)."""
    root = folder / "images"
    for label, name in enumerate(("cat", "dog")):
        (root / name).mkdir(parents=True)
        for i in range(count):
            random = np.random.RandomState([label, i])
            pixels = random.randint(0, 256, (9, 12, 3)).astype(np.uint8)
            kind = ("PNG", "JPEG")[i % 2]
            (root / name / f"{i:02d}.{kind.lower()}").write_bytes(archives.encoded(pixels, kind))
    (root / "cat" / ".hidden").write_text("not counted")
    (root / "README").write_text("not a class")
    return root


def describe(root: Path, *options: object) -> tuple[Done, Path]:
    """Call describe-folder; the result and the file that it writes."""
    output = root.parent / "mine.yaml"
    return call("describe-folder", root, *options, "--output", output), output


def converted(folder: Path, record_format: str = "lmdb") -> dict[str, Any]:
    """Download and convert `mine`; its manifest."""
    options = ["--config-folder", folder, "--output"]
    result = call("download", "mine", *options, folder / "source")
    assert result.returncode == 0, result.stderr
    options = ["--config-folder", folder, "--source", folder / "source"]
    output = folder / "data" / record_format
    options += ["--format", record_format, "--output", output]
    result = call("convert", "mine", *options)
    assert result.returncode == 0, result.stderr
    manifest: dict[str, Any] = json.loads((output / "manifest.json").read_text())
    return manifest


def test_a_study_in_any_folder_finds_what_is_described_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = image_folder(tmp_path)
    options = ("describe-folder", root, "--test-share", 0.3, "--output")
    done = call(*options, "config/datasets/mine.yaml", "--shape", 28, 28, 1)
    assert done.returncode == 0 and "note:" not in done.stderr
    sweep = {"framework": "pytorch", "network": "lenet5", "dataset": "mine", "batch_size": 4}
    study = {"study": "own", "title": "Own images", "sweeps": [sweep]}
    Path("study.yaml").write_text(yaml.safe_dump(study))
    checked = call("check-config", "study.yaml")
    assert checked.returncode == 0, checked.stderr
    elsewhere = call(*options, "elsewhere.yaml")
    assert "note: a study finds it in config/datasets/" in elsewhere.stderr


def test_a_folder_is_described_and_converted(tmp_path: Path) -> None:
    root = image_folder(tmp_path)
    result, path = describe(root, "--test-share", 0.3)
    assert result.returncode == 0, result.stderr
    dataset = catalogue.load("mine", tmp_path)
    assert (dataset.shape, dataset.classes) == ([9, 12, 3], ["cat", "dog"])
    assert (dataset.splits.train, dataset.splits.test) == (14, 6)
    manifest = converted(tmp_path)
    assert manifest["splits"]["test"]["histogram"] == [3, 3]
    train = list(formats.load("lmdb").read(tmp_path / "data/lmdb/train", [9, 12, 3]))
    labels = [label for label, _ in train]
    assert sorted(labels) != labels
    pixels = np.stack([image for _, image in train]) / 255
    np.testing.assert_allclose(pixels.mean((0, 1, 2)), dataset.mean, atol=5.1e-5)
    np.testing.assert_allclose(pixels.std((0, 1, 2)), dataset.std, atol=5.1e-5)
    test = list(formats.load("lmdb").read(tmp_path / "data/lmdb/test", [9, 12, 3]))
    with Image.open(root / "cat/00.png") as image:
        original = np.asarray(image).tobytes()
    assert sum(formats.content(image) == original for _, image in train + test) == 1


def test_a_folder_that_has_changed_is_refused(tmp_path: Path) -> None:
    root = image_folder(tmp_path)
    assert describe(root, "--test-share", 0.3)[0].returncode == 0
    (root / "cat/00.png").write_bytes((root / "dog/00.png").read_bytes())
    options = ["--config-folder", tmp_path, "--source", tmp_path, "--format", "lmdb"]
    result = call("convert", "mine", *options, "--output", tmp_path / "data/lmdb")
    (line,) = lines_of(result)
    assert " examples have the fingerprint " in line and line.endswith("or describe them again")
    assert list((tmp_path / "data").iterdir()) == []


def test_images_are_scaled_and_cut_to_the_shape(tmp_path: Path) -> None:
    root = image_folder(tmp_path)
    (root / "dog" / "00.png").write_bytes(archives.photo(1, 60, 33))
    result, path = describe(root, "--test-share", 0.5)
    (line,) = lines_of(result)
    assert "its images have 2 sizes: " in line and "60 x 33" in line and "--shape" in line
    assert not path.exists()
    result, path = describe(root, "--test-share", 0.5, "--shape", 6, 6, 1)
    assert result.returncode == 0, result.stderr
    assert converted(tmp_path, "recordio")["shape"] == [6, 6, 1]


def test_photos_of_a_folder_keep_their_bytes_or_get_a_short_side(tmp_path: Path) -> None:
    root = tmp_path / "images"
    originals = []
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True)
        for i in range(4):
            originals.append(archives.photo(i + 10 * len(name) + len(originals), 40 + i, 30))
            (root / name / f"{i}.jpg").write_bytes(originals[-1])
    for i in range(4):
        (tmp_path / "test/cat").mkdir(parents=True, exist_ok=True)
        (tmp_path / "test/dog").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"test/{('cat', 'dog')[i % 2]}/{i}.jpg").write_bytes(archives.photo(90 + i))
    both = ["--photos", "--test-folder", tmp_path / "test", "--shape", 24, 24, 3]
    result, path = describe(root, *both)
    assert result.returncode == 0, result.stderr
    fingerprints = set()
    for name in ("lmdb", "recordio", "tfrecord", "datum"):
        fingerprints.add(converted(tmp_path, name)["splits"]["train"]["fingerprint"])
        read = list(formats.load(name).read(tmp_path / "data" / name / "train", None))
        assert sorted(formats.content(image) for _, image in read) == sorted(originals)
    assert len(fingerprints) == 1
    options = ["--config-folder", tmp_path, "--source", tmp_path, "--format", "png"]
    result = call("convert", "mine", *options, "--output", tmp_path / "data/png")
    (line,) = lines_of(result)
    assert line.endswith("png records hold no photos; use one of: datum, lmdb, recordio, tfrecord")
    path.unlink()
    result, path = describe(root, *both, "--short-side", 20, "--quality", 90)
    assert result.returncode == 0, result.stderr
    converted(tmp_path)
    for _, content in formats.load("lmdb").read(tmp_path / "data/lmdb/train", None):
        with Image.open(io.BytesIO(formats.content(content))) as image:
            assert image.format == "JPEG" and min(image.size) == 20


def test_every_fault_of_a_folder_is_named_at_once(tmp_path: Path) -> None:
    root = image_folder(tmp_path)
    assert describe(root, "--test-share", 0.3)[0].returncode == 0
    (root / "empty").mkdir()
    (root / "dog" / "notes.txt").write_text("no image")
    (root / "dog" / "more").mkdir()
    expected = [
        f"{root}/dog/more: a folder in the folder of a class; move its images into {root}/dog, or "
        "the folder to another place",
        f"{root}/dog/notes.txt: not an image; move it out of the folder of the class",
        f"{root}/empty: the class has no image; remove the folder or fill it",
    ]
    options = ["--config-folder", tmp_path]
    download = call("download", "mine", *options, "--output", tmp_path / "source")
    assert lines_of(download) == expected
    options += ["--source", tmp_path, "--format", "lmdb", "--output", tmp_path / "data/lmdb"]
    assert lines_of(call("convert", "mine", *options)) == expected
    assert list((tmp_path / "data").iterdir()) == []


def test_images_that_do_not_decode_are_named_at_once(tmp_path: Path) -> None:
    root = image_folder(tmp_path)
    assert describe(root, "--test-share", 0.3)[0].returncode == 0
    for name in ("cat/00.png", "dog/03.jpeg"):
        (root / name).write_bytes((root / name).read_bytes()[:150])
    options = ["--config-folder", tmp_path, "--source", tmp_path, "--format", "tfrecord"]
    result = call("convert", "mine", *options, "--output", tmp_path / "data/tfrecord")
    lines = sorted(lines_of(result))
    assert lines[0].startswith(f"{root}/cat/00.png: it does not decode (")
    assert lines[1].startswith(f"{root}/dog/03.jpeg: it does not decode (") and len(lines) == 2
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "cause"),
    [
        ("$TOUCHSTONE_NOT_SET/a", "the environment variable is not set; set it to the folder"),
        ("nowhere", "there is no such folder; correct its name in the catalogue"),
    ],
)
def test_a_folder_that_is_not_there_is_named(tmp_path: Path, folder: str, cause: str) -> None:
    decoder = {"name": "image-folder", "folder": folder, "test_share": 0.5, "seed": 1}
    (line,) = ToyDataset(tmp_path, decoder).refused()
    assert line.startswith(f"{folder}: {cause}")


def test_describing_overwrites_nothing(tmp_path: Path) -> None:
    root = image_folder(tmp_path)
    (tmp_path / "mine.yaml").write_text("mine")
    result, path = describe(root, "--test-share", 0.5)
    assert lines_of(result) == [f"{path}: it is there already; remove it first"]
    assert path.read_text() == "mine"
