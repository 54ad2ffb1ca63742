"""How runs of a study are repeated, with the configuration that its report keeps."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from touchstone import started

CONFIG = "config.yaml"
"""The resolved configuration, next to the page of a report."""
DISTURBED, ALL = "disturbed", "all"
"""Which runs of a study are repeated: those that something else disturbed, or all of them."""


class Kept(NamedTuple):
    """The configuration that a study's report keeps, which another study does not replace.

    `scale` is the shorter scale that sets the study's repeats, empty where its top level does.
    """

    study: str
    scale: str = ""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Kept":
        """That of a resolved configuration."""
        scale = str(config.get("scale"))
        changes = (config.get("scales") or {}).get(scale) or {}
        own = changes.get("repeats") is not None
        return cls(str(config.get("study")), scale if own else "")

    def again(self, runs: str) -> str:
        """The command that repeats these runs of the study, `DISTURBED` or `ALL`, and no others."""
        return started.repeat(runs, f"results/report/{self.study}/{CONFIG}")

    def edit(self, repeats: int) -> str:
        """What to write into the study's file for so many repeats."""
        where = f", under `scales` and there under `{self.scale}`," if self.scale else ""
        return f"`repeats: {repeats}`{where}"
