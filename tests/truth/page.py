"""The sentences and tables of a report, read back into numbers with regular expressions."""

import html
import re
from typing import NamedTuple

NUMBER = r"([\d,]+(?:\.\d+)?)"
RATIO = r"(\d+\.\d+(?: \[\d+\.\d+, \d+\.\d+\])?)"
NAME = r"([A-Z]\w+) \([^)]*\)"
SPEED = rf"{NAME} with {NUMBER} images/s"
PLACE = r"\w[\w-]* with [\w-]+ \((?:CPU|GPU)\), batch size (\d+): "
FASTEST = re.compile(rf"{NAME} was fastest with {NUMBER} images/s")
LEAD = re.compile(rf"{RATIO} times as fast as {SPEED}")
OPEN = re.compile(rf"{SPEED}: {RATIO} times, so a difference of up to")
EQUAL = re.compile(r" is equal to (.+?) to within [\d.]+ %: (\d.+?) times")
COUNTED = re.compile(
    rf"{NAME} was fastest in (\d+) of (\d+) comparisons, (.+?) times as fast as the next\."
)


class Printed(NamedTuple):
    """A number as it is printed: it may differ from the true one by half of its last digit."""

    value: float
    digits: int

    def shows(self, true):
        """Whether this is the true number, rounded."""
        return abs(self.value - true) <= 0.5 * 10.0**-self.digits + 1e-9 * abs(true)


def printed(text):
    """A number of a text."""
    text = text.replace(",", "")
    return Printed(float(text), len(text.partition(".")[2]))


def speed_shows(text, true):
    """Whether a speed, of four significant digits, is the true one."""
    value = float(text.replace(",", ""))
    return abs(value - true) <= 0.00051 * true


def ratios(text):
    """All ratios of a text, each with the ends of its interval if they are there."""
    return [
        [printed(number) for number in re.findall(r"\d+\.\d+", one)]
        for one in re.findall(RATIO, text)
    ]


def text_of(page):
    """A page without tags, style, script and superfluous space."""
    page = re.sub(r"<(style|script|template)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def sentences(page):
    """By batch size, what the answer says: its kind, speeds by framework, leads by framework."""
    text, found = text_of(page), {}
    places = list(re.finditer(PLACE, text))
    for place, following in zip(places, [*places[1:], None], strict=True):
        said = text[place.end() : following.start() if following else None].partition("Trust:")[0]
        if said.startswith("no answer"):
            found.setdefault(int(place[1]), ("noisy", {}, {}, []))
            continue
        first = FASTEST.match(said) or re.search(SPEED, said)
        if first is None:
            continue  # a heading of the picture
        speeds, leads, rivals = {first[1]: first[2]}, {}, []
        for ratio, name, speed in LEAD.findall(said):
            speeds[name], leads[name] = speed, ratios(ratio)[0]
        equal = EQUAL.search(said)
        others = re.findall(SPEED, equal[1]) if equal else []
        numbers = ratios(equal[2]) if equal else []
        rivals += [
            (name, speed, [ratio]) for (name, speed), ratio in zip(others, numbers, strict=True)
        ]
        unknown = OPEN.findall(said)
        rivals += [(name, speed, ratios(ratio)) for name, speed, ratio in unknown]
        for name, speed, (ratio,) in rivals:
            speeds[name], leads[name] = speed, ratio
        kind = "open" if unknown else "alike" if equal else "fastest"
        names = [name.lower() for name, *_ in rivals]
        found.setdefault(int(place[1]), (kind, _lowered(speeds), _lowered(leads), names))
    return found


def _lowered(values):
    return {name.lower(): value for name, value in values.items()}


def counts(page):
    """Of an answer on many comparisons: by framework, how often it was fastest, and all."""
    found = COUNTED.findall(text_of(page))
    return {name.lower(): (int(times), int(total)) for name, times, total, _ in found}


def _rows(page, begin):
    """The texts of the cells of each row of the first table after `begin`."""
    table = page[page.index(begin) :].partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr.*?</tr>", table, flags=re.DOTALL)
    cells = (re.findall(r"<t[dh].*?</t[dh]>", row, flags=re.DOTALL) for row in rows)
    return [[text_of(cell) for cell in row] for row in cells]


def pairs(page):
    """By batch size and pair, the ratio with its interval and the verdict of the table."""
    found = {}
    for row in _rows(page, 'id="pairs"'):
        text = " ".join(row)
        match = re.match(rf"{NAME} (\d+) {NAME} {RATIO} (.+?) n = \d+", text)
        assert match, text
        fast, size, slow, ratio, verdict = match.groups()
        found[int(size), fast.lower(), slow.lower()] = ratios(ratio)[0], verdict
    return found


def matrix(page):
    """By batch size, the speed of each framework and the lead of the fastest over it."""
    start = page.index('<table class="matrix">')
    names = re.findall(r">([A-Z]\w+) \(", page[start:].partition("</thead>")[0])
    found = {}
    for place, *cells in _rows(page, '<table class="matrix">'):
        size = int(re.search(r"batch size (\d+)", place)[1])
        entries = {
            name.lower(): (re.match(NUMBER, cell)[1], ratios(cell)[:1])
            for name, cell in zip(names, cells, strict=True)
            if re.match(NUMBER, cell)
        }
        found[size] = entries
    return found
