"""Figures within a page."""

import re
from urllib.parse import quote

UNSEEN = re.compile(r"<!--.*?-->|<metadata>.*?</metadata>|(?<=\.\d{3})\d+", re.DOTALL)
"""What nobody sees of an SVG: comments, metadata, and digits below a thousandth of a unit."""
PLAIN = " /=;,.')+-_*!@{}"
"""What may be in a data URI as it is; the marks of a tag or of an address are not among them."""


def data_uri(svg: str) -> str:
    """An SVG as a data URI, shorter than in base64."""
    text = " ".join(UNSEEN.sub("", svg).split()).replace("> <", "><")
    return "data:image/svg+xml," + quote(text.replace('"', "'"), safe=PLAIN)
