"""Our record readers: against one written by hand, and training from records against noise.

Both sides of a pair run in turn in one process on one core, one thread, and are timed in
seconds of CPU, so that whatever else the machine does moves the figures little. The readers by
hand are the files `reader_<framework>.py`.

    readers.py                  in the base environment: all frameworks, or those of --framework
    readers.py --inside ...     in a framework's own: what the first one starts
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAIRS = 9
IMAGES = 10_000
CORE = max(os.sched_getaffinity(0))
SHAPES = {"lenet5, 28x28x1": (28, 28, 1), "lenet5, 32x32x3": (32, 32, 3)}
CHUNK = 10
"""Steps that the loop hands over at once: about 50 ms of LeNet-5 at batch size 64."""


def cpu_seconds(work):
    """Seconds of CPU that `work()` took, in all threads of this process, and its result."""
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


def loop_of(spec):
    """The loop of a spec, ready for its first step."""
    from touchstone.runner import adapters, lr_schedule, train
    from touchstone.runner.job import job_of
    from touchstone.runner.work import NoEvents

    job, nothing = job_of(spec), NoEvents()
    adapter = adapters.make_adapter(job, 1)
    steps, _ = train.training_of(spec, adapter, job, 1, nothing, 0.0, nothing)
    steps.rates = lr_schedule.LRSchedule(1e-4, spec.schedule, steps.sampler.steps, 10**6)
    return steps


def inside(framework, *specs):
    """Print the pairs of both comparisons, images per second of CPU, as one JSON object."""
    hand = importlib.import_module(f"reader_{framework}")
    from touchstone.schema.spec import spec_from_json

    records, synthetic = [spec_from_json(json.loads(Path(spec).read_text())) for spec in specs]
    loop, noise = loop_of(records), loop_of(synthetic)
    data, size, steps = records.data, records.factors.batch_size, loop.sampler.steps
    stem = data.folder + "/hand"
    by_hand = hand.by_hand(stem, tuple(data.shape), data.mean, data.std, size)
    ready = hand.ready(loop.adapter)

    def read():
        for _ in range(steps // CHUNK):
            ready(loop.reader.take(loop.sampler.take(CHUNK)[0], loop.sampler.peek(CHUNK)))
        return steps // CHUNK * CHUNK * size

    def train(loop):
        for _ in range(5):
            loop.begin("measured", CHUNK)
        loop.finish()
        return 5 * CHUNK * size

    def rates(*sides):
        for side in sides:
            side()
        pairs = []
        for _ in range(PAIRS):
            timed = [cpu_seconds(side) for side in sides]
            pairs.append([images / seconds for seconds, images in timed])
        return pairs

    reading = rates(read, by_hand)
    training = rates(lambda: train(loop), lambda: train(noise))
    print(json.dumps({"reading / by hand": reading, "records / synthetic": training}))


def main(chosen):
    import numpy as np

    from touchstone import networks
    from touchstone.datasets import formats
    from touchstone.environments import ensure, installed
    from touchstone.measure.launch import thread_variables
    from touchstone.plan import frameworks
    from touchstone.plan.model import Cell
    from touchstone.plan.spec import make_spec
    from touchstone.schema.spec import spec_to_json

    print(f"images per second of CPU, b64, core {CORE}, median of {PAIRS} pairs")
    for framework in chosen:
        python = str(ensure(ROOT / f"envs/{framework}.yaml", installed()))
        kind, mode = frameworks.record_format(framework), frameworks.modes(framework)[0]
        for title, shape in SHAPES.items():
            with tempfile.TemporaryDirectory() as folder:
                random = np.random.RandomState(1)
                images = random.randint(0, 256, (IMAGES, *shape)).astype(np.uint8)
                examples = [(i % 10, image) for i, image in enumerate(images)]
                for stem in ("train", "hand"):  # LMDB opens a file once in a process
                    formats.load(kind).write(Path(folder, stem), examples)
                specs = []
                for given in ("records", "synthetic"):
                    cell = Cell(
                        framework=framework, network="lenet5", dataset="mnist-5k", mode=mode,
                        input=given,
                    )  # fmt: skip
                    spec = make_spec(cell, 1, ROOT)
                    data = spec.data._replace(
                        folder=folder, shape=list(shape), train_examples=IMAGES,
                        mean=[0.5] * shape[2], std=[0.25] * shape[2],
                    )  # fmt: skip
                    network = networks.build("lenet5", shape, 10).network()
                    spec = spec._replace(network=network, data=data)
                    specs.append(Path(folder, given + ".json"))
                    specs[-1].write_text(json.dumps(spec_to_json(spec)))
                ended = subprocess.run(
                    [python, __file__, "--inside", framework, *map(str, specs)],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
                    env={
                        **os.environ, **thread_variables(1, "passive"),
                        "PYTHONPATH": str(ROOT / "workflow/scripts"),
                    },
                    preexec_fn=lambda: os.sched_setaffinity(0, {CORE}),
                )  # fmt: skip
            for what, pairs in json.loads(ended.stdout.splitlines()[-1]).items():
                ratios = sorted(ours / theirs for ours, theirs in pairs)
                sides = [statistics.median(side) for side in zip(*pairs, strict=True)]
                print(
                    f"{framework:11} {title:16} {what:20} {statistics.median(ratios):.2f}  "
                    f"({ratios[0]:.2f} to {ratios[-1]:.2f})  {sides[0]:,.0f} / {sides[1]:,.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = sorted(path.stem[7:] for path in Path(__file__).parent.glob("reader_*.py"))
    parser.add_argument("--framework", nargs="+", choices=known, default=known)
    names = ("FRAMEWORK", "SPEC", "SPEC")
    parser.add_argument("--inside", nargs=3, metavar=names, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    inside(*arguments.inside) if arguments.inside else main(arguments.framework)
