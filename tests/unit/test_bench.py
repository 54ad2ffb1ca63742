"""The arithmetic of the bench, benchmarks/comparison, and the clocks of its programs."""

import csv
import json
import sys
import time
from pathlib import Path

import compare as bench
import program
import pytest
from comparison import cases, choice, ratios, sides, tables

from touchstone.datasets import formats
from touchstone.measure import skip


def rows_of(pairs, others=0.0, network="lenet5", cores=1, by=("ours", "expert")):
    """Rows of pairs of speeds; efficiency is the same, memory twice and first step half of it."""
    return [
        dict(
            zip(
                cases.FIELDS,
                (network, 64, "mxnet", cores, number, side, f"{side}'s way", speed, speed,
                 speed / 2, 2 * speed, others),
                strict=True,
            )
        )
        for number, pair in enumerate(pairs, 1)
        for side, speed in zip(by, pair, strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "rate, warmup, seconds", [(200.0, 1.0, 3.0), (0.2, 1.0, 3.0), (3.0, 0.5, 1.0), (1.0, 5.0, 0.1)]
)
def test_a_run_has_the_steps_asked_for_and_ours_ends_with_an_epoch(rate, warmup, seconds):
    length = cases.length_of(rate, warmup, seconds)
    assert length.warmup >= max(1, warmup * rate)
    assert length.measured >= max(cases.LEAST_STEPS, seconds * rate)
    assert 1 + length.warmup + length.measured == length.epochs * length.batches
    assert length.measured < max(cases.LEAST_STEPS, seconds * rate) + cases.BATCHES + 1
    assert 1 <= length.group <= length.warmup


@pytest.mark.parametrize(
    "rate, warmup, seconds", [(200.0, 1.0, 3.0), (0.2, 1.0, 3.0), (3.0, 0.5, 1.0), (1.0, 5.0, 0.1)]
)
def test_a_user_and_ours_beside_train_the_same_whole_epochs(rate, warmup, seconds):
    length = cases.length_in_epochs(rate, warmup, seconds)
    assert 1 <= length.batches <= cases.EPOCH
    assert 1 + length.warmup >= warmup * rate
    assert length.measured >= max(cases.LEAST_STEPS, seconds * rate)
    assert (1 + length.warmup) % length.batches == length.measured % length.batches == 0
    assert 1 + length.warmup + length.measured == length.epochs * length.batches


def test_ours_reads_as_many_shuffled_examples_as_the_user_has(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    length = cases.length_in_epochs(3.0, 0.5, 1.0)
    setting = cases.Setting("eager", 1)
    spec = sides.our_spec("pytorch", "lstm-text", setting, length, "memory")
    data = spec.data
    assert spec.factors.input == "memory" and data.train_examples == length.batches * 64
    written = list(formats.load("lmdb").read(Path(data.folder, "train"), data.shape))
    assert len(written) == data.train_examples
    assert {label for label, _ in written} == set(range(4))


def test_our_spec_has_the_warm_up_and_the_settings_that_were_asked_for():
    length = cases.length_of(2.0, 1.0, 3.0)
    setting = cases.Setting("static", 1, "passive")
    spec = sides.our_spec("mxnet", "lenet5", setting, length)
    execution, phases = spec.execution, spec.phases
    found = (execution.mode, execution.threads, execution.wait_policy)
    assert (*found, execution.device, execution.precision) == setting
    assert spec.factors.input == "synthetic"
    assert (phases.warmup_steps, phases.warmup_seconds) == (length.warmup, 0)
    steps = phases.epochs * spec.data.train_examples // 64
    assert steps == 1 + length.warmup + length.measured


def test_on_a_gpu_our_spec_has_its_batch_size_and_precision():
    setting = cases.Setting("compile_graphs", 16, device="gpu", precision="bf16")
    spec = sides.our_spec("pytorch", "resnet50", setting, cases.length_of(9.0, 1.0, 3.0))
    execution = spec.execution
    assert (execution.mode, execution.device, execution.precision) == (setting.way, "gpu", "bf16")
    assert spec.factors.batch_size == 256 and spec.data.train_examples == 8 * 256
    assert str(setting) == "compile_graphs"


def test_what_others_used_is_a_share_of_the_whole_machine():
    assert sides.share_of_others(4.0, 3.0, 2.0, 2) == pytest.approx(0.25)
    assert sides.share_of_others(2.99, 3.0, 2.0, 2) == 0.0


def test_a_cumulative_column_is_interpolated_at_the_edges():
    column = [(0.0, 0.0), (2.0, 1.0), (4.0, 5.0)]
    assert sides.increase(column, 1.0, 3.0) == pytest.approx(2.5)


def test_a_row_is_the_median_of_its_pairs_with_their_interval():
    rows = rows_of([(100, 100), (110, 100), (400, 200)])
    found = ratios.compare(rows, "speed")
    assert found.median == pytest.approx(1.1)
    low, high = found.interval
    assert low < (1 * 1.1 * 2) ** (1 / 3) < high
    assert str(found).startswith("1.10 (")


def test_one_pair_has_no_interval_and_a_single_side_is_refused():
    rows = rows_of([(90, 100)])
    assert str(ratios.compare(rows, "speed")) == "0.90"
    with pytest.raises(ValueError, match="no pair"):
        ratios.compare(rows[:1], "speed")


@pytest.mark.parametrize(
    "interval, noise, word",
    [
        ((0.98, 1.02), 0.0, "met"), ((0.90, 0.96), 0.0, "miss"), ((0.95, 1.05), 0.0, "open"),
        ((0.90, 0.96), 0.2, "noisy"), ((0.95, 1.05), 0.2, "noisy"),
        ((0.98, 1.02), 0.2, "met, noisy"),
    ],
)  # fmt: skip
def test_a_miss_is_called_only_on_a_quiet_machine(interval, noise, word):
    assert ratios.verdict(ratios.Compared(sum(interval) / 2, interval), noise) == word


@pytest.mark.parametrize(
    "interval, noise, word",
    [
        ((0.90, 0.99), 0.0, "slower"), ((1.01, 1.10), 0.0, "faster"),
        ((0.90, 1.01), 0.0, "no difference shown"), ((0.90, 0.99), 0.2, "noisy"),
    ],
)  # fmt: skip
def test_ours_is_slower_than_the_user_where_the_whole_interval_is(interval, noise, word):
    assert ratios.verdict_on_user(ratios.Compared(sum(interval) / 2, interval), noise) == word


@pytest.mark.parametrize(
    "rates, chosen",
    [
        ({"a": [100], "b": [50]}, "a"),
        ({"a": [100, 100, 99], "b": [101, 101, 90]}, "a"),  # not clearly faster
        ({"a": [100, 100, 100], "b": [110, 90, 80]}, "b"),
        ({"a": [100, 90, 112], "b": [110, 90, 90]}, "a"),  # the last trial was the best one
        ({"a": [100], "b": [300]}, "b"),
    ],
)
def test_the_fastest_setting_is_chosen_if_it_is_clearly_faster(rates, chosen):
    left = {cases.Setting(way, 2): list(values) for way, values in rates.items()}
    found = choice.fastest(lambda setting: left[setting].pop(0), list(left))
    assert found.way == chosen
    assert not any(left.values())


@pytest.mark.parametrize(("framework", "kinds"), [("mxnet", 3), ("tensorflow", 1)])
def test_threads_and_waiting_are_tried_from_the_usual_ones_on(framework, kinds):
    assert choice.settings(framework, "a", 1) == [cases.Setting("a", 1, "default")]
    found = choice.settings(framework, "a", 8)
    assert found[0] == cases.Setting("a", 8, "default")
    assert {setting.threads for setting in found} == {8, 4, 1} and len(found) == 3 * kinds


def test_first_step_and_memory_have_a_most():
    fine, over = ratios.Compared(1.09, None), ratios.Compared(1.11, None)
    assert ratios.verdict_on_costs(fine, fine, 0.0) == "met"
    assert ratios.verdict_on_costs(over, over, 0.0) == "first step, memory"
    assert ratios.verdict_on_costs(over, over, 0.5) == "first step, noisy, memory"


def test_a_row_made_again_replaces_only_its_runs(tmp_path):
    path = tmp_path / "folder/bench.csv"
    assert tables.read(path) == []
    old = rows_of([(1, 2)]) + rows_of([(3, 4)], cores=2)
    tables.write(path, old)
    made = rows_of([(5, 6), (7, 8)], cores=2)
    tables.write(path, tables.without(tables.read(path), made) + made)
    kept = tables.read(path)
    assert [(row["cores"], row["speed"]) for row in kept] == [
        ("1", "1"), ("1", "2"), ("2", "5"), ("2", "6"), ("2", "7"), ("2", "8"),
    ]  # fmt: skip
    speeds = tables.tables(kept).split("\n\n")[0].splitlines()
    assert len(speeds) == 4
    assert "0.50" in speeds[2] and "miss" in speeds[2]


def test_on_a_gpu_a_row_is_judged_by_images_per_second():
    rows = rows_of([(98, 100)] * 3, cores="gpu tf32")
    for row in rows:
        row["efficiency"] = 1.0 if row["side"] == "ours" else 2.0
    speeds, _ = tables.tables(rows).split("\n\n")
    row = [cell.strip() for cell in speeds.splitlines()[2].split("|")]
    assert row[3] == "gpu tf32" and row[5].startswith("0.50") and row[-2] == "met"


@pytest.mark.skipif(skip.no_device("gpu") is None, reason="this machine may have a GPU")
def test_without_a_gpu_the_comparison_says_so(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["compare.py", "--device", "gpu"])
    with pytest.raises(SystemExit, match="^error: no NVIDIA .*; `--device cpu` compares"):
        bench.main()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--precision", "bf16"], "--precision is for --device gpu"),
        (["--device", "gpu", "--framework", "caffe"], "experts on GPUs are jax, pytorch"),
    ],
)
def test_the_comparison_refuses_what_no_expert_does(options, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["compare.py", *options])
    with pytest.raises(SystemExit):
        bench.parsed()
    assert message in capsys.readouterr().err


