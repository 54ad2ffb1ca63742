"""Adam: the running mean of the gradient over the root of that of its square.

    a = b1 a + (1 - b1) g
    s = b2 s + (1 - b2) g^2
    w = w - r (a / (1 - b1^t)) / (sqrt(s / (1 - b2^t)) + epsilon)

Kingma and Ba 2014, arXiv:1412.6980, algorithm 1.

A file of this folder is an optimizer, found by its name. It is imported by the plan and in the
frameworks' own environments, so it imports no library and parses as Python 3.6. It has

    SETTINGS                    its own settings; what several optimizers share is declared once, in
                                a file whose name begins with `_`
    EQUATION                    only of an optimizer that is another one with other usual values:
                                the name of that one; it has nothing else but `SETTINGS` and
    USUAL                       values of other settings of a cell where nobody says otherwise
    fault(settings)             what is wrong with the settings of a cell, led by the key, or an
                                empty text; it may be left out
    states(own)                 how many arrays are kept of every array of weights, 0 at first;
                                `own` has the values of its own settings by name
    corrections(step, own)      the numbers of a step, counted from 1, that change from one to the
                                next, computed in double precision
    direction(gradient, states, corrections, own, sqrt)
                                what a step takes off an array, divided by the learning rate, and
                                the new states, in operators and `sqrt` of any framework's arrays;
                                weight decay and penalties are in the gradient, or off the array
    solved(stepped, kept)       its own settings, as a live framework shows them that keeps so many
                                states: `stepped(gradient, states)` does one step of it with single
                                numbers, all corrections being 1, and returns what `direction` does
"""

from typing import Any, Callable, Dict, List, Tuple

from touchstone.optimizers import OwnSetting, Stepped
from touchstone.optimizers._moments import EPSILON, TINY

SETTINGS = (
    OwnSetting("beta1", 0.9, "decay of the gradient's running mean", {"ge": 0, "lt": 1}),
    OwnSetting("beta2", 0.999, "decay of the squared gradient's", {"ge": 0, "lt": 1}),
    EPSILON,
)


def states(own: Dict[str, Any]) -> int:
    return 2


def corrections(step: int, own: Dict[str, Any]) -> Tuple[float, ...]:
    """Of the mean, and of the root of the squares."""
    return 1 / (1 - own["beta1"] ** step), (1 - own["beta2"] ** step) ** -0.5


def direction(
    gradient: Any, states: Any, corrections: Any, own: Dict[str, Any], sqrt: Callable[[Any], Any]
) -> Tuple[Any, List[Any]]:
    mean = own["beta1"] * states[0] + (1 - own["beta1"]) * gradient
    square = own["beta2"] * states[1] + (1 - own["beta2"]) * (gradient * gradient)
    root = sqrt(square) * corrections[1] + own["epsilon"]
    return mean * corrections[0] / root, [mean, square]


def solved(stepped: Stepped, kept: int) -> Dict[str, Any]:
    """Without a gradient the means shrink by the betas, and epsilon alone divides the first."""
    _, (beta1, beta2) = stepped(0.0, [1.0, 1.0])
    taken, _ = stepped(TINY, [1.0, 0.0])
    return {"beta1": beta1, "beta2": beta2, "epsilon": (beta1 or TINY) / taken}
