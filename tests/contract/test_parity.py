"""Every layer kind is the same function in every framework and mode, and a break is seen."""

from functools import cache

import numpy as np
import pytest

from fixtures.certificates import deviations_of
from fixtures.tiers import tiered
from touchstone.networks.graph import Graph
from touchstone.plan import frameworks
from touchstone.plan.parity import REFERENCE, steps_spec
from touchstone.results.files import InputError
from touchstone.results.parity import TOLERANCES, compare

MODES = [(name, mode) for name in frameworks.names() for mode in frameworks.modes(name)]
USUAL = REFERENCE, frameworks.modes(REFERENCE)[0]


def every_layer() -> Graph:
    """A network with every operation of images that all frameworks have, and every way to pad."""
    graph = Graph("every_layer", (16, 16, 3))
    with graph.frozen():
        x = graph.conv("c0", "input", 3, 1)
    x = graph.conv("c1", x, 8, 3, stride=2, padding="same", bias=False)
    x = graph.lrn("n1", graph.relu("r1", graph.batch_norm("b1", x)), 5, 0.1, 0.75, 2.0)
    dilated = graph.conv("c2", x, 8, 3, padding=2, dilation=2, groups=2)
    depthwise = graph.conv("c3", x, 8, 3, padding=1, groups=8, bias=False)
    multiplied = graph.conv("c4", x, 16, (3, 1), padding=(1, 1, 0, 0), groups=8)
    clipped = graph.relu6("r4", graph.add("a3", *[dilated] * 8))  # much of it is beyond 6
    x = graph.concat("k1", graph.add("a1", clipped, depthwise, x), multiplied)
    x = graph.dropout("o1", graph.batch_norm("b2", x, epsilon=1e-3, momentum=0.99), 0.25)
    pools = [
        graph.max_pool("m1", x, 3, 2, ceil=True),
        graph.max_pool("m2", x, 3, 2, padding=1),
        graph.max_pool("m3", x, 3, 2, padding="same"),
        graph.max_pool("m4", x, 2, 2),
        graph.avg_pool("p1", x, 2, 2),
        graph.avg_pool("p2", x, 3, 2, padding=1),
        graph.avg_pool("p3", x, 3, 2, padding="same"),
        graph.avg_pool("p4", x, 3, 2, padding=(1, 0, 1, 0)),
    ]
    x = graph.concat("k2", *pools)
    gate = graph.silu("s1", graph.dense("d3", graph.global_avg_pool("g2", x), 6))
    gate = graph.sigmoid("s2", graph.dense("d4", gate, graph.shape(x)[-1]))
    x = graph.multiply("t1", x, gate)
    pooled = graph.dense("d1", graph.global_avg_pool("g1", x), 24, bias=False)
    x = graph.conv("c5", x, 5, 3, stride=2, padding=(0, 1, 0, 1))
    x = graph.dropout("o2", graph.relu("r2", graph.flatten("f1", x)), 0.5)
    x = graph.dense("d2", x, 24, l1=2.0**-5, l2=2.0**-5)
    x = graph.relu("r3", graph.add("a2", x, pooled))
    graph.dense("logits", graph.dropout("o3", x, 0.5), 10)
    graph.check()
    return graph


def every_parameter() -> Graph:
    """A small network with every kind of parameter that an update equation tells apart."""
    graph = Graph("every_parameter", (8, 8, 3))
    with graph.frozen():
        x = graph.conv("c0", "input", 3, 1)
    x = graph.relu("r1", graph.batch_norm("b1", graph.conv("c1", x, 8, 3, padding=1)))
    x = graph.flatten("f1", graph.max_pool("m1", x, 2, 2))
    x = graph.dense("d1", graph.dropout("o1", x, 0.5), 12, l1=2.0**-5, l2=2.0**-5)
    graph.dense("logits", graph.relu("r2", x), 10)
    graph.check()
    return graph


