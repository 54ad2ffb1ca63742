"""The one training loop, with an adapter whose arithmetic a person can do."""

import ast
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from fixtures.arithmetic import SPEC, Arithmetic, run
from touchstone.runner import (
    batches,
    checks,
    initial_weights,
    lr_schedule,
    slicer,
    train,
    work,
)
from touchstone.schema.spec import Augmentation, Parameter, Schedule


def test_a_run_tells_its_phases_steps_losses_and_accuracy(tmp_path, monkeypatch):
    adapter = Arithmetic()
    events = run(tmp_path, monkeypatch, adapter)
    phases = {e["name"]: e for e in events if e["event"] == "phase"}
    assert list(phases) == [
        "import", "load", "build", "first_step", "warmup", "measured", "evaluation",
    ]  # fmt: skip
    for earlier, later in zip(list(phases.values())[3:], list(phases.values())[4:], strict=False):
        assert earlier["begin"] <= earlier["end"] == later["begin"]
    # 10 examples in batches of 4: 2 steps an epoch, 80 in all.
    counts = [phases[name]["steps"] for name in ("first_step", "warmup", "measured")]
    assert counts[0] == 1 and counts[1] >= 3 and sum(counts) == 80
    assert phases["measured"]["examples"] == counts[2] * 4
    chunks = [e for e in events if e["event"] == "chunk"]
    assert [c["first_step"] for c in chunks] == list(
        np.cumsum([0] + [c["steps"] for c in chunks[:-1]])
    )
    losses = [loss for chunk in chunks for loss in chunk["losses"]]
    assert losses == [float(f"{1 / (n + 1):.7g}") for n in range(80)]
    evaluation = next(e for e in events if e["event"] == "evaluation")
    assert (evaluation["correct"], evaluation["examples"]) == (5, 5)
    assert evaluation["loss"] == pytest.approx(-np.log(np.exp(5) / (np.exp(5) + 2)), rel=1e-6)
    assert events[-1] == {"event": "result", "status": "ok", "reason": None}


def test_chunks_last_as_long_as_asked(tmp_path, monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: 0.01 * adapter.steps)
    with monkeypatch.context() as patch:
        for module in ("train", "work", "events"):
            patch.setattr(f"touchstone.runner.{module}.time", clock)
        adapter = Arithmetic()
        phases = SPEC.phases._replace(chunk_seconds=0.05)
        run(tmp_path, patch, adapter, SPEC._replace(phases=phases))
    # The first step, a warm-up whose chunks double until one lasts half as long, and the rest.
    assert adapter.chunks[:4] == [1, 1, 2, 4] and set(adapter.chunks[4:-1]) == {5}

    adapter = Arithmetic()
    phases = SPEC.phases._replace(chunk_seconds=0)
    run(tmp_path, monkeypatch, adapter, SPEC._replace(phases=phases))
    assert set(adapter.chunks) == {1}


def test_chunks_grow_when_other_programs_leave_the_cores(tmp_path, monkeypatch):
    """For 45 steps, a step takes a hundred times as long as later."""
    clock = SimpleNamespace(
        monotonic=lambda: 0.5 * min(adapter.steps, 45) + 0.005 * max(adapter.steps - 45, 0)
    )
    for module in ("train", "work", "events"):
        monkeypatch.setattr(f"touchstone.runner.{module}.time", clock)
    adapter = Arithmetic()
    phases = SPEC.phases._replace(chunk_seconds=0.05, warmup_seconds=1.0)
    run(tmp_path, monkeypatch, adapter, SPEC._replace(phases=phases))
    assert set(adapter.chunks[:45]) == {1}
    grown = adapter.chunks[45:-1]  # the last one has what is left
    assert grown == sorted(grown) and set(grown) >= {2, 4, 8} and max(grown) == 8


def test_slices_grow_their_chunks_too(monkeypatch):
    clock, begun = SimpleNamespace(now=0.0, step=1.0), []

    class Steps(work.Work):
        def begin(self, phase, steps):
            begun.append(steps)
            clock.now += steps * clock.step
            self.made += steps
            return steps

        def examples(self, first):
            return self.made - first

    monkeypatch.setattr(slicer, "time", SimpleNamespace(
        monotonic=lambda: clock.now, process_time=lambda: 0.0
    ))  # fmt: skip
    steps = slicer.Slicer(Steps(), 0.05, work.NoEvents())
    steps.slice(0.4)  # beside another program
    clock.step = 0.005
    answers = [steps.slice(0.4) for _ in range(5)]
    assert set(begun[:3]) == {1} and begun[-1] == 8
    assert all(0.4 <= one.end - one.begin < 0.45 for one in answers)
    assert all(one.steps == one.examples for one in answers)


