"""Permit: a directional grant for the flow of artifacts with one peer."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, assert_never
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.errors import CannotTransitionError, ConflictError, InvalidError, NotFoundError
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Time, Value, replace

PURPOSE = "^[a-z][a-z0-9-]{0,63}$"

type PermitPurpose = Annotated[str, Meta(extra_json_schema={"pattern": PURPOSE})]


class PermitDirection(StrEnum):
    OUTBOUND = "Outbound"
    INBOUND = "Inbound"


class FederationPermitStatus(StrEnum):
    DEFINED = "Defined"
    ACTIVE = "Active"
    SUSPENDED = "Suspended"
    REVOKED = "Revoked"


class ArtifactKind(StrEnum):
    CALIBRATION_REVISION = "CalibrationRevision"
    DATASET = "Dataset"
    EDITION = "Edition"
    RECIPE = "Recipe"
    CAUTION = "Caution"


class ArtifactTier(StrEnum):
    TESTING = "Testing"
    STABLE = "Stable"
    OBSOLETE = "Obsolete"


class ReadScope(StrEnum):
    """`MetadataOnly`: the content is left out and its hash sent; `Full`: it is sent."""

    METADATA_ONLY = "MetadataOnly"
    FULL = "Full"


class OnwardAction(StrEnum):
    """What the receiver may do with an artifact: stated to it, and recorded by it."""

    CACHE_LOCALLY = "CacheLocally"
    REPUBLISH = "Republish"
    EXPORT = "Export"


class PermitNotFoundError(NotFoundError):
    """There is no such permit."""


class InvalidPermitReasonError(InvalidError):
    """The reason is blank or too long."""


class PermitKeyTakenError(ConflictError):
    """A permit that is not revoked has this peer, audience and purpose."""


class PermitCannotAmendError(CannotTransitionError):
    """A revoked permit is not changed any more."""


class PermitCannotActivateError(CannotTransitionError):
    """Only a permit that is Defined can be activated."""


class PermitCannotSuspendError(CannotTransitionError):
    """Only a permit that is Active can be suspended."""


class PermitCannotResumeError(CannotTransitionError):
    """Only a permit that is Suspended can be resumed."""


class PermitCannotRevokeError(CannotTransitionError):
    """The permit is revoked already."""


class PermitTerms(Value):
    """Outbound: what the peer is sent, and may do with it. Inbound: whether it is accepted without a person."""

    read_scope: ReadScope | None = None
    onward_actions: frozenset[OnwardAction] | None = None
    automatic: bool | None = None


class PermitFact(Event):
    permit_id: UUID


class PermitDefined(PermitFact):
    """`site_code` is the own Site, which the permit belongs to."""

    site_code: str
    peer_facility_id: UUID
    audience: str
    purpose: str
    direction: PermitDirection
    allowed_credential_ids: frozenset[UUID]
    allowed_artifact_kinds: frozenset[ArtifactKind]
    accepted_tiers: frozenset[ArtifactTier]
    terms: PermitTerms
    expires_at: datetime | None = None


class PermitAmended(PermitFact):
    allowed_credential_ids: frozenset[UUID]
    allowed_artifact_kinds: frozenset[ArtifactKind]
    accepted_tiers: frozenset[ArtifactTier]
    terms: PermitTerms
    expires_at: datetime | None
    reason: str


class PermitActivated(PermitFact):
    pass


class PermitSuspended(PermitFact):
    reason: str


class PermitResumed(PermitFact):
    pass


class PermitRevoked(PermitFact):
    reason: str


type PermitEvent = (
    PermitDefined | PermitAmended | PermitActivated | PermitSuspended | PermitResumed | PermitRevoked
)

DEFINED, ACTIVE = FederationPermitStatus.DEFINED, FederationPermitStatus.ACTIVE
SUSPENDED, REVOKED = FederationPermitStatus.SUSPENDED, FederationPermitStatus.REVOKED

LIFECYCLE = StateMachine[FederationPermitStatus](
    {
        PermitActivated: move({DEFINED}, ACTIVE, PermitCannotActivateError),
        PermitSuspended: move({ACTIVE}, SUSPENDED, PermitCannotSuspendError),
        PermitResumed: move({SUSPENDED}, ACTIVE, PermitCannotResumeError),
        PermitRevoked: move({DEFINED, ACTIVE, SUSPENDED}, REVOKED, PermitCannotRevokeError),
    }
)
AMENDABLE = frozenset({DEFINED, ACTIVE, SUSPENDED})


class Permit(Value):
    id: UUID
    site_code: str
    peer_facility_id: UUID
    audience: str
    purpose: str
    direction: PermitDirection
    allowed_credential_ids: frozenset[UUID]
    allowed_artifact_kinds: frozenset[ArtifactKind]
    accepted_tiers: frozenset[ArtifactTier]
    terms: PermitTerms
    expires_at: Time | None = None
    status: FederationPermitStatus = FederationPermitStatus.DEFINED


def evolve(permit: Permit | None, event: PermitEvent) -> Permit:
    match event:
        case PermitDefined():
            return Permit(
                id=event.permit_id,
                site_code=event.site_code,
                peer_facility_id=event.peer_facility_id,
                audience=event.audience,
                purpose=event.purpose,
                direction=event.direction,
                allowed_credential_ids=event.allowed_credential_ids,
                allowed_artifact_kinds=event.allowed_artifact_kinds,
                accepted_tiers=event.accepted_tiers,
                terms=event.terms,
                expires_at=event.expires_at,
            )
        case _ if permit is None:
            raise ValueError(event)
        case PermitAmended():
            return replace(
                permit,
                allowed_credential_ids=event.allowed_credential_ids,
                allowed_artifact_kinds=event.allowed_artifact_kinds,
                accepted_tiers=event.accepted_tiers,
                terms=event.terms,
                expires_at=event.expires_at,
            )
        case PermitActivated() | PermitSuspended() | PermitResumed() | PermitRevoked():
            return replace(permit, status=LIFECYCLE.after(event))
        case _:
            assert_never(event)


def permit_key(peer_facility_id: UUID, audience: str, purpose: str) -> str:
    """What only one permit that is not revoked may be for: the audience tells the two directions apart."""
    return f"{peer_facility_id}/{audience}/{purpose}"


def claims(permit: Permit) -> list[Claim]:
    if permit.status is REVOKED:
        return []
    key = permit_key(permit.peer_facility_id, permit.audience, permit.purpose)
    return [Claim(kind="permit-key", key=key, taken=PermitKeyTakenError)]


permits = Aggregate[Permit, PermitEvent](
    "Permit",
    events=PermitEvent,
    evolve=evolve,
    missing=PermitNotFoundError,
    belongs=lambda permit: Belonging(facility_code=permit.site_code),
    claims=claims,
)


def expired(permit: Permit, now: datetime) -> bool:
    return permit.expires_at is not None and permit.expires_at <= now


class PermitExtras(Value):
    """What a permit's view shows beyond its state: whether its time is over."""

    expired: bool


