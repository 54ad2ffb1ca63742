"""How often a trend is called reproduced that is none, and one that is: by simulation.

The verdicts are those of the product (`touchstone.published.claims`); only the speeds are drawn
here. `simulate.py` prints the table.
"""

from math import log1p, sqrt

import numpy as np

from touchstone.published.claim_model import Claim
from touchstone.published.claims import CONTRADICTED, REPRODUCED, Judge
from touchstone.published.points import Point

TOLERANCE = 0.1
RISES = Claim.model_validate(
    {
        "id": "rises",
        "statement": "The speed rises with the batch size.",
        "source": "a simulation",
        "tests": [
            {
                "kind": "trend",
                "metric": "throughput",
                "along": "batch_size",
                "expect": "rises",
                "tolerance": TOLERANCE,
            }
        ],
    }
)
SPEEDS = {
    "falls by half in one step": (1.0, 2.0, 1.0, 3.0),
    "falls by a quarter in one step": (1.0, 2.0, 1.5, 3.0),
    "falls by the tolerance in one step": (1.0, 2.0, 2.0 / (1 + TOLERANCE), 3.0),
    "stays level in one step": (1.0, 2.0, 2.0, 3.0),
    "rises by a half in each step": (1.0, 1.5, 2.25, 3.375),
}
"""True speeds by batch size."""


def shares(
    speeds: tuple[float, ...], repeats: int, cv: float, studies: int, seed: int
) -> tuple[float, float]:
    """The shares of studies whose claim is reproduced, and contradicted.

    Args:
        cv: coefficient of variation of a run; the noise is log-normal.
    """
    rng = np.random.default_rng([seed, repeats])
    noise = rng.standard_normal((studies, len(speeds), repeats))
    drawn = np.exp(sqrt(log1p(cv**2)) * noise) * np.array(speeds)[None, :, None]
    verdicts = [
        Judge(
            [
                Point("throughput", "images/s", {"batch_size": 4.0 * 2**at}, dict(enumerate(runs)))
                for at, runs in enumerate(study)
            ],
            exact=False,
        )
        .judge(RISES)
        .verdict
        for study in drawn.tolist()
    ]
    return verdicts.count(REPRODUCED) / studies, verdicts.count(CONTRADICTED) / studies


def print_table(studies: int, seed: int) -> None:
    """The table of docs/measured.md."""
    places = [(repeats, cv) for repeats in (3, 5, 10) for cv in (0.02, 0.05, 0.10)]
    print(f"\nReproduced / contradicted, of a claim that a speed rises, {studies} studies each:\n")
    print("| the speed |", " | ".join(f"n = {n}, CV {cv:.0%}" for n, cv in places), "|")
    print("| --- |", " | ".join("---" for _ in places), "|")
    for name, speeds in SPEEDS.items():
        found = [shares(speeds, *place, studies, seed) for place in places]
        cells = " | ".join(f"{yes:.1%} / {no:.1%}" for yes, no in found)
        print(f"| {name} | {cells} |", flush=True)
