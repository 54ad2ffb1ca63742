"""LeNet-5 as a Caffe user would write it for speed: a prototxt by hand, stepped by its solver."""

import tempfile

import caffe
import expert
import numpy as np

LAYERS = """
layer { name: "data" type: "Input" top: "data"
  input_param { shape { dim: BATCH dim: 1 dim: 28 dim: 28 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: BATCH } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 6 kernel_size: 5 pad: 2 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
  convolution_param { num_output: 16 kernel_size: 5 weight_filler { type: "xavier" } } }
layer { name: "relu2" type: "ReLU" bottom: "conv2" top: "conv2" }
layer { name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool2" top: "ip1"
  inner_product_param { num_output: 120 weight_filler { type: "xavier" } } }
layer { name: "relu3" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 84 weight_filler { type: "xavier" } } }
layer { name: "relu4" type: "ReLU" bottom: "ip2" top: "ip2" }
layer { name: "ip3" type: "InnerProduct" bottom: "ip2" top: "ip3"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip3" bottom: "label" top: "loss" }
"""


class Training:
    """The solver's own steps, all on one batch that lies in the network's input."""

    def __init__(self, network, batch_size, batches, threads, candidate):
        with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as file:
            file.write("type: 'SGD' base_lr: 0.001 lr_policy: 'fixed' momentum: 0.9\n")
            file.write("train_net_param {" + LAYERS.replace("BATCH", str(batch_size)) + "}\n")
            file.flush()
            self.solver = caffe.get_solver(file.name)
        blobs = self.solver.net.blobs
        blobs["data"].data[...] = np.random.standard_normal((batch_size, 1, 28, 28))
        blobs["label"].data[...] = np.random.randint(0, 10, batch_size)

    def steps(self, n):
        self.solver.step(n)

    def size(self):
        net = self.solver.net
        count = sum(blob.data.size for blobs in net.params.values() for blob in blobs)
        pixels = {name: net.blobs[name].data[0, 0].size for name in ("conv1", "conv2")}
        macs = sum(b[0].data.size * pixels.get(name, 1) for name, b in net.params.items())
        return [count, macs]


expert.main(lambda network, thorough: ["solver"] if network == "lenet5" else [], Training)
