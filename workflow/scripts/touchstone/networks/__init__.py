"""Networks, each described once: `<name>.py` has one function `build(input_shape, classes)`.

It returns a `graph.Graph` of standard layers, from which every framework builds its own
network. A network is found by the name of its file, with `_` for `-`. What a family of
networks shares is in a file whose name begins with `_`, which is no network.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path

from touchstone.networks.graph import Graph, GraphError

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The networks that can be planned."""
    files = (path.stem for path in FOLDER.glob("*.py"))
    return sorted(s.replace("_", "-") for s in files if s != "graph" and not s.startswith("_"))


def build(name: str, input_shape: Sequence[int], classes: int) -> Graph:
    """The graph of the network `name` for images of `input_shape` (height, width, channels).

    Raises GraphError, naming network, layer and shapes, if the layers do not fit together.
    """
    height, width, channels = input_shape
    module = importlib.import_module(f"touchstone.networks.{name.replace('-', '_')}")
    try:
        graph: Graph = module.build((height, width, channels), classes)
        graph.check()
    except GraphError as fault:
        raise GraphError(f"network {name} on input {list(input_shape)}: {fault}") from None
    return graph
