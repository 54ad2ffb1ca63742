"""A layer that computes something else fails its certificate."""

import pytest

from contract.test_modern import small_convnext, small_efficientnet, small_mobilenet, small_vit
from contract.test_parity import every_layer
from contract.test_tasks import small_bert, small_gpt, small_unet
from touchstone.results.parity import TOLERANCES

pytestmark = pytest.mark.long

BREAKS = {
    "an approximation of GELU": ("jax", small_vit, """
ACTIVATIONS["gelu"] = partial(jax.nn.gelu, approximate=True)
"""),
    "a class token after the patches": ("pytorch", small_vit, """
class Last(ClassToken):
    def forward(self, x):
        return super().forward(x).roll(-1, 1)
LEARNED["class_token"] = Last
"""),
    "patches column by column": ("mxnet", small_vit, """
PLAIN["to_sequence"] = lambda F, x, layer, right=PLAIN["to_sequence"]: right(
    F, F.swapaxes(x, 2, 3), layer
)
"""),
    "epsilon of normalisation over channels": ("mxnet", small_convnext, """
LEARNED["layer_norm"] = lambda layer, shape, precision, right=LEARNED["layer_norm"]: right(
    dict(layer, epsilon=1e-3), shape, precision
)
"""),
    "a scale that is forgotten": ("jax", small_convnext, """
def layer_of(layer, inputs, own, right=layer_of):
    return inputs[0] if layer["op"] == "layer_scale" else right(layer, inputs, own)
"""),
    "a ReLU without its limit": ("tensorflow", every_layer, """
ACTIVATIONS["relu6"] = tf.nn.relu
"""),
    "channels that are not weighed": ("pytorch", small_efficientnet, """
def _multiplied(x, factors):
    return x * factors.mean(1)[:, None, None, None]
"""),
    "padding at the top and left": ("cntk", small_mobilenet, """
def depthwise(x, kernel, layer, right=depthwise):
    top, bottom, left, wide = layer["padding"]
    return right(x, kernel, dict(layer, padding=[bottom, top, wide, left]))
"""),
    "a token that is seen before it is predicted": ("tensorflow", small_gpt, """
def self_attention(x, heads, causal, right=self_attention):
    return right(x, heads)
"""),
    "a step that does not see itself": ("jax", small_gpt, """
def _attention(heads, causal, x, right=_attention):
    return jnp.roll(right(heads, causal, x), 1, 1)
"""),
    "an output that has a table of its own": ("pytorch", small_gpt, """
class Unembedding(Unembedding):
    def __init__(self, weight):
        super().__init__(nn.Parameter(torch.ones_like(weight)))
"""),
    "the first token left out and not the last": ("mxnet", small_gpt, """
PLAIN["all_but_last"] = lambda F, x, layer: F.slice_axis(x, axis=2, begin=1, end=None)
"""),
    "GELU itself and not its approximation": ("mxnet", small_gpt, """
PLAIN["gelu_tanh"] = lambda F, x, layer: _gelu(F, x, "fp64")
"""),
    "four pixels in another order": ("tensorflow", small_unet, """
class Layers(Layers):
    def _read(self, name):
        found = super()._read(name)
        return tf.transpose(found, [1, 0, 2, 3]) if name.startswith("up1.weight") else found
"""),
    "a skip connection that is left out": ("mxnet", small_unet, """
class Network(Network):
    def __init__(self, network, *others):
        layers = [
            dict(layer, inputs=[layer["inputs"][1]] * 2) if layer["op"] == "concat" else layer
            for layer in network.layers
        ]
        super().__init__(network._replace(layers=layers), *others)
"""),
    "a bias that four pixels share": ("jax", small_unet, """
def layer_of(layer, inputs, own, right=layer_of):
    if layer["op"] == "up_conv":
        own["bias"] = own["bias"] / 4
    return right(layer, inputs, own)
"""),
    "a pooler without its tanh": ("jax", small_bert, """
ACTIVATIONS["tanh"] = lambda x: x
"""),
}  # fmt: skip
"""By name: framework, a network, and what is at the end of the adapter's `network.py`."""


@pytest.mark.parametrize("framework, case", [(each[0], case) for case, each in BREAKS.items()])
def test_a_broken_layer_fails_its_certificate(framework, case, forward_deviation, planted):
    _, graph, lines = BREAKS[case]
    scripts = planted(f"runner/adapters/{framework}/network", lines)
    assert forward_deviation(framework, graph, scripts) > 10 * TOLERANCES["fp64"]["forward"]