async def permit_extras(world: World, states: Sequence[Permit]) -> list[PermitExtras]:
    return [PermitExtras(expired=expired(permit, world.now)) for permit in states]


permits.reads(
    "/federation/permits",
    filters=(
        "peer_facility_id",
        "audience",
        "purpose",
        "direction",
        "status",
        Filter(
            name="credential_id",
            type=UUID,
            of=lambda permit: sorted(permit.allowed_credential_ids),
            test=Test.CONTAINS,
        ),
        Filter(
            name="artifact_kind",
            type=ArtifactKind,
            of=lambda permit: sorted(permit.allowed_artifact_kinds),
            test=Test.CONTAINS,
        ),
        Filter(name="expires_until", type=Time, of=lambda permit: permit.expires_at, test=Test.BEFORE),
    ),
    sorts=("created_at", "expires_at"),
    text=("audience", "purpose"),
    extras=(PermitExtras, permit_extras),
)


@permits.operation("POST /federation/permits/{permit_id}/suspend")
class SuspendPermit(Command[Permit]):
    """Stop the flow of artifacts under a permit, from the next one on."""

    permit_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Permit:
        return await world.load(permits, self.permit_id)

    def decide(self, permit: Permit, occasion: Occasion) -> PermitSuspended:
        reason = text.reason(self.reason, InvalidPermitReasonError)
        LIFECYCLE.check(PermitSuspended, permit.status, permit.id)
        return PermitSuspended(permit_id=permit.id, occurred_at=occasion.now, reason=reason)


@permits.operation("POST /federation/permits/{permit_id}/revoke")
class RevokePermit(Command[Permit]):
    """End a permit for good; its peer, audience and purpose are free for another one."""

    permit_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Permit:
        return await world.load(permits, self.permit_id)

    def decide(self, permit: Permit, occasion: Occasion) -> PermitRevoked:
        reason = text.reason(self.reason, InvalidPermitReasonError)
        LIFECYCLE.check(PermitRevoked, permit.status, permit.id)
        return PermitRevoked(permit_id=permit.id, occurred_at=occasion.now, reason=reason)
