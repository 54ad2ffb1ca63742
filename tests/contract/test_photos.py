"""Photos in shards: every adapter decodes and cuts them alike, and trains from them."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from fixtures import archives
from fixtures.adapter import PROGRAM
from touchstone import networks
from touchstone.datasets import formats
from touchstone.datasets.catalogue import Dataset, shard_names
from touchstone.datasets.convert import convert
from touchstone.plan import frameworks
from touchstone.plan.parity import REFERENCE, steps_spec
from touchstone.schema.spec import spec_to_json

FRAMEWORKS = [
    name for name in frameworks.names() if formats.load(frameworks.record_format(name)).PHOTOS
]
SHAPE = [32, 32, 3]
COUNT = {"train": 120, "test": 40}
LOSS = 1e-5
"""Of a loss, relative: single precision."""
READ = (
    PROGRAM
    + """
images, labels = adapter.read_records(batches.shards(job.data, "train"), (32, 32, 3))
np.savez(sys.argv[3], images=images, labels=labels)
"""
)


@pytest.fixture(scope="session")  # the tests of a framework may be in another process
def photos(tmp_path_factory):
    """A folder with FRAMEWORK/ of photos a little larger than their cut, the training split in
    three shards; and the middles of the training photos with their labels."""
    folder = tmp_path_factory.mktemp("photos")
    for k, name in enumerate(("cat", "dog")):
        (folder / "images" / name).mkdir(parents=True)
        for i in range(80):
            size = (41, 36) if i % 2 else (33, 50)
            path = folder / "images" / name / f"{i}.jpg"
            path.write_bytes(archives.photo(100 * k + i, *size))
    decoder = {"name": "image-folder", "folder": str(folder / "images"), "test_share": 0.25}
    dataset = Dataset.model_validate({
        "name": "photos", "title": "Toy", "licence": "CC0", "citation": "nobody", "shape": SHAPE,
        "mean": [0.5] * 3, "std": [0.25] * 3, "classes": ["cat", "dog"], "splits": COUNT,
        "decoder": decoder | {"seed": 1}, "photos": {}, "shards": {"train": 3},
    })  # fmt: skip
    for framework in FRAMEWORKS:
        convert(dataset, folder, frameworks.record_format(framework), folder / framework)
    cuts, labels = [], []
    for label, encoded in dataset.decoder.examples(dataset, "train", folder)[:]:
        image = np.asarray(Image.open(io.BytesIO(encoded)))
        top, left = (image.shape[0] - 32) // 2, (image.shape[1] - 32) // 2
        cuts.append(image[top : top + 32, left : left + 32])
        labels.append(label)
    return folder, np.stack(cuts), labels


def spec_of(folder, framework, source):
    graph = networks.build("yin2020-cnn", tuple(SHAPE), 2).network()
    spec = steps_spec(graph, framework, frameworks.modes(framework)[0])
    steps = {"fp32": spec.parity_steps["fp32"]._replace(steps=4)}
    sharded = formats.load(frameworks.record_format(framework)).SHARDED
    shards = {"train": 3 if sharded else 1, "test": 1}
    data = spec.data._replace(
        encoding="jpeg", folder=str(folder / framework), classes=2,
        shards={split: shard_names(split, number) for split, number in shards.items()},
        train_examples=COUNT["train"], test_examples=COUNT["test"],
        mean=[0.5] * 3, std=[0.25] * 3,
    )  # fmt: skip
    return spec._replace(input=source, parity_steps=steps, data=data)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_middle_of_every_photo_is_read_alike(framework, photos, execute, root, tmp_path):
    folder, cuts, labels = photos
    path, output = tmp_path / "spec.json", tmp_path / "read.npz"
    path.write_text(json.dumps(spec_to_json(spec_of(folder, framework, "memory"))))
    ended = execute(framework, "-c", READ, root / "workflow/scripts", path, output)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = np.load(output)
    assert np.array_equal(found["images"], cuts)
    assert found["labels"].tolist() == labels


ABREAST = (
    PROGRAM
    + """
import threading
together = threading.Barrier(3)
def with_others(decode):
    def call(*arguments):
        together.wait(20)
        return decode(*arguments)
    return call
adapter.job = job._replace(execution=job.execution._replace(reader_threads=3))
adapter.open_records(batches.shards(job.data, "train"))
if job.framework == "tensorflow":
    adapter.parse = with_others(adapter.parse)
else:
    import simplejpeg
    simplejpeg.decode_jpeg = with_others(simplejpeg.decode_jpeg)
pixels = np.asarray(adapter.fetch_records(np.arange(6)[None])[0])
np.savez(sys.argv[3], pixels=pixels)
"""
)


@pytest.mark.parametrize("framework", ["pytorch", "jax", "tensorflow"])
def test_the_photos_of_one_step_are_decoded_by_all_readers(framework, photos, execute, root):
    """Each waits until two others decode too."""
    folder, cuts, _ = photos
    told, output = folder / f"{framework}.json", folder / f"{framework}.npz"
    told.write_text(json.dumps(spec_to_json(spec_of(folder, framework, "records"))))
    ended = execute(framework, "-c", ABREAST, root / "workflow/scripts", told, output)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert np.array_equal(np.load(output)["pixels"].reshape(-1, *SHAPE), cuts[:6])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_training_from_photos_is_the_same_everywhere(framework, photos, trace_of):
    folder = photos[0]

    def losses(name, source):
        return np.load(trace_of(name, spec_of(folder, name, source)))["fp32/losses"]

    expected = losses(REFERENCE, "memory")
    assert len(set(expected)) == 4
    np.testing.assert_allclose(losses(framework, "records"), expected, rtol=LOSS)
