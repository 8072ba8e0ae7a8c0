"""What the authorization seam answers: decisions, their reasons, and how far a grant reaches."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

from .errors import ConflictError
from .event import Belonging, Event
from .value import Value


class LastAdministratorError(ConflictError):
    """After this nobody could administer the installation; make a second administrator first."""


class AuthzDecision(StrEnum):
    ALLOW = "Allow"
    DENY = "Deny"


class AuthzReason(StrEnum):
    GRANTED = "Granted"
    TOKEN_SCOPE = "TokenScope"  # noqa: S105 - a reason, not a secret
    SURFACE_RETIRED = "SurfaceRetired"
    CONDUIT_RETIRED = "ConduitRetired"
    ACTOR_UNKNOWN = "ActorUnknown"
    ACTOR_INACTIVE = "ActorInactive"
    AGENT_NOT_ACTIVE = "AgentNotActive"
    TOOL_NOT_GRANTED = "ToolNotGranted"
    AGENT_BUDGET_EXHAUSTED = "AgentBudgetExhausted"
    DENIED_BY_POLICY = "DeniedByPolicy"
    NO_GRANT = "NoGrant"
    CONTROL_NOT_HELD = "ControlNotHeld"
    OUT_OF_REACH = "OutOfReach"


class Span(Value):
    """The objects that some scopes hold for, worked out for one principal at one moment."""

    everything: bool = False
    facility_codes: frozenset[str] = frozenset()
    visitless_facility_codes: frozenset[str] = frozenset()
    visit_ids: frozenset[UUID] = frozenset()
    member_ids: frozenset[UUID] = frozenset()
    owner_id: UUID | None = None

    def holds(self, object: Belonging) -> bool:
        return (
            self.everything
            or object.facility_code in self.facility_codes
            or (object.facility_code in self.visitless_facility_codes and not object.visit_ids)
            or not self.visit_ids.isdisjoint(object.visit_ids)
            or object.member_id in self.member_ids
            or (self.owner_id is not None and self.owner_id == object.owner_id)
        )


class Candidate(Value):
    """One grant that applies to a call, with what its scope holds for."""

    policy_id: UUID
    grant_id: UUID
    span: Span


class Reach(Value):
    """The objects a call may touch: those some Allow holds for and no Deny does."""

    allow: tuple[Candidate, ...] = ()
    deny: tuple[Candidate, ...] = ()

    @property
    def everything(self) -> bool:
        return not self.deny and any(candidate.span.everything for candidate in self.allow)

    def holds(self, object: Belonging, *, reading: bool) -> bool:
        """Installation-wide objects are open to any reader, and to writers whose grant reaches everything."""
        denied = any(candidate.span.holds(object) for candidate in self.deny)
        if reading and object.installation_wide:
            return bool(self.allow) and not denied
        return not denied and any(candidate.span.holds(object) for candidate in self.allow)

    def determining(self, object: Belonging) -> tuple[UUID, ...]:
        """The policies whose scope holds for `object`."""
        held = (c.policy_id for c in (*self.allow, *self.deny) if c.span.holds(object))
        return tuple(sorted(set(held)))


class AuthzResult(Value):
    """The answer of the authorization seam to one call."""

    decision: AuthzDecision
    reason: AuthzReason
    determining_policies: tuple[UUID, ...] = ()
    grant_ids: tuple[UUID, ...] = ()
    context: dict[str, Any] = {}
    reach: Reach = Reach()
    # A grant's period begins or ends then: the answer must be worked out anew.
    holds_until: datetime | None = None

    @property
    def allowed(self) -> bool:
        return self.decision is AuthzDecision.ALLOW


class Caller(Value):
    """Who calls, and what its token says of it."""

    principal_id: UUID
    kind: str
    issuer: str | None = None
    scopes: frozenset[str] = frozenset()
    expires_at: datetime | None = None


class Authority(Protocol):
    """One consistent picture of policies, actors, surfaces, conduits, visits and facilities."""

    epoch: int

    def authorize(
        self, caller: Caller, command_name: str, conduit_id: UUID, surface_id: UUID, now: datetime
    ) -> AuthzResult: ...

    def evaluate_policy(
        self,
        policy_id: UUID,
        caller: Caller,
        command_name: str,
        conduit_id: UUID,
        surface_id: UUID,
        now: datetime,
    ) -> AuthzResult:
        """What one policy alone says."""
        ...

    def administrators(self, after: Sequence[Event], now: datetime) -> frozenset[UUID]:
        """The effective administrators there would be after these events."""
        ...

    def visits_of(self, actor_id: UUID) -> frozenset[UUID]: ...

    def facility_ancestors(self, facility_id: UUID) -> tuple[UUID, ...]:
        """The parents of a facility, nearest first."""
        ...

    def state[S](self, aggregate: str, id: UUID, type: type[S]) -> S | None:
        """The folded state of one object that the authority watches."""
        ...

    def states[S](self, aggregate: str, type: type[S]) -> Mapping[UUID, S]:
        """Every folded state of an aggregate that the authority watches."""
        ...


def check_administrators(authority: Authority, events: Sequence[Event], now: datetime) -> None:
    """Lock-out guard: somebody must be able to administer the installation afterwards."""
    if not authority.administrators(events, now):
        raise LastAdministratorError(
            "No effective administrator would remain. Make another actor with a login an administrator first."
        )
