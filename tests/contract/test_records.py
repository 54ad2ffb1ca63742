"""Our records, read by the frameworks' own readers in their own environments."""

import io

import numpy as np
import pytest
from PIL import Image

from fixtures import archives
from touchstone.datasets.catalogue import Dataset
from touchstone.datasets.convert import convert

SHAPE = [32, 32, 3]
COUNT = {"train": 50, "test": 7}


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """A folder with FORMAT/ of noise in three shards, and `photos`/FORMAT of JPEG files.

    Beside them lie `labels.npy` and `pixels.npy`, in stored order.
    """
    folder = tmp_path_factory.mktemp("records")
    common = {
        **{"title": "Toy", "licence": "CC0", "citation": "nobody", "shape": SHAPE},
        **{"mean": [0.5] * 3, "std": [0.5] * 3, "shards": {"train": 3}},
    }
    noise = {"name": "noise", "decoder": {"name": "noise", "seed": 1}}
    noise |= {"classes": 300, "splits": COUNT}
    for k, name in enumerate(("cat", "dog")):
        (folder / "images" / name).mkdir(parents=True)
        for i in range(20):
            path = folder / "images" / name / f"{i}.jpg"
            path.write_bytes(archives.photo(50 * k + i, 32, 32))
    decoder = {"name": "image-folder", "folder": str(folder / "images"), "seed": 1}
    photos = {"name": "photos", "decoder": decoder | {"test_share": 0.25}, "photos": {}}
    photos |= {"classes": ["cat", "dog"], "splits": {"train": 30, "test": 10}}
    for entry in (noise, photos):
        dataset = Dataset.model_validate({**common, **entry})
        for kind in ("recordio", "tfrecord"):
            convert(dataset, folder, kind, folder / dataset.name / kind)
        examples = dataset.decoder.examples(dataset, "train", folder)[:]
        pixels = [
            np.asarray(Image.open(io.BytesIO(image))) if isinstance(image, bytes) else image
            for _, image in examples
        ]
        np.save(folder / dataset.name / "labels.npy", [label for label, _ in examples])
        np.save(folder / dataset.name / "pixels.npy", pixels)
    return folder


def run(execute, framework, code, folder):
    """Run `code` in `folder`; it has `labels` and `pixels`, and must not fail."""
    head = (
        "import glob, numpy as np\nlabels, pixels = np.load('labels.npy'), np.load('pixels.npy')\n"
    )
    ended = execute(framework, "-c", head + code, cwd=folder)
    assert ended.returncode == 0, ended.stderr[-3000:]


@pytest.mark.framework("tensorflow")
@pytest.mark.parametrize("name", ["noise", "photos"])
def test_tensorflow_reads_our_tfrecords(records, execute, name):
    code = """
import tensorflow as tf
paths = sorted(glob.glob('tfrecord/train-*.tfrecord'))
assert len(paths) == 3
keys = {'image': tf.io.FixedLenFeature([], tf.string), 'label': tf.io.FixedLenFeature([], tf.int64)}
read = [tf.io.parse_single_example(r, keys) for r in tf.data.TFRecordDataset(paths)]
assert [int(r['label']) for r in read] == labels.tolist()
"""
    if name == "noise":
        code += "decode = lambda b: tf.reshape(tf.io.decode_raw(b, tf.uint8), (32, 32, 3))\n"
    else:
        code += (
            "decode = lambda b: tf.io.decode_jpeg(b, channels=3, dct_method='INTEGER_ACCURATE')\n"
        )
    code += "np.testing.assert_array_equal([decode(r['image']) for r in read], pixels)\n"
    run(execute, "tensorflow", code, records / name)


@pytest.mark.framework("mxnet")
@pytest.mark.parametrize("name", ["noise", "photos"])
def test_mxnet_reads_our_recordio(records, execute, name):
    code = """
import mxnet as mx
found = []
for path in sorted(glob.glob('recordio/train-*.rec')):
    reader = mx.recordio.MXIndexedRecordIO(path.replace('.rec', '.idx'), path, 'r')
    for key in reader.keys:
        header, image = mx.recordio.unpack_img(reader.read_idx(key))
        found.append((int(header.label), header.id, key, image[:, :, ::-1]))
assert [label for label, *_ in found] == labels.tolist()
assert all(identity == key for _, identity, key, _ in found)
np.testing.assert_array_equal([image for *_, image in found], pixels)
"""
    run(execute, "mxnet", code, records / name)


@pytest.mark.framework("mxnet")
def test_mxnet_reads_shards_as_one_with_a_joint_index(records, execute):
    """ImageRecordIter takes several files, but one index, whose offsets run on over them."""
    code = """
import mxnet as mx, os
paths = sorted(glob.glob('recordio/train-*.rec'))
begin, lines = 0, []
for path in paths:
    for line in open(path.replace('.rec', '.idx')):
        lines.append('%d\\t%d\\n' % (len(lines), begin + int(line.split()[1])))
    begin += os.path.getsize(path)
open('joint.idx', 'w').writelines(lines)
iterator = mx.io.ImageRecordIter(
    path_imgrec=';'.join(paths), path_imgidx='joint.idx', data_shape=(3, 32, 32), batch_size=10,
    shuffle=True, preprocess_threads=1)
for epoch in range(2):
    iterator.reset()
    found = {}
    for batch in iterator:
        for image, label in zip(batch.data[0].asnumpy(), batch.label[0].asnumpy()):
            found[image.astype(np.uint8).transpose(1, 2, 0).tobytes()] = int(label)
    assert found == {image.tobytes(): label for image, label in zip(pixels, labels.tolist())}
"""
    run(execute, "mxnet", code, records / "noise")
