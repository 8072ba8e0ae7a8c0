"""Actor: the identity record of one principal, without any personal data."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, assert_never
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.authority import Authority, check_administrators
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Beside, Event
from beamwright.kernel.operation import Command, Occasion, Query, World
from beamwright.kernel.profiles import (
    ErasedIdentity,
    ErasedProfile,
    ExternalRef,
    Identity,
    Profile,
)
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import Value, patched, replace

MOST_IDENTITIES = 8
MOST_EXTERNAL_SCHEMES = 8

type PersonName = Annotated[text.Personal, Meta(extra_json_schema={"minLength": 1, "maxLength": 200})]
type Email = Annotated[text.Personal, Meta(extra_json_schema={"minLength": 3, "maxLength": 254})]
type Phone = Annotated[text.Personal, Meta(extra_json_schema={"minLength": 1, "maxLength": 50})]
type Affiliation = Annotated[text.Personal, Meta(extra_json_schema={"minLength": 1, "maxLength": 200})]
type Issuer = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 500})]
type Subject = Annotated[text.Personal, Meta(extra_json_schema={"minLength": 1, "maxLength": 255})]


class ActorDeactivationReason(StrEnum):
    DEPARTED = "Departed"
    ACCESS_ENDED = "AccessEnded"
    COMPROMISED = "Compromised"
    DUPLICATE = "Duplicate"
    ADMINISTRATIVE = "Administrative"


class IdentityUnlinkReason(StrEnum):
    REPLACED = "Replaced"
    DEPARTED = "Departed"
    COMPROMISED = "Compromised"
    MISTAKEN = "Mistaken"
    FORGOTTEN = "Forgotten"


class ActorNotFoundError(NotFoundError):
    """There is no such actor."""


class ActorProfileNotFoundError(NotFoundError):
    """The actor is forgotten, so there is no profile."""


class InvalidActorNameError(InvalidError):
    """The actor's name is blank or too long."""


class InvalidActorContactError(InvalidError):
    """An email address, phone number or affiliation is blank, too long or malformed."""


class InvalidActorKindError(InvalidError):
    """Actors of kind agent are made by defining an agent."""


class InvalidActorIdentityError(InvalidError):
    """A login's issuer or subject is malformed, a login is given twice, or there are too many."""


class InvalidActorReasonError(InvalidError):
    """The reason Forgotten is only given by forgetting the actor."""


class InvalidActorExternalRefError(InvalidError):
    """The external reference's scheme, value or authority is malformed."""


class ActorIdentityAlreadyLinkedError(ConflictError):
    """This login is linked to an actor already."""


class ActorCannotUpdateProfileError(CannotTransitionError):
    """A forgotten actor has no profile to change."""


class ActorCannotLinkIdentityError(CannotTransitionError):
    """The actor is forgotten, or has as many logins as it may have."""


class ActorCannotUnlinkIdentityError(CannotTransitionError):
    """The login is not linked to this actor."""


class ActorCannotAssignExternalRefError(CannotTransitionError):
    """The actor is forgotten, or has as many external references as it may have."""


class ActorCannotDeactivateError(CannotTransitionError):
    """The actor is inactive already."""


class ActorCannotReactivateError(CannotTransitionError):
    """The actor is active already, or forgotten."""


class ActorFact(Event):
    actor_id: UUID


class ActorRegistered(ActorFact):
    kind: ActorKind


class ActorProfileUpdated(ActorFact):
    changed_fields: frozenset[str]


class ActorIdentityLinked(ActorFact):
    identity_id: UUID
    issuer: str


class ActorIdentityUnlinked(ActorFact):
    identity_id: UUID
    reason: IdentityUnlinkReason


class ActorExternalRefAssigned(ActorFact):
    scheme: str


class ActorDeactivated(ActorFact):
    reason: ActorDeactivationReason


class ActorReactivated(ActorFact):
    """The actor may call again."""


