"""The one training loop, run inside a framework's own environment.

    runtime.py SPEC.json EVENTS.jsonl            train as the spec says, and tell it in events
    runtime.py SPEC.json TRACE.npz --trace K     take K single steps, and keep what they did

It imports the standard library, NumPy and the adapter of the spec's framework, and parses
as Python 3.6. The adapter is the file `<framework>.py` beside this one: constants `MODES`
(execution modes, its own choice first) and `RECORD_FORMAT`, and a class `Adapter` with

    Adapter(spec, threads)      import done; raises NotImplementedError with the reason if the
                                spec asks for what the framework cannot do here
    read(stem, shape)           all records of the split `stem` + its suffix, in stored order:
                                uint8 images (examples, height, width, channels), labels
    build(weights)              the network, from float32 arrays in canonical layout; running
                                statistics of batch normalisation are among them
    load(images, labels)        put the training set, float32 as above, where steps take it from
    train(indices)              begin one step per row of int64 indices (steps, batch size)
                                into the training set; returns a handle at once if it can
    losses(handle)              wait for these steps; their mean losses, float array (steps,)
    synchronize()               wait for all the device was given
    logits(images)              the network's output in evaluation mode, array (batch, classes)
    weights()                   the present weights, in canonical layout
    velocities()                only with momentum: v of v = m v + g, in canonical layout; after
                                the first step it is the gradient, weight decay included
    set_masks(masks)            only where spec["execution"]["dropout"] is "supplied": what the
                                dropout layers multiply by in the steps to come, float32 arrays
                                (batch size,) + shape of the layer
    settings()                  the effective settings, read back from the live framework
    software()                  versions of what computes
    device_memory_peak()        MiB that the framework's allocator had at most, or None
    is_out_of_memory(error)     whether that exception means that memory ran out
"""

import time

BEGIN = time.monotonic()

import datetime  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import zlib  # noqa: E402

import numpy as np  # noqa: E402

SAMPLE_NOW = os.environ.get("TOUCHSTONE_SAMPLE_NOW")
"""A pipe's file descriptor: a byte asks the sensors for a sample at this very moment."""
SAMPLE = 2**16
"""Numbers of an array that a trace keeps: all of VGG16's gradients would be gigabytes."""
SETTING_TOLERANCE = 1e-6
"""Relative; a setting kept in float32 is read back with an error up to 6e-8."""


class Events:
    """The file of events: one JSON object a line, written out at least twice a second."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8")
        self.flushed = 0.0

    def write(self, event, **fields):
        self.file.write(json.dumps(dict(event=event, **fields)) + "\n")
        now = time.monotonic()
        if event != "chunk" or now - self.flushed > 0.5:
            self.file.flush()
            self.flushed = now

    def phase(self, name, begin, **fields):
        """Write that the phase `name` began at `begin` and ends now; returns now."""
        end = time.monotonic()
        if name in ("warmup", "measured") and SAMPLE_NOW:
            os.write(int(SAMPLE_NOW), b".")
        self.write("phase", name=name, begin=begin, end=end, **fields)
        return end


class Diverged(Exception):
    """A loss is not finite."""


class Order:
    """The order of the examples: a fresh seeded permutation for every epoch.

    The last partial batch of an epoch is dropped. NumPy freezes the stream of RandomState
    (NEP 19), so every NumPy gives the same order.
    """

    def __init__(self, seed, examples, batch_size):
        self.seed, self.examples, self.batch_size = seed, examples, batch_size
        self.steps = examples // batch_size
        self.epoch = 0
        self.left = np.empty((0, batch_size), np.int64)

    def take(self, steps):
        """The indices of the next `steps` batches, int64 (steps, batch size)."""
        while len(self.left) < steps:
            random = np.random.RandomState([self.seed, self.epoch])
            epoch = random.permutation(self.examples)[: self.steps * self.batch_size]
            self.left = np.concatenate([self.left, epoch.reshape(self.steps, self.batch_size)])
            self.epoch += 1
        taken, self.left = self.left[:steps], self.left[steps:]
        return taken


def initial_weights(parameters, seed):
    """Canonical float32 arrays for the graph's parameters; each has its own stream of `seed`."""
    weights = {}
    for parameter in parameters:
        shape = tuple(parameter["shape"])
        if parameter["init"] == "he_normal":
            random = np.random.RandomState([seed, zlib.crc32(parameter["name"].encode())])
            scale = math.sqrt(2.0 / parameter["fan_in"])
            array = random.standard_normal(shape) * scale
        else:
            array = {"zeros": np.zeros, "ones": np.ones}[parameter["init"]](shape)
        weights[parameter["name"]] = array.astype(np.float32)
    return weights


