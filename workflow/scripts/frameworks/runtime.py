"""The one training loop, run inside a framework's own environment.

    runtime.py SPEC.json EVENTS.jsonl    train as the spec says, and tell it in events
    runtime.py SPEC.json TRACES.npz      where the spec has `traces`: take single steps, and
                                         keep what they did

It imports the standard library, NumPy and the adapter of the spec's framework, and parses
as Python 3.6. The adapter is the file `<framework>.py` beside this one: constants `MODES`
(execution modes, its own choice first), `RECORD_FORMAT` and, where it cannot do quite what a
layer or an input says, `DEVIATIONS` (a sentence by the layer's `op` or the input's name); for
data-parallel training `REPLICAS` ("processes", of which each has a rank, or "devices" of one
process, which may say in `NO_NODES` why they are on one node alone) or `NO_REPLICAS`, why there is
none (docs/parallel.md); and a class `Adapter` with

    Adapter(spec, threads)      import done; raises NotImplementedError with the reason if the
                                spec asks for what the framework cannot do here
    read(stems, shape)          all records of the files `stem` + their suffix, in stored order:
                                uint8 images (examples, height, width, channels), labels; of a
                                photo ("encoding": "jpeg") its middle, decoded with the exact
                                transform and turned by no EXIF tag
    open(stems)                 where the input is "records", before `build`: the training set,
                                left in its record files; checks every record, raises ValueError
                                with the file's name if it is damaged, and returns their number
    fetch(indices)              the records that were opened, for int64 indices (steps, batch
                                size), as train takes them; runs beside other calls
    build(weights)              the network, from float32 arrays in canonical layout; running
                                statistics of batch normalisation are among them
    load(images, labels)        put the training set, float32 as above, where steps take it from
    train(batches, rates, draws)  begin one step per row of int64 indices (steps, batch size)
                                into the training set that was loaded, of neighbours where the
                                input is "synthetic", or, where it was opened,
                                one per batch of a list of what `fetch` gave; each has its
                                learning rate, float64 (steps,), and, where the spec augments,
                                int32 draws (steps, batch size, 3): see `Order`; returns a
                                handle at once if it can
    losses(handle)              wait for these steps; their mean losses, float array (steps,)
    synchronize()               wait for all the device was given
    logits(images)              the network's output in evaluation mode, array (batch, classes)
    weights()                   the present weights, in canonical layout
    velocities()                only with momentum: v of v = m v + g, in canonical layout; after
                                the first step it is the gradient, decay and penalties included
    set_masks(masks)            only where spec["execution"]["dropout"] is "supplied": what the
                                dropout layers multiply by in the steps to come, float32 arrays
                                (batch size,) + shape of the layer
    settings()                  the effective settings, read back from the live framework
    products(a, b)              the product of float64 matrices in the network's precision, as
                                training computes it: by the framework's matrix product, and by
                                its 1 x 1 convolution; arrays of the type of the weights
    software()                  versions of what computes
    device_memory_peak()        MiB that the framework's allocator had at most, or None
    is_out_of_memory(error)     whether that exception means that memory ran out

and, where it has more to tell, with

    make_deterministic()        before all else: have the framework use its deterministic
                                algorithms, seeded; `settings` must then tell `deterministic`, a
                                boolean. Without this method such runs are unsupported
    asked()                     what it asks of the framework beyond the spec, as `settings` must
                                give it back (layout), and None for what it leaves to the
                                framework (threads between operations)
    DIFFERS                     where a run has not what the framework does by itself: by device a
                                list of sentences, which the report shows
    hints()                     what may be faster on this machine but is not the framework's own
                                choice: sentences that the report shows under its answer
    why_unsupported(error)      the reason, where that exception means that the framework cannot
                                do what the spec asks for; else None

and, where it predicts (`inference/run.py`), with

    prepare(images)             float32 images (examples, height, width, channels) in host memory as
                                `predict` takes them: slices of what it returns are batches
    predict(batch)              begin to compute the network's output of a batch in evaluation mode,
                                without what training needs; returns a handle at once if it can
    fetched(handle)             wait for it; the output in host memory, array (batch, classes)
    predicting()                the effective settings of prediction, read back

Where the spec's `execution` has `replicas`, so many train one model. With "devices", the adapter
splits every batch evenly over them; with "processes", each is given its share, and finds its
`rank`, the `size` and an address for the `rendezvous` in spec["group"]. Losses are means over all
replicas, `threads` those of one replica, and `settings` must tell the `replicas` at work and the
batch size of all. With several `nodes` each has so many `replicas`, in processes with a rank or as
devices of one; spec["group"] tells the `local_rank` too, and `settings` the `nodes` at work.
"""

