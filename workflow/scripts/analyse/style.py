"""One colour and one marker per framework, in every figure and on every page."""

import hashlib

# Okabe and Ito 2008, "Color universal design". The first three are its most distinct hues.
CHOSEN = {
    "pytorch": ("#D55E00", "o"),
    "tensorflow": ("#0072B2", "s"),
    "mxnet": ("#009E73", "^"),
    "jax": ("#CC79A7", "D"),
    "caffe": ("#56B4E9", "v"),
    "cntk": ("#E69F00", "P"),
}
# Dark colours of Tol's "muted" scheme (personal.sron.nl/~pault) and black, none used above.
OTHER_COLOURS = ("#000000", "#332288", "#882255", "#999933", "#AA4499", "#661100", "#6E6E6E")
OTHER_MARKERS = ("X", "*", "p", "<", ">", "h", "d", "8")
UNPROVEN = " †"
"""Stands behind the name of a series whose equal computation is not shown."""
FILLS = ("full", "none", "left", "right", "top", "bottom")


def style_of(framework: str) -> tuple[str, str]:
    """Colour (#RRGGBB) and Matplotlib marker of a framework.

    A framework that is not listed gets both from a hash of its name: always the same ones,
    whatever else is in the study.
    """
    if framework in CHOSEN:
        return CHOSEN[framework]
    digest = hashlib.sha256(framework.encode()).digest()
    colour = OTHER_COLOURS[digest[0] % len(OTHER_COLOURS)]
    return colour, OTHER_MARKERS[digest[1] % len(OTHER_MARKERS)]


def darker(colour: str) -> str:
    """The colour at 65 % of its brightness, for text on a light ground."""
    return "#" + "".join(f"{int(int(colour[i : i + 2], 16) * 0.65):02X}" for i in (1, 3, 5))
