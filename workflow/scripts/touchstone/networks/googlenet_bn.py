"""GoogLeNet (Szegedy et al. 2014, arXiv:1409.4842, without the auxiliary outputs) with batch
normalisation (Ioffe and Szegedy 2015, arXiv:1502.03167) after every convolution in place
of biases and of local response normalisation. It is not the later BN-Inception network:
the modules are the first paper's, 5 x 5 convolutions included, which torchvision's form
makes 3 x 3. Its epsilon of 1e-3 is torchvision's.

7,005,832 parameters and 1,582,671,872 multiply-accumulates at 224 x 224 x 3, 1000 classes.
"""

from touchstone.networks import _googlenet
from touchstone.networks.graph import Graph


def build(input_shape: tuple[int, int, int], classes: int) -> Graph:
    """GoogLeNet with batch normalisation for images of `input_shape` (height, width, channels)."""
    graph = Graph("googlenet-bn", input_shape)
    x = _googlenet.modules(graph, _googlenet.stem(graph, batch_norm=True), batch_norm=True)
    _googlenet.head(graph, x, classes)
    return graph