class ActorProfileForgotten(ActorFact):
    """No personal data is kept of the actor any more."""


type ActorEvent = (
    ActorRegistered
    | ActorProfileUpdated
    | ActorIdentityLinked
    | ActorIdentityUnlinked
    | ActorExternalRefAssigned
    | ActorDeactivated
    | ActorReactivated
    | ActorProfileForgotten
)


class Actor(Value):
    id: UUID
    kind: ActorKind
    active: bool = True
    forgotten: bool = False
    deactivation_reason: ActorDeactivationReason | None = None
    # The issuer of each linked login; the subject is personal data and lives in the profile store.
    identities: dict[UUID, str] = {}
    external_schemes: frozenset[str] = frozenset()


def evolve(actor: Actor | None, event: ActorEvent) -> Actor:
    match event:
        case ActorRegistered():
            return Actor(id=event.actor_id, kind=event.kind)
        case _ if actor is None:
            raise ValueError(event)
        case ActorProfileUpdated():
            return actor
        case ActorIdentityLinked():
            return replace(actor, identities=actor.identities | {event.identity_id: event.issuer})
        case ActorIdentityUnlinked():
            kept = {id: issuer for id, issuer in actor.identities.items() if id != event.identity_id}
            return replace(actor, identities=kept)
        case ActorExternalRefAssigned():
            return replace(actor, external_schemes=actor.external_schemes | {event.scheme})
        case ActorDeactivated():
            return replace(actor, active=False, deactivation_reason=event.reason)
        case ActorReactivated():
            return replace(actor, active=True, deactivation_reason=None)
        case ActorProfileForgotten():
            return replace(actor, forgotten=True, external_schemes=frozenset())
        case _:
            assert_never(event)


actors = Aggregate[Actor, ActorEvent](
    "Actor",
    events=ActorEvent,
    evolve=evolve,
    missing=ActorNotFoundError,
    belongs=lambda actor: Belonging(owner_id=actor.id, member_id=actor.id),
    authority=True,
)


class ActorExtras(Value):
    """What an actor's view shows beyond its state."""

    name: text.Personal
    identity_count: int


async def actor_extras(world: World, states: Sequence[Actor]) -> list[ActorExtras]:
    names = await world.profiles.names([actor.id for actor in states])
    return [ActorExtras(name=names[actor.id], identity_count=len(actor.identities)) for actor in states]


actors.reads(
    "/actors",
    lists=False,
    filters=("kind", "active", "forgotten"),
    sorts=("created_at",),
    extras=(ActorExtras, actor_extras),
)


def check_remembered(actor: Actor, refusal: type[CannotTransitionError]) -> None:
    """Gate: forgetting is final."""
    if actor.forgotten:
        raise refusal.of(actor.id, "forgotten", ["active", "inactive"])


def checked_email(value: str | None) -> str | None:
    if value is None:
        return None
    email = text.trimmed(value, 254, InvalidActorContactError, "email address")
    if not re.fullmatch(r"[^@\s]+@[^@\s]+", email):
        raise InvalidActorContactError(
            "The email address must have exactly one @ with text before and after it."
        )
    return email


def checked_phone(value: str | None) -> str | None:
    return None if value is None else text.trimmed(value, 50, InvalidActorContactError, "phone number")


def checked_affiliation(value: str | None) -> str | None:
    return None if value is None else text.trimmed(value, 200, InvalidActorContactError, "affiliation")