VARIANTS = {
    "usual": {},
    "plain": {"momentum": 0.0, "schedule": "step", "milestones": [0.5]},
    "rate rises and falls": {
        "schedule": "cosine", "lr_warmup_epochs": 0.25, "weight_decay_on": "weights",
    },
    "nesterov, rate falls, windows": {
        "nesterov": True, "schedule": "step", "milestones": [0.3, 0.6], "crop_area": 0.08,
        "flip": True,
    },
    "decoupled, augmented": {
        "weight_decay_form": "decoupled", "weight_decay_on": "weights", "crop_padding": 3,
        "flip": True,
    },
}  # fmt: skip
"""Settings of the update equation and of augmentation beside `plan.parity.USUAL`."""


@pytest.fixture(scope="module")
def tracer(root, trace_of):
    """Trace `every_layer` in a framework, or with another update equation `every_parameter`;
    `scripts` may be a folder of changed ones."""
    ours = root / "workflow/scripts"

    def run(framework, mode, variant="usual", scripts=ours, single=False, graph=None, only=None):
        graph = graph or (every_layer if variant == "usual" else every_parameter)
        spec = steps_spec(graph().network(), framework, mode, single, **VARIANTS[variant])
        if only:
            spec = spec._replace(parity_steps={only: spec.parity_steps[only]})
        return trace_of(framework, spec, code=scripts)

    run.cached = cache(run)
    return run


def certificate(tracer, framework, mode, variant="usual", scripts=None):
    alone = frameworks.single_precision_only(framework)
    trace = tracer(framework, mode, variant, scripts, alone) if scripts else None
    trace = trace or tracer.cached(framework, mode, variant, single=alone)
    paths = {"reference": tracer.cached(*USUAL, variant), framework: trace}
    single = tracer.cached(*USUAL, variant, single=True) if alone else None
    return compare("every_layer", paths, single)["frameworks"][framework]


@pytest.mark.parametrize("framework, mode", MODES)
def test_every_layer_is_the_same_everywhere(framework, mode, tracer):
    found = certificate(tracer, framework, mode)
    print(framework, mode, found["deviations"])
    assert found["beyond"] == []


@pytest.mark.parametrize("variant", tiered(list(VARIANTS)[1:], lambda name: "rate falls" in name))
@pytest.mark.parametrize("framework", frameworks.names())
def test_every_update_equation_is_the_same_everywhere(framework, variant, tracer):
    found = certificate(tracer, framework, frameworks.modes(framework)[0], variant)
    print(framework, variant, found["deviations"])
    # MXNet's kernel of Nesterov's equation computes in single precision: 1e-7 in the velocities.
    assert [what for what in found["beyond"] if what != "fp64 gradients"] == []


@pytest.mark.framework(REFERENCE)
@pytest.mark.parametrize("variant", list(VARIANTS)[1:])
def test_another_update_equation_is_another_one(variant, tracer):
    """What the variants change is large enough to be seen."""
    usual = tracer.cached(*USUAL, graph=every_parameter)
    paths = {variant: tracer.cached(*USUAL, variant), "usual": usual}
    found = compare("every_parameter", paths)["frameworks"]["usual"]
    assert {"fp64 update", "adam update"} & set(found["beyond"])


