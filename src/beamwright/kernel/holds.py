"""Holds as claims: each principal's concern has an id of its own, so that one resume cannot cancel another's."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any
from uuid import UUID

from . import text
from .errors import CannotTransitionError, ConflictError
from .roles import ActorKind
from .value import Time, Value

OPERATOR = "Operator"


class Concern(Value):
    """Why one principal keeps work held."""

    cause: StrEnum
    held_by: UUID
    reason: text.Reason
    held_at: Time


def held_by_a_person(principal_kind: str) -> bool:
    """People hold as operators, agents and service accounts as supervisors."""
    return principal_kind == ActorKind.HUMAN


def latest_reason(claims: Mapping[UUID, Concern]) -> str | None:
    """Of the concerns that remain, the latest says why the work is held."""
    latest = max(claims.values(), key=lambda claim: claim.held_at, default=None)
    return latest.reason if latest else None


def without[C: Concern](claims: Mapping[UUID, C], released: Collection[UUID]) -> dict[UUID, C]:
    return {claim_id: claim for claim_id, claim in claims.items() if claim_id not in released}


def oldest_first[C: Concern](claims: Mapping[UUID, C]) -> list[tuple[UUID, C]]:
    return sorted(claims.items(), key=lambda each: (each[1].held_at, each[0]))


def releasable(
    claims: Mapping[UUID, Concern], claim_ids: frozenset[UUID] | None, principal_id: UUID
) -> frozenset[UUID]:
    """The claims that are named, or else the principal's own and all that are no person's."""
    if claim_ids is not None:
        return claim_ids
    return frozenset(
        claim_id
        for claim_id, claim in claims.items()
        if claim.held_by == principal_id or claim.cause.value != OPERATOR
    )


def check_not_held_by(
    principal_id: UUID,
    claims: Mapping[UUID, Concern],
    what: str,
    refusal: type[CannotTransitionError],
    **context: Any,
) -> None:
    """Gate: one principal has one concern at a time."""
    for claim_id, claim in claims.items():
        if claim.held_by == principal_id:
            raise refusal(
                f"You hold this {what} already, because: {claim.reason}", claim_id=str(claim_id), **context
            )


def check_present(
    released: frozenset[UUID], claims: Mapping[UUID, Concern], what: str, refusal: type[ConflictError]
) -> None:
    """Gate: what is released is there."""
    if unknown := sorted(str(id) for id in released - claims.keys()):
        raise refusal(
            f"The {what} is not held by {', '.join(unknown)}.",
            claim_ids=unknown,
            present=sorted(str(id) for id in claims),
        )


def check_releases(
    released: frozenset[UUID], claims: Mapping[UUID, Concern], what: str, refusal: type[ConflictError]
) -> None:
    """Gate: others' concerns are released by name, or by themselves."""
    if released:
        return
    told = [
        {
            "claim_id": str(claim_id),
            "cause": claim.cause,
            "held_by": str(claim.held_by),
            "reason": claim.reason,
        }
        for claim_id, claim in sorted(claims.items())
    ]
    reasons = "; ".join(claim["reason"] for claim in told)
    raise refusal(
        f"Others hold the {what} ({reasons}): they release it, or name their claims in claim_ids.",
        claims=told,
    )