class ActorLogin(Value, forbid_unknown_fields=True):
    """A subject as its identity provider names it; the subject is compared character by character."""

    issuer: Issuer
    subject: Subject

    def checked(self) -> "ActorLogin":
        """This login with its issuer trimmed, or the refusal, which never repeats the subject."""
        issuer = text.trimmed(self.issuer, 500, InvalidActorIdentityError, "issuer")
        if not issuer.startswith(("https://", "urn:")):
            raise InvalidActorIdentityError("The issuer must begin with https:// or urn:.", issuer=issuer)
        subject = self.subject
        if not 1 <= len(subject) <= 255 or not subject.isprintable() or subject.isspace():
            raise InvalidActorIdentityError(
                "The subject must have 1 to 255 printable characters, exactly as the issuer writes it."
            )
        return ActorLogin(issuer=issuer, subject=subject)

    def linked(self, actor_id: UUID, identity_id: UUID, now: datetime) -> list[Event | Beside]:
        """The fact that this login is an actor's, with its row in the profile store."""
        return [
            ActorIdentityLinked(
                actor_id=actor_id, occurred_at=now, identity_id=identity_id, issuer=self.issuer
            ),
            Identity(
                identity_id=identity_id,
                actor_id=actor_id,
                issuer=self.issuer,
                subject=self.subject,
                linked_at=now,
            ),
        ]


def check_free(taken: Sequence[Identity]) -> None:
    """Gate: a login is one actor's only. The refusal does not say whose it is."""
    if taken:
        raise ActorIdentityAlreadyLinkedError(
            "A login of this issuer with this subject is linked to an actor. Unlink it there first.",
            issuers=sorted({identity.issuer for identity in taken}),
        )


@actors.operation("POST /actors", creates=True)
class RegisterActor(Command[tuple[Identity, ...]]):
    """Register a person or a service account, with its profile and logins."""

    name: PersonName
    kind: ActorKind = ActorKind.HUMAN
    email: Email | None = None
    phone: Phone | None = None
    affiliation: Affiliation | None = None
    identities: tuple[ActorLogin, ...] = ()

    def checked(self) -> "RegisterActor":
        """This request with its text trimmed, or the first refusal."""
        name = text.name(self.name, InvalidActorNameError)
        email = checked_email(self.email)
        phone = checked_phone(self.phone)
        affiliation = checked_affiliation(self.affiliation)
        if self.kind is ActorKind.AGENT:
            raise InvalidActorKindError("Define an agent to get an actor of kind agent.", kind=self.kind)
        if len(self.identities) > MOST_IDENTITIES:
            raise InvalidActorIdentityError(
                f"An actor has at most {MOST_IDENTITIES} logins.", most=MOST_IDENTITIES
            )
        logins = tuple(login.checked() for login in self.identities)
        if len({(login.issuer, login.subject) for login in logins}) < len(logins):
            raise InvalidActorIdentityError("The same login is given twice.")
        return replace(self, name=name, email=email, phone=phone, affiliation=affiliation, identities=logins)

    async def gather(self, world: World) -> tuple[Identity, ...]:
        found = [
            await world.profiles.identity(login.issuer, login.subject) for login in self.checked().identities
        ]
        return tuple(identity for identity in found if identity is not None)

    def decide(self, taken: tuple[Identity, ...], occasion: Occasion) -> list[Event | Beside]:
        request, actor_id, now = self.checked(), occasion.new_id, occasion.now
        check_free(taken)
        decided: list[Event | Beside] = [
            ActorRegistered(actor_id=actor_id, occurred_at=now, kind=request.kind),
            Profile(
                actor_id=actor_id,
                name=request.name,
                email=request.email,
                phone=request.phone,
                affiliation=request.affiliation,
                created_at=now,
                updated_at=now,
            ),
        ]
        for number, login in enumerate(request.identities):
            decided += login.linked(actor_id, occasion.fresh_id(number), now)
        return decided


class ProfiledActor(Value):
    """An actor and its profile, which is gone once the actor is forgotten."""

    actor: Actor
    profile: Profile | None

    @classmethod
    async def gather(cls, world: World, actor_id: UUID) -> "ProfiledActor":
        # The stream comes first: a profile that changes after it was read fails the append.
        actor = await world.load(actors, actor_id)
        return cls(actor=actor, profile=await world.profiles.profile(actor_id))

    def remembered(self, refusal: type[CannotTransitionError]) -> Profile:
        """The profile, or `refusal` when it was forgotten."""
        if self.profile is None or self.actor.forgotten:
            raise refusal.of(self.actor.id, "forgotten", ["active", "inactive"])
        return self.profile


