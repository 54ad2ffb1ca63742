"""Photos as JPEG files, decoded by libjpeg-turbo with its exact transform."""

from typing import Any

from touchstone.runner.adapters.readers.photos import middle


def photo(encoded: Any, shape: Any) -> Any:
    """The middle of a JPEG file, uint8 of `shape`; raises ValueError if it is smaller."""
    import simplejpeg  # a run without photos does not need it

    image = simplejpeg.decode_jpeg(encoded, "GRAY" if shape[2] == 1 else "RGB")
    return middle(image, shape)