def examples(adapter, spec, split):
    """Images as the network takes them, float32, and labels, int64, of a split.

    Raises ValueError if the records are not what the spec says.
    """
    data = spec["data"]
    count, shape = data[split + "_examples"], tuple(data["shape"])
    if spec["factors"]["input"] == "synthetic":
        random = np.random.RandomState([spec["seed"], zlib.crc32(split.encode())])
        images = random.standard_normal((count,) + shape).astype(np.float32)
        return images, random.randint(0, data["classes"], count)
    pixels, labels = adapter.read(os.path.join(data["folder"], split), shape)
    if pixels.shape != (count,) + shape or pixels.dtype != np.uint8 or len(labels) != count:
        message = "{}/{}: {} records of shape {}, the spec says {} of {}"
        raise ValueError(
            message.format(data["folder"], split, len(pixels), pixels.shape[1:], count, shape)
        )
    mean, std = np.float32(data["mean"]), np.float32(data["std"])
    return (pixels / np.float32(255) - mean) / std, np.asarray(labels, np.int64)


def check_settings(requested, effective):
    """Raise ValueError if the live framework does not do what was asked of it."""
    wrong = []
    for key, asked in requested.items():
        found = effective.get(key)
        if isinstance(asked, float) and isinstance(found, float):
            same = math.isclose(asked, found, rel_tol=SETTING_TOLERANCE)
        else:
            same = asked == found
        if not same:
            wrong.append("{}: asked {!r}, found {!r}".format(key, asked, found))
    if wrong:
        raise ValueError("the framework's settings differ from the spec's: " + "; ".join(wrong))


def cross_entropy(logits, labels):
    """Sum over the examples of -log softmax(logits)[label], float64."""
    logits = np.asarray(logits, np.float64)
    top = logits.max(axis=1)
    total = np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top
    return float((total - logits[np.arange(len(labels)), labels]).sum())


def evaluate(adapter, images, labels, batch_size):
    """Correct predictions and mean cross-entropy; the last batch is filled up and cut."""
    correct, loss = 0, 0.0
    for start in range(0, len(images), batch_size):
        batch, wanted = images[start : start + batch_size], labels[start : start + batch_size]
        missing = batch_size - len(batch)
        if missing:
            batch = np.concatenate([batch, images[:missing]])
        logits = np.asarray(adapter.logits(batch))[: len(wanted)]
        correct += int((logits.argmax(axis=1) == wanted).sum())
        loss += cross_entropy(logits, wanted)
    return correct, loss / len(images)


def spelled(number):
    """A loss for JSON: 7 significant digits, and a word where it is not finite."""
    return float("%.7g" % number) if math.isfinite(number) else repr(float(number))


class Loop:
    """Hands chunks of steps to the adapter and writes one event per finished chunk."""

    def __init__(self, adapter, order, events):
        self.adapter, self.order, self.events = adapter, order, events
        self.step = 0
        self.pending = None

    def begin(self, phase, steps):
        """Begin a chunk; wait for the one before it, so that at most one is queued."""
        first, start = self.step, time.monotonic()
        handle = self.adapter.train(self.order.take(steps))
        self.step += steps
        previous, self.pending = self.pending, (phase, first, steps, start, handle)
        self._finish(previous)

    def finish(self):
        """Wait for every step begun; returns the time."""
        previous, self.pending = self.pending, None
        self._finish(previous)
        self.adapter.synchronize()
        return time.monotonic()

    def _finish(self, chunk):
        if chunk is None:
            return
        phase, first, steps, start, handle = chunk
        losses = self.adapter.losses(handle)
        self.events.write(
            "chunk", phase=phase, first_step=first, steps=steps, begin=start,
            end=time.monotonic(), losses=[spelled(loss) for loss in losses],
        )  # fmt: skip
        if not np.isfinite(losses).all():
            where = first + int(np.argmin(np.isfinite(losses)))
            self.pending = None
            raise Diverged("the loss is {} at step {}".format(losses[where - first], where))


