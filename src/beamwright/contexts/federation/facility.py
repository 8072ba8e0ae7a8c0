"""Facility: a place this installation operates, a part of it, or a peer it exchanges with."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, assert_never
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.profiles import ExternalRef
from beamwright.kernel.value import Value, replace

CODE = "^[a-z0-9-]{1,32}$"

type FacilityCode = Annotated[str, Meta(extra_json_schema={"pattern": CODE})]


class FacilityKind(StrEnum):
    """`Site`: operated by this installation; `Area`: part of a Site or Area; `Peer`: another installation's."""

    SITE = "Site"
    AREA = "Area"
    PEER = "Peer"


class FacilityStatus(StrEnum):
    ACTIVE = "Active"
    DECOMMISSIONED = "Decommissioned"


class FacilityNotFoundError(NotFoundError):
    """There is no such facility."""


class InvalidFacilityCodeError(InvalidError):
    """The facility's code does not match its pattern."""


class InvalidFacilityDisplayNameError(InvalidError):
    """The facility's display name is blank or too long."""


class InvalidFacilityBaseUrlError(InvalidError):
    """The base URL is not a plain https URL, or the facility is not a Peer."""


class InvalidFacilityParentError(InvalidError):
    """An Area needs a parent; a Site or a Peer has none."""


class InvalidFacilityPeerActorError(InvalidError):
    """Only a Peer calls through an actor."""


class InvalidFacilityExternalRefError(InvalidError):
    """The external reference's scheme, value or authority is malformed."""


class InvalidFacilityReasonError(InvalidError):
    """The reason is blank or too long."""


class FacilityCodeTakenError(ConflictError):
    """A facility has, or once had, this code."""


class FacilityPeerActorTakenError(ConflictError):
    """Another Peer that is not decommissioned calls through this actor."""


class FacilityCannotUpdateError(CannotTransitionError):
    """A decommissioned facility is not changed any more."""


class FacilityCannotDecommissionError(CannotTransitionError):
    """The facility is decommissioned already."""


class FacilityCannotAddTrustAnchorError(CannotTransitionError):
    """The facility is decommissioned, is neither the own Site nor a Peer, or has four trust anchors."""


class FacilityCannotRemoveTrustAnchorError(CannotTransitionError):
    """A decommissioned facility is not changed any more."""


class FacilityFact(Event):
    facility_id: UUID


class FacilityRegistered(FacilityFact):
    code: str
    display_name: str
    kind: FacilityKind
    parent_id: UUID | None = None
    base_url: str | None = None
    peer_actor_id: UUID | None = None


class FacilityUpdated(FacilityFact):
    display_name: str
    base_url: str | None
    peer_actor_id: UUID | None


class FacilityExternalRefAssigned(FacilityFact):
    scheme: str
    value: str
    authority: str


class FacilityTrustAnchorAdded(FacilityFact):
    credential_id: UUID


class FacilityTrustAnchorRemoved(FacilityFact):
    credential_id: UUID
    reason: str


class FacilityDecommissioned(FacilityFact):
    reason: str


type FacilityEvent = (
    FacilityRegistered
    | FacilityUpdated
    | FacilityTrustAnchorAdded
    | FacilityTrustAnchorRemoved
    | FacilityExternalRefAssigned
    | FacilityDecommissioned
)

LIFECYCLE = StateMachine[FacilityStatus](
    {
        FacilityUpdated: move({FacilityStatus.ACTIVE}, FacilityStatus.ACTIVE, FacilityCannotUpdateError),
        FacilityTrustAnchorAdded: move(
            {FacilityStatus.ACTIVE}, FacilityStatus.ACTIVE, FacilityCannotAddTrustAnchorError
        ),
        FacilityTrustAnchorRemoved: move(
            {FacilityStatus.ACTIVE}, FacilityStatus.ACTIVE, FacilityCannotRemoveTrustAnchorError
        ),
        FacilityDecommissioned: move(
            {FacilityStatus.ACTIVE}, FacilityStatus.DECOMMISSIONED, FacilityCannotDecommissionError
        ),
    }
)


class Facility(Value):
    id: UUID
    code: str
    display_name: str
    kind: FacilityKind
    parent_id: UUID | None
    base_url: str | None
    peer_actor_id: UUID | None
    trust_anchor_credential_ids: frozenset[UUID] = frozenset()
    external_refs: dict[str, ExternalRef] = {}
    status: FacilityStatus = FacilityStatus.ACTIVE


