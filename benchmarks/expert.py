"""What the experts' programs share: how they are asked, and the clocks that they are read by.

It runs in the oldest framework's Python, 3.6.

    expert_<framework>.py '{"network": "lenet5", "batch_size": 64, "batches": 8, "threads": 1,
                            "group": 8, "warmup": 200, "measured": 900, "candidate": "..."}'

trains that many steps with one candidate, on `batches` prepared batches of noise, waiting
after every `group` steps, and prints what it saw. With `"candidate": null` it tries the
candidates for `seconds` each instead, all of them if `thorough`.
"""

import json
import os
import sys
import time

BEGIN = time.monotonic()
TICKS = os.sysconf("SC_CLK_TCK")
IMAGES = {"lenet5": (28, 28, 1), "resnet50": (224, 224, 3)}
"""Height, width and channels; of all other networks, those of CIFAR-10."""


def image(network):
    """Height, width and channels of the images of a network, and its number of classes."""
    return IMAGES.get(network, (32, 32, 3)) + (1000 if network == "resnet50" else 10,)


def clocks():
    """The time, CPU seconds of this process, and busy CPU seconds of the machine."""
    with open("/proc/stat") as file:
        # user, nice, system, idle, iowait, irq, softirq: proc(5)
        ticks = [int(field) for field in file.readline().split()[1:8]]
    busy = (sum(ticks) - ticks[3] - ticks[4]) / TICKS
    return time.monotonic(), time.process_time(), busy


def memory_peak():
    """The largest resident size that this process has had, MiB."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def window(training, steps, group):
    """Seconds, CPU seconds and the machine's busy seconds that so many steps take."""
    before = clocks()
    for start in range(0, steps, group):
        training.steps(min(group, steps - start))
    return [after - then for after, then in zip(clocks(), before)]  # noqa: B905 (Python 3.6)


def trial(training, asked):
    """Steps per CPU second, from windows that double until one is long enough."""
    steps = 1
    training.steps(1)
    while True:
        seconds, cpu_seconds, _ = window(training, steps, asked["group"])
        if seconds >= asked["seconds"]:
            return steps / cpu_seconds
        steps *= 2


def main(candidates, make):
    """Answer the question in the first argument; the framework has been imported.

    `candidates(network, thorough)` lists the ways to train that an expert would try, `thorough`
    those too that take minutes to compile, and none for a network that the program lacks;
    `make(network, batch_size, batches, threads, candidate)` gives an object with `steps(n)`,
    which takes n steps and waits for the last loss, and `size()`, its numbers of trained
    parameters and of multiply-accumulates of convolutions and dense layers.
    """
    imported = time.monotonic()
    asked = json.loads(sys.argv[1])
    given = [asked[key] for key in ("network", "batch_size", "batches", "threads")]
    if asked["candidate"] is None:
        rates, size = {}, None
        for candidate in candidates(asked["network"], asked["thorough"]):
            training = make(*given, candidate)
            rates[candidate] = trial(training, asked)
            size = training.size()
        print(json.dumps({"rates": rates, "size": size}))
        return
    training = make(*given, asked["candidate"])
    built = time.monotonic()
    training.steps(1)
    stepped = time.monotonic()
    window(training, asked["warmup"], asked["group"])
    seconds, cpu_seconds, busy = window(training, asked["measured"], asked["group"])
    answer = {
        "start": BEGIN, "import": imported - BEGIN, "build": built - imported,
        "first_step": stepped - built, "seconds": seconds, "cpu_seconds": cpu_seconds,
        "busy_seconds": busy, "memory_peak": memory_peak(),
    }  # fmt: skip
    print(json.dumps(answer))
