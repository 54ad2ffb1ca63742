"""PyTorch's optimisers with the update equations of a spec."""

from typing import Any, Dict, List

import torch

from touchstone.schema.spec import Optimizer


def _sgd(groups: List[Any], optimizer: Optimizer, fused: Any) -> Any:
    own = optimizer.settings
    return torch.optim.SGD(
        groups, optimizer.learning_rate, own["momentum"], nesterov=own["nesterov"], fused=fused
    )


def _adam(groups: List[Any], optimizer: Optimizer, fused: Any) -> Any:
    own = optimizer.settings
    kind = torch.optim.AdamW if optimizer.decoupled else torch.optim.Adam
    betas = own["beta1"], own["beta2"]
    return kind(groups, optimizer.learning_rate, betas, own["epsilon"], fused=fused)


def _rmsprop(groups: List[Any], optimizer: Optimizer, fused: Any) -> Any:
    """PyTorch has no fused one."""
    own = optimizer.settings
    return torch.optim.RMSprop(groups, optimizer.learning_rate, own["rho"], own["epsilon"])


OPTIMIZERS = {"sgd": _sgd, "adam": _adam, "rmsprop": _rmsprop}
"""By name, what makes the optimiser for groups of arrays; fused means one kernel for all."""


def _of_adam(group: Dict[str, Any]) -> Dict[str, Any]:
    beta1, beta2 = group["betas"]
    return {"optimizer": "adam", "beta1": beta1, "beta2": beta2, "epsilon": group["eps"]}


def _of_sgd(group: Dict[str, Any]) -> Dict[str, Any]:
    return {"optimizer": "sgd", "momentum": group["momentum"], "nesterov": group["nesterov"]}


def _of_rmsprop(group: Dict[str, Any]) -> Dict[str, Any]:
    plain = not group["momentum"] and not group["centered"]
    name = "rmsprop" if plain else "rmsprop with momentum or centred"
    return {"optimizer": name, "rho": group["alpha"], "epsilon": group["eps"]}


SETTINGS = {
    torch.optim.SGD: _of_sgd,
    torch.optim.Adam: _of_adam,
    torch.optim.AdamW: _of_adam,
    torch.optim.RMSprop: _of_rmsprop,
}
"""By the class of an optimiser, its own settings as a group has them."""
