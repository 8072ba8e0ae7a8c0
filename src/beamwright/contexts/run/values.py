"""What runs and the procedures within them record alike: what they relied on, and how real their effects were."""

from enum import StrEnum
from uuid import UUID

from beamwright.kernel.value import Value


class ActuationKind(StrEnum):
    PHYSICAL = "Physical"
    SIMULATED = "Simulated"
    HYBRID = "Hybrid"


def merged_actuation(*kinds: ActuationKind | None) -> ActuationKind | None:
    """Simulated with physical is hybrid, which absorbs both; nothing known is neutral."""
    known = {kind for kind in kinds if kind is not None}
    return known.pop() if len(known) == 1 else ActuationKind.HYBRID if known else None


class RelianceOn(Value):
    """A stream that the gate relied on, at the version that it saw."""

    id: UUID
    version: int


class GateEvidence(Value):
    """What a start or resume relied on."""

    supplies: tuple[RelianceOn, ...] = ()
    enclosures: tuple[RelianceOn, ...] = ()
    clearances: tuple[RelianceOn, ...] = ()
