"""Delivery to peers: what was signed for them is posted to them, however long that takes."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from beamwright.contexts.federation.artifact import (
    ArtifactPublished,
    ArtifactStatus,
    artifacts,
)
from beamwright.contexts.federation.credential import (
    Credential,
    CredentialPurpose,
    credentials,
    triple,
    usable_key,
)
from beamwright.contexts.federation.facility import Facility, FacilityStatus, facilities
from beamwright.contexts.federation.permit import (
    FederationPermitStatus,
    Permit,
    PermitDirection,
    permits,
)
from beamwright.contexts.federation.seal import (
    SealOfflineRootRotated,
    SealOnlineKeyRotated,
    SealPointerSigned,
    seals,
)
from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.delivery import Deliveries, DeliveryRequest, PeerAnswer, PeerDoor, StatementKind
from beamwright.kernel.event import Event, event_type
from beamwright.kernel.outbox import OutboxState
from beamwright.kernel.seams import Leases
from beamwright.kernel.secret_store import SecretStore
from beamwright.kernel.signing import Envelope
from beamwright.kernel.store import LogFilter, Mark, Stored
from beamwright.kernel.value import Value, encode

from .outbox_worker import OutboxWorker
from .service import Service

log = structlog.get_logger("beamwright.federation_delivery")

LEASE = "federation-delivery"
# An artifact had better come after the pointer that covers it, which a schedule signs; but it does come.
POINTER_GRACE = timedelta(minutes=5)
# With these a peer says that it has the statement, or a later one.
HAS_IT = frozenset({"ArtifactReplayedError", "SealPointerReplayedError"})
DELIVERED: tuple[type[Event], ...] = (
    ArtifactPublished,
    SealPointerSigned,
    SealOnlineKeyRotated,
    SealOfflineRootRotated,
)
FOLLOWED = frozenset({FederationPermitStatus.ACTIVE, FederationPermitStatus.SUSPENDED})
DOORS = {
    StatementKind.ARTIFACT: "/federation/artifacts/receive",
    StatementKind.SEAL_POINTER: "/federation/seals/receive",
    StatementKind.SEAL_KEY: "/federation/seals/receive",
}


class UndeliverableError(Exception):
    """What stands against an attempt, in words for the operator."""


class PostedEnvelope(Value):
    """The body of what is posted."""

    envelope: Envelope


class FederationDelivery(OutboxWorker[DeliveryRequest]):
    """Reads statements from the log into the outbox, a row for each peer that is called, and works it off."""

    def __init__(
        self,
        service: Service,
        deliveries: Deliveries,
        secrets: SecretStore,
        door: PeerDoor,
        leases: Leases,
        holder: UUID,
    ) -> None:
        wanted = LogFilter(event_types=sorted(event_type(event).name for event in DELIVERED))
        super().__init__(service, deliveries, leases, holder, LEASE, wanted)
        self._deliveries = deliveries
        self._secrets = secrets
        self._door = door

    async def stop(self) -> None:
        await super().stop()
        await self._door.aclose()

    async def take_up(self, events: Sequence[Stored], reached: Mark) -> None:
        rows, covered = await self._asked_for(events)
        await self._deliveries.enqueue(rows, covered, self._service.now(), reached)

    def about(self, request: DeliveryRequest) -> dict[str, str]:
        return {"statement_id": str(request.statement_id), "peer": str(request.peer_facility_id)}

    async def _asked_for(self, events: Sequence[Stored]) -> tuple[list[DeliveryRequest], int]:
        """A row for each statement and peer, and how far the latest pointer goes."""
        rows: list[DeliveryRequest] = []
        covered = 0
        for stored in events:
            aggregate = self._service.registry.aggregates[stored.stream_type]
            event = aggregate.current(aggregate.decoder.decode(stored.tagged))
            if isinstance(event, ArtifactPublished):
                peer = await self._load(facilities, event.peer_facility_id)
                if peer is not None and peer.base_url is not None:
                    rows.append(self._row(stored, StatementKind.ARTIFACT, peer.id, event.ledger_number))
                continue
            pointer = isinstance(event, SealPointerSigned)
            covered = event.ledger_length if pointer else covered
            kind = StatementKind.SEAL_POINTER if pointer else StatementKind.SEAL_KEY
            if pointer or stored.stream_id == await self._own_id():
                rows += [self._row(stored, kind, peer.id) for peer in await self._called_peers()]
        return rows, covered

    def _row(
        self, stored: Stored, kind: StatementKind, peer_id: UUID, ledger_number: int | None = None
    ) -> DeliveryRequest:
        grace = POINTER_GRACE if kind is StatementKind.ARTIFACT else timedelta()
        return DeliveryRequest(
            statement_id=stored.stream_id if kind is StatementKind.ARTIFACT else stored.event_id,
            peer_facility_id=peer_id,
            kind=kind,
            stream_id=stored.stream_id,
            version=stored.version,
            ledger_number=ledger_number,
            next_attempt_at=self._service.now() + grace,
            requested_at=stored.occurred_at,
        )

    async def serve(self, request: DeliveryRequest) -> None:
        now = self._service.now()
        peer = await self._load(facilities, request.peer_facility_id)
        if peer is None or peer.status is not FacilityStatus.ACTIVE:
            await self._give_up(request, "The peer is decommissioned.")
            return
        if peer.base_url is None:
            raise UndeliverableError(f"Peer {peer.code} has no base_url any more; it pulls.")
        if request.kind is StatementKind.ARTIFACT:
            artifact = await self._load(artifacts, request.stream_id)
            if artifact is None or artifact.status is not ArtifactStatus.PUBLISHED:
                await self._give_up(request, "The artifact was withdrawn before it was delivered.")
                return
            envelope, audiences = artifact.envelope, [artifact.audience]
        else:
            envelope, audiences = await self._statement(request), await self._audiences(peer)
        token = await self._token(audiences, now)
        url = f"{peer.base_url.rstrip('/')}{DOORS[request.kind]}"
        answer = await self._door.post(url, token, encode(PostedEnvelope(envelope=envelope)))
        await self._settle(request, answer)

    async def _settle(self, request: DeliveryRequest, answer: PeerAnswer) -> None:
        if answer.status >= 300 and not (answer.status == 409 and answer.code in HAS_IT):
            said = f"{answer.code}: {answer.detail}" if answer.code else "nothing more"
            raise UndeliverableError(f"The peer answered {answer.status}, {said}")
        await self._deliveries.finish(request, OutboxState.DONE, self._service.now())

    async def _give_up(self, request: DeliveryRequest, why: str) -> None:
        log.info("delivery_given_up", statement_id=str(request.statement_id), why=why)
        await self._deliveries.finish(request, OutboxState.FAILED, self._service.now(), why)

    async def _statement(self, request: DeliveryRequest) -> Envelope:
        """The envelope that an event of the own seal holds."""
        name = (seals.name, request.stream_id)
        [stored] = await self._service.store.read_events(name, request.version - 1, 1)
        return seals.decoder.decode(stored.tagged).envelope

    async def _token(self, audiences: Iterable[str], now: datetime) -> str:
        """What the own Site calls a peer with: the secret of the credential for one of its audiences."""
        asked = list(audiences)
        for audience in asked:
            credential = await self._credential(audience)
            key = None if credential is None else usable_key(credential, now)
            if key is not None and key.secret_ref is not None:
                return bearer(await self._secrets.read(key.secret_ref))
        wanted = ", ".join(asked) or "any audience of the peer"
        raise UndeliverableError(f"The own Site has no usable Authentication credential for {wanted}.")

    async def _credential(self, audience: str) -> Credential | None:
        key = triple(await self._own_id(), audience, CredentialPurpose.AUTHENTICATION)
        holder = await self._service.store.claim_holder("credential-triple", key)
        return None if holder is None else await self._load(credentials, holder[1])

    async def _own_id(self) -> UUID:
        code = self._service.installation.self_facility_code
        holder = await self._service.store.claim_holder("facility-code", code)
        assert holder is not None, "the own Site is seeded"
        return holder[1]

    async def _called_peers(self) -> list[Facility]:
        """The peers that artifacts go out to, and that are called."""
        ids = sorted({permit.peer_facility_id for permit in await self._outbound()})
        found = [await self._load(facilities, id) for id in ids]
        return [peer for peer in found if peer and peer.base_url and peer.status is FacilityStatus.ACTIVE]

    async def _audiences(self, peer: Facility) -> list[str]:
        return sorted({each.audience for each in await self._outbound() if each.peer_facility_id == peer.id})

    async def _outbound(self) -> list[Permit]:
        """The permits by which anything goes out: while one is suspended, its peer still follows our keys."""
        matched = await self._service.matching(permits, {"direction": PermitDirection.OUTBOUND})
        found = [await self._load(permits, id) for id in matched.ids]
        return [permit for permit in found if permit is not None and permit.status in FOLLOWED]

    async def _load[S: Value, E: Event](self, aggregate: Aggregate[S, E], id: UUID) -> S | None:
        name = (aggregate.name, id)
        stream = (await self._service.store.read([name])).get(name)
        return None if stream is None else aggregate.fold(aggregate.stream_decoder.decode(stream.events))


def bearer(secret: bytes) -> str:
    """A token as a header takes it. What else the secret may be is not told: it would end in the log."""
    token = secret.strip()
    if not re.fullmatch(rb"[\x21-\x7e]+", token):
        raise UndeliverableError("The secret of the Authentication credential is no bearer token.")
    return token.decode("ascii")