def test_tables_take_ours_as_tuned_and_the_user_beside_ours_from_memory():
    by = ("ours", "tuned", "expert", "from memory", "user")
    rows = rows_of([(50, 98, 100, 60, 40)] * 3, by=by)
    for row in rows:
        if row["side"] == "user":
            row["first_step"] = ""
    speeds, costs, users = (table.splitlines()[2] for table in tables.tables(rows).split("\n\n"))
    assert [cell.strip() for cell in speeds.split("|")[4:7]] == [
        "0.98 (0.98 to 0.98)", "0.98 (0.98 to 0.98)", "0.50 (0.50 to 0.50)",
    ]  # fmt: skip
    assert "tuned's way" in costs
    assert "1.50 (1.50 to 1.50)" in users and "faster" in users


def test_a_row_without_an_expert_is_only_in_the_table_of_the_users():
    rows = rows_of([(60, 40)], network="lstm-text", by=("from memory", "user"))
    speeds, *rest = tables.tables(rows).split("\n\n")
    assert speeds.splitlines()[0].startswith("| network") and "user" in speeds and not rest


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "other.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerow(["a", "b"])
    with pytest.raises(SystemExit, match="not a results file"):
        tables.read(path)


class Busy:
    """Trains by burning 10 ms of CPU a step."""

    def steps(self, number):
        end = time.process_time() + 0.01 * number
        while time.process_time() < end:
            pass


