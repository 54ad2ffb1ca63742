"""Stochastic gradient descent, with momentum.

    v = m v + g
    w = w - r v                 or, `nesterov`, w = w - r (g + m v)

Sutskever, Martens, Dahl and Hinton 2013, "On the importance of initialization and momentum in deep
learning", in the form in which the rate is no part of v.
"""

from typing import Any, Callable, Dict, List, Tuple

from touchstone.optimizers import OwnSetting, Stepped

SETTINGS = (
    OwnSetting(
        "momentum", 0.9, "m of v = m v + g; w = w - rate v; 0 is plain SGD", {"ge": 0, "lt": 1}
    ),
    OwnSetting("nesterov", False, "w = w - rate (g + m v) instead"),
)


def fault(settings: Dict[str, Any]) -> str:
    if settings["nesterov"] and not settings["momentum"]:
        return "nesterov: only sgd with a momentum has it; set it to false"
    return ""


def states(own: Dict[str, Any]) -> int:
    return 1 if own["momentum"] else 0


def corrections(step: int, own: Dict[str, Any]) -> Tuple[float, ...]:
    return ()


def direction(
    gradient: Any, states: Any, corrections: Any, own: Dict[str, Any], sqrt: Callable[[Any], Any]
) -> Tuple[Any, List[Any]]:
    if not states:
        return gradient, []
    velocity = own["momentum"] * states[0] + gradient
    if own["nesterov"]:
        return gradient + own["momentum"] * velocity, [velocity]
    return velocity, [velocity]


def solved(stepped: Stepped, kept: int) -> Dict[str, Any]:
    """A gradient of 1 moves the weight by 1, or by 1 + m; a velocity of 1 becomes m."""
    if not kept:
        return {"momentum": 0.0, "nesterov": False}
    taken, _ = stepped(1.0, [0.0])
    _, (momentum,) = stepped(0.0, [1.0])
    return {"momentum": momentum, "nesterov": taken > 1 + momentum / 2}
