"""The one training loop, with an adapter whose arithmetic a person can do."""

import ast
import importlib.util
import json
import time

import numpy as np
import pytest

SPEC = {
    "seed": 5,
    "factors": {"framework": "arithmetic", "batch_size": 4, "input": "memory"},
    "network": {"parameters": [], "parameter_count": 0},
    "data": {
        "folder": "", "shape": [2, 2, 1], "classes": 3, "train_examples": 10, "test_examples": 5,
        "mean": [0.5], "std": [0.25],
    },
    "optimizer": {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.0},
    "execution": {"device": "cpu", "precision": "fp32", "mode": "plain"},
    "phases": {"epochs": 40, "warmup_steps": 3, "warmup_seconds": 0.0, "chunk_seconds": 0.01},
}  # fmt: skip


@pytest.fixture
def runtime(root):
    path = root / "workflow/scripts/frameworks/runtime.py"
    found = importlib.util.spec_from_file_location("runtime_under_test", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


class Arithmetic:
    """Its loss at step n is 1 / (n + 1); its logits name the class that the first pixel says."""

    def __init__(self, fails_at=None, error=None, step_seconds=0.001):
        self.steps, self.fails_at, self.error = 0, fails_at, error
        self.step_seconds = step_seconds
        self.seen = []
        self.chunks = []

    def read(self, stem, shape):
        count = 10 if stem.endswith("train") else 5
        labels = np.arange(count) % 3
        return np.tile(labels[:, None, None, None] * 100, (1, *shape)).astype(np.uint8), labels

    def build(self, weights):
        self.weights = weights

    def load(self, images, labels):
        self.images, self.labels = images, labels

    def train(self, indices):
        self.chunks.append(len(indices))
        losses = []
        for batch in indices:
            self.seen.append(batch)
            time.sleep(self.step_seconds)
            if self.steps == self.fails_at and self.error:
                raise self.error
            losses.append(np.nan if self.steps == self.fails_at else 1 / (self.steps + 1))
            self.steps += 1
        return np.array(losses)

    def losses(self, handle):
        return handle

    def synchronize(self):
        pass

    def logits(self, images):
        pixels = np.round((images[:, 0, 0, 0] * 0.25 + 0.5) * 255 / 100).astype(int)
        return 5.0 * np.eye(3)[pixels]

    def settings(self):
        return {
            "learning_rate": 0.1 * (1 + 1e-8), "momentum": 0.9, "weight_decay": 0.0,
            "device": "cpu", "precision": "fp32", "mode": "plain", "batch_size": 4, "threads": 1,
            "parameters": 0,
        }  # fmt: skip

    def software(self):
        return {"framework": "arithmetic", "version": "1"}

    def device_memory_peak(self):
        return None

    def is_out_of_memory(self, error):
        return "memory" in str(error)


def run(runtime, tmp_path, monkeypatch, adapter, spec=SPEC):
    monkeypatch.setattr(runtime, "make_adapter", lambda spec, threads: adapter)
    runtime.run(spec, tmp_path / "events.jsonl", 1)
    return [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]


def test_a_run_tells_its_phases_steps_losses_and_accuracy(runtime, tmp_path, monkeypatch):
    adapter = Arithmetic()
    events = run(runtime, tmp_path, monkeypatch, adapter)
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


def test_chunks_last_about_as_long_as_asked(runtime, tmp_path, monkeypatch):
    adapter = Arithmetic(step_seconds=0.002)
    run(runtime, tmp_path, monkeypatch, adapter)
    assert 2 <= adapter.chunks[-2] <= 7  # 10 ms of steps of a little over 2 ms

    adapter = Arithmetic()
    phases = {**SPEC["phases"], "chunk_seconds": 0}
    run(runtime, tmp_path, monkeypatch, adapter, {**SPEC, "phases": phases})
    assert set(adapter.chunks) == {1}


def test_warm_up_takes_at_most_half_of_the_steps(runtime, tmp_path, monkeypatch):
    phases = {**SPEC["phases"], "warmup_seconds": 60.0}
    events = run(runtime, tmp_path, monkeypatch, Arithmetic(), {**SPEC, "phases": phases})
    counts = {e["name"]: e.get("steps") for e in events if e["event"] == "phase"}
    assert (counts["first_step"], counts["warmup"], counts["measured"]) == (1, 39, 40)


@pytest.mark.parametrize("epochs, counts", [(1, (1, 0, 1)), (2, (1, 1, 2))])
def test_the_shortest_training(runtime, tmp_path, monkeypatch, epochs, counts):
    phases = {**SPEC["phases"], "epochs": epochs}
    events = run(runtime, tmp_path, monkeypatch, Arithmetic(), {**SPEC, "phases": phases})
    steps = {e["name"]: e.get("steps") for e in events if e["event"] == "phase"}
    assert (steps["first_step"], steps["warmup"], steps["measured"]) == counts


def test_every_epoch_has_every_example_at_most_once_in_a_new_order(runtime, tmp_path, monkeypatch):
    adapter = Arithmetic()
    run(runtime, tmp_path, monkeypatch, adapter)
    epochs = np.array(adapter.seen).reshape(40, 8)
    assert all(len(set(epoch)) == 8 for epoch in epochs)
    assert set(epochs.ravel()) == set(range(10))
    assert len({tuple(epoch) for epoch in epochs}) == 40


def test_the_order_and_the_weights_are_the_same_for_ever(runtime):
    # Figures of NumPy 1.23 and 2.4 alike; another stream would break every comparison
    # with results made before.
    assert runtime.Order(2026, 6, 3).take(3).tolist() == [[0, 3, 1], [4, 5, 2], [0, 2, 1]]
    parameters = [
        {"name": "a.weight", "shape": [2, 3], "init": "he_normal", "fan_in": 3},
        {"name": "a.bias", "shape": [2], "init": "zeros", "fan_in": 3},
    ]
    weights = runtime.initial_weights(parameters, 2026)
    expected = np.float32(
        [[0.561797619, 0.0661024526, 0.507169366], [-0.254230767, 0.825756192, 0.161288336]]
    )
    assert np.array_equal(weights["a.weight"], expected)
    assert weights["a.weight"].dtype == np.float32
    assert weights["a.bias"].tolist() == [0, 0]


def test_initial_weights_have_the_variance_of_he(runtime):
    parameter = {"name": "w", "shape": [500, 200], "init": "he_normal", "fan_in": 200}
    weights = runtime.initial_weights([parameter], 1)["w"]
    assert weights.std() == pytest.approx((2 / 200) ** 0.5, rel=0.02)
    assert abs(weights.mean()) < 0.001


def test_a_loss_that_is_no_number_ends_the_run_as_diverged(runtime, tmp_path, monkeypatch):
    events = run(runtime, tmp_path, monkeypatch, Arithmetic(fails_at=30))
    assert events[-1] == {
        "event": "result", "status": "diverged", "reason": "the loss is nan at step 30",
    }  # fmt: skip
    losses = [loss for e in events if e["event"] == "chunk" for loss in e["losses"]]
    assert losses[30] == "nan"


@pytest.mark.parametrize(
    "error, status",
    [
        (RuntimeError("out of memory: 5 GiB"), "oom"),
        (MemoryError("no more"), "oom"),
        (NotImplementedError("no such layer"), "unsupported"),
    ],
)
def test_what_ends_a_run_is_typed(runtime, tmp_path, monkeypatch, error, status):
    events = run(runtime, tmp_path, monkeypatch, Arithmetic(fails_at=9, error=error))
    assert (events[-1]["status"], events[-1]["reason"]) == (status, str(error))


def test_any_other_error_is_a_fault_and_no_result(runtime, tmp_path, monkeypatch):
    with pytest.raises(ZeroDivisionError):
        run(runtime, tmp_path, monkeypatch, Arithmetic(fails_at=9, error=ZeroDivisionError()))
    assert '"result"' not in (tmp_path / "events.jsonl").read_text()


def test_settings_that_differ_from_the_specs_fail_the_run(runtime, tmp_path, monkeypatch):
    adapter = Arithmetic()
    settings = adapter.settings()
    adapter.settings = lambda: {**settings, "learning_rate": 0.11, "threads": 2}
    with pytest.raises(ValueError, match=r"learning_rate: asked 0.1, found 0.11; threads: asked 1"):
        run(runtime, tmp_path, monkeypatch, adapter)


def test_records_that_are_not_what_the_spec_says_are_refused(runtime, tmp_path, monkeypatch):
    spec = {**SPEC, "data": {**SPEC["data"], "train_examples": 11}}
    with pytest.raises(
        ValueError, match=r"train: 10 records of shape \(2, 2, 1\), the spec says 11"
    ):
        run(runtime, tmp_path, monkeypatch, Arithmetic(), spec)


def test_python_3_6_parses_it(root):
    text = (root / "workflow/scripts/frameworks/runtime.py").read_text()
    ast.parse(text, feature_version=(3, 6))
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported == {
        "datetime",
        "importlib",
        "json",
        "math",
        "os",
        "sys",
        "time",
        "zlib",
        "numpy",
    }