def checked_if_given[T](value: T | UnsetType, check: Callable[[T], T]) -> T | UnsetType:
    return UNSET if value is UNSET else check(value)


@actors.operation("POST /actors/{actor_id}/update-profile")
class UpdateActorProfile(Command[ProfiledActor]):
    """Change an actor's name or contact data."""

    actor_id: UUID
    name: PersonName | UnsetType = UNSET
    email: Email | UnsetType | None = UNSET
    phone: Phone | UnsetType | None = UNSET
    affiliation: Affiliation | UnsetType | None = UNSET

    async def gather(self, world: World) -> ProfiledActor:
        return await ProfiledActor.gather(world, self.actor_id)

    def decide(self, seen: ProfiledActor, occasion: Occasion) -> list[Event | Beside]:
        name = checked_if_given(self.name, lambda value: text.name(value, InvalidActorNameError))
        email = checked_if_given(self.email, checked_email)
        phone = checked_if_given(self.phone, checked_phone)
        affiliation = checked_if_given(self.affiliation, checked_affiliation)
        old = seen.remembered(ActorCannotUpdateProfileError)
        new = replace(
            old,
            name=patched(name, old.name),
            email=patched(email, old.email),
            phone=patched(phone, old.phone),
            affiliation=patched(affiliation, old.affiliation),
        )
        if new == old:
            return []
        changed = frozenset(f for f in Profile.__struct_fields__ if getattr(new, f) != getattr(old, f))
        return [
            ActorProfileUpdated(actor_id=seen.actor.id, occurred_at=occasion.now, changed_fields=changed),
            replace(new, updated_at=occasion.now),
        ]


class LinkableActor(Value):
    """An actor, and whoever has the login that it is to get."""

    actor: Actor
    taken: Identity | None


@actors.operation("POST /actors/{actor_id}/identities/link")
class LinkActorIdentity(Command[LinkableActor]):
    """Let an actor call with a login of an identity provider."""

    actor_id: UUID
    issuer: Issuer
    subject: Subject

    def login(self) -> ActorLogin:
        return ActorLogin(issuer=self.issuer, subject=self.subject).checked()

    async def gather(self, world: World) -> LinkableActor:
        actor, login = await world.load(actors, self.actor_id), self.login()
        return LinkableActor(actor=actor, taken=await world.profiles.identity(login.issuer, login.subject))

    def decide(self, seen: LinkableActor, occasion: Occasion) -> list[Event | Beside]:
        login, actor = self.login(), seen.actor
        check_remembered(actor, ActorCannotLinkIdentityError)
        if len(actor.identities) >= MOST_IDENTITIES:
            raise ActorCannotLinkIdentityError(
                f"The actor has {MOST_IDENTITIES} logins, the most there may be. Unlink one first.",
                actor_id=str(actor.id),
                most=MOST_IDENTITIES,
            )
        check_free([seen.taken] if seen.taken else [])
        return login.linked(actor.id, occasion.new_id, occasion.now)


class GuardedActor(Value):
    """An actor, and the authority that tells who could still administer without it."""

    actor: Actor
    authority: Authority

    @classmethod
    async def gather(cls, world: World, actor_id: UUID) -> "GuardedActor":
        return cls(actor=await world.load(actors, actor_id), authority=world.authority)


