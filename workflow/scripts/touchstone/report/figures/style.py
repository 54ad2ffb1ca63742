"""One colour and one marker per framework, in every figure and on every page; titles that fit."""

import hashlib
import textwrap
from collections.abc import Iterable

from touchstone.plan.names import Stack

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
"""The mark after the name of a series whose equal computation is not shown."""
FILLS = ("full", "none", "left", "right", "top", "bottom")
TITLE_LETTER = 5.6
"""Width of most letters of a panel's title (DejaVu Sans, bold, 9.5 points), points."""
MARGIN = 0.7
"""How much narrower the axes are than their panel, inches."""


def style_of(framework: str) -> tuple[str, str]:
    """Colour (#RRGGBB) and Matplotlib marker of a framework, in whatever environment and style.

    A framework that is not listed gets both from a hash of its name: always the same ones,
    whatever else is in the study.
    """
    framework = Stack.of(framework).framework
    if framework in CHOSEN:
        return CHOSEN[framework]
    digest = hashlib.sha256(framework.encode()).digest()
    colour = OTHER_COLOURS[digest[0] % len(OTHER_COLOURS)]
    return colour, OTHER_MARKERS[digest[1] % len(OTHER_MARKERS)]


# From dark to light, evenly from cividis (Nuñez and others 2018, PLOS ONE 13, e0199239), which
# looks alike to people with and without colour blindness, and is ordered in grey too.
SCALE = (
    *("#243C6E", "#3C4A6C", "#4E566C", "#5F636F", "#6F7073", "#7F7E78"),
    *("#928C78", "#A39A74", "#B7A96E", "#C9B965", "#DEC958", "#F3DB42"),
)
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++")


def machine_styles(count: int) -> list[tuple[str, str]]:
    """Colour (#RRGGBB) and Matplotlib hatch of each of so many machines, dark to light."""
    last = len(SCALE) - 1
    return [
        (SCALE[round(i * last / max(count - 1, 1)) % len(SCALE)], HATCHES[i % len(HATCHES)])
        for i in range(count)
    ]


def darker(colour: str) -> str:
    """The colour at 65 % of its brightness, for text on a light ground."""
    return "#" + "".join(f"{int(int(colour[i : i + 2], 16) * 0.65):02X}" for i in (1, 3, 5))


def panel_title(parts: Iterable[str], inches: float) -> str:
    """The parts of a panel's title with dots between them, in lines no wider than its axes.

    A line is broken between two parts, and within one that is too long for a line of its own.
    `inches` is the width of the panel.
    """
    room = max(int(72 * (inches - MARGIN) / TITLE_LETTER), 1)
    lines: list[str] = []
    for part in parts:
        joined = f"{lines[-1]} · {part}" if lines else part
        if len(joined) <= room:
            lines[-1:] = [joined]
        else:
            lines += textwrap.wrap(part, room)
    return "\n".join(lines)