def run_phases(loop, spec, events, begin):
    """First step, warm-up, measured steps; `begin` is the time. Raises Diverged."""
    phases, batch_size = spec["phases"], spec["factors"]["batch_size"]
    total = phases["epochs"] * loop.order.steps

    def phase(name, begin, first):
        steps = loop.step - first
        return events.phase(name, begin, steps=steps, examples=steps * batch_size)

    loop.begin("first_step", 1)
    loop.finish()
    begin = phase("first_step", begin, 0)

    # Chunks double until one lasts half of what is asked, then take that size for good.
    size, chosen, first, warm = 1, phases["chunk_seconds"] == 0, loop.step, begin
    while loop.step < (total + 1) // 2:
        if (
            chosen
            and loop.step - first >= phases["warmup_steps"]
            and time.monotonic() - warm >= phases["warmup_seconds"]
        ):
            break
        start = time.monotonic()
        steps = min(size, total // 2 - loop.step) or 1
        loop.begin("warmup", steps)
        seconds = loop.finish() - start
        if not chosen and seconds >= phases["chunk_seconds"] / 2:
            size = max(1, int(round(phases["chunk_seconds"] * steps / seconds)))
            chosen = True
        elif not chosen:
            size *= 2
    begin = phase("warmup", warm, first)

    first = loop.step
    while loop.step < total:
        loop.begin("measured", min(size, total - loop.step))
    loop.finish()
    return phase("measured", begin, first)


def make_adapter(spec, threads):
    """The adapter of the spec's framework, its framework imported."""
    framework = spec["factors"]["framework"]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), framework + ".py")
    found = importlib.util.spec_from_file_location("adapter_of_" + framework, path)
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module.Adapter(spec, threads)


def requested_settings(spec, threads):
    """The settings that every adapter must read back with these very values."""
    settings = {
        key: spec["optimizer"][key] for key in ("learning_rate", "momentum", "weight_decay")
    }
    settings.update({key: spec["execution"][key] for key in ("device", "precision", "mode")})
    settings.update(
        batch_size=spec["factors"]["batch_size"],
        threads=threads,
        parameters=spec["network"]["parameter_count"],
    )
    return settings


def train(spec, events, threads):
    """The whole run but its outcome. Raises what the adapter raises, and Diverged."""
    adapter = make_adapter(spec, threads)
    events.write("software", numpy=np.__version__, **adapter.software())
    begin = events.phase("import", BEGIN)
    try:
        images, labels = examples(adapter, spec, "train")
        test_images, test_labels = examples(adapter, spec, "test")
        begin = events.phase("load", begin)
        adapter.build(initial_weights(spec["network"]["parameters"], spec["seed"]))
        adapter.load(images, labels)
        begin = events.phase("build", begin)

        order = Order(spec["seed"], len(images), spec["factors"]["batch_size"])
        loop = Loop(adapter, order, events)
        begin = run_phases(loop, spec, events, begin)
        requested, effective = requested_settings(spec, threads), adapter.settings()
        events.write("settings", requested=requested, effective=effective)
        check_settings(requested, effective)

        correct, loss = evaluate(adapter, test_images, test_labels, order.batch_size)
        events.phase("evaluation", begin)
        events.write(
            "evaluation", epoch=spec["phases"]["epochs"], step=loop.step,
            examples=len(test_labels), correct=correct, loss=spelled(loss),
        )  # fmt: skip
        events.write("memory", device_peak_mib=adapter.device_memory_peak())
    except Exception as error:
        if adapter.is_out_of_memory(error):
            raise MemoryError(str(error).strip().splitlines()[0])
        raise