def test_the_clocks_of_an_expert_see_its_own_work():
    seconds, own, busy = program.window(Busy(), 20, 8)
    assert 0.2 <= own < 0.3
    assert seconds >= own - 0.01
    assert busy >= own - 0.05
    rate, efficiency = program.trial(Busy(), {"seconds": 0.05, "group": 1})
    assert efficiency == pytest.approx(100, rel=0.1)
    assert rate <= 1.1 * efficiency


@pytest.mark.parametrize("where", [{}, {"device": "gpu", "precision": "tf32"}])
def test_an_expert_is_asked_for_a_device_only_where_it_is_a_gpu(where, monkeypatch, capsys):
    asked = {"network": "lenet5", "candidate": None, "thorough": False, **where}
    monkeypatch.setattr(sys, "argv", ["", json.dumps(asked)])
    program.expert(lambda network, thorough, **options: [network, options], None)
    assert json.loads(capsys.readouterr().out) == ["lenet5", where]


class Epochs:
    """Trains by burning 10 ms of CPU in the first epoch, and 100 ms in each other."""

    def __init__(self, network, batch_size, batches):
        pass

    def train(self, epochs, ended):
        for epoch in range(epochs):
            Busy().steps(10 if epoch else 1)
            ended()

    def parameters(self):
        return 7


def test_the_clocks_of_a_user_leave_the_epochs_of_the_warm_up_out(monkeypatch, capsys):
    asked = {"network": "lenet5", "batch_size": 1, "batches": 1, "warmup_epochs": 1, "epochs": 2}
    monkeypatch.setattr(sys, "argv", ["", json.dumps(asked)])
    program.user({"lenet5"}, Epochs)
    answer = json.loads(capsys.readouterr().out)
    assert answer["cpu_seconds"] == pytest.approx(0.2, rel=0.1)
    assert answer["parameters"] == 7
    program.user({"another"}, Epochs)
    assert json.loads(capsys.readouterr().out) is None
