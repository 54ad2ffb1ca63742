"""Data sets: the catalogue, the download, the decoders and the record formats."""
