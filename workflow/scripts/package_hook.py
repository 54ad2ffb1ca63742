"""The dependencies of the package: the pins of envs/base.yaml that a person wrote."""

from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

MARKER = "      # resolved from the pins above by `make pin`"


class Hook(MetadataHookInterface):  # type: ignore[misc]
    def update(self, metadata: dict[str, object]) -> None:
        text = (Path(self.root) / "envs/base.yaml").read_text(encoding="utf-8")
        lines = text.partition(MARKER)[0].splitlines()
        pins = [line.removeprefix("      - ") for line in lines if line.startswith("      - ")]
        metadata["dependencies"] = [pin.partition(" --hash")[0] for pin in pins]
