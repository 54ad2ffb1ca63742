"""Becomes the Python of a container's image: python_in_container.py ENGINE PROGRAM IMAGE IDENTITY
DEVICE ARGUMENT..."""

import sys

from touchstone.containers import Container, replace_process

replace_process(Container(*sys.argv[1:5]), sys.argv[5], sys.argv[6:])
