"""How a run ends where it does not train to its end."""

import json
import sys
from types import ModuleType

import numpy as np
import pytest

from fixtures.arithmetic import SPEC, Arithmetic, run
from touchstone.runner import (
    main,
    parity,
    train,
)
from touchstone.schema.spec import ParitySpec, ParitySteps


def test_a_loss_that_is_no_number_ends_the_run_as_diverged(tmp_path, monkeypatch):
    events = run(tmp_path, monkeypatch, Arithmetic(fails_at=30))
    assert events[-1] == {
        "event": "result", "status": "diverged", "reason": "the loss is nan at step 30",
    }  # fmt: skip
    losses = [loss for e in events if e["event"] == "chunk" for loss in e["losses"]]
    assert losses[30] is None


@pytest.mark.parametrize(
    "error, status",
    [
        (RuntimeError("out of memory: 5 GiB"), "oom"),
        (MemoryError("no more"), "oom"),
        (NotImplementedError("no such layer"), "unsupported"),
    ],
)
def test_what_ends_a_run_is_typed(tmp_path, monkeypatch, error, status):
    events = run(tmp_path, monkeypatch, Arithmetic(fails_at=9, error=error))
    assert (events[-1]["status"], events[-1]["reason"]) == (status, str(error))


def test_the_reason_of_a_lack_of_memory_is_the_line_that_names_it(tmp_path, monkeypatch):
    # The first line is what JAX 0.11 said on a full GPU.
    said = "NOT_FOUND: Failed to get configs for: 23 out of 248 instructions.\nout of memory: 5"
    events = run(tmp_path, monkeypatch, Arithmetic(fails_at=9, error=RuntimeError(said)))
    assert (events[-1]["status"], events[-1]["reason"]) == ("oom", "out of memory: 5")


def test_what_the_framework_cannot_do_is_unsupported(tmp_path, monkeypatch):
    adapter = Arithmetic(fails_at=9, error=RuntimeError("a trace\nno such kernel\nmore"))
    adapter.unsupported_reason = lambda error: str(error).splitlines()[1]
    events = run(tmp_path, monkeypatch, adapter)
    assert (events[-1]["status"], events[-1]["reason"]) == ("unsupported", "no such kernel")


class OfParity(Arithmetic):
    """It has what parity steps need besides."""

    def set_masks(self, masks):
        pass

    def weights(self):
        return self.weights_built

    def build(self, weights):
        self.weights_built = weights

    def velocities(self):
        return {}


PARITY = ParitySpec(
    framework="arithmetic", seed=5, batch_size=4, input="memory", network=SPEC.network,
    data=SPEC.data, schedule=SPEC.schedule, augmentation=None, execution=SPEC.execution,
    parity_steps={"one": ParitySteps("fp32", SPEC.optimizer, 2)},
)  # fmt: skip


def test_parity_steps_that_the_framework_cannot_do_hold_the_adapters_reason(tmp_path, monkeypatch):
    adapter = OfParity(fails_at=1, error=RuntimeError("a trace\nno such kernel\nmore"))
    monkeypatch.setattr(parity, "make_adapter", lambda job, threads: adapter)
    path = tmp_path / "steps.npz"
    with pytest.raises(RuntimeError, match="no such kernel"):
        parity.parity(PARITY, path, 1)
    assert not path.exists()
    adapter.steps, adapter.unsupported_reason = 0, lambda error: str(error).splitlines()[1]
    parity.parity(PARITY, path, 1)
    found = np.load(path)
    assert found.files == ["unsupported"] and str(found["unsupported"]) == "no such kernel"
    adapter.steps, adapter.fails_at = 0, None
    parity.parity(PARITY, path, 1)
    assert np.load(path)["one/losses"].tolist() == [1, 1 / 2]


def test_parity_steps_that_a_framework_can_do_stay_beside_one_that_it_cannot(tmp_path, monkeypatch):
    """Its capabilities decide, before its adapter is made."""
    install_arithmetic(monkeypatch, OfParity)
    lacking = SPEC.optimizer._replace(name="rmsprop")
    one, path = PARITY.parity_steps["one"], tmp_path / "steps.npz"
    steps = {"before": one, "lacking": one._replace(optimizer=lacking), "after": one}
    parity.parity(PARITY._replace(parity_steps=steps), path, 1)
    found = np.load(path)
    assert found["before/losses"].tolist() == found["after/losses"].tolist() == [1, 1 / 2]
    reason = "this adapter has no optimizer 'rmsprop'; it has sgd"
    assert [key for key in found.files if key.startswith("lacking/")] == ["lacking/unsupported"]
    assert str(found["lacking/unsupported"]) == reason


def test_a_run_with_an_optimizer_that_the_adapter_lacks_is_unsupported(tmp_path, monkeypatch):
    """It is not trained with another one."""
    install_arithmetic(monkeypatch, Arithmetic)
    spec = SPEC._replace(optimizer=SPEC.optimizer._replace(name="adam"))
    main.run(spec, tmp_path / "events.jsonl", 1, train.train)
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    reason = "this adapter has no optimizer 'adam'; it has sgd"
    assert (events[-1]["status"], events[-1]["reason"]) == ("unsupported", reason)
    assert not any(event["event"] == "chunk" for event in events)


def install_arithmetic(monkeypatch, kind):
    """Make a class the adapter of the framework `arithmetic`."""
    package = ModuleType("touchstone.runner.adapters.arithmetic")
    capabilities = ModuleType(package.__name__ + ".capabilities")
    capabilities.CAPABILITIES = kind.capabilities
    module = ModuleType(package.__name__ + ".adapter")
    adapter = type("Adapter", (kind,), {"__module__": module.__name__})
    module.Adapter = lambda job, threads: adapter()
    for each in (package, capabilities, module):
        monkeypatch.setitem(sys.modules, each.__name__, each)


def test_a_framework_that_cannot_be_made_deterministic_is_unsupported(tmp_path, monkeypatch):
    install_arithmetic(monkeypatch, Arithmetic)
    spec = SPEC._replace(execution=SPEC.execution._replace(deterministic=True))
    main.run(spec, tmp_path / "events.jsonl", 1, train.train)
    last = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[-1])
    assert last["status"] == "unsupported"
    assert last["reason"] == "arithmetic cannot be made deterministic here"


def test_what_is_asked_beyond_the_spec_is_compared_too(tmp_path, monkeypatch):
    adapter = Arithmetic()
    settings = adapter.settings()
    adapter.extra_settings = lambda: {"layout": "NHWC"}
    adapter.settings = lambda: {**settings, "layout": "NCHW"}
    with pytest.raises(ValueError, match="layout: asked 'NHWC', found 'NCHW'"):
        run(tmp_path, monkeypatch, adapter)


def test_any_other_error_is_a_fault_and_no_result(tmp_path, monkeypatch):
    with pytest.raises(ZeroDivisionError):
        run(tmp_path, monkeypatch, Arithmetic(fails_at=9, error=ZeroDivisionError()))
    assert '"result"' not in (tmp_path / "events.jsonl").read_text()


def test_settings_that_differ_from_the_specs_fail_the_run(tmp_path, monkeypatch):
    adapter = Arithmetic()
    settings = adapter.settings()
    adapter.settings = lambda: {**settings, "learning_rate": 0.11, "threads": 2}
    with pytest.raises(ValueError, match=r"threads: asked 1, found 2; learning_rate: asked 0.1"):
        run(tmp_path, monkeypatch, adapter)
