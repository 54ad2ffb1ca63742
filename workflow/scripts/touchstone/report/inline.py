"""Figures within a page."""

import base64
import re

UNSEEN = re.compile(r"<!--.*?-->|<metadata>.*?</metadata>|(?<=\d\d\.\d\d)\d+", re.DOTALL)
"""What nobody sees of an SVG: comments, metadata, and of places beyond 10 points the digits below a
hundredth. Small numbers stay as they are: a font's scale is one."""
SHORTER = {"> <": "><", "xlink:href": "href", "DejaVuSans-": "D"}
"""Words of Matplotlib's SVG that may be shorter: `href` is the newer name, and ids may be any."""


def data_uri(svg: str) -> str:
    """An SVG of Matplotlib as a data URI, without what nobody sees."""
    text = " ".join(UNSEEN.sub("", svg).split())
    for words, shorter in SHORTER.items():
        text = text.replace(words, shorter)
    return "data:image/svg+xml;base64," + base64.b64encode(text.encode()).decode()
