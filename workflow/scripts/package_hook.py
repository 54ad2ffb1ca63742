"""The dependencies of the package: the pins of envs/base.yaml that a person wrote."""

import sys
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

sys.path.insert(0, str(Path(__file__).parent))
from touchstone.packages import MARKER


class Hook(MetadataHookInterface):  # type: ignore[misc]
    def update(self, metadata: dict[str, object]) -> None:
        text = (Path(self.root) / "envs/base.yaml").read_text(encoding="utf-8")
        lines = text.partition(MARKER)[0].splitlines()
        pins = [line.removeprefix("      - ") for line in lines if line.startswith("      - ")]
        metadata["dependencies"] = [pin.partition(" --hash")[0] for pin in pins]