import time

BEGIN = time.monotonic()

import atexit  # noqa: E402
import concurrent.futures  # noqa: E402
import ctypes  # noqa: E402
import datetime  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import zlib  # noqa: E402

import numpy as np  # noqa: E402

SAMPLE_NOW = os.environ.get("TOUCHSTONE_SAMPLE_NOW")
"""A pipe's file descriptor: a byte asks the sensors for a sample at this very moment."""
FOLLOWS = "TOUCHSTONE_REPLICA" in os.environ
"""Whether this process trains beside another, which tells it what to do (`_replicas.py`)."""
PART = 2**16
"""Numbers that are drawn at once."""
SAMPLE = 2**13
"""Numbers of an array that a trace keeps: all of VGG16's gradients would be gigabytes."""
ARITHMETIC = {"fp16-amp": "fp16"}
"""What products show in a precision, where it is not called like the precision."""
NORMAL = {"he_normal": 2.0, "lecun_normal": 1.0}
"""Starts that are drawn: their variance times the fan-in."""
SETTING_TOLERANCE = 1e-6
"""Relative; a setting kept in float32 is read back with an error up to 6e-8."""


class Events:
    """The file of events: one JSON object a line, written out at least twice a second."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8")
        self.flushed = 0.0
        self.lock = threading.Lock()

    def write(self, event, **fields):
        with self.lock:
            self.put(event, **fields)

    def put(self, event, **fields):
        """Write an event; the caller holds the lock."""
        self.file.write(json.dumps(dict(event=event, **fields)) + "\n")
        now = time.monotonic()
        if event != "chunk" or now - self.flushed > 0.5:
            self.file.flush()
            self.flushed = now

    def phase(self, name, begin, **fields):
        """Write that the phase `name` began at `begin` and ends now; returns now."""
        end = time.monotonic()
        if name in ("warmup", "measured"):
            sample_now()
        self.write("phase", name=name, begin=begin, end=end, **fields)
        return end


def sample_now():
    """Have the sensors look at an edge of the measured phase."""
    if SAMPLE_NOW:
        os.write(int(SAMPLE_NOW), b".")


class Diverged(Exception):
    """A loss is not finite."""


class Order:
    """The order of the examples: a fresh seeded permutation for every epoch, or, where they are not
    to be `shuffled`, that of the set.

    The last partial batch of an epoch is dropped. NumPy freezes the stream of RandomState
    (NEP 19), so every NumPy gives the same order. Where the spec augments, every example has
    draws (top, left, mirrored): the corner at which it is cut out of itself with `crop_padding`
    zeros on every side, and 1 if the cut is then mirrored left to right. Of every batch, `share`
    is given.
    """

    def __init__(
        self, seed, examples, batch_size, augmentation=None, share=slice(None), shuffled=True
    ):
        self.seed, self.examples, self.batch_size = seed, examples, batch_size
        self.augmentation, self.share, self.shuffled = augmentation, share, shuffled
        self.steps = examples // batch_size
        self.epoch = 0
        self.left = self._rows(np.empty(0, np.int64))
        self.left_draws = self._rows(np.empty((0, 3), np.int32))

    def _rows(self, examples):
        """One row per step of what there is one of per example; a partial batch is dropped."""
        steps = len(examples) // self.batch_size
        kept = examples[: steps * self.batch_size]
        return kept.reshape((steps, self.batch_size) + examples.shape[1:])

    def _draws(self):
        random = np.random.RandomState([self.seed, self.epoch, 1])
        corner = random.randint(0, 2 * self.augmentation["crop_padding"] + 1, (self.examples, 2))
        mirrored = random.randint(0, 1 + self.augmentation["flip"], (self.examples, 1))
        return np.concatenate([corner, mirrored], axis=1).astype(np.int32)

    def peek(self, steps):
        """The indices that the next `steps` batches will have."""
        while len(self.left) < steps:
            order = np.arange(self.examples)
            if self.shuffled:
                order = np.random.RandomState([self.seed, self.epoch]).permutation(order)
            self.left = np.concatenate([self.left, self._rows(order)])
            if self.augmentation:
                rows = self._rows(self._draws())
                self.left_draws = np.concatenate([self.left_draws, rows])
            self.epoch += 1
        return self.left[:steps, self.share]

    def take(self, steps):
        """The next `steps` batches: indices, int64 (steps, batch size), and draws or None."""
        taken = self.peek(steps)
        draws = self.left_draws[:steps, self.share] if self.augmentation else None
        self.left, self.left_draws = self.left[steps:], self.left_draws[steps:]
        return taken, draws


def order_of(spec, share=slice(None)):
    """The Order of a spec's training set: noise is not shuffled, which would only cost time."""
    return Order(
        spec["seed"], spec["data"]["train_examples"], spec["factors"]["batch_size"],
        spec["augmentation"], share, spec["factors"]["input"] != "synthetic",
    )  # fmt: skip


