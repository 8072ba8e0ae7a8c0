"""Artifact: one signed thing that was sent to a peer, or received from one."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, assert_never
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.delivery import Delivery
from beamwright.kernel.download import Download
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, Query, World
from beamwright.kernel.signing import Envelope
from beamwright.kernel.value import Time, Value, encode, replace

from .permit import ArtifactKind, ArtifactTier, OnwardAction, PermitDirection, ReadScope

NONCE_CLAIM = "artifact-nonce"
ENVELOPE_TYPE = "application/vnd.dsse.envelope.v1+json"


class ArtifactStatus(StrEnum):
    """`Published`, `Withdrawn`: ours; `Quarantined`, `Accepted`, `Rejected`: a peer's."""

    PUBLISHED = "Published"
    WITHDRAWN = "Withdrawn"
    QUARANTINED = "Quarantined"
    ACCEPTED = "Accepted"
    REJECTED = "Rejected"


class VerificationStage(StrEnum):
    """What is asked of an authentic artifact before it is accepted."""

    PERMIT = "Permit"
    KIND = "Kind"
    TIER = "Tier"
    EXPIRY = "Expiry"
    CONTENT_HASH = "ContentHash"
    FRESHNESS = "Freshness"


class StageResult(StrEnum):
    PASSED = "Passed"
    FAILED = "Failed"
    SKIPPED = "Skipped"


type Stages = dict[VerificationStage, StageResult]


class ArtifactNotFoundError(NotFoundError):
    """There is no such artifact."""


class InvalidArtifactReasonError(InvalidError):
    """The reason is blank or too long."""


class ArtifactReplayedError(ConflictError):
    """This artifact was received before."""


class ArtifactCannotWithdrawError(CannotTransitionError):
    """Only a published artifact is withdrawn."""


class ArtifactCannotVerifyError(CannotTransitionError):
    """Only a quarantined artifact is verified again."""


class ArtifactCannotAcceptError(CannotTransitionError):
    """Only a quarantined artifact is accepted, and only when no stage failed."""


class ArtifactCannotRejectError(CannotTransitionError):
    """Only a quarantined artifact is rejected."""


class ArtifactSource(Value):
    """What was rendered: the kind and id of the thing, and the version of its stream."""

    type: str
    id: UUID
    version: int


class ArtifactTerms(Value, forbid_unknown_fields=True):
    """How much of it was sent, and what the receiver may do with it."""

    read_scope: ReadScope
    onward_actions: frozenset[OnwardAction]


class ArtifactFact(Event):
    artifact_id: UUID


class ArtifactPublished(ArtifactFact):
    # The own Site, which it belongs to, and the account that the peer called through then.
    site_code: str
    peer_actor_id: UUID | None
    peer_facility_id: UUID
    permit_id: UUID
    credential_id: UUID
    key_id: str
    artifact_kind: ArtifactKind
    tier: ArtifactTier
    audience: str
    purpose: str
    terms: ArtifactTerms
    source: ArtifactSource
    content_hash: str
    content: dict[str, Any] | None
    ledger_number: int
    issued_at: datetime
    expires_at: datetime | None
    nonce: str
    envelope: Envelope


class ArtifactWithdrawn(ArtifactFact):
    reason: str


class ArtifactReceived(ArtifactFact):
    site_code: str
    issuer_facility_code: str
    peer_actor_id: UUID | None
    peer_facility_id: UUID
    permit_id: UUID | None
    credential_id: UUID
    key_id: str
    artifact_kind: ArtifactKind
    tier: ArtifactTier
    audience: str
    purpose: str
    terms: ArtifactTerms
    content_hash: str
    content: dict[str, Any] | None
    ledger_number: int
    issued_at: datetime
    expires_at: datetime | None
    nonce: str
    envelope: Envelope
    stages: Stages
    status: ArtifactStatus


class ArtifactVerified(ArtifactFact):
    stages: Stages
    permit_id: UUID | None
    status: ArtifactStatus


class ArtifactAccepted(ArtifactFact):
    pass


class ArtifactRejected(ArtifactFact):
    reason: str


type ArtifactEvent = (
    ArtifactPublished
    | ArtifactWithdrawn
    | ArtifactReceived
    | ArtifactVerified
    | ArtifactAccepted
    | ArtifactRejected
)

QUARANTINED = frozenset({ArtifactStatus.QUARANTINED})
LIFECYCLE = StateMachine[ArtifactStatus](
    {
        ArtifactWithdrawn: move(
            {ArtifactStatus.PUBLISHED}, ArtifactStatus.WITHDRAWN, ArtifactCannotWithdrawError
        ),
        # Where it leads is in the event.
        ArtifactVerified: move(QUARANTINED, ArtifactStatus.QUARANTINED, ArtifactCannotVerifyError),
        ArtifactAccepted: move(QUARANTINED, ArtifactStatus.ACCEPTED, ArtifactCannotAcceptError),
        ArtifactRejected: move(QUARANTINED, ArtifactStatus.REJECTED, ArtifactCannotRejectError),
    }
)


class Artifact(Value):
    id: UUID
    direction: PermitDirection
    site_code: str
    issuer_facility_code: str
    peer_facility_id: UUID
    peer_actor_id: UUID | None
    permit_id: UUID | None
    credential_id: UUID
    key_id: str
    artifact_kind: ArtifactKind
    tier: ArtifactTier
    audience: str
    purpose: str
    terms: ArtifactTerms
    source: ArtifactSource | None
    content_hash: str
    content: dict[str, Any] | None
    ledger_number: int
    issued_at: Time
    expires_at: Time | None
    nonce: str
    envelope: Envelope
    stages: Stages
    status: ArtifactStatus

    @property
    def failed_stages(self) -> list[VerificationStage]:
        return failed(self.stages)


