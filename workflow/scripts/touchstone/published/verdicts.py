"""The verdicts on a study's claims as the page and a CSV file have them."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO

from touchstone.published.claim_model import Claim, levels_named
from touchstone.published.claims import (
    CONTRADICTED,
    NOT_COMPARABLE,
    NOT_MEASURED,
    REPRODUCED,
    STAND_IN,
    UNDECIDED,
    Judge,
    Judgement,
)
from touchstone.published.exports import csv_of
from touchstone.published.points import Point
from touchstone.report.text import listing
from touchstone.statistics.intervals import LEVEL

OWN_WORDS = {
    REPRODUCED: "holds",
    CONTRADICTED: "fails",
    UNDECIDED: "cannot tell",
    NOT_MEASURED: "no figures",
}
"""What a verdict by the source's own figures is called."""
COUNTED = {
    "holds": ("holds", "hold"),
    "fails": ("fails", "fail"),
    "cannot tell": ("is open", "are open"),
    "no figures": ("has no figures", "have no figures"),
}
"""The same words of one claim, and of several."""
VERBS = {
    REPRODUCED: "reproduce",
    CONTRADICTED: "contradict",
    UNDECIDED: "cannot decide",
    NOT_COMPARABLE: "cannot be compared with",
    NOT_MEASURED: "did not measure",
}
"""What the runs here do with claims of each verdict."""
ALL = "all"


@dataclass(frozen=True)
class Verdict:
    """A claim with the verdict on what was measured here, and that on the source's own table."""

    claim: Claim
    here: Judgement
    own: Judgement

    @property
    def own_word(self) -> str:
        """The verdict by the source's own table."""
        return OWN_WORDS[self.own.verdict]

    @property
    def frameworks(self) -> str:
        """The frameworks that the claim names."""
        return ", ".join(levels_named(self.claim, "framework")) or ALL

    @property
    def networks(self) -> str:
        """The networks that the claim names."""
        return ", ".join(levels_named(self.claim, "network")) or ALL


def verdicts_on(
    claims: Sequence[Claim],
    measured: Sequence[Point],
    published: Sequence[Point],
    changed: Mapping[str, Mapping[str, str]],
) -> list[Verdict]:
    """Judge every claim by the source's own figures, and by those measured here.

    Args:
        changed: by cell, the settings that this scale of the study changes, and how.
    """
    own, here = Judge(published, exact=True), Judge(measured, exact=False, changed=changed)
    return [Verdict(claim, here.judge(claim), own.judge(claim)) for claim in claims]


def summary(verdicts: Sequence[Verdict]) -> list[str]:
    """How many claims have which verdict, in sentences: here, and by the source's own table."""
    if not verdicts:
        return []
    here = Counter(v.here.verdict for v in verdicts)
    own = Counter(v.own_word for v in verdicts)
    stand_ins = sum(v.here.stand_in and v.here.verdict != NOT_COMPARABLE for v in verdicts)
    text = _counts_text(here)
    chance = expected_wrong(verdicts)
    if chance:
        text += f" {chance}"
    if stand_ins:
        verb = "is" if stand_ins == 1 else "are"
        text += f" {stand_ins} {verb} judged by a {STAND_IN}, a CPU in place of the source's GPU."
    counts = listing(
        f"{own[word]} {words[own[word] > 1]}" for word, words in COUNTED.items() if own[word]
    )
    return [text, f"By the source's own table, {counts}."]


def _counts_text(counts: Counter[str]) -> str:
    """How many claims have which verdict here, in a sentence."""
    if counts[NOT_MEASURED] == counts.total():
        return f"The runs here measured none of the source's {counts.total()} claims."
    done = listing(f"{verb} {counts[word]}" for word, verb in VERBS.items() if counts[word])
    return f"Of the source's {counts.total()} claims, the runs here {done}."


def summary_of_csv(text: str) -> str:
    """The same sentence from what `as_csv` wrote; empty where it has no claim."""
    rows = csv.DictReader(StringIO(text))
    here = {row["claim"]: row["verdict"] for row in rows if row["figures"] == "measured"}
    return _counts_text(Counter(here.values())) if here else ""


def expected_wrong(verdicts: Sequence[Verdict]) -> str:
    """How many of the verdicts by intervals are expected to be wrong, in a sentence."""
    at_risk = [v.here.verdict for v in verdicts if v.here.by_intervals]
    decided = sum(verdict in (REPRODUCED, CONTRADICTED) for verdict in at_risk)
    judged = decided + at_risk.count(UNDECIDED)
    if not decided:
        return ""
    wrong = f"{min(decided, (1 - LEVEL) * judged):.2g}"
    level = f"{1 - LEVEL:.0%}".replace("%", " %")
    return (
        f"Intervals judge {judged} of these claims and decide {decided}, of which up to {wrong}"
        f" {'is' if wrong == '1' else 'are'} expected to be wrong by chance ({level} each)."
    )


def as_csv(verdicts: Sequence[Verdict]) -> str:
    """Every group of every claim, and the verdicts."""
    head = ("claim", "figures", "verdict", "why", "group", "outcome", "n", "value", "low", "high")
    rows: list[list[object]] = []
    for verdict in verdicts:
        for kind, judgement in (("measured", verdict.here), ("published", verdict.own)):
            word = judgement.verdict if kind == "measured" else verdict.own_word
            start = [verdict.claim.id, kind, word, judgement.why]
            groups = [
                [group.label, group.outcome, group.n, group.value, group.low, group.high]
                for group in judgement.groups
            ]
            end = [
                verdict.claim.statement,
                verdict.claim.source,
                verdict.claim.ours,
                verdict.frameworks,
                verdict.networks,
                ", ".join(judgement.marks) or None,
            ]
            rows += [[*start, *group, *end] for group in groups or [[None] * 6]]
    return csv_of((*head, "statement", "source", "ours", "frameworks", "networks", "mark"), rows)
