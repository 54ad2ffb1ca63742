"""What the experts' and the users' programs share: how they are asked, and the clocks that they are
read by.

It runs in the oldest framework's Python, 3.6. The first argument is a question as JSON:

    expert_<framework>.py '{"network": "lenet5", "candidate": null}'

lists the ways to train the network that an expert would try; with `"thorough": true` those too that
take minutes to compile. Of one of them, on `batches` prepared batches of noise,

    expert_<framework>.py '{"network": "lenet5", "candidate": "...", "batch_size": 64, "batches": 8,
                            "threads": 1, "group": 8, "warmup": 200, "measured": 900}'

trains that many steps, waiting after every `group` steps, and tells what it saw. With `"seconds"`
in place of `warmup` and `measured` it tells how fast it is in windows so long, and the network's
size. On a GPU both questions have `"device": "gpu"` and `"precision"`: fp32, tf32 or bf16.

    user_<framework>.py '{"network": "lenet5", "batch_size": 64, "batches": 64,
                          "warmup_epochs": 1, "epochs": 3}'

trains whole epochs of so many batches, and tells what it saw of the last `epochs` of them; or null,
where the program lacks the network.
"""

import json
import os
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")
SHAPES = {
    "lenet5": (28, 28, 1, 10),
    "resnet50": (224, 224, 3, 1000),
    "lstm-text": (64, 1, 1, 4),
    "gpt-10m": (257, 1, 1, 256),
}
BYTES = 256
"""The letters of a text."""


def shape(network):
    """Height, width and channels of what a network is given, and its number of classes; of networks
    that are not in `SHAPES`, those of CIFAR-10. The height of a text is its length; a GPT, which
    predicts each letter but the first, has letters as classes."""
    return SHAPES.get(network, (32, 32, 3, 10))


def noise(network, examples, channels_first=False):
    """Images, float32, or texts, int64 (examples, letters), and their labels, int64."""
    import numpy as np  # after the framework

    random = np.random.default_rng(1)
    *size, classes = shape(network)
    labels = random.integers(0, classes, examples)
    if network == "lstm-text":
        return random.integers(0, BYTES, (examples, size[0])), labels
    if channels_first:
        size = size[2:] + size[:2]
    return random.standard_normal([examples] + size, np.float32), labels


def clocks():
    """The time, CPU seconds of this process, and busy CPU seconds of the machine."""
    with open("/proc/stat") as file:
        # user, nice, system, idle, iowait, irq, softirq: proc(5)
        ticks = [int(field) for field in file.readline().split()[1:8]]
    busy = (sum(ticks) - ticks[3] - ticks[4]) / TICKS
    return time.monotonic(), time.process_time(), busy


def since(before, after):
    """Seconds, CPU seconds and the machine's busy seconds between two looks at the clocks."""
    return [end - begin for begin, end in zip(before, after)]  # noqa: B905 (Python 3.6)


def memory_peak():
    """The largest resident size that this process has had, MiB."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def window(training, steps, group):
    """What `since` tells of so many steps."""
    before = clocks()
    for start in range(0, steps, group):
        training.steps(min(group, steps - start))
    return since(before, clocks())


def trial(training, asked):
    """Steps per second, and per CPU second: the better of two windows that are long enough."""
    steps = 1
    training.steps(1)
    first = window(training, steps, asked["group"])
    while first[0] < asked["seconds"]:
        steps *= 2
        first = window(training, steps, asked["group"])
    second = window(training, steps, asked["group"])
    return [steps / min(first[clock], second[clock]) for clock in (0, 1)]


def seen(measured, **more):
    """What a program saw of its measured steps, as it tells it."""
    seconds, cpu_seconds, busy_seconds = measured
    measured = {"seconds": seconds, "cpu_seconds": cpu_seconds, "busy_seconds": busy_seconds}
    return dict(measured, memory_peak=memory_peak(), **more)


def expert(candidates, make):
    """Answer what an expert's program is asked; the framework has been imported.

    `candidates(network, thorough)` lists the ways to train that an expert would try, none for a
    network that the program lacks; `make(network, batch_size, batches, threads, candidate)` gives
    an object with `steps(n)`, which takes n steps and waits for the last loss, and `size()`, its
    numbers of trained parameters and of multiply-accumulates of convolutions and dense layers.
    Of a program for GPUs too, both take `device` and `precision`.
    """
    asked = json.loads(sys.argv[1])
    where = {key: asked[key] for key in ("device", "precision") if key in asked}
    if asked["candidate"] is None:
        print(json.dumps(list(candidates(asked["network"], asked["thorough"], **where))))
        return
    keys = ("network", "batch_size", "batches", "threads", "candidate")
    training = make(*[asked[key] for key in keys], **where)
    if "seconds" in asked:
        rate, efficiency = trial(training, asked)
        print(json.dumps({"rate": rate, "efficiency": efficiency, "size": training.size()}))
        return
    built = time.monotonic()
    training.steps(1)
    stepped = time.monotonic()
    window(training, asked["warmup"], asked["group"])
    measured = window(training, asked["measured"], asked["group"])
    print(json.dumps(seen(measured, first_step=stepped - built)))


def user(networks, make):
    """Answer what a user's program is asked; the framework has been imported.

    `networks` are those that it has; `make(network, batch_size, batches)` gives an object with
    `train(epochs, ended)`, which calls `ended()` behind every epoch, and `parameters()`, its
    number of trained parameters.
    """
    asked = json.loads(sys.argv[1])
    if asked["network"] not in networks:
        print("null")
        return
    training = make(asked["network"], asked["batch_size"], asked["batches"])
    ends = []
    training.train(asked["warmup_epochs"] + asked["epochs"], lambda: ends.append(clocks()))
    measured = since(ends[asked["warmup_epochs"] - 1], ends[-1])
    print(json.dumps(seen(measured, parameters=training.parameters())))