BREAKS = {
    "epsilon of batch normalisation": ("pytorch", "fp64 forward", "adapter", """
class Adapter(Adapter):
    def build(self, weights):
        super().build(weights)
        for module in self.model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eps *= 2
"""),
    "padding that wins a maximum": ("tensorflow", "fp64 forward", "network", """
def with_padding(x, layer, size, value, right=with_padding):
    return right(x, layer, size, 0)
"""),
    "ceiling whose extra row is at the top": ("tensorflow", "fp64 forward", "network", """
def with_padding(x, layer, size, value, padded=with_padding):
    top, bottom, left, right = layer["padding"]
    return padded(x, dict(layer, padding=[bottom, top, right, left]), size, value)
"""),
    "average that counts the padding": ("mxnet", "fp64 forward", "network", """
def counting(*sizes, right=nn.AvgPool2D, **settings):
    return right(*sizes, **dict(settings, count_include_pad=True))
nn.AvgPool2D = counting
"""),
    "weight decay that spares biases": ("tensorflow", "fp64 gradients", "adapter", """
class Adapter(Adapter):
    def build(self, weights):
        self.optimizer = self.optimizer._replace(spared=["bias"])
        super().build(weights)
"""),
    "penalty that is forgotten": ("pytorch", "fp64 gradients", "adapter", """
class Adapter(Adapter):
    def build(self, weights):
        super().build(weights)
        self.penalised = []
"""),
    "Adam's own place for epsilon": ("tensorflow", "adam update", "adapter", """
class Adapter(Adapter):
    def _scalars(self, rates):
        scalars = super()._scalars(rates).numpy()
        if self.optimizer.name == "adam":
            scalars[:, 2] = self.optimizer.settings["epsilon"]
        return tf.constant(scalars, self.dtype)
"""),
    "momentum that scales with the rate": ("mxnet", "fp64 update", "adapter", """
class Adapter(Adapter):
    def _optimize(self):
        super()._optimize()
        optimizer, own = self.trainer.optimizer, self.job.optimizer.settings
        same = {"momentum": property(lambda _: own.get("momentum"), lambda _, other: None)}
        optimizer.__class__ = type("Same", (type(optimizer),), same)
"""),
    "biased running variance": ("mxnet", "fp64 statistics", "adapter", """
def unbiased(start, now, momentum, steps, count):
    return now
"""),
    "alpha that is divided twice": ("cntk", "fp64 forward", "adapter", """
class Adapter(Adapter):
    def _layer(self, layer, *others):
        if layer["op"] == "lrn":
            layer = dict(layer, alpha=layer["alpha"] / layer["size"])
        return super()._layer(layer, *others)
"""),
    "momentum of the running statistics": ("tensorflow", "fp64 statistics", "adapter", """
class Adapter(Adapter):
    def _batch_norm_fp64(self, layer, *others):
        return super()._batch_norm_fp64(dict(layer, momentum=0.9), *others)
"""),
    # The same for Caffe, whose proof is in single precision.
    "Caffe's epsilon of batch normalisation": ("caffe", "sgd32 forward", "network", """
class Prototxt(Prototxt):
    def _batch_norm(self, layer, bottoms):
        if not self.training:
            layer = dict(layer, epsilon=2 * layer["epsilon"])
        return super()._batch_norm(layer, bottoms)
"""),
    "Caffe's padding that wins a maximum": ("caffe", "sgd32 forward", "network", """
class Prototxt(Prototxt):
    def _pool(self, kind, layer, bottoms):
        self.channels = layer["shape"][2]
        return super()._pool(kind, layer, bottoms)

    def add(self, kind, name, bottoms, top=None, **fields):
        if kind == "Pooling" and "pad_h" in fields["pooling_param"]:
            pool = fields["pooling_param"]
            zeros = dict(
                num_output=self.channels, kernel_size=[1], pad=[pool["pad_h"]], bias_term=False,
                group=self.channels, weight_filler=dict(type="constant", value=1),
            )
            padded = super().add("Convolution", name + "/padded", bottoms,
                                 convolution_param=zeros, param=[dict(lr_mult=0)])
            bottoms, fields = [padded], {"pooling_param": dict(pool, pad_h=0, pad_w=0)}
        return super().add(kind, name, bottoms, top, **fields)
"""),
    "Caffe's ceiling whose extra row is at the top": ("caffe", "sgd32 forward", "network", """
def _windows(layer, axis, length, windows=_windows):
    top, bottom, left, right = layer["padding"]
    return windows(dict(layer, padding=[bottom, top, right, left]), axis, length)
"""),
    "Caffe's average that counts the padding": ("caffe", "sgd32 forward", "network", """
def _share(layer, image):
    return np.ones(layer["shape"][:2])
"""),
    "Caffe's weight decay that spares biases": ("caffe", "sgd32 gradients", "adapter", """
def training_network(network, batch_size, supplied, spared, right=training_network):
    return right(network, batch_size, supplied, ["bias"])
"""),
    "Caffe's penalty that is forgotten": ("caffe", "sgd32 gradients", "adapter", """
class Adapter(Adapter):
    def _change_gradients(self):
        self.penalised = []
        super()._change_gradients()
"""),
    "Caffe's own place for epsilon in Adam": ("caffe", "adam32 update", "adapter", """
class Adapter(Adapter):
    def _step(self):
        job, own = self.job, self.job.optimizer.settings
        root = (1 - own["beta2"] ** (self.steps + 1)) ** 0.5
        own = dict(own, epsilon=own["epsilon"] / root)
        self.job = job._replace(optimizer=job.optimizer._replace(settings=own))
        super()._step()
        self.job = job
"""),
    "Caffe's momentum that scales with the rate": ("caffe", "sgd32 update", "adapter", """
class Adapter(Adapter):
    def _update(self):
        if not self.solver:
            return super()._update()
        self._change_gradients()
        self.solver.param.base_lr = self.rate
        self.solver.apply_update()
"""),
    "Caffe's biased running variance": ("caffe", "sgd32 statistics", "network", """
class BatchNormalization(BatchNormalization):
    def forward(self, bottom, top):
        before = self.blobs[1].data.copy()
        super().forward(bottom, top)
        kept = np.float32(self.momentum) * before
        self.blobs[1].data[...] = kept + (self.blobs[1].data - kept) * (1 - 1 / self.count)
"""),
    "Caffe's momentum of the running statistics": ("caffe", "sgd32 statistics", "network", """
class BatchNormalization(BatchNormalization):
    def setup(self, bottom, top):
        super().setup(bottom, top)
        self.momentum = 0.9
"""),
}  # fmt: skip
"""By name: framework, what of the proof is beyond its tolerance, a module of the adapter and the
lines at its end (see `planted`)."""