@actors.operation("POST /actors/{actor_id}/identities/unlink")
class UnlinkActorIdentity(Command[GuardedActor]):
    """Take a login away from an actor."""

    actor_id: UUID
    identity_id: UUID
    reason: IdentityUnlinkReason

    async def gather(self, world: World) -> GuardedActor:
        return await GuardedActor.gather(world, self.actor_id)

    def decide(self, seen: GuardedActor, occasion: Occasion) -> list[Event | Beside]:
        if self.reason is IdentityUnlinkReason.FORGOTTEN:
            raise InvalidActorReasonError(
                "Only forgetting an actor gives this reason; choose another.", reason=self.reason
            )
        if self.identity_id not in seen.actor.identities:
            raise ActorCannotUnlinkIdentityError(
                f"Login {self.identity_id} is not linked to this actor. Read its profile for those that are.",
                actor_id=str(seen.actor.id),
                identity_id=str(self.identity_id),
            )
        unlinked = ActorIdentityUnlinked(
            actor_id=seen.actor.id,
            occurred_at=occasion.now,
            identity_id=self.identity_id,
            reason=self.reason,
        )
        check_administrators(seen.authority, [unlinked], occasion.now)
        return [unlinked, ErasedIdentity(identity_id=self.identity_id)]


def check_orcid(value: str) -> None:
    """Gate: a bare ORCID iD whose last character is its ISO 7064 MOD 11-2 check digit."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{4}-[0-9]{4}-[0-9]{3}[0-9X]", value):
        raise InvalidActorExternalRefError("Write the ORCID iD bare, as four groups of four characters.")
    total = 0
    for digit in value[:-1].replace("-", ""):
        total = (total + int(digit)) * 2
    if value[-1] != "0123456789X"[(12 - total % 11) % 11]:
        raise InvalidActorExternalRefError("The ORCID iD's check digit is wrong; look for a typing mistake.")


@actors.operation("POST /actors/{actor_id}/assign-external-ref")
class AssignActorExternalRef(Command[ProfiledActor]):
    """Record under which identifier another registry knows an actor, for example its ORCID iD."""

    actor_id: UUID
    scheme: Annotated[str, Meta(extra_json_schema={"pattern": "^[a-z0-9-]{1,50}$"})]
    value: Annotated[text.Personal, Meta(extra_json_schema={"minLength": 1, "maxLength": 200})]
    authority: text.Name

    async def gather(self, world: World) -> ProfiledActor:
        return await ProfiledActor.gather(world, self.actor_id)

    def checked(self) -> "AssignActorExternalRef":
        """This request with its text trimmed, or the first refusal."""
        scheme = text.code(self.scheme, "^[a-z0-9-]{1,50}$", InvalidActorExternalRefError, "scheme")
        value = text.trimmed(self.value, 200, InvalidActorExternalRefError, "value")
        authority = text.trimmed(self.authority, 200, InvalidActorExternalRefError, "authority")
        if scheme == "orcid":
            check_orcid(value)
        return replace(self, scheme=scheme, value=value, authority=authority)

    def decide(self, seen: ProfiledActor, occasion: Occasion) -> list[Event | Beside]:
        request, actor = self.checked(), seen.actor
        profile = seen.remembered(ActorCannotAssignExternalRefError)
        old = profile.external_refs.get(request.scheme)
        if old and (old.value, old.authority) == (request.value, request.authority):
            return []
        if not old and len(profile.external_refs) >= MOST_EXTERNAL_SCHEMES:
            raise ActorCannotAssignExternalRefError(
                f"The actor has {MOST_EXTERNAL_SCHEMES} external references, the most there may be.",
                actor_id=str(actor.id),
                schemes=sorted(actor.external_schemes),
            )
        new = ExternalRef(value=request.value, authority=request.authority, assigned_at=occasion.now)
        refs = profile.external_refs | {request.scheme: new}
        return [
            ActorExternalRefAssigned(actor_id=actor.id, occurred_at=occasion.now, scheme=request.scheme),
            replace(profile, external_refs=refs, updated_at=occasion.now),
        ]


@actors.operation("POST /actors/{actor_id}/deactivate")
class DeactivateActor(Command[GuardedActor]):
    """Stop an actor from calling; whatever it did stays."""

    actor_id: UUID
    reason: ActorDeactivationReason

    async def gather(self, world: World) -> GuardedActor:
        return await GuardedActor.gather(world, self.actor_id)

    def decide(self, seen: GuardedActor, occasion: Occasion) -> ActorDeactivated:
        if not seen.actor.active:
            raise ActorCannotDeactivateError.of(seen.actor.id, "inactive", ["active"])
        deactivated = ActorDeactivated(actor_id=seen.actor.id, occurred_at=occasion.now, reason=self.reason)
        check_administrators(seen.authority, [deactivated], occasion.now)
        return deactivated


@actors.operation("POST /actors/{actor_id}/reactivate")
class ReactivateActor(Command[Actor]):
    """Let an inactive actor call again."""

    actor_id: UUID

    async def gather(self, world: World) -> Actor:
        return await world.load(actors, self.actor_id)

    def decide(self, actor: Actor, occasion: Occasion) -> ActorReactivated:
        if actor.active or actor.forgotten:
            current = "forgotten" if actor.forgotten else "active"
            raise ActorCannotReactivateError.of(actor.id, current, ["inactive"])
        return ActorReactivated(actor_id=actor.id, occurred_at=occasion.now)


@actors.operation("POST /actors/{actor_id}/forget")
class ForgetActor(Command[GuardedActor]):
    """Erase an actor's personal data and logins for ever; what it did stays, under its id."""

    actor_id: UUID

    async def gather(self, world: World) -> GuardedActor:
        return await GuardedActor.gather(world, self.actor_id)

    def decide(self, seen: GuardedActor, occasion: Occasion) -> list[Event | Beside]:
        actor = seen.actor
        if actor.forgotten:
            return []
        events: list[ActorEvent] = [
            ActorIdentityUnlinked(
                actor_id=actor.id,
                occurred_at=occasion.now,
                identity_id=identity_id,
                reason=IdentityUnlinkReason.FORGOTTEN,
            )
            for identity_id in sorted(actor.identities)
        ]
        events.append(ActorProfileForgotten(actor_id=actor.id, occurred_at=occasion.now))
        check_administrators(seen.authority, events, occasion.now)
        return [*events, ErasedProfile(actor_id=actor.id)]


