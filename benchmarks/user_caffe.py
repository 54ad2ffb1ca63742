"""The networks as a Caffe user writes and trains them, after its MNIST example: a prototxt with a
data layer that reads an LMDB in stored order, and the steps of a solver. There is no ResNet-20:
batch normalisation of the packed Caffe does not train."""

import pathlib
import tempfile

import caffe
import lmdb
import numpy as np
import program

SOLVER = """
net: "{folder}/train.prototxt"
base_lr: 0.001
momentum: 0.9
lr_policy: "fixed"
solver_mode: CPU
snapshot_after_train: false
"""
DATA = """
layer {{
  name: "data"
  type: "Data"
  top: "data"
  top: "label"
  transform_param {{ scale: 0.00390625 }}
  data_param {{ source: "{folder}/lmdb" batch_size: {batch_size} backend: LMDB }}
}}
"""
CONVOLUTION = """
layer {{
  name: "{name}"
  type: "Convolution"
  bottom: "{bottom}"
  top: "{name}"
  convolution_param {{
    num_output: {filters} kernel_size: {size} pad: {pad} weight_filler {{ type: "xavier" }}
  }}
}}
"""
POOLING = """
layer {{
  name: "{name}"
  type: "Pooling"
  bottom: "{bottom}"
  top: "{name}"
  pooling_param {{ pool: MAX kernel_size: 2 stride: 2 }}
}}
"""
DENSE = """
layer {{
  name: "{name}"
  type: "InnerProduct"
  bottom: "{bottom}"
  top: "{name}"
  inner_product_param {{ num_output: {units} weight_filler {{ type: "xavier" }} }}
}}
"""
RELU = 'layer {{ name: "{bottom}_relu" type: "ReLU" bottom: "{bottom}" top: "{bottom}" }}\n'
DROPOUT = 'layer {{ name: "{bottom}_drop" type: "Dropout" bottom: "{bottom}" top: "{bottom}" }}\n'
LOSS = """
layer {{
  name: "loss"
  type: "SoftmaxWithLoss"
  bottom: "{bottom}"
  bottom: "label"
  top: "loss"
}}
"""


class Prototxt:
    """The text of a network, in which each layer follows the last one."""

    def __init__(self, **data):
        self.text, self.bottom = DATA.format(**data), "data"

    def add(self, layer, name=None, **settings):
        self.text += layer.format(name=name, bottom=self.bottom, **settings)
        self.bottom = name or self.bottom


def lenet5(net):
    net.add(CONVOLUTION, "conv1", filters=6, size=5, pad=2)
    net.add(RELU)
    net.add(POOLING, "pool1")
    net.add(CONVOLUTION, "conv2", filters=16, size=5, pad=0)
    net.add(RELU)
    net.add(POOLING, "pool2")
    net.add(DENSE, "ip1", units=120)
    net.add(RELU)
    net.add(DENSE, "ip2", units=84)
    net.add(RELU)
    net.add(DENSE, "ip3", units=10)
    net.add(LOSS)


def alexnet_cifar(net):
    for number, filters in enumerate((64, 192, 384, 256, 256), 1):
        net.add(CONVOLUTION, f"conv{number}", filters=filters, size=3, pad=1)
        net.add(RELU)
        if number in (1, 2, 5):
            net.add(POOLING, f"pool{number}")
    for number in (6, 7):
        net.add(DROPOUT)
        net.add(DENSE, f"fc{number}", units=1024)
        net.add(RELU)
    net.add(DENSE, "fc8", units=10)
    net.add(LOSS)


NETWORKS = {"lenet5": lenet5, "alexnet-cifar": alexnet_cifar}


def write(path, network, examples):
    """An LMDB of noise, as Caffe's tools convert images."""
    height, width, channels, classes = program.shape(network)
    random = np.random.default_rng(1)
    images = random.integers(0, 256, (examples, channels, height, width), np.uint8)
    with (
        lmdb.open(path, map_size=2 * images.nbytes + 2**24) as store,
        store.begin(write=True) as put,
    ):
        for number, image in enumerate(images):
            datum = caffe.io.array_to_datum(image, int(random.integers(classes)))
            put.put(b"%08d" % number, datum.SerializeToString())


class Training:
    def __init__(self, network, batch_size, batches):
        self.batches = batches
        self.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self.folder.name)
        write(str(folder / "lmdb"), network, batches * batch_size)
        net = Prototxt(folder=folder, batch_size=batch_size)
        NETWORKS[network](net)
        (folder / "train.prototxt").write_text(net.text)
        (folder / "solver.prototxt").write_text(SOLVER.format(folder=folder))
        caffe.set_mode_cpu()
        self.solver = caffe.get_solver(str(folder / "solver.prototxt"))

    def train(self, epochs, ended):
        for _ in range(epochs):
            self.solver.step(self.batches)
            ended()

    def parameters(self):
        return sum(
            array.data.size for arrays in self.solver.net.params.values() for array in arrays
        )


if __name__ == "__main__":
    program.user(NETWORKS, Training)
