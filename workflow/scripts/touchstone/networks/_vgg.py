"""What the VGG networks share: Simonyan and Zisserman 2014, arXiv:1409.1556."""

from touchstone.networks.graph import Graph

FILTERS = (64, 128, 256, 512, 512)
VGG16 = (2, 2, 3, 3, 3)
VGG19 = (2, 2, 4, 4, 4)
INITIAL = {"*.weight": "glorot_uniform"}
"""Section 3.1: so the deep ones train without a shallow one to begin with."""


def base(graph: Graph, x: str, depths: tuple[int, ...], batch_norm: bool = False) -> str:
    """Five stages of 3 x 3 convolutions, `depths` in each, with 2 x 2 pooling after each."""
    for stage, (filters, depth) in enumerate(zip(FILTERS, depths, strict=True), 1):
        for number in range(1, depth + 1):
            x = graph.conv(f"conv{stage}_{number}", x, filters, kernel=3, padding=1)
            if batch_norm:
                x = graph.batch_norm(f"bn{stage}_{number}", x)
            x = graph.relu(f"relu{stage}_{number}", x)
        x = graph.max_pool(f"pool{stage}", x, size=2)
    return x


def head(graph: Graph, x: str, classes: int) -> str:
    """Two dense layers of 4096, with dropout after each, and the output."""
    x = graph.flatten("flatten", x)
    for number in (1, 2):
        x = graph.dense(f"dense{number}", x, units=4096)
        x = graph.relu(f"relu{5 + number}", x)
        x = graph.dropout(f"dropout{number}", x, rate=0.5)
    return graph.dense("logits", x, units=classes)
