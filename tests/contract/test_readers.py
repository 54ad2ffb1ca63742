"""Training from record files: the same as from memory, every example once, damage refused."""

import json
import os
import shutil

import numpy as np
import pytest

from fixtures.adapter import PROGRAM
from fixtures.specs import FEW_STEPS
from touchstone.datasets import catalogue, formats
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.spec import make_spec
from touchstone.schema.spec import spec_to_json

FRAMEWORKS = frameworks.names()
MODES = [
    pytest.param(framework, mode, marks=[pytest.mark.long] if number else [])
    for framework in FRAMEWORKS
    for number, mode in enumerate(frameworks.modes(framework))
]
"""A framework's modes share its readers: `make test` tries the usual one."""
LOSS = 1e-5
"""Of any of ten losses: the inputs agree to rounding, and so do the kernels."""
WEIGHTS = 1e-6
"""Of a weight after ten steps, absolute."""
MAGIC = np.frombuffer(b"\x0a\x23\xd7\xce", np.uint8)
"""What RecordIO begins a record with; inside an image it splits the record."""


@pytest.mark.parametrize(
    "augmentation",
    [pytest.param({}, marks=pytest.mark.long), {"crop_padding": 3, "flip": True}],
    ids=str,
)
@pytest.mark.parametrize("framework, mode", MODES)
def test_training_from_records_is_training_from_memory(framework, mode, augmentation, study):
    reference = study.trace(framework, mode=mode, **augmentation)
    found = study.trace(framework, mode=mode, input="records", **augmentation)
    assert np.array_equal(found["batches"], reference["batches"])
    assert np.abs(found["losses"] - reference["losses"]).max() <= LOSS
    names = [name for name in reference if name.startswith("weight:")]
    worst = max(np.abs(found[name] - reference[name]).max() for name in names)
    print(framework, mode, worst)
    assert worst <= WEIGHTS


def small_images():
    """130 labels and images whose rows a BMP file pads, some with RecordIO's magic number."""
    random = np.random.RandomState(7)
    images = random.randint(0, 256, (130, 10, 9, 3)).astype(np.uint8)
    for number in (0, 57, 128):
        for byte in range(4):  # somewhere it falls on a multiple of 4 bytes
            row = images[number, byte + 2, :, ::-1].ravel()  # blue comes first in a BMP file
            row[byte : byte + 4] = MAGIC
            images[number, byte + 2] = row.reshape(9, 3)[:, ::-1]
    return random.randint(0, 10, 130), images


READ = (
    PROGRAM
    + """
reader = batches.reader_of(adapter, job)
order = batches.BatchSampler(job.seed, job.data.train_examples, job.batch_size)
labels, sums = [], []
for chunk in (1, 3, 3, 5, 5, 5, 2):
    indices = order.take(chunk)[0]
    for images, given in reader.take(indices, order.peek(chunk)):
        images, given = np.asarray(images), np.asarray(given)
        if images.dtype != np.uint8:  # channels first, as the network takes them
            mean, std = (np.array(x)[:, None, None] for x in (job.data.mean, job.data.std))
            images = (images * std + mean) * 255
        labels += given.ravel().tolist()
        sums += images.reshape(given.size, -1).sum(axis=1).round().tolist()
print(json.dumps([labels, sums, reader.live()]))
"""
)


@pytest.mark.parametrize("threads, shards", [(0, 1), (1, 1), (3, 1), (1, 3)])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_example_is_read_once_an_epoch_in_the_seeds_order(
    framework, threads, shards, root, execute, tmp_path
):
    kind = frameworks.record_format(framework)
    if shards > 1 and not formats.load(kind).SHARDED:
        pytest.skip(f"{kind} has no shards")
    labels, images = small_images()
    stems = catalogue.shard_names("train", shards)
    for stem, part in zip(stems, np.array_split(np.arange(130), shards), strict=True):
        examples = zip(labels[part].tolist(), images[part], strict=True)
        formats.load(kind).write(tmp_path / stem, examples)
    for index in tmp_path.glob("*.idx"):
        assert len(set(np.diff(np.loadtxt(index, dtype=int)[:, 1]))) > 1  # some are split
    cell = Cell(
        framework=framework, network="lenet5", dataset="mnist-5k", input="records",
        mode=frameworks.modes(framework)[0], batch_size=16, reader_threads=threads,
    )  # fmt: skip
    spec = make_spec(cell, 1, root)
    data = spec.data._replace(
        folder=str(tmp_path), shape=[10, 9, 3], train_examples=130,
        shards={"train": stems, "test": ["test"]},
        mean=[0.5, 0.4, 0.3], std=[0.25, 0.2, 0.3],
    )  # fmt: skip
    (tmp_path / "spec.json").write_text(json.dumps(spec_to_json(spec._replace(data=data))))
    arguments = ["-c", READ, root / "workflow/scripts", tmp_path / "spec.json"]
    answer = execute(framework, *arguments)
    assert answer.returncode == 0, answer.stderr[-3000:]
    read, sums, live = json.loads(answer.stdout.splitlines()[-1])
    # Three epochs of 8 steps of 16: two of 130 examples are left out of each.
    order = [np.random.RandomState([cell.seed, epoch]).permutation(130)[:128] for epoch in range(3)]
    order = np.concatenate(order)
    assert live == threads
    assert read == labels[order].tolist()
    assert sums == images.reshape(130, -1).sum(axis=1)[order].tolist()


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_readers_threads_are_read_back(framework, threads, study):
    path = study(framework, ".jsonl", input="records", reader_threads=threads, **FEW_STEPS)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert events[-1] == {"event": "result", "status": "ok", "reason": None}
    settings = next(e for e in events if e["event"] == "settings")
    assert settings["requested"]["reader_threads"] == threads
    assert settings["effective"]["reader_threads"] == threads


def cut_off(path, examples):
    os.truncate(path, path.stat().st_size // 2)


def emptied(path, examples):
    os.truncate(path, 0)


def overwritten(path, examples):
    content = bytearray(path.read_bytes())
    content[: 1 << 14] = b"x" * (1 << 14)
    path.write_bytes(content)


def write_again(path, examples):
    """Write other examples in the place of the file, in the format that it is of."""
    stem = next(place for place in (path, *path.parents) if place.stem == "train")
    formats.load(stem.parent.name).write(stem.with_suffix(""), examples)


def with_a_label_too_many(path, examples):
    examples[40] = (12, examples[40][1])
    write_again(path, examples)


def with_smaller_images(path, examples):
    write_again(path, [(label, pixels[:27]) for label, pixels in examples])


@pytest.mark.parametrize("given", ["records", "memory"])
@pytest.mark.parametrize(
    "damage", [cut_off, emptied, overwritten, with_a_label_too_many, with_smaller_images]
)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_damaged_file_ends_the_run_with_its_name(framework, damage, given, study, tmp_path):
    data = study.few(framework)
    folder = tmp_path / frameworks.record_format(framework)
    shutil.copytree(study.folder / data["folder"], folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    files = [path for path in files if str(path.relative_to(folder)).startswith("train")]
    path = max(files, key=lambda path: path.stat().st_size)
    damage(path, list(formats.load(folder.name).read(folder / "train", [28, 28, 1])))
    data = {**data, "folder": str(folder)}
    ended, events = study.launch(framework, ".jsonl", data=data, input=given, epochs=2)
    assert ended.returncode == 1
    message = ended.stderr.splitlines()[-1]
    assert message.startswith("ValueError: ") and str(folder / "train") in message
    assert len(message) < 400, message
    assert '"name": "first_step"' not in events.read_text()