class Reader:
    """Reads records in threads of its own, one chunk of steps before it is taken.

    With no threads, a chunk is read when it is taken.
    """

    def __init__(self, fetch, threads):
        self.fetch, self.threads = fetch, []
        self.ahead, self.parts = np.empty((0, 0), np.int64), []
        self.pool = concurrent.futures.ThreadPoolExecutor(threads) if threads else None
        if self.pool:
            # All of them are there before the first step, none comes up while measuring.
            started = threading.Barrier(threads)
            ready = [self.pool.submit(self._start, started) for _ in range(threads)]
            self.threads = [each.result() for each in ready]

    def _start(self, started):
        started.wait()
        return threading.current_thread()

    def take(self, indices, following):
        """What `fetch` gives for these steps, in parts; begins to read the `following` ones."""
        known, parts = np.array_equal(indices, self.ahead), self.parts
        taken = [part.result() for part in parts] if known else [self.fetch(indices)]
        if self.pool and len(following):
            parts = np.array_split(following, min(len(self.threads), len(following)))
            self.ahead, self.parts = following, [self.pool.submit(self.fetch, p) for p in parts]
        return taken

    def live(self):
        """The number of its threads that live."""
        return sum(thread.is_alive() for thread in self.threads)


class Rates:
    """The learning rate of every step.

    During warm-up it grows linearly to the base rate (Goyal et al. 2017, arXiv:1706.02677,
    section 2.2); the cosine falls from there to 0 at the end of training (Loshchilov and Hutter
    2017, arXiv:1608.03983, equation 5, without restarts).
    """

    def __init__(self, base, schedule, steps_per_epoch, epochs):
        self.base, self.schedule, self.epochs = base, schedule, epochs
        self.steps_per_epoch = steps_per_epoch

    def take(self, first, steps):
        """The rates of `steps` steps from number `first` on, float64 (steps,)."""
        step = np.arange(first, first + steps)
        epoch = step / float(self.steps_per_epoch)
        warmup, rates = self.schedule["warmup_epochs"], np.full(steps, self.base)
        if self.schedule["name"] == "step":
            passed = (epoch[:, None] >= np.array(self.schedule["milestones"])).sum(axis=1)
            rates *= self.schedule["factor"] ** passed
        elif self.schedule["name"] == "cosine":
            rates *= (1 + np.cos(np.pi * (epoch - warmup) / (self.epochs - warmup))) / 2
        rising = (step + 1) / (max(warmup, 1e-9) * self.steps_per_epoch)
        return np.where(epoch < warmup, self.base * rising, rates)


def drawn(random, shape, scale=1.0):
    """Normal numbers times `scale`, float32, in parts: all at once they would take up to five times
    the memory meanwhile, in double precision, and the process would keep much of it."""
    array = np.empty(shape, np.float32)
    numbers = array.reshape(-1)
    for first in range(0, numbers.size, PART):
        part = numbers[first : first + PART]
        part[:] = random.standard_normal(part.size) * scale
    return array


