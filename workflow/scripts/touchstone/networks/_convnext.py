"""What ConvNeXts share: Liu et al., A ConvNet for the 2020s, 2022, arXiv:2201.03545.

A convolution of 4 x 4 pixels with stride 4 begins; between stages one of 2 x 2 with stride 2 halves
the image. A block filters every channel by itself with 7 x 7, normalises over the channels, widens
them by four and narrows them again by 1 x 1 convolutions with GELU in between; each channel is
scaled by a learned number and the input is added. An example skips a block with a probability that
grows from 0 in the first block to `depth_rate` in the last.
"""

from touchstone.networks.graph import Graph

EPSILON = 1e-6
INITIAL = {"*.weight": "normal_0.02", "*_scale.scale": "constant_1e-06"}
"""As the authors' implementation: it cuts the normal distribution at a hundred deviations."""


def build(
    name: str,
    input_shape: tuple[int, int, int],
    classes: int,
    widths: tuple[int, ...],
    depths: tuple[int, ...],
    depth_rate: float,
) -> Graph:
    """The network for images of `input_shape` (height, width, channels); `widths` and `depths` are
    the channels and blocks of each stage."""
    graph = Graph(name, input_shape, initial=INITIAL)
    before, last = 0, sum(depths) - 1
    x = graph.conv("conv1", "input", widths[0], kernel=4, stride=4)
    x = graph.layer_norm("norm1", x, EPSILON)
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True), 1):
        if stage > 1:
            x = graph.layer_norm(f"stage{stage}_norm", x, EPSILON)
            x = graph.conv(f"stage{stage}_conv", x, width, kernel=2, stride=2)
        for block in range(1, depth + 1):
            rate = depth_rate * before / last
            x = _block(graph, f"stage{stage}_block{block}", x, width, rate)
            before += 1
    x = graph.layer_norm("norm2", graph.global_avg_pool("pool", x), EPSILON)
    graph.dense("logits", x, units=classes)
    return graph


def _block(graph: Graph, at: str, x: str, width: int, rate: float) -> str:
    y = graph.conv(f"{at}_depth", x, width, kernel=7, padding=3, groups=width)
    y = graph.conv(f"{at}_widen", graph.layer_norm(f"{at}_norm", y, EPSILON), 4 * width, kernel=1)
    y = graph.conv(f"{at}_narrow", graph.gelu(f"{at}_gelu", y), width, kernel=1)
    y = graph.layer_scale(f"{at}_scale", y)
    return graph.add(f"{at}_add", x, graph.stochastic_depth(f"{at}_drop", y, rate))
