"""Which setting a side trains with: the fastest of short trials."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from comparison.cases import Length, Setting
from comparison.sides import ask_expert, ours, require_size
from touchstone.plan import frameworks

WAITING = ("default", "passive", "active")
CLEARLY = 1.02
"""How many times as fast another setting than the usual one must be in trials to be chosen."""
NEAR = 0.8
"""The share of the best rate from which on a setting is tried again."""
THOROUGH = ("compile", "compile_graphs", "xla")
"""Modes of ours that take minutes to compile."""


def fastest(try_: Callable[[Setting], float], possible: list[Setting]) -> Setting:
    """The setting with the highest rate in the trials; the first one if none is clearly faster.

    Those that are near the highest are tried twice more, in turn, and have the best of their rates.
    """
    if len(possible) == 1:
        return possible[0]
    rates = {setting: try_(setting) for setting in possible}
    near = [one for one in possible if rates[one] > NEAR * max(rates.values())]
    for setting in near * 2 if len(near) > 1 else ():
        rates[setting] = max(rates[setting], try_(setting))
    best = max(possible, key=lambda setting: rates[setting])
    return best if rates[best] > CLEARLY * rates[possible[0]] else possible[0]


def settings(framework: str, way: str, used: int) -> list[Setting]:
    """One way to train with all numbers of threads and, where the framework heeds them, kinds of
    waiting."""
    counts = sorted({1, used // 2, used} - {0}, reverse=True)
    waiting = WAITING if used > 1 and frameworks.supports_wait_policy(framework) else WAITING[:1]
    return [Setting(way, threads, each) for threads in counts for each in waiting]


def choose(
    framework: str, network: str, used: list[int], arguments: argparse.Namespace
) -> tuple[Setting, float] | None:
    """The expert's fastest setting on these cores, and its steps per second; None if it has not
    written the network.

    First the ways to train are tried with all threads, then, on a CPU, threads and waiting with the
    fastest.
    Raises RuntimeError if the network is not of our graph's size.
    """
    device, precision = arguments.device, arguments.precision
    where = {"device": device, "precision": precision} if device == "gpu" else {}
    ways = ask_expert(framework, network, used, None, thorough=arguments.thorough, **where)
    if not ways:
        return None
    usual = Setting("", len(used), device=device, precision=precision)
    speeds: dict[Setting, float] = {}

    def try_(setting: Setting) -> float:
        answer = ask_expert(
            framework, network, used, setting, batches=2, group=1, seconds=arguments.trial_seconds
        )
        require_size(f"expert_{framework}.py", network, answer["size"])
        speeds[setting] = answer["rate"]
        # As rows are judged: on one core by CPU time.
        rate = float(answer["efficiency" if len(used) == 1 else "rate"])
        print(f"  the expert, {setting}: {rate:.4g} steps/s", flush=True)
        return rate

    best = fastest(try_, [usual._replace(way=way) for way in ways])
    if device == "cpu":
        best = fastest(try_, settings(framework, best.way, len(used)))
    if best not in speeds:
        try_(best)
    return best, speeds[best]


def tune(
    framework: str,
    network: str,
    used: list[int],
    chosen: Setting,
    arguments: argparse.Namespace,
    length: Length,
) -> Setting:
    """Ours with the threads and waiting of the expert, in the fastest of our modes."""
    modes = [
        mode
        for mode in frameworks.modes(framework, device=chosen.device)
        if arguments.thorough or mode not in THOROUGH
    ]

    def try_(setting: Setting) -> float:
        run = ours(framework, network, setting, length)
        rate = run.efficiency if len(used) == 1 else run.speed
        print(f"  ours, {setting}: {rate:,.4g} images/s", flush=True)
        return rate

    return fastest(try_, [chosen._replace(way=mode) for mode in modes])