class LinkedIdentity(Value):
    """One login of an actor, as its profile shows it."""

    identity_id: UUID
    issuer: str
    subject: text.Personal
    linked_at: datetime


class ActorProfile(Value):
    """The personal data kept of an actor."""

    name: text.Personal
    email: text.Personal | None
    phone: text.Personal | None
    affiliation: text.Personal | None
    external_refs: dict[str, ExternalRef]
    identities: tuple[LinkedIdentity, ...]
    created_at: datetime
    updated_at: datetime


@actors.operation("GET /actors/{actor_id}/profile")
class GetActorProfile(Query[ActorProfile]):
    """Read the personal data and the logins of one actor."""

    actor_id: UUID

    async def answer(self, world: World) -> ActorProfile:
        actor = await world.load(actors, self.actor_id)
        profile = await world.profiles.profile(actor.id)
        if profile is None:
            raise ActorProfileNotFoundError(
                f"Actor {actor.id} was forgotten; no personal data is kept of it.", actor_id=str(actor.id)
            )
        identities = await world.profiles.identities(actor.id)
        return ActorProfile(
            name=profile.name,
            email=profile.email,
            phone=profile.phone,
            affiliation=profile.affiliation,
            external_refs=profile.external_refs,
            identities=tuple(
                LinkedIdentity(
                    identity_id=identity.identity_id,
                    issuer=identity.issuer,
                    subject=identity.subject,
                    linked_at=identity.linked_at,
                )
                for identity in identities
            ),
            created_at=profile.created_at,
            updated_at=profile.updated_at,
        )
