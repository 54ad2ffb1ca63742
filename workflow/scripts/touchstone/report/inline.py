"""Figures within a page."""

import base64
import re

UNSEEN = re.compile(r"<!--.*?-->|<metadata>.*?</metadata>|(?<=\.\d{3})\d+", re.DOTALL)
"""What nobody sees of an SVG: comments, metadata, and digits below a thousandth of a unit."""


def data_uri(svg: str) -> str:
    """An SVG as a data URI, without what nobody sees."""
    text = " ".join(UNSEEN.sub("", svg).split()).replace("> <", "><")
    return "data:image/svg+xml;base64," + base64.b64encode(text.encode()).decode()
