"""One colour and one marker per framework, in every figure and on every page; titles that fit."""

import hashlib
import textwrap
from collections.abc import Iterable, Sequence

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
DARK, SLOPE, GREY = 0x16, 0.92, 12
"""The grey of a dark ground; how much lighter than it a grey gets there for each step that it is
darker than white; and how far apart red, green and blue of a grey are at most."""


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
    return _hexadecimal(int(part * 0.65) for part in _parts(colour))


def in_dark(colour: str) -> str:
    """What takes the place of a colour (#RRGGBB) where a figure has a dark ground.

    Of greys, white is the dark ground and dark ones are light. `SCALE`, whose areas have an edge,
    stays. Any other colour is mixed with as little white as gives it a contrast of 4.5 to that
    ground (WCAG 2.2, 1.4.3).
    """
    if colour.upper() in SCALE:
        return colour
    parts = _parts(colour)
    if max(parts) - min(parts) <= GREY:
        return _hexadecimal(min(255, round(DARK + SLOPE * (255 - part))) for part in parts)
    tints = ([part + (255 - part) * share // 100 for part in parts] for share in range(101))
    ground = _luminance([DARK] * 3)
    return _hexadecimal(
        next(tint for tint in tints if (_luminance(tint) + 0.05) / (ground + 0.05) >= 4.5)
    )


def _parts(colour: str) -> list[int]:
    return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]


def _hexadecimal(parts: Iterable[int]) -> str:
    return "#" + "".join(f"{part:02X}" for part in parts)


def _luminance(parts: Sequence[int]) -> float:
    """The relative luminance of WCAG 2.2, from red, green and blue, 0 to 255."""
    shares = (part / 255 for part in parts)
    linear = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares)
    return sum(x * weight for x, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


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
