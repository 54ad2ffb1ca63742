"""The update equations: TensorFlow's own kernels, or its operations where no kernel fits."""

from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import tensorflow as tf

from touchstone import optimizers

Own = Dict[str, Any]
LARGE = 2.0**30
"""A rate at which what a step moves is no rounding."""


class Update(NamedTuple):
    """How an array is updated.

    numbers: what a step wants beside its rate, of its number, counted from 1, and that rate;
        computed in double precision
    take: one step of a variable with its states and gradient; of the scalars the first is the rate
    """

    numbers: Callable[[int, float, Own], Tuple[float, ...]]
    take: Callable[[Any, List[Any], Any, List[Any], Own], None]


def _take_sgd(variable: Any, states: Any, gradient: Any, scalars: Any, own: Own) -> None:
    if not states:
        tf.raw_ops.ResourceApplyGradientDescent(
            var=variable.handle, alpha=scalars[0], delta=gradient
        )
        return
    tf.raw_ops.ResourceApplyMomentum(
        var=variable.handle,
        accum=states[0].handle,
        lr=scalars[0],
        grad=gradient,
        momentum=own["momentum"],
        use_nesterov=own["nesterov"],
    )


def _adam_numbers(step: int, rate: float, own: Own) -> Tuple[float, ...]:
    """Adam's corrected rate and epsilon.

    Its kernel would make its corrections in single precision, and adds epsilon before that of the
    square root.
    """
    mean, root = optimizers.load("adam").corrections(step, own)
    return rate * mean / root, own["epsilon"] / root


def _take_adam(variable: Any, states: Any, gradient: Any, scalars: Any, own: Own) -> None:
    zero = tf.zeros([], variable.dtype)
    tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=states[0].handle,
        v=states[1].handle,
        beta1_power=zero,
        beta2_power=zero,
        lr=scalars[1],
        beta1=own["beta1"],
        beta2=own["beta2"],
        epsilon=scalars[2],
        grad=gradient,
    )


def _in_operations(name: str) -> Update:
    """The equation of `optimizers/` in TensorFlow's operations."""
    equation = optimizers.load(name)

    def take(variable: Any, states: Any, gradient: Any, scalars: Any, own: Own) -> None:
        direction, new = equation.direction(gradient, states, scalars[1:], own, tf.sqrt)
        for state, value in zip(states, new):
            state.assign(value)
        variable.assign_sub(scalars[0] * direction)

    return Update(lambda step, rate, own: equation.corrections(step, own), take)


OPTIMIZERS = {
    "sgd": Update(lambda step, rate, own: (), _take_sgd),
    "adam": Update(_adam_numbers, _take_adam),
    # TensorFlow's kernel adds epsilon in the root.
    "rmsprop": _in_operations("rmsprop"),
}


def solved(name: str, own: Own, dtype: Any) -> Own:
    """The settings of an equation in operations, from what it makes of single numbers."""
    update, equation = OPTIMIZERS[name], optimizers.load(name)
    numbers = len(update.numbers(1, 1.0, own))

    def stepped(gradient: float, states: List[float]) -> Tuple[float, List[float]]:
        moved = tf.Variable(0.0, dtype=dtype)
        kept = [tf.Variable(state, dtype=dtype) for state in states]
        scalars = [tf.constant(number, dtype) for number in (LARGE, *[1.0] * numbers)]
        update.take(moved, kept, tf.constant(gradient, dtype), scalars, own)
        return float(moved) / -LARGE, [float(state) for state in kept]

    return dict(equation.solved(stepped, equation.states(own)), optimizer=name)
