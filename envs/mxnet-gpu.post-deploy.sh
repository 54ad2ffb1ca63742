#!/bin/sh
# Run once when the environment of envs/mxnet-gpu.yaml is made, with its `python` first on PATH.
#
# MXNet's library looks for those of CUDA in its own folder. The packages nvidia-*-cu11 have them in
# folders of theirs, so they get links there. That of the driver, libcuda.so.1, is the machine's.
set -eu

packages=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cd "$packages/mxnet"
ln -sf ../nvidia/*/lib/*.so* .