def initial_weights(parameters, seed):
    """Canonical float32 arrays for the graph's parameters; each has its own stream of `seed`."""
    weights = {}
    for parameter in parameters:
        shape = tuple(parameter["shape"])
        if parameter["init"] in NORMAL:
            random = np.random.RandomState([seed, zlib.crc32(parameter["name"].encode())])
            scale = math.sqrt(NORMAL[parameter["init"]] / parameter["fan_in"])
            array = drawn(random, shape, scale)
        else:
            array = {"zeros": np.zeros, "ones": np.ones, "forget_ones": np.zeros}[
                parameter["init"]
            ](shape)
            if parameter["init"] == "forget_ones":
                array[len(array) // 4 : len(array) // 2] = 1
        weights[parameter["name"]] = array.astype(np.float32, copy=False)
    return weights


def examples(adapter, spec, split):
    """Images as the network takes them, float32, and labels, int64, of a split.

    Of a text these are its tokens, whole numbers: the bytes, for `white` is 1 and the mean 0.
    Raises ValueError if the records are not what the spec says.
    """
    data = spec["data"]
    count, shape = data[split + "_examples"], tuple(data["shape"])
    if spec["factors"]["input"] == "synthetic":
        random = np.random.RandomState([spec["seed"], zlib.crc32(split.encode())])
        if "vocabulary" in spec["network"]:
            images = random.randint(0, spec["network"]["vocabulary"], (count,) + shape)
            images = images.astype(np.float32)
        else:
            images = drawn(random, (count,) + shape)
        return images, random.randint(0, data["classes"], count)
    stem = os.path.join(data["folder"], split)
    pixels, labels = adapter.read(stems(data, split), shape)
    if pixels.shape != (count,) + shape or pixels.dtype != np.uint8 or len(labels) != count:
        message = "{}: {} records of shape {}, the spec says {} of {}"
        raise ValueError(message.format(stem, len(pixels), pixels.shape[1:], count, shape))
    labels = np.asarray(labels, np.int64)
    wrong = labels[(labels < 0) | (labels >= data["classes"])]
    if len(wrong):
        message = "{}: a record has the label {}, the spec says {} classes"
        raise ValueError(message.format(stem, wrong[0], data["classes"]))
    images = pixels / np.float32(data.get("white", 255))
    images -= np.float32(data["mean"])
    images /= np.float32(data["std"])
    return images, labels


def stems(data, split):
    """Where the record files of a split lie, in stored order, without their suffixes."""
    return [os.path.join(data["folder"], name) for name in data["stems"][split]]


def reader_of(adapter, spec):
    """The Reader of the training set, which is opened; None where all of it is loaded.

    Raises ValueError if the records are not what the spec says.
    """
    data = spec["data"]
    if spec["factors"]["input"] != "records":
        return None
    stem = os.path.join(data["folder"], "train")
    count = adapter.open(stems(data, "train"))
    if count != data["train_examples"]:
        message = "{}: {} records, the spec says {}"
        raise ValueError(message.format(stem, count, data["train_examples"]))
    return Reader(adapter.fetch, spec["execution"]["reader_threads"])


def check_settings(requested, effective):
    """Raise ValueError if the live framework does not do what was asked; None asks for nothing."""
    wrong = []
    for key, asked in requested.items():
        found = effective.get(key)
        if asked is None:
            continue
        if isinstance(asked, float) and isinstance(found, float):
            same = math.isclose(asked, found, rel_tol=SETTING_TOLERANCE)
        else:
            same = asked == found
        if not same:
            wrong.append("{}: asked {!r}, found {!r}".format(key, asked, found))
    if wrong:
        raise ValueError("the framework's settings differ from the spec's: " + "; ".join(wrong))


def prove_settings(events, adapter, spec, requested, effective):
    """Write what was asked of the live framework, what was read back from it, where the run has
    not what the framework does by itself, and the adapter's hints. Raises ValueError where the
    first two differ."""
    differs = getattr(adapter, "DIFFERS", {}).get(spec["execution"]["device"], [])
    hints = adapter.hints() if hasattr(adapter, "hints") else []
    events.write("settings", requested=requested, effective=effective, differs=differs, hints=hints)
    check_settings(requested, effective)


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
            batch = np.concatenate([batch, images[np.arange(missing) % len(images)]])
        logits = np.asarray(adapter.logits(batch))[: len(wanted)]
        correct += int((logits.argmax(axis=1) == wanted).sum())
        loss += cross_entropy(logits, wanted)
    return correct, loss / len(images)


def keep_weights(adapter, path, images, batch_size):
    """Write the weights, canonical, and what they make of the first images, as `logits`."""
    shown = min(batch_size, len(images))
    batch = np.resize(images[:shown], (batch_size,) + images.shape[1:])
    logits = np.asarray(adapter.logits(batch))[:shown]
    np.savez(path, logits=logits, **adapter.weights())


def spelled(number):
    """A loss for JSON: 7 significant digits, and a word where it is not finite."""
    return float("%.7g" % number) if math.isfinite(number) else repr(float(number))


class Loop:
    """Hands chunks of steps to the adapter and writes one event per finished chunk.

    `tell` is given the number of steps of a chunk before it begins.
    """

    def __init__(self, adapter, order, rates, events, total, reader=None, waits=False, tell=None):
        self.adapter, self.order, self.rates, self.events = adapter, order, rates, events
        self.total, self.reader, self.waits, self.tell = total, reader, waits, tell
        self.step = 0
        self.pending = None

    def begin(self, phase, steps):
        """Begin a chunk; wait for the one before it, so that at most one is queued.

        Where the loop `waits`, it waits for this one too: its time is then a latency.
        """
        first, start = self.step, time.monotonic()
        if self.tell:
            self.tell(steps)
        batches, draws = self.order.take(steps)
        self.step += steps
        if self.reader:
            following = self.order.peek(min(steps, self.total - self.step))
            batches = self.reader.take(batches, following)
        self.last_rates = self.rates.take(first, steps)
        handle = self.adapter.train(batches, self.last_rates, draws)
        previous, self.pending = self.pending, (phase, first, steps, start, handle)
        self._finish(previous)
        if self.waits:
            self.finish()

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


def run_phases(loop, spec, events, begin, evaluated):
    """First step, warm-up, measured steps; `begin` is the time. Raises Diverged.

    At every end of an epoch at which the spec wants an evaluation, but the last, the phase is
    closed, `evaluated` is called with the time and returns it, and another part begins.
    """
    phases, batch_size, total = spec["phases"], spec["factors"]["batch_size"], loop.total
    every = phases["evaluate_every"] * loop.order.steps

    def phase(name, begin, first):
        steps = loop.step - first
        return events.phase(name, begin, steps=steps, examples=steps * batch_size)

    def left():
        """Steps until the next evaluation, or the end."""
        return min(every - loop.step % every if every else total, total - loop.step)

    def due():
        return every and loop.step % every == 0 and loop.step < total

    def pause(begin):
        begin = evaluated(begin)
        sample_now()
        return begin

    loop.begin("first_step", 1)
    loop.finish()
    begin = phase("first_step", begin, 0)
    if due():
        begin = pause(begin)

    # Chunks double until one lasts half of what is asked, or as long as there is between two
    # evaluations, then take that size for good.
    size, chosen, first, warm = 1, phases["chunk_seconds"] == 0, loop.step, begin
    start_of_part, paused = first, 0.0
    while loop.step < (total + 1) // 2:
        if (
            chosen
            and loop.step - first >= phases["warmup_steps"]
            and time.monotonic() - warm - paused >= phases["warmup_seconds"]
        ):
            break
        start = time.monotonic()
        steps = min(size, left(), total // 2 - loop.step) or 1
        loop.begin("warmup", steps)
        seconds = loop.finish() - start
        if not chosen and (seconds >= phases["chunk_seconds"] / 2 or steps == every):
            size = max(1, int(round(phases["chunk_seconds"] * steps / seconds)))
            chosen = True
        elif not chosen:
            size *= 2
        if due():
            end = phase("warmup", begin, start_of_part)
            begin, start_of_part = pause(end), loop.step
            paused += begin - end
    if loop.step > start_of_part or not paused:
        begin = phase("warmup", begin, start_of_part)

    first, most = loop.step, phases.get("measured_seconds", float("inf"))
    if "measured_steps" in phases:
        total = loop.total = min(total, first + phases["measured_steps"])
    while loop.step < total and time.monotonic() - begin < most:
        loop.begin("measured", min(size, left()))
        if due():
            loop.finish()
            begin, first = pause(phase("measured", begin, first)), loop.step
    loop.finish()
    return phase("measured", begin, first)


def make_adapter(spec, threads):
    """The adapter of the spec's framework, its framework imported.

    `TOUCHSTONE_MODE` has the mode, for adapters of libraries that must know it when imported.
    """
    framework = spec["factors"]["framework"]
    os.environ["TOUCHSTONE_MODE"] = spec["execution"]["mode"] or ""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), framework + ".py")
    found = importlib.util.spec_from_file_location("adapter_of_" + framework, path)
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    adapter = module.Adapter(spec, threads)
    if spec["execution"]["deterministic"]:
        if not hasattr(adapter, "make_deterministic"):
            raise NotImplementedError("{} cannot be made deterministic here".format(framework))
        adapter.make_deterministic()
    return adapter


