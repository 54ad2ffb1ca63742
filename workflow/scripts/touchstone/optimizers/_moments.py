"""What optimizers share that keep running means of gradients."""

from touchstone.optimizers import OwnSetting

EPSILON = OwnSetting(
    "epsilon", 1.0e-8, "added to the square root, of Adam after its correction", {"gt": 0}
)
TINY = 1e-30
"""A gradient whose square is nothing beside any epsilon."""
