"""Reasons for what Caffe's adapter does otherwise: whether they are still true."""

import json

import pytest

STATISTICS = """
import json, os, tempfile
os.environ["GLOG_minloglevel"] = "2"
import caffe, numpy as np
text = '''
layer { name: "data" type: "Input" top: "data"
  input_param { shape { dim: 8 dim: 3 dim: 4 dim: 4 } } }
layer { name: "normal" type: "BatchNorm" bottom: "data" top: "normal" }
'''
with tempfile.NamedTemporaryFile("w") as file:
    file.write(text)
    file.flush()
    net = caffe.Net(file.name, caffe.TRAIN)
net.blobs["data"].data[...] = 5 + np.random.RandomState(1).standard_normal((8, 3, 4, 4))
normal = net.forward()["normal"]
print(json.dumps([float(normal.mean()), float(net.params["normal"][2].data[0])]))
"""


@pytest.mark.framework("caffe")
def test_its_own_batch_normalisation_still_has_no_statistics_of_the_batch(execute):
    """With them the mean would be 0, and one batch would have been counted."""
    answer = execute("caffe", "-c", STATISTICS)
    assert answer.returncode == 0, answer.stderr
    mean, counted = json.loads(answer.stdout)
    assert mean > 100 and counted == 0
