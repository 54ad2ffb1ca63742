"""From a study's configuration to its cells, and from a cell to its spec.

The one package that reads two others: the graph of a network (`networks`) and the
catalogue of data sets (`datasets.catalogue`) are part of every spec.
"""
