"""Registering and updating facilities: a place in the tree, and the account through which a peer calls."""

import re
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlsplit
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from beamwright.contexts.access.actor import Actor, actors
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import Value, patched, replace

from .facility import (
    CODE,
    LIFECYCLE,
    Facility,
    FacilityCode,
    FacilityKind,
    FacilityRegistered,
    FacilityStatus,
    FacilityUpdated,
    InvalidFacilityBaseUrlError,
    InvalidFacilityCodeError,
    InvalidFacilityDisplayNameError,
    InvalidFacilityParentError,
    InvalidFacilityPeerActorError,
    facilities,
)

MOST_LEVELS = 8

type BaseUrl = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": 500, "pattern": "^https://", "format": "uri"})
]


class FacilityParentNotActiveError(ConflictError):
    """The parent is decommissioned, or is a Peer, which has no areas here."""


class FacilityTreeTooDeepError(ConflictError):
    """Facilities are nested eight levels deep at most."""


class FacilityPeerActorKindError(ConflictError):
    """A Peer calls through a service account, not through a person or an agent."""


class FacilitySurroundings(Value):
    """The parent of a new facility and that one's ancestors, nearest first, and the actor a Peer calls through."""

    lineage: tuple[Facility, ...] = ()
    peer_actor: Actor | None = None


@facilities.operation("POST /federation/facilities", creates=True)
class RegisterFacility(Command[FacilitySurroundings]):
    """Register a Site, an Area of one, or a Peer to exchange artifacts with."""

    code: FacilityCode
    display_name: text.Name
    kind: FacilityKind
    parent_id: UUID | None = None
    base_url: BaseUrl | None = None
    peer_actor_id: UUID | None = None

    def checked(self) -> "RegisterFacility":
        """This request with its text trimmed, or the first refusal."""
        code = text.code(self.code, CODE, InvalidFacilityCodeError)
        display_name = checked_display_name(self.display_name)
        base_url = checked_base_url(self.base_url, self.kind)
        check_parent_given(self.kind, self.parent_id)
        check_peer_actor_allowed(self.kind, self.peer_actor_id)
        return replace(self, code=code, display_name=display_name, base_url=base_url)

    async def gather(self, world: World) -> FacilitySurroundings:
        self.checked()
        return FacilitySurroundings(
            lineage=tuple(await lineage(world, self.parent_id)),
            peer_actor=await world.load(actors, self.peer_actor_id) if self.peer_actor_id else None,
        )

    def decide(self, seen: FacilitySurroundings, occasion: Occasion) -> FacilityRegistered:
        request = self.checked()
        check_lineage(seen.lineage)
        check_peer_actor_kind(seen.peer_actor)
        return FacilityRegistered(
            facility_id=occasion.new_id,
            occurred_at=occasion.now,
            code=request.code,
            display_name=request.display_name,
            kind=request.kind,
            parent_id=request.parent_id,
            base_url=request.base_url,
            peer_actor_id=request.peer_actor_id,
        )


class FacilityWithPeerActor(Value):
    """A facility, and the actor that its Peer is to call through."""

    facility: Facility
    peer_actor: Actor | None = None


