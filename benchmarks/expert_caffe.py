"""The networks as a Caffe user would write and train them for speed: prototxts by hand, stepped by
Caffe's solver. There is no ResNet-20: batch normalisation of the packed Caffe does not train."""

import tempfile

import caffe
import numpy as np
import program

FILLER = 'weight_filler { type: "xavier" }'


def inputs(batch_size, channels, side):
    dims = " ".join(f"dim: {size}" for size in (batch_size, channels, side, side))
    return (
        f'layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {dims} }} }} }}\n'
        f'layer {{ name: "label" type: "Input" top: "label"'
        f" input_param {{ shape {{ dim: {batch_size} }} }} }}\n"
    )


def layer(kind, name, bottom, top, settings=""):
    return f'layer {{ name: "{name}" type: "{kind}" bottom: "{bottom}" top: "{top}" {settings} }}\n'


def relu(bottom):
    return layer("ReLU", bottom + "/relu", bottom, bottom)


def conv(name, bottom, filters, kernel, pad):
    parameters = f"num_output: {filters} kernel_size: {kernel} pad: {pad} {FILLER}"
    return layer("Convolution", name, bottom, name, f"convolution_param {{ {parameters} }}") + relu(
        name
    )


def pool(name, bottom):
    return layer("Pooling", name, bottom, name, "pooling_param { kernel_size: 2 stride: 2 }")


def dense(name, bottom, units):
    parameters = f"inner_product_param {{ num_output: {units} {FILLER} }}"
    return layer("InnerProduct", name, bottom, name, parameters)


def half(bottom):
    parameters = "dropout_param { dropout_ratio: 0.5 }"
    return layer("Dropout", bottom + "/drop", bottom, bottom, parameters)


LOSS = 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip3" bottom: "label" top: "loss" }\n'
NETWORKS = {
    "lenet5": (
        conv("conv1", "data", 6, 5, 2) + pool("pool1", "conv1")
        + conv("conv2", "pool1", 16, 5, 0) + pool("pool2", "conv2")
        + dense("ip1", "pool2", 120) + relu("ip1")
        + dense("ip2", "ip1", 84) + relu("ip2") + dense("ip3", "ip2", 10)
    ),
    "alexnet-cifar": (
        conv("conv1", "data", 64, 3, 1) + pool("pool1", "conv1")
        + conv("conv2", "pool1", 192, 3, 1) + pool("pool2", "conv2")
        + conv("conv3", "pool2", 384, 3, 1) + conv("conv4", "conv3", 256, 3, 1)
        + conv("conv5", "conv4", 256, 3, 1) + pool("pool5", "conv5")
        + half("pool5") + dense("ip1", "pool5", 1024) + relu("ip1")
        + half("ip1") + dense("ip2", "ip1", 1024) + relu("ip2") + dense("ip3", "ip2", 10)
    ),
}  # fmt: skip


class Training:
    """The solver's own steps, all on one batch that lies in the network's input."""

    def __init__(self, network, batch_size, batches, threads, candidate):
        side, _, channels, classes = program.shape(network)
        layers = inputs(batch_size, channels, side) + NETWORKS[network] + LOSS
        with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as file:
            file.write("type: 'SGD' base_lr: 0.001 lr_policy: 'fixed' momentum: 0.9\n")
            file.write("train_net_param {" + layers + "}\n")
            file.flush()
            self.solver = caffe.get_solver(file.name)
        blobs = self.solver.net.blobs
        blobs["data"].data[...] = np.random.standard_normal(blobs["data"].data.shape)
        blobs["label"].data[...] = np.random.randint(0, classes, batch_size)

    def steps(self, n):
        self.solver.step(n)

    def size(self):
        net = self.solver.net
        count = sum(blob.data.size for blobs in net.params.values() for blob in blobs)
        # Of a convolution's output an image per filter, of a dense layer's one number.
        macs = sum(b[0].data.size * net.blobs[n].data[0, 0].size for n, b in net.params.items())
        return [count, macs]


if __name__ == "__main__":
    program.expert(lambda network, thorough: ["solver"] if network in NETWORKS else [], Training)
