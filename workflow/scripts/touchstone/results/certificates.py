"""The certificates of equal computation, as tables and the report use them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from touchstone import optimizers
from touchstone.plan.model import Cell
from touchstone.plan.setting import PROGRAM
from touchstone.results.files import REMAKE, InputError, not_of_this_version, read_object

Certificates = dict[str, dict[str, Any]]
"""By network, what its `results/parity/NETWORK.json` holds (docs/parity.md)."""
SINGLE = "in single precision only, which proves less (docs/parity.md)"
"""What is to be said of a proof that is not in double precision."""
COVERED = ("fp32", "fp64")
"""The precisions that certificates are made in; those of fewer bits are no question of parity."""


Tolerances = dict[str, dict[str, Annotated[float, Field(gt=0)]]]
"""By name of the parity steps and by kind."""


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Framework(_Model):
    """What a certificate says of a framework."""

    equal: bool
    beyond: list[str] = []
    deviations: dict[str, dict[str, float]] = {}
    tolerances: Tolerances = {}
    single_precision_only: bool = False
    lacking: dict[str, str] = {}
    unsupported: str = ""
    failed: str = ""


class _Certificate(_Model):
    """What `compare-parity` writes."""

    network: str
    reference: str
    tolerances: Tolerances
    frameworks: dict[str, _Framework]


class Deviation(NamedTuple):
    """The largest deviation of one kind in some parity steps, and what is tolerated of it."""

    case: str
    kind: str
    value: float
    tolerance: float


class Proof(NamedTuple):
    """What a certificate says of one network in one framework, in its environment and style
    (`plan.names.Stack`)."""

    network: str
    framework: str
    verdict: str
    """`reference`, `equal`, `differs` or `not shown`."""
    why: str
    reference: str
    deviations: list[Deviation]

    @property
    def shown(self) -> bool:
        """Whether the framework is proved to compute the network as the reference does."""
        return self.verdict in ("reference", "equal")

    @property
    def closest(self) -> Deviation | None:
        """The deviation that takes up most of its tolerance."""
        return max(self.deviations, key=lambda d: d.value / d.tolerance, default=None)


def read_certificates(paths: Iterable[Path]) -> Certificates:
    """The certificates in these files; InputError for one that cannot be used."""
    certificates: Certificates = {}
    for path in paths:
        certificate = read_object(path, REMAKE)
        try:
            _Certificate.model_validate(certificate)
        except ValidationError as error:
            raise not_of_this_version(path, "a certificate", error) from None
        if certificate["network"] in certificates:
            cause = f"a second certificate of {certificate['network']}"
            raise InputError(path, cause, "Give one per network")
        certificates[certificate["network"]] = certificate
    return certificates


def proof_of(certificates: Certificates, cell: Cell, stack: str) -> Proof:
    """The proof, or why there is none, of a cell that runs in a stack."""
    if cell.kind == PROGRAM:
        return Proof(cell.network, stack, "not shown", "it is a program of its author", "", [])
    return proof(certificates, cell.network, stack, cell.precision, cell.optimizer)


def proof(
    certificates: Certificates,
    network: str,
    framework: str,
    precision: str = COVERED[0],
    optimizer: str = "",
) -> Proof:
    """What the certificate says of a network in a framework, and of the update equation of a
    cell's optimizer; `why` explains a missing one.

    In every environment and style a framework has a proof of its own: `framework` is then the text
    of a `plan.names.Stack`.
    """
    if precision not in COVERED:
        why = f"certificates are made in {' and '.join(COVERED)}"
        return Proof(network, framework, "not shown", why, "", [])
    certificate = certificates.get(network)
    if certificate is None:
        return Proof(network, framework, "not shown", "no certificate was asked for", "", [])
    reference = certificate["reference"]
    if framework == reference:
        why = "the other frameworks are compared with it"
        return Proof(network, framework, "reference", why, reference, [])
    entry = certificate["frameworks"].get(framework)
    if entry is None:
        why = "the certificate does not have it"
        return Proof(network, framework, "not shown", why, reference, [])
    deviations = [
        Deviation(case, kind, values[kind], tolerance)
        for case, kinds in entry.get("tolerances", certificate["tolerances"]).items()
        for kind, tolerance in kinds.items()
        if kind in (values := entry.get("deviations", {}).get(case, {}))
    ]
    lacking = entry.get("lacking", {})
    if optimizer in optimizers.names():
        optimizer = optimizers.equation(optimizer)
    if entry["equal"] and optimizer in lacking:
        verdict, why = "not shown", f"no parity steps of {optimizer}: {lacking[optimizer]}"
    elif entry["equal"]:
        notes = [SINGLE] if entry.get("single_precision_only") else []
        notes += [f"without {name}: {reason}" for name, reason in lacking.items()]
        verdict, why = "equal", "; ".join(notes)
    elif entry.get("unsupported"):
        verdict, why = "not shown", f"unsupported: {entry['unsupported']}"
    elif entry.get("failed"):
        verdict, why = "not shown", entry["failed"]
    else:
        verdict, why = "differs", f"beyond the tolerance: {', '.join(entry.get('beyond', []))}"
    return Proof(network, framework, verdict, why, reference, deviations)
