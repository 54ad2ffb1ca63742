"""MXNet's optimisers with the update equations of a spec."""

import contextlib
from typing import Any, Callable, ContextManager, Dict, Iterator, List, NamedTuple, Tuple

import mxnet as mx
from mxnet import nd

from touchstone import optimizers
from touchstone.schema.spec import Optimizer


class InOperations(mx.optimizer.Optimizer):
    """An equation of `optimizers/` in MXNet's operations."""

    def __init__(self, equation: str, own: Dict[str, Any], **common: Any) -> None:
        super().__init__(**common)
        self.name, self.equation, self.own = equation, optimizers.load(equation), own

    def create_state(self, index: int, weight: Any) -> List[Any]:
        count = self.equation.states(self.own)
        return [nd.zeros(weight.shape, weight.context, weight.dtype) for _ in range(count)]

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        self._update_count(index)
        gradient = grad * self.rescale_grad + self._get_wd(index) * weight
        corrections = self.equation.corrections(self._index_update_count[index], self.own)
        direction, new = self.equation.direction(gradient, state, corrections, self.own, nd.sqrt)
        for kept, value in zip(state, new):
            kept[:] = value
        weight[:] = weight - self._get_lr(index) * direction


class Update(NamedTuple):
    """How MXNet does an update equation.

    made: the optimiser, with the settings that all have
    changed: the context of a step, counted from 1, in which a trainer's own form is the equation;
        its rate is `ratio` times that of the step before
    settings: its own, read back after so many steps
    """

    made: Callable[[Optimizer, Dict[str, Any]], Any]
    changed: Callable[[Any, Optimizer, int, float], ContextManager[None]]
    settings: Callable[[Any, int], Dict[str, Any]]


def _sgd(optimizer: Optimizer, common: Dict[str, Any]) -> Any:
    name = "nag" if optimizer.settings["nesterov"] else "sgd"
    return mx.optimizer.create(name, momentum=optimizer.settings["momentum"], **common)


@contextlib.contextmanager
def _sgd_changed(trainer: Any, optimizer: Optimizer, step: int, ratio: float) -> Iterator[None]:
    """Its states hold rate x v, of the rate before."""
    momentum = optimizer.settings["momentum"]
    if ratio != 1 and momentum and step > 1:
        if optimizer.settings["nesterov"]:
            for updater in trainer._updaters:
                for state in updater.states.values():
                    state *= ratio
        else:
            trainer.optimizer.momentum = momentum * ratio
    yield
    trainer.optimizer.momentum = momentum


def _of_sgd(made: Any, steps: int) -> Dict[str, Any]:
    nesterov = isinstance(made, mx.optimizer.NAG)
    return {"optimizer": "sgd", "momentum": made.momentum, "nesterov": nesterov}


def _adam(optimizer: Optimizer, common: Dict[str, Any]) -> Any:
    return mx.optimizer.create("adam", **optimizer.settings, **common)


@contextlib.contextmanager
def _adam_changed(trainer: Any, optimizer: Optimizer, step: int, ratio: float) -> Iterator[None]:
    """Its kernel adds epsilon before the correction of the square root."""
    own = optimizer.settings
    trainer.optimizer.epsilon = own["epsilon"] * (1 - own["beta2"] ** step) ** 0.5
    yield


def _of_adam(made: Any, steps: int) -> Dict[str, Any]:
    epsilon = made.epsilon / (1 - made.beta2**steps) ** 0.5
    return {"optimizer": "adam", "beta1": made.beta1, "beta2": made.beta2, "epsilon": epsilon}


def _rmsprop(optimizer: Optimizer, common: Dict[str, Any]) -> Any:
    """MXNet's own adds epsilon in the root."""
    return InOperations("rmsprop", optimizer.settings, **common)


@contextlib.contextmanager
def _unchanged(trainer: Any, optimizer: Optimizer, step: int, ratio: float) -> Iterator[None]:
    yield


def solved(made: InOperations, steps: int) -> Dict[str, Any]:
    """The settings of an equation in operations, from what it makes of single numbers."""
    large = 2.0**30
    probe = InOperations(made.name, made.own, learning_rate=large)

    def stepped(gradient: float, states: List[float]) -> Tuple[float, List[float]]:
        moved, kept = nd.zeros((1,)), [nd.array([state]) for state in states]
        probe.update(0, moved, nd.array([gradient]), kept)
        return moved.asscalar() / -large, [float(state.asscalar()) for state in kept]

    own = made.equation.solved(stepped, made.equation.states(made.own))
    return dict(own, optimizer=made.name)


OPTIMIZERS = {
    "sgd": Update(_sgd, _sgd_changed, _of_sgd),
    "adam": Update(_adam, _adam_changed, _of_adam),
    "rmsprop": Update(_rmsprop, _unchanged, solved),
}
