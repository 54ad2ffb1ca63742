"""LeNet-5 as a Caffe user would write it for speed: a prototxt by hand, stepped by its solver."""

import json
import tempfile
import time

import caffe
import numpy as np

LAYERS = """
layer { name: "data" type: "Input" top: "data"
  input_param { shape { dim: 64 dim: 1 dim: 28 dim: 28 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 64 } } }
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

with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as file:
    file.write("type: 'SGD' base_lr: 0.01 lr_policy: 'fixed' momentum: 0.9\n")
    file.write("train_net_param {" + LAYERS + "}\n")
    file.flush()
    solver = caffe.get_solver(file.name)
solver.net.blobs["data"].data[...] = np.random.standard_normal((64, 1, 28, 28))
solver.net.blobs["label"].data[...] = np.random.randint(0, 10, 64)


def train(seconds):
    """Steps made in about that time."""
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        solver.step(8)
        steps += 8
    return steps, time.perf_counter() - begin


train(2)
steps, seconds = train(5)
print(json.dumps(steps * 64 / seconds))
