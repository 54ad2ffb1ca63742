"""AdamW: Adam, whose weight decay is beside the gradient.

    w = w - r d w, and then Adam's step

Loshchilov and Hutter 2019, arXiv:1711.05101, algorithm 2. A decay of 0.01 is what PyTorch's and
Optax's users get who say none.
"""

from typing import Any, Dict

from touchstone.optimizers import adam

EQUATION = "adam"
SETTINGS = adam.SETTINGS
USUAL = {"weight_decay": 0.01, "weight_decay_form": "decoupled"}


def fault(settings: Dict[str, Any]) -> str:
    if settings["weight_decay"] and settings["weight_decay_form"] == "coupled":
        return "weight_decay_form: adamw is adam with decoupled decay; choose optimizer: adam"
    return ""
