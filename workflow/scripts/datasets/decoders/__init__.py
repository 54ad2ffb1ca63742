"""Decoders: one file per kind of source, each a pydantic model with a `decode` method.

The model's fields are the decoder's options in the catalogue (every source that it reads
is named by one of them). The catalogue is read whenever the Snakefile loads, so a decoder
imports NumPy inside `decode`, not at the top of the file.
"""
