"""Whether a run had a version of its framework that the adapter was not tested with."""

from __future__ import annotations

import re
from collections.abc import Iterable

from touchstone.plan import frameworks
from touchstone.plan.names import framework_name, tested_versions

BUILDS = ("", "-cpu", "-gpu")
"""What packages of the same framework have after its name."""


def remark(framework: str, version: str | None, packages: Iterable[str]) -> str | None:
    """The sentence that says so; None where the version is tested, or not known.

    Args:
        version: as the framework itself says it; None where the run did not get so far.
        packages: of the run's environment, `name==version`; they count without a version.
    """
    tested = tested_versions(framework)
    if not tested:
        return None
    version = version or installed_version(framework, packages)
    if version is None:
        return None
    if _release(tested[0]) <= _release(version) <= _release(tested[-1]):
        return None
    return (
        f"this is {framework_name(framework)} {version}, and the adapter was tested with "
        f"{' to '.join(dict.fromkeys((tested[0], tested[-1])))} (docs/environments.md)"
    )


def installed_version(framework: str, packages: Iterable[str]) -> str | None:
    """The version of the framework's own package, which brings the first of its modules; None
    where it is not among the `packages`."""
    own = next(iter(frameworks.capabilities(framework).modules.values()), "")
    pairs = (line.split("==", 1) for line in packages if "==" in line)
    listed = {name.lower().replace("_", "-"): version for name, version in pairs}
    return next((listed[own + build] for build in BUILDS if own + build in listed), None)


def _release(version: str) -> tuple[int, ...]:
    """`2.9.0a1+cpu` -> (2, 9, 0)"""
    return tuple(int(part) for part in re.findall(r"\d+", re.sub(r"[^\d.].*", "", version)))