def test_warm_up_takes_at_most_half_of_the_steps(tmp_path, monkeypatch):
    phases = SPEC.phases._replace(warmup_seconds=60.0)
    events = run(tmp_path, monkeypatch, Arithmetic(), SPEC._replace(phases=phases))
    counts = {e["name"]: e.get("steps") for e in events if e["event"] == "phase"}
    assert (counts["first_step"], counts["warmup"], counts["measured"]) == (1, 39, 40)


@pytest.mark.parametrize("epochs, counts", [(1, (1, 0, 1)), (2, (1, 1, 2))])
def test_the_shortest_training(tmp_path, monkeypatch, epochs, counts):
    phases = SPEC.phases._replace(epochs=epochs)
    events = run(tmp_path, monkeypatch, Arithmetic(), SPEC._replace(phases=phases))
    steps = {e["name"]: e.get("steps") for e in events if e["event"] == "phase"}
    assert (steps["first_step"], steps["warmup"], steps["measured"]) == counts


class Learning(Arithmetic):
    """A batch of its evaluations lasts 10 ms; after every ten steps it knows a class more."""

    def __init__(self):
        super().__init__()
        self.evaluated_at = []

    def logits(self, images):
        if not self.evaluated_at or self.evaluated_at[-1] != self.steps:
            self.evaluated_at.append(self.steps)
        time.sleep(0.01)
        return super().logits(images) * (np.arange(3) < self.steps // 10)


@pytest.mark.parametrize("every, at", [(0, [40]), (1, range(2, 41, 2)), (6, [12, 24, 36, 40])])
def test_evaluations_interrupt_the_phases(tmp_path, monkeypatch, every, at):
    phases = SPEC.phases._replace(epochs=20, evaluate_every=every)
    adapter = Learning()
    events = run(tmp_path, monkeypatch, adapter, SPEC._replace(phases=phases))
    assert adapter.evaluated_at == list(at)
    told = [e for e in events if e["event"] == "evaluation"]
    assert [(e["step"], e["epoch"]) for e in told] == [(step, step // 2) for step in at]
    correct = [0, 2, 4, 5]  # of the labels 0, 1, 2, 0, 1; the first class is the default
    assert [e["correct"] for e in told] == [max(correct[min(s // 10, 3)], 2) for s in at]
    parts = [e for e in events if e["event"] == "phase"][3:]
    assert sum(e.get("steps", 0) for e in parts) == 40
    assert all(e["steps"] for e in parts if e["name"] != "evaluation")
    for earlier, later in zip(parts[:-2], parts[1:-1], strict=True):
        assert earlier["end"] == later["begin"]
    for e in parts:  # no part has the time of an evaluation: a step takes about 1 ms
        assert e["name"] != "evaluation" or e["end"] - e["begin"] >= 0.01
    # No chunk goes over an evaluation, and the order of examples is what it is without.
    ends = {c["first_step"] + c["steps"] for c in events if c["event"] == "chunk"}
    assert ends >= set(at)
    whole = Arithmetic()
    plain = SPEC.phases._replace(epochs=20)
    run(tmp_path, monkeypatch, whole, SPEC._replace(phases=plain))
    assert np.array_equal(adapter.seen, whole.seen)


def test_a_trial_ends_after_the_time_it_may_measure(tmp_path, monkeypatch):
    phases = SPEC.phases._replace(epochs=10_000, measured_seconds=0.1)
    events = run(tmp_path, monkeypatch, Arithmetic(), SPEC._replace(phases=phases))
    measured = next(e for e in events if e.get("name") == "measured")
    assert measured["end"] - measured["begin"] >= 0.1 and measured["steps"] < 10_000
    assert [e["event"] for e in events[-2:]] == ["settings", "result"]
    assert events[-1]["status"] == "ok"


@pytest.mark.parametrize("asked, measured", [(7, 7), (40, 40), (60, 40)])
def test_a_run_ends_after_its_measured_steps(tmp_path, monkeypatch, asked, measured):
    """80 steps in all; its warm-up may take half of them."""
    adapter = Arithmetic()
    adapter.logits = None  # nothing is evaluated
    phases = SPEC.phases._replace(measured_steps=asked, warmup_seconds=60.0)
    events = run(tmp_path, monkeypatch, adapter, SPEC._replace(phases=phases))
    counts = {e["name"]: e.get("steps") for e in events if e["event"] == "phase"}
    assert list(counts)[-1] == "measured"
    assert (counts["first_step"], counts["warmup"], counts["measured"]) == (1, 39, measured)
    assert adapter.steps == 40 + measured
    assert [e["event"] for e in events[-2:]] == ["memory", "result"]
    assert events[-1]["status"] == "ok"


def test_warm_up_does_not_count_the_time_of_evaluations(tmp_path, monkeypatch):
    phases = SPEC.phases._replace(evaluate_every=1, warmup_seconds=0.02)
    events = run(tmp_path, monkeypatch, Learning(), SPEC._replace(phases=phases))
    warm = [e for e in events if e.get("name") == "warmup"]
    seconds = sum(e["end"] - e["begin"] for e in warm)
    # The loop counts a little more than lies between the edges of its phases.
    assert seconds >= 0.019 and sum(e["steps"] for e in warm) < 40


def test_every_epoch_has_every_example_at_most_once_in_a_new_order(tmp_path, monkeypatch):
    adapter = Arithmetic()
    run(tmp_path, monkeypatch, adapter)
    epochs = np.array(adapter.seen).reshape(40, 8)
    assert all(len(set(epoch)) == 8 for epoch in epochs)
    assert set(epochs.ravel()) == set(range(10))
    assert len({tuple(epoch) for epoch in epochs}) == 40


def test_the_order_and_the_weights_are_the_same_for_ever():
    # Figures of NumPy 1.23 and 2.4 alike; another stream would break every comparison
    # with results made before.
    indices, draws = batches.BatchSampler(2026, 6, 3).take(3)
    assert indices.tolist() == [[0, 3, 1], [4, 5, 2], [0, 2, 1]] and draws is None
    parameters = [
        Parameter("a.weight", [2, 3], "he_normal", 3), Parameter("a.bias", [2], "zeros", 3),
    ]  # fmt: skip
    weights = initial_weights.initial_weights(parameters, 2026)
    expected = np.float32(
        [[0.561797619, 0.0661024526, 0.507169366], [-0.254230767, 0.825756192, 0.161288336]]
    )
    assert np.array_equal(weights["a.weight"], expected)
    assert weights["a.weight"].dtype == np.float32
    assert weights["a.bias"].tolist() == [0, 0]


def test_noise_is_not_shuffled():
    indices, _ = batches.BatchSampler(2026, 7, 3, shuffled=False).take(3)
    assert indices.tolist() == [[0, 1, 2], [3, 4, 5], [0, 1, 2]]


def test_shares_of_the_batches_are_the_batches():
    augmentation = Augmentation(2, True)
    whole = batches.BatchSampler(7, 50, 6, augmentation)
    shares = [slice(first, first + 2) for first in (0, 2, 4)]
    parts = [batches.BatchSampler(7, 50, 6, augmentation, share) for share in shares]
    for steps in (3, 8, 1):
        following = np.concatenate([part.peek(steps) for part in parts], axis=1)
        taken, draws = zip(*(part.take(steps) for part in parts), strict=True)
        indices, cuts = whole.take(steps)
        assert np.array_equal(np.concatenate(taken, axis=1), indices)
        assert np.array_equal(following, indices)
        assert np.array_equal(np.concatenate(draws, axis=1), cuts)


def test_initial_weights_have_the_variance_of_he():
    parameter = Parameter("w", [500, 200], "he_normal", 200)
    weights = initial_weights.initial_weights([parameter], 1)["w"]
    assert weights.std() == pytest.approx((2 / 200) ** 0.5, rel=0.02)
    assert abs(weights.mean()) < 0.001


def test_numbers_drawn_in_parts_are_those_drawn_at_once():
    shape = 3, initial_weights.PART // 2 + 7  # no multiple of a part
    whole = np.random.RandomState(5).standard_normal(shape) * 0.3
    drawn = initial_weights.normal_numbers(np.random.RandomState(5), shape, 0.3)
    assert drawn.dtype == np.float32 and np.array_equal(drawn, whole.astype(np.float32))


def test_a_runner_that_leaves_does_what_it_must_at_its_end_and_no_more(root):
    program = f"""
import atexit, sys
sys.path.insert(0, {str(root / "workflow/scripts")!r})
from touchstone.runner.outcome import exit_now

class Framework:
    def __del__(self):
        print("taken apart")

framework = Framework()
atexit.register(print, "tidied up")
print("trained")
exit_now()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "trained\ntidied up\n"), ended.stderr


def test_python_3_6_parses_the_runner_which_imports_only_the_library_and_numpy(root):
    folder = root / "workflow/scripts/touchstone/runner"
    steps = root / "workflow/scripts/steps/touchstone_steps.py"
    for path in [*folder.glob("*.py"), *folder.glob("adapters/*.py"), steps]:
        tree = ast.parse(path.read_text(), feature_version=(3, 6))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                name = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                top = name.split(".")[0]
                ours = {"touchstone", "touchstone_steps"}
                assert top in {*sys.stdlib_module_names, "numpy", *ours}, path


def test_draws_are_one_per_example_within_the_padding_and_repeat():
    augmentation = Augmentation(4, True)
    indices, draws = batches.BatchSampler(3, 1000, 10, augmentation).take(250)
    assert np.array_equal(indices, batches.BatchSampler(3, 1000, 10).take(250)[0])
    assert draws.shape == (250, 10, 3) and draws.dtype == np.int32
    assert set(np.unique(draws[..., :2])) == set(range(9)) and set(draws[..., 2].ravel()) == {0, 1}
    assert not np.array_equal(draws[:100], draws[100:200])  # a new epoch draws again
    singly = batches.BatchSampler(3, 1000, 10, augmentation)
    assert np.array_equal(np.concatenate([singly.take(1)[1] for _ in range(250)]), draws)
    _, still = batches.BatchSampler(3, 1000, 10, Augmentation(0, False)).take(100)
    assert not still.any()


def rates(name, milestones=(), lr_gamma=0.1, lr_warmup_epochs=0):
    """Ten epochs of four steps at a base rate of 2."""
    schedule = Schedule(name, list(milestones), lr_gamma, lr_warmup_epochs)
    return lr_schedule.LRSchedule(2.0, schedule, 4, 10).take(0, 40)


def test_the_rate_follows_its_schedule():
    assert rates(name="constant").tolist() == [2.0] * 40
    step = rates(name="step", milestones=[2, 5.5], lr_gamma=0.5)
    assert step.tolist() == [2.0] * 8 + [1.0] * 14 + [0.5] * 18
    cosine = rates(name="cosine")
    assert cosine[[0, 20]] == pytest.approx([2.0, 1.0])
    assert cosine[39] == pytest.approx(1 + np.cos(np.pi * 39 / 40))
    warm = rates(name="cosine", lr_warmup_epochs=2)
    assert warm[:8] == pytest.approx(2 * np.arange(1, 9) / 8)
    assert warm[[8, 24]] == pytest.approx([2.0, 1.0])
    assert warm[39] == pytest.approx(1 + np.cos(np.pi * (39 / 4 - 2) / 8))
    half = rates(name="constant", lr_warmup_epochs=0.5)
    assert half.tolist() == [1.0, 2.0] + [2.0] * 38


def test_the_rate_that_is_read_back_is_the_last_of_the_schedule(tmp_path, monkeypatch):
    spec = SPEC._replace(schedule=SPEC.schedule._replace(name="cosine"))
    events = run(tmp_path, monkeypatch, Arithmetic(), spec)
    settings = next(e for e in events if e["event"] == "settings")
    assert settings["requested"]["learning_rate"] == pytest.approx(
        0.05 * (1 + np.cos(np.pi * 79 / 80))
    )


def test_arithmetic_of_another_precision_fails_the_run(tmp_path, monkeypatch):
    adapter = Arithmetic()
    adapter.arithmetic = np.float16
    with pytest.raises(ValueError, match="arithmetic: asked 'fp32', found 'fp16'"):
        run(tmp_path, monkeypatch, adapter)
    adapter.arithmetic = np.float64
    assert checks.arithmetic(adapter, SPEC) == "fp64"
    adapter.matrix_products = lambda a, b: [np.round(a @ b * 2**k) / 2**k for k in (10, 7)]
    assert checks.arithmetic(adapter, SPEC) == "tf32 in products, bf16 in convolutions"


def test_one_kind_of_product_may_be_more_precise_than_tf32():
    adapter = Arithmetic()
    adapter.matrix_products = lambda a, b: [np.round(a @ b * 2**k) / 2**k for k in (10, 23)]
    assert checks.arithmetic(adapter, SPEC) == "tf32 in products, fp32 in convolutions"
    tf32 = SPEC._replace(execution=SPEC.execution._replace(precision="tf32"))
    assert checks.arithmetic(adapter, tf32) == "tf32"


def test_a_chunk_of_no_length_is_a_step_that_is_waited_for(tmp_path, monkeypatch):
    adapter = Arithmetic()
    waited = []
    adapter.losses = lambda handle: waited.append(adapter.steps) or handle
    spec = SPEC._replace(phases=SPEC.phases._replace(chunk_seconds=0))
    run(tmp_path, monkeypatch, adapter, spec)
    assert waited == list(range(1, 81))


def test_a_test_set_far_smaller_than_a_batch_fills_one():
    """Some frameworks take batches of one size only."""

    class OneSize:
        def logits(self, images):
            assert images.shape == (8, 1, 1, 3)
            return images[:, 0, 0]

    labels = np.array([0, 1, 2])
    images = np.eye(3, dtype=np.float32)[labels][:, None, None]
    correct, loss = train.evaluate(OneSize(), images, labels, 8)
    assert correct == 3
    assert loss == pytest.approx(np.log(np.e + 2) - 1)
