"""From a bearer token to a call: who it is, and through which surface and conduit it arrived."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from beamwright.contexts.access.actor import (
    Actor,
    ActorIdentityLinked,
    ActorIdentityUnlinked,
    ActorProfileForgotten,
)
from beamwright.contexts.trust.surface import Surface, SurfaceKind, SurfaceStatus
from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.errors import (
    IdentityNotLinkedError,
    IdentityProviderUnavailableError,
    UnauthenticatedError,
)
from beamwright.kernel.event import Event
from beamwright.kernel.profiles import Profiles
from beamwright.kernel.seams import Clock
from beamwright.kernel.tokens import (
    InvalidTokenError,
    ProviderUnavailableError,
    TokenVerifier,
    VerifiedToken,
)

from .authority import AuthorityKeeper
from .call import Call

LOGIN_KEPT = timedelta(seconds=60)
MOST_KEPT = 10_000

log = structlog.get_logger("beamwright.arrival")


class MissingTokenError(UnauthenticatedError):
    """No bearer token was given."""


class RefusedTokenError(UnauthenticatedError):
    """The bearer token is not valid here."""


class Arrival:
    """One resolver for every surface."""

    def __init__(
        self,
        verifier: TokenVerifier,
        authority: AuthorityKeeper,
        profiles: Profiles,
        now: Clock,
        *,
        laptop: bool,
    ) -> None:
        self._verifier = verifier
        self._authority = authority
        self._profiles = profiles
        self._now = now
        self._laptop = laptop
        # Each from when on and until when it is believed.
        self._logins: dict[tuple[str, str], tuple[UUID, datetime, datetime]] = {}
        self._tokens: dict[str, tuple[VerifiedToken, datetime, datetime]] = {}
        authority.listen(self._forget_logins)

    async def call(
        self, authorization: str | None, kind: SurfaceKind, correlation_id: str, *, loopback: bool
    ) -> Call:
        """The call of whoever presents this Authorization header on a surface of this kind."""
        if authorization is None:
            return self._without_token(kind, correlation_id, loopback=loopback)
        token = await self._verify(authorization)
        surface = self._surface(kind, token)
        caller = await self._caller(token)
        return Call(
            caller=caller, surface_id=surface.id, conduit_id=surface.conduit_id, correlation_id=correlation_id
        )

    def _without_token(self, kind: SurfaceKind, correlation_id: str, *, loopback: bool) -> Call:
        if not (self._laptop and loopback):
            raise MissingTokenError("Send a bearer token: `Authorization: Bearer <token>`.")
        seeded = wellknown.MCP_SURFACE if kind is SurfaceKind.MCP_STREAMABLE_HTTP else wellknown.HTTP_SURFACE
        surface = self._authority.current.state("Surface", seeded, Surface)
        if surface is None:
            raise MissingTokenError("The seeded surface is gone; send a bearer token.")
        caller = Caller(principal_id=wellknown.LOCAL_OPERATOR, kind="human")
        return Call(
            caller=caller, surface_id=surface.id, conduit_id=surface.conduit_id, correlation_id=correlation_id
        )

    async def _verify(self, authorization: str) -> VerifiedToken:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise RefusedTokenError("The Authorization header must be `Bearer <token>`.")
        known = self._tokens.get(token)
        if known is not None and known[1] <= self._now() < known[2]:
            return known[0]
        try:
            return self._keep(token, await self._verifier.verify(token.strip()))
        except InvalidTokenError as error:
            log.info("token_refused", reason=error.reason)
            raise RefusedTokenError("The bearer token is not valid here; get a new one.") from None
        except ProviderUnavailableError:
            raise IdentityProviderUnavailableError(
                "The identity provider does not answer; your token may be fine. Try again shortly."
            ) from None

    def _keep(self, token: str, verified: VerifiedToken) -> VerifiedToken:
        """Believed again for as long as its verifier allows; an expiry is always honoured."""
        if verified.kept_for:
            if len(self._tokens) >= MOST_KEPT:
                self._tokens.clear()
            # A clock that is set back stretches nothing: before it was verified, it is not believed either.
            since = self._now()
            until = since + verified.kept_for
            until = min(until, verified.expires_at) if verified.expires_at else until
            self._tokens[token] = (verified, since, until)
        return verified

    def _surface(self, kind: SurfaceKind, token: VerifiedToken) -> Surface:
        """The one Active surface of this kind that the token is meant for."""
        found = [
            surface
            for surface in self._authority.current.states("Surface", Surface).values()
            if surface.kind is kind
            and surface.status is SurfaceStatus.ACTIVE
            and surface.audience in token.audiences
        ]
        if len(found) != 1:
            log.info("token_refused", reason=f"audience matches {len(found)} surfaces of kind {kind}")
            raise RefusedTokenError("The bearer token was not issued for this surface.")
        return found[0]

    async def _caller(self, token: VerifiedToken) -> Caller:
        actor_id = await self._actor(token.issuer, token.subject)
        actor = self._authority.current.state("Actor", actor_id, Actor)
        return Caller(
            principal_id=actor_id,
            kind=str(actor.kind) if actor else "human",
            issuer=token.issuer,
            scopes=token.scopes,
            expires_at=token.expires_at,
        )

    async def _actor(self, issuer: str, subject: str) -> UUID:
        now, logins = self._now(), self._logins
        known = logins.get((issuer, subject))
        if known is not None and known[1] <= now < known[2]:
            return known[0]
        identity = await self._profiles.identity(issuer, subject)
        if identity is None:
            raise IdentityNotLinkedError(
                "This login is linked to no actor. An administrator must link it with link_actor_identity."
            )
        if len(logins) >= MOST_KEPT:
            logins.clear()
        logins[issuer, subject] = (identity.actor_id, now, now + LOGIN_KEPT)
        return identity.actor_id

    def _forget_logins(self, events: Sequence[Event]) -> None:
        """Links, unlinks and forgettings, wherever they were made, are looked up anew."""
        if any(
            isinstance(e, ActorIdentityLinked | ActorIdentityUnlinked | ActorProfileForgotten) for e in events
        ):
            # A new one: a lookup that is under way must not remember what it saw before.
            self._logins = {}
