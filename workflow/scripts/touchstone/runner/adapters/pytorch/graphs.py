"""CUDA graphs of compiled functions: those that ran in the last step."""

import sys
from typing import Any, Set


def passes_in_graphs(device: Any) -> Set[str]:
    """The passes of the last compiled step that were CUDA graphs: FORWARD and BACKWARD of training,
    INFERENCE of a prediction; none in the first step, which only warms up."""
    # It is imported where something was compiled for graphs.
    trees = sys.modules.get("torch._inductor.cudagraph_trees")
    manager = trees and trees.get_manager(device.index or 0, create_if_none_exists=False)
    if not trees or not manager or not isinstance(manager.current_node, trees.CUDAGraphNode):
        return set()
    nodes = manager.current_node._path_from_root
    return {manager.id_to_mode[node.wrapped_function.id].name for node in nodes}
