"""The arithmetic of the bench, benchmarks/compare.py, and the clocks of the experts' programs."""

import csv
import importlib.util
import sys
import time

import pytest


def module(root, name):
    found = importlib.util.spec_from_file_location(f"bench_{name}", root / f"benchmarks/{name}.py")
    made = importlib.util.module_from_spec(found)
    sys.modules[found.name] = made
    found.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def bench(root):
    return module(root, "compare")


def rows_of(bench, pairs, others=0.0, network="lenet5", cores=1):
    """Rows of pairs of speeds; efficiency is the same, memory twice and first step half of it."""
    return [
        dict(
            zip(
                bench.FIELDS,
                (network, 64, "mxnet", cores, number, side, f"{side}'s way", speed, speed,
                 speed / 2, 2 * speed, others),
                strict=True,
            )
        )
        for number, pair in enumerate(pairs, 1)
        for side, speed in zip(("ours", "expert"), pair, strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "rate, warmup, seconds", [(200.0, 1.0, 3.0), (0.2, 1.0, 3.0), (3.0, 0.5, 1.0), (1.0, 5.0, 0.1)]
)
def test_a_run_has_the_steps_asked_for_and_ours_ends_with_an_epoch(bench, rate, warmup, seconds):
    length = bench.length_of(rate, warmup, seconds)
    assert length.warmup >= max(1, warmup * rate)
    assert length.measured >= max(bench.LEAST_STEPS, seconds * rate)
    assert 1 + length.warmup + length.measured == length.epochs * length.batches
    assert length.measured < max(bench.LEAST_STEPS, seconds * rate) + bench.BATCHES + 1
    assert 1 <= length.group <= length.warmup


def test_our_spec_has_the_warm_up_that_the_expert_has(bench):
    length = bench.length_of(2.0, 1.0, 3.0)
    spec = bench.our_spec("mxnet", "lenet5", 1, "static", length)
    assert spec["phases"]["warmup_steps"] == length.warmup
    assert spec["phases"]["warmup_seconds"] == 0
    steps = spec["phases"]["epochs"] * spec["data"]["train_examples"] // 64
    assert steps == 1 + length.warmup + length.measured


def test_what_others_used_is_a_share_of_the_whole_machine(bench):
    assert bench.share_of_others(4.0, 3.0, 2.0, 2) == pytest.approx(0.25)
    assert bench.share_of_others(2.99, 3.0, 2.0, 2) == 0.0


def test_a_cumulative_column_is_interpolated_at_the_edges(bench):
    column = [(0.0, 0.0), (2.0, 1.0), (4.0, 5.0)]
    assert bench.increase(column, 1.0, 3.0) == pytest.approx(2.5)


def test_a_row_is_the_median_of_its_pairs_with_their_interval(bench):
    rows = rows_of(bench, [(100, 100), (110, 100), (400, 200)])
    found = bench.compare(rows, "speed")
    assert found.median == pytest.approx(1.1)
    low, high = found.interval
    assert low < (1 * 1.1 * 2) ** (1 / 3) < high
    assert str(found).startswith("1.10 (")


def test_one_pair_has_no_interval_and_one_side_alone_is_refused(bench):
    rows = rows_of(bench, [(90, 100)])
    assert str(bench.compare(rows, "speed")) == "0.90"
    with pytest.raises(ValueError, match="no pair"):
        bench.compare(rows[:1], "speed")


@pytest.mark.parametrize(
    "interval, noise, word",
    [
        ((0.98, 1.02), 0.0, "met"), ((0.90, 0.96), 0.0, "miss"), ((0.95, 1.05), 0.0, "open"),
        ((0.90, 0.96), 0.2, "noisy"), ((0.95, 1.05), 0.2, "noisy"),
        ((0.98, 1.02), 0.2, "met, noisy"),
    ],
)  # fmt: skip
def test_a_miss_is_called_only_on_a_quiet_machine(bench, interval, noise, word):
    assert bench.verdict(bench.Compared(sum(interval) / 2, interval), noise) == word


def test_first_step_and_memory_have_a_most(bench):
    fine, over = bench.Compared(1.09, None), bench.Compared(1.11, None)
    assert bench.verdict_on_costs(fine, fine, 0.0) == "met"
    assert bench.verdict_on_costs(over, over, 0.0) == "first step, memory"
    assert bench.verdict_on_costs(over, over, 0.5) == "first step, noisy, memory"


def test_a_row_made_again_replaces_its_runs_alone(bench, tmp_path):
    path = tmp_path / "folder/bench.csv"
    assert bench.read(path) == []
    old = rows_of(bench, [(1, 2)]) + rows_of(bench, [(3, 4)], cores=2)
    bench.write(path, old)
    made = rows_of(bench, [(5, 6), (7, 8)], cores=2)
    bench.write(path, bench.without(bench.read(path), made) + made)
    kept = bench.read(path)
    assert [(row["cores"], row["speed"]) for row in kept] == [
        ("1", "1"), ("1", "2"), ("2", "5"), ("2", "6"), ("2", "7"), ("2", "8"),
    ]  # fmt: skip
    speeds = bench.tables(kept).split("\n\n")[0].splitlines()
    assert len(speeds) == 4
    assert "0.50" in speeds[2] and "miss" in speeds[2]


def test_a_file_of_something_else_is_refused(bench, tmp_path):
    path = tmp_path / "other.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerow(["a", "b"])
    with pytest.raises(SystemExit, match="not a results file"):
        bench.read(path)


class Busy:
    """Trains by burning 10 ms of CPU a step."""

    def steps(self, number):
        end = time.process_time() + 0.01 * number
        while time.process_time() < end:
            pass


def test_the_clocks_of_an_expert_see_its_own_work(root):
    expert = module(root, "expert")
    seconds, own, busy = expert.window(Busy(), 20, 8)
    assert 0.2 <= own < 0.3
    assert seconds >= own - 0.01
    assert busy >= own - 0.05
    assert expert.trial(Busy(), {"seconds": 0.05, "group": 1}) == pytest.approx(100, rel=0.1)
