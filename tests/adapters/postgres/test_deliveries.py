"""The outbox of statements for peers: what is sent next, what is replaced, and whose attempt counts."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from beamwright.adapters.postgres.database import Database
from beamwright.adapters.postgres.deliveries import PostgresDeliveries
from beamwright.kernel.delivery import Delivery, DeliveryRequest, StatementKind
from beamwright.kernel.outbox import OutboxState
from beamwright.kernel.store import Mark

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
PEER, SEAL = uuid4(), uuid4()
KEY, POINTER, ARTIFACT = StatementKind
MARKS = (Mark(1, number) for number in range(1, 1000))


def row(kind: StatementKind, number: int = 1, wait: float = 0, peer: UUID = PEER) -> DeliveryRequest:
    """A row that is due after some minutes; of an artifact, `number` is its place in the ledger."""
    id = uuid4()
    return DeliveryRequest(
        statement_id=id,
        peer_facility_id=peer,
        kind=kind,
        stream_id=id if kind is ARTIFACT else SEAL,
        version=number,
        ledger_number=number if kind is ARTIFACT else None,
        next_attempt_at=NOW + timedelta(minutes=wait),
        requested_at=NOW,
    )


def with_outbox(dsn: str, check: Callable[[PostgresDeliveries], Awaitable[None]]) -> None:
    async def run() -> None:
        database = await Database.open(dsn, size=2)
        try:
            await check(PostgresDeliveries(database))
        finally:
            await database.close()

    asyncio.run(run())


async def put(outbox: PostgresDeliveries, *rows: DeliveryRequest, covered: int = 0) -> None:
    await outbox.enqueue(rows, covered, NOW, next(MARKS))


async def taken(outbox: PostgresDeliveries, now: datetime = NOW) -> list[UUID]:
    """What is sent now, in order."""
    found: list[UUID] = []
    while (request := await outbox.claim(now, now + timedelta(minutes=5))) is not None:
        found.append(request.statement_id)
    return found


def test_keys_go_before_pointers_and_these_before_artifacts(dsn: str) -> None:
    async def check(outbox: PostgresDeliveries) -> None:
        rows = [row(ARTIFACT, 1), row(POINTER, 4), row(KEY, 3), row(ARTIFACT, 2)]
        await put(outbox, *rows)
        key, pointer, first, second = rows[2], rows[1], rows[0], rows[3]
        assert await taken(outbox) == [each.statement_id for each in (key, pointer, first, second)]

    with_outbox(dsn, check)


def test_only_the_latest_pointer_is_sent_to_a_peer(dsn: str) -> None:
    async def check(outbox: PostgresDeliveries) -> None:
        elsewhere = row(POINTER, 1, peer=uuid4())
        await put(outbox, row(POINTER, 1), elsewhere)
        last = row(POINTER, 3)
        await put(outbox, row(POINTER, 2), last)
        assert set(await taken(outbox)) == {elsewhere.statement_id, last.statement_id}

    with_outbox(dsn, check)


def test_an_artifact_waits_for_its_pointer_but_not_for_ever(dsn: str) -> None:
    async def check(outbox: PostgresDeliveries) -> None:
        first, second = row(ARTIFACT, 1, wait=5), row(ARTIFACT, 2, wait=5)
        await put(outbox, first, second)
        assert await taken(outbox) == []
        await put(outbox, covered=1)
        assert await taken(outbox) == [first.statement_id]
        assert await taken(outbox, LATER) == [first.statement_id, second.statement_id]

    with_outbox(dsn, check)


def test_a_pointer_does_not_hurry_what_was_tried_in_vain(dsn: str) -> None:
    async def check(outbox: PostgresDeliveries) -> None:
        await put(outbox, row(ARTIFACT, 1))
        request = await outbox.claim(NOW, LATER)
        assert request is not None
        await outbox.postpone(request, NOW + timedelta(hours=1), "away")
        await put(outbox, covered=1)
        assert await taken(outbox, LATER) == []

    with_outbox(dsn, check)


def test_a_statement_is_in_the_outbox_once_for_each_peer(dsn: str) -> None:
    async def check(outbox: PostgresDeliveries) -> None:
        first = row(ARTIFACT)
        await put(outbox, first, first)
        await put(outbox, first)
        assert await taken(outbox) == [first.statement_id]

    with_outbox(dsn, check)


def test_an_attempt_that_another_has_overtaken_changes_nothing(dsn: str) -> None:
    async def check(outbox: PostgresDeliveries) -> None:
        await put(outbox, row(ARTIFACT))
        slow = await outbox.claim(NOW, LATER)
        quick = await outbox.claim(LATER, LATER + timedelta(minutes=5))
        assert slow is not None and quick is not None and (slow.attempts, quick.attempts) == (1, 2)
        await outbox.finish(slow, OutboxState.FAILED, LATER, "too late")
        await outbox.postpone(slow, NOW, "too late")
        await outbox.finish(quick, OutboxState.DONE, LATER)
        seen = await outbox.of([quick.statement_id, uuid4()])
        done = Delivery(state=OutboxState.DONE, attempts=2, delivered_at=LATER)
        assert seen == {quick.statement_id: done}
        assert await taken(outbox, LATER + timedelta(days=1)) == []

    with_outbox(dsn, check)


def test_the_bookmark_never_goes_back(dsn: str) -> None:
    async def check(outbox: PostgresDeliveries) -> None:
        await outbox.enqueue([], 0, NOW, Mark(10**6, 5))
        await outbox.enqueue([], 0, NOW, Mark(10**6, 3))
        assert await outbox.bookmark() == Mark(10**6, 5)

    with_outbox(dsn, check)