def evolve(facility: Facility | None, event: FacilityEvent) -> Facility:
    match event:
        case FacilityRegistered():
            return Facility(
                id=event.facility_id,
                code=event.code,
                display_name=event.display_name,
                kind=event.kind,
                parent_id=event.parent_id,
                base_url=event.base_url,
                peer_actor_id=event.peer_actor_id,
            )
        case _ if facility is None:
            raise ValueError(event)
        case FacilityUpdated():
            return replace(
                facility,
                display_name=event.display_name,
                base_url=event.base_url,
                peer_actor_id=event.peer_actor_id,
            )
        case FacilityTrustAnchorAdded():
            anchors = facility.trust_anchor_credential_ids | {event.credential_id}
            return replace(facility, trust_anchor_credential_ids=anchors)
        case FacilityTrustAnchorRemoved():
            anchors = facility.trust_anchor_credential_ids - {event.credential_id}
            return replace(facility, trust_anchor_credential_ids=anchors)
        case FacilityExternalRefAssigned():
            ref = ExternalRef(value=event.value, authority=event.authority, assigned_at=event.occurred_at)
            return replace(facility, external_refs=facility.external_refs | {event.scheme: ref})
        case FacilityDecommissioned():
            return replace(facility, status=LIFECYCLE.after(event))
        case _:
            assert_never(event)


def claims(facility: Facility) -> list[Claim]:
    """A code is taken for ever, since others name facilities by it; an actor while its Peer is active."""
    code = Claim(kind="facility-code", key=facility.code, taken=FacilityCodeTakenError)
    if facility.peer_actor_id is None or facility.status is FacilityStatus.DECOMMISSIONED:
        return [code]
    actor = Claim(
        kind="facility-peer-actor", key=str(facility.peer_actor_id), taken=FacilityPeerActorTakenError
    )
    return [actor, code]


facilities = Aggregate[Facility, FacilityEvent](
    "Facility",
    plural="facilities",
    events=FacilityEvent,
    evolve=evolve,
    missing=FacilityNotFoundError,
    belongs=lambda facility: Belonging.nowhere,
    claims=claims,
    authority=True,
)


class FacilityExtras(Value):
    """What a facility's view shows beyond its state: its ancestors, nearest first."""

    ancestor_ids: tuple[UUID, ...]


async def facility_extras(world: World, states: Sequence[Facility]) -> list[FacilityExtras]:
    # The parent is taken from the state: this process may not have heard of a new facility yet.
    return [
        FacilityExtras(
            ancestor_ids=(facility.parent_id, *world.authority.facility_ancestors(facility.parent_id))
            if facility.parent_id
            else ()
        )
        for facility in states
    ]


facilities.reads(
    "/federation/facilities",
    filters=("code", "kind", "parent_id", "status"),
    sorts=("code", "display_name", "created_at"),
    text=("code", "display_name"),
    extras=(FacilityExtras, facility_extras),
)


@facilities.operation("POST /federation/facilities/{facility_id}/assign-external-ref")
class AssignFacilityExternalRef(Command[Facility]):
    """Record under which identifier another registry knows a facility, for example its ROR."""

    facility_id: UUID
    scheme: Annotated[str, Meta(extra_json_schema={"pattern": "^[a-z0-9-]{1,50}$"})]
    value: text.Name
    authority: text.Name

    async def gather(self, world: World) -> Facility:
        return await world.load(facilities, self.facility_id)

    def decide(self, facility: Facility, occasion: Occasion) -> list[FacilityExternalRefAssigned]:
        scheme = text.code(self.scheme, "^[a-z0-9-]{1,50}$", InvalidFacilityExternalRefError, "scheme")
        value = text.trimmed(self.value, 200, InvalidFacilityExternalRefError, "value")
        authority = text.trimmed(self.authority, 200, InvalidFacilityExternalRefError, "authority")
        old = facility.external_refs.get(scheme)
        if old and (old.value, old.authority) == (value, authority):
            return []
        return [
            FacilityExternalRefAssigned(
                facility_id=facility.id,
                occurred_at=occasion.now,
                scheme=scheme,
                value=value,
                authority=authority,
            )
        ]
