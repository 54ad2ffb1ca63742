#!/bin/sh
# Installs on a bare Debian 12, in the current folder, what an image holds: the system's
# packages, the base environment (.venv), and the environments of $FRAMEWORKS.
set -eu
apt-get update
apt-get install --yes --no-install-recommends \
    ca-certificates git libgomp1 libquadmath0 make python3.11-venv
rm -rf /var/lib/apt/lists/*
export PIP_NO_CACHE_DIR=1
make .venv/base
for framework in $FRAMEWORKS; do
    .venv/bin/python workflow/scripts/cli.py in-env "envs/$framework.yaml" environments
done
