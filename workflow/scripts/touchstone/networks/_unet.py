"""What U-Nets share: Ronneberger et al. 2015, arXiv:1505.04597, with padding, so that the output
has the size of the image, and without dropout.

Each level has two convolutions of 3 x 3 with ReLU, and halves the image by its maxima for the next,
which has twice the filters. On the way back every pixel becomes four, and joins the level's own
image. A convolution of single pixels gives the logits of the data set's classes and, as the last,
of the background.
"""

from touchstone.networks.graph import Graph, GraphError


def build(
    name: str, input_shape: tuple[int, int, int], classes: int, width: int, levels: int
) -> Graph:
    """The network for images of `input_shape` (height, width, channels).

    Raises GraphError if the image cannot be halved between all levels.
    """
    graph = Graph(name, input_shape, task="label_per_pixel")
    height, across, _ = input_shape
    scale = 2 ** (levels - 1)
    if height % scale or across % scale:
        raise GraphError(
            f"layer down{levels - 1}_pool (max_pool) wants an image whose sides {scale} divides, "
            f"not one of {height} x {across}"
        )
    x = "input"
    images: list[str] = []
    for level in range(1, levels + 1):
        if images:
            x = graph.max_pool(f"down{level - 1}_pool", x, size=2)
        x = _convolutions(graph, f"down{level}", x, width * 2 ** (level - 1))
        images.append(x)
    for level in range(levels - 1, 0, -1):
        filters = width * 2 ** (level - 1)
        x = graph.up_conv(f"up{level}", x, filters)
        x = graph.concat(f"up{level}_joined", images[level - 1], x)
        x = _convolutions(graph, f"up{level}", x, filters)
    graph.to_sequence("logits", graph.conv("scores", x, filters=classes + 1, kernel=1))
    return graph


def _convolutions(graph: Graph, at: str, x: str, filters: int) -> str:
    """Two convolutions of 3 x 3, each with a ReLU."""
    for number in (1, 2):
        x = graph.conv(f"{at}_conv{number}", x, filters, kernel=3, padding=1)
        x = graph.relu(f"{at}_relu{number}", x)
    return x