@facilities.operation("POST /federation/facilities/{facility_id}/update")
class UpdateFacility(Command[FacilityWithPeerActor]):
    """Change a facility's display name, or where a Peer answers and through which account it calls."""

    facility_id: UUID
    display_name: text.Name | UnsetType = UNSET
    base_url: BaseUrl | UnsetType | None = UNSET
    peer_actor_id: UUID | UnsetType | None = UNSET

    def patched(self, facility: Facility) -> Facility:
        """The facility after this request, or the first refusal of a value."""
        display_name = checked_display_name(patched(self.display_name, facility.display_name))
        base_url = checked_base_url(patched(self.base_url, facility.base_url), facility.kind)
        peer_actor_id = patched(self.peer_actor_id, facility.peer_actor_id)
        check_peer_actor_allowed(facility.kind, peer_actor_id)
        return replace(facility, display_name=display_name, base_url=base_url, peer_actor_id=peer_actor_id)

    async def gather(self, world: World) -> FacilityWithPeerActor:
        facility = await world.load(facilities, self.facility_id)
        self.patched(facility)
        actor = await world.load(actors, self.peer_actor_id) if self.peer_actor_id else None
        return FacilityWithPeerActor(facility=facility, peer_actor=actor)

    def decide(self, seen: FacilityWithPeerActor, occasion: Occasion) -> list[FacilityUpdated]:
        old, new = seen.facility, self.patched(seen.facility)
        check_peer_actor_kind(seen.peer_actor)
        LIFECYCLE.check(FacilityUpdated, old.status, old.id)
        if new == old:
            return []
        return [
            FacilityUpdated(
                facility_id=old.id,
                occurred_at=occasion.now,
                display_name=new.display_name,
                base_url=new.base_url,
                peer_actor_id=new.peer_actor_id,
            )
        ]


async def lineage(world: World, parent_id: UUID | None) -> list[Facility]:
    """A facility's parent and every further ancestor, nearest first."""
    found: list[Facility] = []
    while parent_id is not None:
        found.append(await world.load(facilities, parent_id))
        parent_id = found[-1].parent_id
    return found


def checked_display_name(value: str) -> str:
    return text.name(value, InvalidFacilityDisplayNameError, "display name")


def checked_base_url(value: str | None, kind: FacilityKind) -> str | None:
    """An https URL that a path can be appended to."""
    if value is None:
        return None
    if kind is not FacilityKind.PEER:
        raise InvalidFacilityBaseUrlError(f"Only a Peer has a base URL, not a {kind}.", kind=kind)
    url = text.trimmed(value, 500, InvalidFacilityBaseUrlError, "base URL")
    if not is_plain_https(url):
        raise InvalidFacilityBaseUrlError(
            "The base URL must be https with a host, without credentials, query or fragment."
        )
    return url


def is_plain_https(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return (
        parts.scheme == "https"
        and bool(parts.hostname)
        and port != 0
        and parts.username is None
        and not re.search(r"[\s?#\\]", url)
    )


def check_parent_given(kind: FacilityKind, parent_id: UUID | None) -> None:
    """Gate: an Area is part of something; a Site or a Peer stands alone."""
    if (kind is FacilityKind.AREA) != (parent_id is not None):
        raise InvalidFacilityParentError(
            "Name the parent of an Area, and none for a Site or a Peer.", kind=kind
        )


def check_peer_actor_allowed(kind: FacilityKind, peer_actor_id: UUID | None) -> None:
    """Gate: only a Peer calls us through an account."""
    if peer_actor_id is not None and kind is not FacilityKind.PEER:
        raise InvalidFacilityPeerActorError(f"Only a Peer has a peer actor, not a {kind}.", kind=kind)


def check_lineage(lineage: Sequence[Facility]) -> None:
    """Gate: the parent is a Site or Area in use, and the tree stays shallow."""
    if not lineage:
        return
    parent = lineage[0]
    if parent.status is not FacilityStatus.ACTIVE or parent.kind is FacilityKind.PEER:
        raise FacilityParentNotActiveError(
            f"The parent {parent.code} is a {parent.kind} and {parent.status}; choose an Active Site or Area.",
            parent_id=str(parent.id),
            kind=parent.kind,
            status=parent.status,
        )
    if len(lineage) >= MOST_LEVELS:
        raise FacilityTreeTooDeepError(
            f"{parent.code} is on level {len(lineage)}; facilities have at most {MOST_LEVELS} levels.",
            parent_id=str(parent.id),
            most=MOST_LEVELS,
        )


def check_peer_actor_kind(actor: Actor | None) -> None:
    """Gate: a peer installation is a machine."""
    if actor is not None and actor.kind is not ActorKind.SERVICE_ACCOUNT:
        raise FacilityPeerActorKindError(
            f"Actor {actor.id} is of kind {actor.kind}; register a service_account for the Peer.",
            actor_id=str(actor.id),
            kind=actor.kind,
        )