def run(spec, path, threads):
    """Train, and end the events with the runner's word on how it went."""
    events = Events(path)
    events.write(
        "start", t=BEGIN, date=datetime.datetime.utcnow().strftime("%Y-%m-%dT%H:%M:%SZ"),
        pid=os.getpid(), python=sys.version.split()[0],
    )  # fmt: skip
    status, reason = "ok", None
    try:
        train(spec, events, threads)
    except Diverged as fault:
        status, reason = "diverged", str(fault)
    except NotImplementedError as fault:
        status, reason = "unsupported", str(fault)
    except MemoryError as fault:
        status, reason = "oom", str(fault) or "the host ran out of memory"
    events.write("result", status=status, reason=reason)


def unsettled(weights, parameters, seed):
    """The weights with every array moved off its start: a bias of 0 shows no decay."""
    moved = {}
    for parameter in parameters:
        random = np.random.RandomState([seed, 1, zlib.crc32(parameter["name"].encode())])
        array = weights[parameter["name"]]
        if parameter["init"] != "he_normal":
            array = array + np.float32(0.1) * random.random_sample(array.shape).astype(np.float32)
        moved[parameter["name"]] = array
    return moved


def masks(network, seed, batch_size):
    """Seeded masks for every dropout layer: 0 with its rate, else 1 / (1 - rate)."""
    made = {}
    for layer in network["layers"]:
        if layer["op"] == "dropout":
            random = np.random.RandomState([seed, zlib.crc32(layer["name"].encode())])
            kept = random.random_sample([batch_size] + layer["shape"]) >= layer["rate"]
            made[layer["name"]] = (kept / (1 - layer["rate"])).astype(np.float32)
    return made


def sampled(name, array):
    """At most `SAMPLE` numbers of an array, drawn by its name: enough to tell two apart."""
    if array.size <= SAMPLE:
        return array
    random = np.random.RandomState([zlib.crc32(name.encode())])
    return np.asarray(array).ravel()[random.randint(0, array.size, SAMPLE)]


def trace(spec, path, steps, threads):
    """Keep what K single steps did, as arrays of a .npz file.

    `before`, `after`: the first batch's logits in evaluation mode; `losses`, one a step;
    `batches`, the examples they saw; `gradient:NAME`, of the first step; `weight:NAME`,
    every array in the end, both sampled. Dropout multiplies by supplied masks.
    """
    spec["execution"]["dropout"] = "supplied"
    adapter = make_adapter(spec, threads)
    images, labels = examples(adapter, spec, "train")
    parameters = spec["network"]["parameters"]
    start = initial_weights(parameters, spec["seed"])
    adapter.build(unsettled(start, parameters, spec["seed"]))
    adapter.load(images, labels)
    order = Order(spec["seed"], len(images), spec["factors"]["batch_size"])
    batches = order.take(steps)
    before = np.asarray(adapter.logits(images[batches[0]]))
    losses = []
    for i in range(steps):
        adapter.set_masks(masks(spec["network"], spec["seed"] + i, order.batch_size))
        losses.append(float(adapter.losses(adapter.train(batches[i : i + 1]))[0]))
        if i == 0:
            gradients = {
                "gradient:" + name: sampled(name, array)
                for name, array in adapter.velocities().items()
            }
    after = np.asarray(adapter.logits(images[batches[0]]))
    weights = {"weight:" + n: sampled(n, array) for n, array in adapter.weights().items()}
    np.savez(
        path, before=before, losses=losses, after=after, batches=batches, **gradients, **weights
    )


def main(spec_path, output, *options):
    # This folder must not be importable: its tensorflow.py would hide TensorFlow.
    sys.path.pop(0)
    with open(spec_path, encoding="utf-8") as file:
        spec = json.load(file)
    threads = len(os.sched_getaffinity(0))
    if options:
        trace(spec, output, int(options[1]), threads)
    else:
        run(spec, output, threads)


if __name__ == "__main__":
    main(*sys.argv[1:])
