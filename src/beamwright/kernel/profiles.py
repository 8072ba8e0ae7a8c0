"""The profile seam: personal data of actors, kept beside the log and never in it."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from .authority import Reach
from .event import Beside
from .store import Mark
from .value import Value

DELETED_USER = "<deleted user>"


class ExternalRef(Value):
    """A reference to something in another system's vocabulary; the value carries no scheme prefix."""

    value: str
    authority: str
    assigned_at: datetime


class Profile(Beside):
    """The personal data of one actor; written whole."""

    actor_id: UUID
    name: str
    email: str | None = None
    phone: str | None = None
    affiliation: str | None = None
    external_refs: dict[str, ExternalRef] = {}
    created_at: datetime
    updated_at: datetime


class Identity(Beside):
    """One login of an actor."""

    identity_id: UUID
    actor_id: UUID
    issuer: str
    subject: str
    linked_at: datetime


class ErasedIdentity(Beside):
    """A login that is no longer linked."""

    identity_id: UUID


class ErasedProfile(Beside):
    """An actor that is forgotten: its profile and every login go."""

    actor_id: UUID


class ActorSearch(Value):
    """What `list_actors` asks of the profile store; `visit_members` limits to the members of a visit."""

    kind: str | None
    active: bool | None
    forgotten: bool | None
    issuer: str | None
    visit_members: frozenset[UUID] | None
    q: str | None
    sort: str
    limit: int
    cursor: str | None
    reach: Reach


class Profiles(Protocol):
    """Reads of the profile store. Writes are `Beside` records that a decision returns with its events."""

    async def profile(self, actor_id: UUID) -> Profile | None: ...
    async def identities(self, actor_id: UUID) -> Sequence[Identity]: ...
    async def identity(self, issuer: str, subject: str) -> Identity | None: ...
    async def names(self, actor_ids: Collection[UUID]) -> Mapping[UUID, str]:
        """The name of each actor, `<deleted user>` where there is none."""
        ...

    async def search(self, search: ActorSearch) -> tuple[Sequence[Mapping[str, Any]], str | None, Mark]:
        """Rows of the actors' list with their names, the cursor of the next page, and where the list stood."""
        ...


class LoginTakenError(Exception):
    """Another actor was given this login meanwhile; deciding again finds it."""
