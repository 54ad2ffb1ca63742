"""What the adapter of this framework can do."""

from touchstone.schema.capabilities import Capabilities

CAPABILITIES = Capabilities(
    modes=("solver",),
    # What its examples choose (`xavier`): by itself it fills them with 0 and cannot train.
    initialisation=("lecun_uniform", "zeros"),
    modules={"caffe": "kendryte-caffe", "numpy": "numpy", "PIL": "pillow"},
    optimizers=("sgd", "adam", "rmsprop"),
    record_format="datum",
    released="2017-04",
    why_no_replicas="Caffe trains data-parallel by NCCL on GPUs only, and this build has neither",
    deviations={
        "batch_norm": "the packed Caffe's own batch normalisation has lost the statistics of its "
        "batches and cannot train; a layer written in NumPy takes its place, so that its time is "
        "not Caffe's",
    },
    single_precision_only=True,
    # Else it logs every layer that it makes.
    variables={"": {"GLOG_minloglevel": "2"}},
)