@pytest.mark.parametrize("framework, case", [(one[0], case) for case, one in BREAKS.items()])
def test_a_broken_adapter_fails_its_certificate(framework, case, tracer, planted):
    _, beyond, module, lines = BREAKS[case]
    scripts = planted(f"runner/adapters/{framework}/{module}", lines)
    variant = "rate rises and falls" if "rate" in case else "usual"
    mode = frameworks.modes(framework)[0]
    trace, what = beyond.split()
    if not frameworks.single_precision_only(framework):  # these steps alone show it
        path = tracer(framework, mode, variant, scripts, only=trace)
        found = deviations_of(path, tracer.cached(*USUAL, variant), trace)
        assert found[what] > 10 * TOLERANCES[trace][what]
        return
    found = certificate(tracer, framework, mode, variant, scripts)
    assert beyond in found["beyond"], found
    assert found["deviations"][trace][what] > 10 * found["tolerances"][trace][what]


@pytest.mark.framework(REFERENCE)
def test_a_trace_of_other_batches_is_refused(tracer, tmp_path):
    path = tracer.cached(*USUAL)
    arrays = dict(np.load(path))
    arrays["fp32/batches"] = arrays["fp32/batches"][:, ::-1]
    np.savez(tmp_path / "other.npz", **arrays)
    with pytest.raises(InputError, match="other batches"):
        compare("x", {"a": path, "b": tmp_path / "other.npz"})


@pytest.mark.framework(REFERENCE)
def test_what_a_framework_cannot_do_is_reported_with_its_reason(tracer, tmp_path):
    path = tracer.cached(*USUAL)
    np.savez(tmp_path / "without.npz", unsupported="it has no such layer")
    found = compare("x", {"a": path, "b": tmp_path / "without.npz"})
    assert found["frameworks"]["b"]["unsupported"] == "it has no such layer"
    assert not found["frameworks"]["b"]["equal"]