def failed(stages: Stages) -> list[VerificationStage]:
    """The stages that failed, in their order."""
    return [stage for stage in VerificationStage if stages.get(stage) is StageResult.FAILED]


def evolve(artifact: Artifact | None, event: ArtifactEvent) -> Artifact:
    match event:
        case ArtifactPublished() | ArtifactReceived():
            return begun(event)
        case _ if artifact is None:
            raise ValueError(event)
        case ArtifactVerified():
            return replace(artifact, stages=event.stages, permit_id=event.permit_id, status=event.status)
        case ArtifactWithdrawn() | ArtifactAccepted() | ArtifactRejected():
            return replace(artifact, status=LIFECYCLE.after(event))
        case _:
            assert_never(event)


def begun(event: ArtifactPublished | ArtifactReceived) -> Artifact:
    """What we signed for a peer, or what a peer signed for us."""
    ours = isinstance(event, ArtifactPublished)
    return Artifact(
        id=event.artifact_id,
        direction=PermitDirection.OUTBOUND if ours else PermitDirection.INBOUND,
        site_code=event.site_code,
        issuer_facility_code=event.site_code if ours else event.issuer_facility_code,
        peer_facility_id=event.peer_facility_id,
        peer_actor_id=event.peer_actor_id,
        permit_id=event.permit_id,
        credential_id=event.credential_id,
        key_id=event.key_id,
        artifact_kind=event.artifact_kind,
        tier=event.tier,
        audience=event.audience,
        purpose=event.purpose,
        terms=event.terms,
        source=event.source if ours else None,
        content_hash=event.content_hash,
        content=event.content,
        ledger_number=event.ledger_number,
        issued_at=event.issued_at,
        expires_at=event.expires_at,
        nonce=event.nonce,
        envelope=event.envelope,
        stages={} if ours else event.stages,
        status=ArtifactStatus.PUBLISHED if ours else event.status,
    )


def claims(artifact: Artifact) -> list[Claim]:
    """What was seen once is a replay for ever."""
    key = f"{artifact.issuer_facility_code}/{artifact.nonce}"
    return [Claim(kind=NONCE_CLAIM, key=key, taken=ArtifactReplayedError)]


artifacts = Aggregate[Artifact, ArtifactEvent](
    "Artifact",
    events=ArtifactEvent,
    evolve=evolve,
    missing=ArtifactNotFoundError,
    belongs=lambda artifact: Belonging(facility_code=artifact.site_code, owner_id=artifact.peer_actor_id),
    claims=claims,
)


class ArtifactExtras(Value):
    """How far an artifact of ours has come to its peer; null for a peer's, and where the peer pulls."""

    delivery: Delivery | None


async def artifact_extras(world: World, states: Sequence[Artifact]) -> list[ArtifactExtras]:
    found = await world.deliveries([state.id for state in states])
    return [ArtifactExtras(delivery=found.get(state.id)) for state in states]


artifacts.reads(
    "/federation/artifacts",
    filters=(
        "direction",
        "status",
        "peer_facility_id",
        "permit_id",
        "credential_id",
        "artifact_kind",
        "tier",
        Filter[Artifact](
            name="issued_from", type=Time, of=lambda artifact: artifact.issued_at, test=Test.AT_LEAST
        ),
        Filter[Artifact](
            name="issued_until", type=Time, of=lambda artifact: artifact.issued_at, test=Test.BEFORE
        ),
        Filter[Artifact](
            name="failed_stage",
            type=VerificationStage,
            of=lambda artifact: artifact.failed_stages,
            test=Test.CONTAINS,
        ),
        Filter[Artifact](
            name="source_id", type=UUID, of=lambda artifact: artifact.source and artifact.source.id
        ),
    ),
    sorts=("issued_at", "created_at"),
    extras=(ArtifactExtras, artifact_extras),
    hidden=("envelope",),
)


@artifacts.operation("POST /federation/artifacts/{artifact_id}/reject")
class RejectArtifact(Command[Artifact]):
    """Reject a quarantined artifact of a peer for good."""

    artifact_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Artifact:
        return await world.load(artifacts, self.artifact_id)

    def decide(self, artifact: Artifact, occasion: Occasion) -> ArtifactRejected:
        reason = text.reason(self.reason, InvalidArtifactReasonError)
        LIFECYCLE.check(ArtifactRejected, artifact.status, artifact.id)
        return ArtifactRejected(artifact_id=artifact.id, occurred_at=occasion.now, reason=reason)


@artifacts.operation("GET /federation/artifacts/{artifact_id}/envelope", media_types=(ENVELOPE_TYPE,))
class GetArtifactEnvelope(Query[Download]):
    """Fetch the signed envelope of an artifact, as it was exchanged."""

    artifact_id: UUID

    async def answer(self, world: World) -> Download:
        artifact = await world.load(artifacts, self.artifact_id)
        return Download(
            media_type=ENVELOPE_TYPE, filename=f"{artifact.id}.dsse.json", content=whole(artifact.envelope)
        )


async def whole(envelope: Envelope) -> AsyncIterator[bytes]:
    yield encode(envelope)