def group_of(spec, events):
    """This process among those that train one model together; None where it trains alone.

    Replicas that are devices of one process are the adapter's own matter: where there are several
    nodes, each has one. Raises NotImplementedError where the adapter has none.
    """
    execution = spec["execution"]
    if "replicas" not in execution:
        return None
    if execution["replicas_are"] is None:
        raise NotImplementedError(execution["why_no_replicas"])
    if execution["replicas_are"] == "devices" and "nodes" not in execution:
        return None
    return companion("_replicas").join(execution, events)


def grouped(spec, group):
    """The spec with what an adapter must know of its process's place among the replicas."""
    if not group:
        return spec
    local = group.local_size
    told = {"rank": group.rank, "size": group.size, "rendezvous": group.rendezvous}
    told.update(local_rank=group.rank % local, local_size=local, interface=group.interface)
    return dict(spec, group=told)


def companion(name):
    """The module of that name beside this file, whose folder must not be importable."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    found = importlib.util.spec_from_file_location("touchstone" + name, path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def threads_of_replica(spec, threads):
    """The threads of each replica, of the run's: also in the variables that libraries read."""
    replicas = spec["execution"].get("replicas", 1)
    if replicas == 1:
        return threads
    own = max(1, threads // replicas)
    for name in os.environ:
        if name.endswith("_NUM_THREADS"):
            os.environ[name] = str(own)
    return own


def requested_settings(spec, threads, rate, adapter):
    """The settings that must be read back with these very values."""
    settings = {
        key: value
        for key, value in spec["optimizer"].items()
        if key not in ("name", "decoupled", "spared")
    }
    settings.update({key: spec["execution"][key] for key in ("device", "precision", "mode")})
    settings.update(
        learning_rate=float(rate),
        optimizer=spec["optimizer"]["name"],
        batch_size=spec["factors"]["batch_size"],
        threads=threads,
        reader_threads=(
            spec["execution"]["reader_threads"] if spec["factors"]["input"] == "records" else 0
        ),
        parameters=spec["network"]["parameter_count"],
        arithmetic=shown_by_products(spec),
    )
    if "replicas" in spec["execution"]:
        nodes = spec["execution"].get("nodes", 1)
        settings["replicas"] = spec["execution"]["replicas"] * nodes
        if nodes > 1:
            settings["nodes"] = nodes
    if hasattr(adapter, "make_deterministic"):
        settings["deterministic"] = spec["execution"]["deterministic"]
    if hasattr(adapter, "asked"):
        settings.update(adapter.asked())
    return settings


def shown_by_products(spec):
    """The arithmetic that products must show in the precision of a spec."""
    return ARITHMETIC.get(spec["execution"]["precision"], spec["execution"]["precision"])


def arithmetic(adapter):
    """The precision that products show: of 1 + 2^-k, which is one bit too long for the next.

    Mantissas have 52, 23, 10 and 7 bits (IEEE 754; NVIDIA A100 whitepaper for tf32; bfloat16).
    Those of tf32 and fp16 are alike, but fp16 ends at 65504.
    """
    found = ["less than bf16"] * 2
    for name, bits in (("bf16", 7), ("tf32", 10), ("fp32", 23), ("fp64", 52)):
        one = np.full((64, 64), 1 + 2.0**-bits)
        for i, product in enumerate(adapter.products(one, np.eye(64))):
            if (np.asarray(product) == one).all():
                found[i] = name
    if "tf32" in found:
        large = np.full((64, 64), 2.0**20)
        for i, product in enumerate(adapter.products(large, np.eye(64))):
            if found[i] == "tf32" and not (np.asarray(product) == large).all():
                found[i] = "fp16"
    return found[0] if found[0] == found[1] else " in products, ".join(found) + " in convolutions"


def train(spec, events, threads):
    """The whole run but its outcome. Raises what the adapter raises, and Diverged."""
    group, share = group_of(spec, events), slice(None)
    threads = threads_of_replica(spec, threads)
    spec = grouped(spec, group)
    if group:
        size = spec["factors"]["batch_size"] // group.size
        share = slice(group.rank * size, (group.rank + 1) * size)
    adapter = make_adapter(spec, threads)
    events.write("software", numpy=np.__version__, **adapter.software())
    # Other nodes are waited for before it.
    begin = events.phase("import", max(BEGIN, group.ready) if group else BEGIN)
    try:
        reader = reader_of(adapter, spec)
        loaded = None if reader else examples(adapter, spec, "train")
        evaluates = not FOLLOWS and "measured_steps" not in spec["phases"]
        test_images, test_labels = examples(adapter, spec, "test") if evaluates else ((), ())
        begin = events.phase("load", begin)
        adapter.build(initial_weights(spec["network"]["parameters"], spec["seed"]))
        if loaded:
            adapter.load(*loaded)
            loaded = None  # some frameworks keep a copy of their own
        begin = events.phase("build", begin)

        order = order_of(spec, share)
        rates = Rates(
            spec["optimizer"]["learning_rate"], spec["schedule"], order.steps,
            spec["phases"]["epochs"],
        )  # fmt: skip
        total = spec["phases"]["epochs"] * order.steps
        if "steps" in spec["phases"]:  # a probe: does this batch size fit into memory?
            total = spec["phases"]["steps"]
            test_images = test_images[: order.batch_size]
            test_labels = test_labels[: order.batch_size]
        waits = spec["phases"]["chunk_seconds"] == 0
        tell = group.tell if group and not FOLLOWS else None
        loop = Loop(adapter, order, rates, events, total, reader, waits, tell)
        if FOLLOWS:
            group.follow(loop)
            return

        def evaluated(begin):
            correct, loss = evaluate(adapter, test_images, test_labels, order.batch_size)
            events.write(
                "evaluation", epoch=loop.step // order.steps, step=loop.step,
                examples=len(test_labels), correct=correct, loss=spelled(loss),
            )  # fmt: skip
            return events.phase("evaluation", begin)

        begin = run_phases(loop, spec, events, begin, evaluated)
        if group:
            group.end()
        requested = requested_settings(spec, threads, loop.last_rates[-1], adapter)
        effective = dict(adapter.settings(), arithmetic=arithmetic(adapter))
        effective["reader_threads"] = reader.live() if reader else 0
        prove_settings(events, adapter, spec, requested, effective)

        if "measured_seconds" in spec["phases"]:  # a trial of the mode's speed alone
            return
        if evaluates:
            evaluated(begin)
        events.write("memory", device_peak_mib=adapter.device_memory_peak())
        if "keep_weights" in spec:
            keep_weights(adapter, spec["keep_weights"], test_images, order.batch_size)
    except Exception as error:
        if group and not FOLLOWS:
            group.end(group.PATIENCE)  # where another failed first, this process ends as it did
        raise_foreseen(adapter, error)
        raise


def raise_foreseen(adapter, error):
    """Raise MemoryError or NotImplementedError where the adapter knows an error to mean that."""
    if adapter.is_out_of_memory(error):
        raise MemoryError(str(error).strip().splitlines()[0])
    reason = adapter.why_unsupported(error) if hasattr(adapter, "why_unsupported") else None
    if reason:
        raise NotImplementedError(reason)


def run(spec, path, threads, work=train):
    """Do the `work`, and end the events with the runner's word on how it went."""
    events = companion("_replicas").Word(path) if FOLLOWS else Events(path)
    events.write(
        "start", t=BEGIN, date=datetime.datetime.utcnow().strftime("%Y-%m-%dT%H:%M:%SZ"),
        pid=os.getpid(), python=sys.version.split()[0],
    )  # fmt: skip
    status, reason = "ok", None
    try:
        work(spec, events, threads)
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
        if parameter["init"] not in NORMAL:
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


def trace(spec, threads):
    """What the single steps of a trace did, by name.

    `before`, `after`: the first batch's logits in evaluation mode; `losses`, one a step;
    `batches`, the examples they saw; `weight:NAME`, every array in the end, `moved:NAME`, the
    largest change of its numbers, and, with momentum, `gradient:NAME` of the first step. Weights
    and gradients are sampled. Dropout multiplies by supplied masks. Raises what the adapter
    raises, and NotImplementedError with its reason where it knows an error to mean that it cannot
    do what the spec asks for.
    """
    adapter = make_adapter(spec, threads)
    try:
        return single_steps(adapter, spec)
    except Exception as error:
        raise_foreseen(adapter, error)
        raise


def single_steps(adapter, spec):
    """The steps of `trace`, and what it keeps of them."""
    images, labels = examples(adapter, spec, "train")
    if spec["apart"]:
        random = np.random.RandomState([spec["seed"], 2])
        images = images * (1 + spec["apart"] * random.uniform(-1, 1, images.shape))
        images = images.astype(np.float32)
    reader = reader_of(adapter, spec)
    parameters, steps = spec["network"]["parameters"], spec["steps"]
    start = unsettled(initial_weights(parameters, spec["seed"]), parameters, spec["seed"])
    adapter.build(start)
    if not reader:
        adapter.load(images, labels)
    order = order_of(spec)
    rates = Rates(spec["optimizer"]["learning_rate"], spec["schedule"], order.steps, 1)
    batches, draws = order.take(steps)
    kept = {"batches": batches, "before": np.asarray(adapter.logits(images[batches[0]]))}
    losses = []
    for i in range(steps):
        adapter.set_masks(masks(spec["network"], spec["seed"] + i, order.batch_size))
        cut = None if draws is None else draws[i : i + 1]
        batch = batches[i : i + 1]
        if reader:
            batch = reader.take(batch, batches[i + 1 : i + 2])
        handle = adapter.train(batch, rates.take(i, 1), cut)
        losses.append(float(adapter.losses(handle)[0]))
        if i == 0 and spec["optimizer"].get("momentum"):
            for name, array in adapter.velocities().items():
                kept["gradient:" + name] = sampled(name, array)
    kept.update(losses=losses, after=np.asarray(adapter.logits(images[batches[0]])))
    for name, array in adapter.weights().items():
        kept["weight:" + name] = sampled(name, array)
        kept["moved:" + name] = np.abs(array.astype(np.float64) - start[name]).max()
    return kept


def run_traces(spec, path, threads):
    """Write the arrays of all traces as `TRACE/NAME` into one .npz file.

    If the framework cannot do what the spec asks, the file holds `unsupported`, the reason.
    """
    kept = {}
    try:
        for name, one in spec["traces"].items():
            execution = dict(spec["execution"], precision=one["precision"], dropout="supplied")
            own = dict(spec, execution=execution, optimizer=one["optimizer"], steps=one["steps"])
            own["apart"] = one.get("apart")
            for key, array in trace(own, threads).items():
                kept[name + "/" + key] = array
    except NotImplementedError as fault:
        kept = {"unsupported": str(fault)}
    np.savez(path, **kept)


def main(spec_path, output, work=train):
    """Run what the spec says; `work` is what is done where it asks for no traces."""
    with open(spec_path, encoding="utf-8") as file:
        spec = json.load(file)
    threads = spec["execution"]["threads"] or len(os.sched_getaffinity(0))
    if "traces" in spec:
        run_traces(spec, output, threads)
    else:
        run(spec, output, threads, work)


def leave():
    """End this process, all its files being written, without taking the framework apart.

    That takes up to a second, for which the next run would wait. What asked to be called at the end
    of the process is called, and what C has not written yet is written.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(0)


if __name__ == "__main__":
    # This folder must not be importable: its tensorflow.py would hide TensorFlow.
    sys.path.pop(0)
    main(*sys.argv[1:])
    leave()
