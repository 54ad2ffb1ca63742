"""Our writers of records against the frameworks' own, images/s on one core, as ratios.

Each side is a fresh process on one and the same core; the two run in turn, so that a machine
whose speed drifts moves both. What is timed is the writing alone, to a temporary folder, of
10,000 random images of 32 x 32 x 3 or of 500 JPEG files of 256 x 256; the last line times
whole commands, start-up and checks included. Peers: `mx.recordio` packs the raw pixels into an
indexed RecordIO file, `TFRecordWriter` a `tf.train.Example` of them, `im2rec` is MXNet's tool
with --pass-through.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from touchstone.environments import ensure, installed
from touchstone.paths import CLI, ROOT

PAIRS = 7
CORE = min(os.sched_getaffinity(0))
IMAGES, PHOTOS = 10_000, 500

RAW = f"""
import sys, time
import numpy as np
images = np.random.RandomState(1).randint(0, 256, ({IMAGES}, 32, 32, 3)).astype(np.uint8)
labels = (np.arange({IMAGES}) % 10).tolist()
"""
OURS = """
import pathlib, sys
from touchstone.datasets import formats
"""
OUR_WRITER = (
    OURS
    + RAW
    + """
write = formats.load(sys.argv[2]).write
begin = time.perf_counter()
write(pathlib.Path(sys.argv[1], "train"), zip(labels, images))
print(len(images) / (time.perf_counter() - begin))
"""
)
MXNET = (
    RAW
    + """
import os
import mxnet as mx
begin = time.perf_counter()
stem = os.path.join(sys.argv[1], "peer")
record = mx.recordio.MXIndexedRecordIO(stem + ".idx", stem + ".rec", "w")
for i, (label, image) in enumerate(zip(labels, images)):
    header = mx.recordio.IRHeader(0, label, i, 0)
    record.write_idx(i, mx.recordio.pack(header, image.tobytes()))
record.close()
print(len(images) / (time.perf_counter() - begin))
"""
)
TENSORFLOW = (
    RAW
    + """
import os
import tensorflow as tf
begin = time.perf_counter()
with tf.io.TFRecordWriter(os.path.join(sys.argv[1], "peer.tfrecord")) as writer:
    for label, image in zip(labels, images):
        features = {
            "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.tobytes()])),
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        }
        example = tf.train.Example(features=tf.train.Features(feature=features))
        writer.write(example.SerializeToString())
print(len(images) / (time.perf_counter() - begin))
"""
)
OUR_PHOTOS = (
    OURS
    + """
import time
from touchstone.datasets import photos
files = sorted(pathlib.Path(sys.argv[1], "photos").glob("*/*.jpg"))
begin = time.perf_counter()
examples = ((i % 2, photos.as_jpeg(path.read_bytes(), None, None)) for i, path in enumerate(files))
formats.load("recordio").write(pathlib.Path(sys.argv[1], "train"), examples)
print(len(files) / (time.perf_counter() - begin))
"""
)
IM2REC = """
import os, runpy, sys, time
import cv2, mxnet
tool = os.path.join(os.path.dirname(mxnet.__file__), "tools/im2rec.py")
stem, root = os.path.join(sys.argv[1], "peer"), os.path.join(sys.argv[1], "photos")
files = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
with open(stem + ".lst", "w") as lines:
    for i, path in enumerate(sorted(files)):
        lines.write("%d\\t%d\\t%s\\n" % (i, i % 2, os.path.relpath(path, root)))
sys.argv = [tool, "--pass-through", stem, root]
begin = time.perf_counter()
runpy.run_path(tool, run_name="__main__")
print(len(files) / (time.perf_counter() - begin))
"""


def alone(command: list[str]) -> float:
    """The last line that a command on one core, one thread, prints."""
    ended = subprocess.run(
        command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {CORE}),
    )  # fmt: skip
    return float(ended.stdout.splitlines()[-1])


def make_photos(folder: Path) -> None:
    """Two classes of smooth JPEG files, some 20 kB each."""
    import numpy as np
    from PIL import Image

    for i in range(PHOTOS):
        small = np.random.RandomState(i).randint(0, 256, (48, 48, 3)).astype(np.uint8)
        image = Image.fromarray(small).resize((256, 256), Image.Resampling.BICUBIC)
        path = folder / "photos" / "ab"[i % 2] / f"{i:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, quality=90)


def whole_command(command: list[str]) -> list[str]:
    """A program that runs a command and prints photos/s of all of it."""
    code = (
        "import subprocess, sys, time; begin = time.perf_counter(); "
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        f"print({PHOTOS} / (time.perf_counter() - begin))"
    )
    return [sys.executable, "-c", code, *command]


def main() -> None:
    mxnet, tensorflow = (
        str(ensure(ROOT / f"envs/{name}.yaml", installed())) for name in ("mxnet", "tensorflow")
    )
    print(f"ours / peer, images/s, core {CORE}, {PAIRS} pairs")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_photos(folder)
        described = [
            sys.executable, str(CLI), "describe-folder", str(folder / "photos"),
            *("--photos", "--test-share", "0.01", "--output", str(folder / "photos.yaml")),
        ]  # fmt: skip
        subprocess.run(described, check=True)
        conversion = [
            sys.executable, str(CLI), "convert", "photos",
            *("--config-folder", name, "--source", name, "--format", "recordio"),
            *("--output", str(folder / "out/recordio")),
        ]  # fmt: skip
        ours = [sys.executable, "-c", OUR_WRITER, name]
        im2rec = [mxnet, "-c", IM2REC, name]
        sides = {
            "LMDB / mx.recordio": ([*ours, "lmdb"], [mxnet, "-c", MXNET, name]),
            "RecordIO BMP / mx.recordio": ([*ours, "recordio"], [mxnet, "-c", MXNET, name]),
            "TFRecord / TFRecordWriter": (
                [*ours, "tfrecord"],
                [tensorflow, "-c", TENSORFLOW, name],
            ),
            "JPEG / im2rec": ([sys.executable, "-c", OUR_PHOTOS, name], im2rec),
            "JPEG / im2rec, whole": (whole_command(conversion), whole_command(im2rec)),
        }
        for label, (mine, theirs) in sides.items():
            pairs = [(alone(mine), alone(theirs)) for _ in range(PAIRS)]
            ratios = sorted(one / other for one, other in pairs)
            rates = [statistics.median(side) for side in zip(*pairs, strict=True)]
            print(
                f"{label:27} {statistics.median(ratios):5.2f}  ({ratios[0]:.2f} to "
                f"{ratios[-1]:.2f})  {rates[0]:,.0f} against {rates[1]:,.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
