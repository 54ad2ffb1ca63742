"""RMSprop: the gradient over the root of the running mean of its square.

    s = rho s + (1 - rho) g^2
    w = w - r g / (sqrt(s) + epsilon)

Tieleman and Hinton 2012, "Neural networks for machine learning", lecture 6e, without a momentum and
not centred; epsilon is outside the root, as in PyTorch and Caffe.
"""

from typing import Any, Callable, Dict, List, Tuple

from touchstone.optimizers import OwnSetting, Stepped
from touchstone.optimizers._moments import EPSILON, TINY

SETTINGS = (
    OwnSetting("rho", 0.9, "decay of the squared gradient's running mean", {"ge": 0, "lt": 1}),
    EPSILON,
)


def states(own: Dict[str, Any]) -> int:
    return 1


def corrections(step: int, own: Dict[str, Any]) -> Tuple[float, ...]:
    return ()


def direction(
    gradient: Any, states: Any, corrections: Any, own: Dict[str, Any], sqrt: Callable[[Any], Any]
) -> Tuple[Any, List[Any]]:
    square = own["rho"] * states[0] + (1 - own["rho"]) * (gradient * gradient)
    return gradient / (sqrt(square) + own["epsilon"]), [square]


def solved(stepped: Stepped, kept: int) -> Dict[str, Any]:
    """Without a gradient the mean shrinks by rho, and beside a tiny one epsilon alone divides."""
    _, (rho,) = stepped(0.0, [1.0])
    taken, _ = stepped(TINY, [0.0])
    return {"rho": rho, "epsilon": TINY / taken}
