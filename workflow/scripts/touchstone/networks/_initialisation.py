"""Which distribution each weight of a network starts from.

Every framework gets the same numbers, which the runner draws (`runner/initial_weights.py`).
Embeddings and positions are standard normal in every scheme, scales 1, offsets 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from touchstone.networks._base import GraphBase, Parameter

SEES_THROUGH = (
    "batch_norm", "lrn", "max_pool", "avg_pool", "dropout", "stochastic_depth", "add",
    "to_sequence",
)  # fmt: skip
"""Operations between a layer with weights and the rectifier that its initial weights are for."""
RECTIFIERS = ("relu", "relu6", "silu", "gelu", "gelu_tanh")
"""ReLU and what takes its place."""
SMALL = "small_normal"
"""Of the output layer: the first predictions are then nearly equal for all classes."""


class OwnStart(NamedTuple):
    """What a framework draws where its user says nothing: kinds of weights and of biases."""

    weights: str
    biases: str = "zeros"


def starts(graph: GraphBase, scheme: str, own: OwnStart | None = None) -> dict[str, str]:
    """The distribution of every array of a network, by its name (`conv1.weight`).

    Args:
        scheme: `paper`, as the network's source says in `graph.initial`, and where that is silent
            He before `RECTIFIERS`, Glorot elsewhere and `SMALL` in the output layer; `he`: He in
            every convolution and dense layer; `glorot`, in all layers; `framework`: in
            convolutions and dense layers as `own` says, Glorot elsewhere.
        own: of the framework, for `framework`.
    """
    inits = {}
    for parameter in graph.parameters:
        inits[parameter.name] = parameter.init or _weights(graph, parameter, scheme, own)
        if own and scheme == "framework" and _is_bias(parameter):
            inits[parameter.name] = own.biases
    if scheme == "paper":
        inits |= {name: _stated(graph.initial, name, init) for name, init in inits.items()}
    return inits


def _is_bias(parameter: Parameter) -> bool:
    """Whether it is a bias of a convolution or a dense layer, not that of an LSTM."""
    return parameter.name.endswith(".bias") and parameter.init == "zeros"


def _weights(graph: GraphBase, parameter: Parameter, scheme: str, own: OwnStart | None) -> str:
    """The start of the weights of a layer where its source does not state it."""
    if graph.layer(parameter.layer).op == "lstm":
        return "lecun_normal" if scheme == "he" else "glorot_uniform"
    if scheme == "framework" and own:
        return own.weights
    if scheme != "paper":
        return {"he": "he_normal", "glorot": "glorot_uniform"}[scheme]
    follows = _follows(graph, parameter.layer)
    if follows in RECTIFIERS:
        return "he_normal"
    return "glorot_uniform" if follows else SMALL


def _follows(graph: GraphBase, name: str) -> str:
    """The operation that the output of a layer meets first; "" for the output of the network."""
    while True:
        readers = [layer for layer in graph.layers if name in layer.inputs]
        if not readers:
            return ""
        if readers[0].op not in SEES_THROUGH:
            return readers[0].op
        name = readers[0].name


def _stated(initial: Mapping[str, str], name: str, usual: str) -> str:
    """What the source of the network states of an array, by the first pattern that matches."""
    stated = (init for pattern, init in initial.items() if fnmatchcase(name, pattern))
    return next(stated, usual)
