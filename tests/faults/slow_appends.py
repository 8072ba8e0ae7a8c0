"""Appends that take their time: many transactions under way at once, late commits and rollbacks, all accounted for."""

import asyncio
import random
from collections import Counter
from datetime import UTC, datetime
from uuid import UUID, uuid4

import asyncpg
import httpx

from beamwright.adapters.postgres.appender import call, locks, result
from beamwright.app import new_id
from beamwright.contexts.campaign.campaign import (
    CampaignDescriptionUpdated,
    CampaignIntent,
    CampaignRegistered,
)
from beamwright.contexts.trust.zone import ZoneDefined, ZoneNameTakenError, ZoneUpdated
from beamwright.kernel import wellknown
from beamwright.kernel.event import Claim, Event, event_type, payload
from beamwright.kernel.store import Append, Envelope, NewEvent

PAGE = 200

type Stream = tuple[str, UUID]


class Committed:
    """What must be found: how far each stream was written by transactions that committed."""

    def __init__(self) -> None:
        self.versions: Counter[Stream] = Counter()
        self.event_ids: set[UUID] = set()
        self.rolled_back: set[UUID] = set()
        self.transactions = 0


class Appender:
    """One connection that appends to streams of its own, as the service does, but slowly."""

    def __init__(self, connection: asyncpg.Connection, committed: Committed, dice: random.Random) -> None:
        self._connection = connection
        self._committed = committed
        self._dice = dice
        self._own: list[Stream] = []

    async def transact(self, appends: int, longest: float, rollbacks: float) -> None:
        """Some appends, a pause with the transaction open, the rest; then the end, one way or the other."""
        transaction = self._connection.transaction()
        await transaction.start()
        written: Counter[Stream] = Counter()
        event_ids: set[UUID] = set()
        before = self._dice.randint(0, appends)
        for number in range(appends):
            if number == before:
                await self._pause(longest)
            stream, id = await self._append(written)
            written[stream] += 1
            event_ids.add(id)
        if before == appends:
            await self._pause(longest)
        self._committed.transactions += 1
        if self._dice.random() < rollbacks:
            await transaction.rollback()
            self._committed.rolled_back |= event_ids
            return
        await transaction.commit()
        self._committed.versions += written
        self._committed.event_ids |= event_ids
        self._own = [*self._own, *written][-8:]

    async def _pause(self, longest: float) -> None:
        # Some take their number in the log's order now, and their positions later.
        if self._dice.random() < 0.5:
            await self._connection.execute("SELECT pg_current_xact_id()")
        await asyncio.sleep(self._dice.uniform(0.0, longest))

    async def _append(self, written: Counter[Stream]) -> tuple[Stream, UUID]:
        """One more event: of a new stream, or the next of one that is committed or was begun here."""
        known = [*self._own, *written]
        fresh = not known or self._dice.random() < 0.6
        stream = (self._dice.choice(("Zone", "Campaign")), new_id()) if fresh else self._dice.choice(known)
        version = self._committed.versions[stream] + written[stream] + 1
        append = appended(stream, version)
        result(append, await call(self._connection, [append], locks(append)), 0)
        return stream, append.events[0].event_id


def appended(stream: Stream, version: int) -> Append:
    """The next event of a stream with the claim that goes with it."""
    type, id = stream
    name = f"{type} {id}"
    event = _event(type, id, name, version)
    kind = event_type(event.__class__)
    new = NewEvent(
        new_id(),
        type,
        id,
        version,
        kind.name,
        kind.schema_version,
        payload(event).decode(),
        event.occurred_at,
    )
    claim = Claim(kind="zone-name", key=name.casefold(), taken=ZoneNameTakenError)
    claimed = [(claim, stream)] if type == "Zone" and version == 1 else []
    envelope = Envelope(wellknown.ADMINISTRATOR, "append", wellknown.HTTP_SURFACE, uuid4().hex)
    return Append(envelope=envelope, events=[new], seen={stream: version - 1}, claimed=claimed)


def _event(type: str, id: UUID, name: str, version: int) -> Event:
    now = datetime.now(UTC)
    match type, version:
        case "Zone", 1:
            return ZoneDefined(zone_id=id, occurred_at=now, name=name)
        case "Zone", _:
            return ZoneUpdated(zone_id=id, occurred_at=now, name=name, description=f"version {version}")
        case _, 1:
            return CampaignRegistered(
                campaign_id=id,
                occurred_at=now,
                name=name,
                intent=CampaignIntent.SERIES,
                lead_actor_id=wellknown.ADMINISTRATOR,
                facility_code="home",
            )
        case _:
            text = f"version {version}"
            return CampaignDescriptionUpdated(
                campaign_id=id, occurred_at=now, description=text, tags=frozenset()
            )


class Tail:
    """A reader of the feed that never goes back."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._after: str | None = None
        self.event_ids: list[UUID] = []
        self.marks: list[tuple[int, int]] = []
        self.versions: dict[str, list[int]] = {}

    async def to_the_end(self) -> int:
        """Everything that can be read now; how much it was."""
        before = len(self.event_ids)
        while True:
            after = {} if self._after is None else {"after": self._after}
            answer = await self._client.get("/events", params={"limit": PAGE} | after)
            assert answer.status_code == 200, answer.text
            page = answer.json()
            for item in page["items"]:
                self.event_ids.append(UUID(item["id"]))
                transaction_id, position = (int(part, 16) for part in item["token"].split("."))
                self.marks.append((transaction_id, position))
                self.versions.setdefault(item["subject"], []).append(item["streamversion"])
            self._after = page["next"]
            if len(page["items"]) < PAGE:
                return len(self.event_ids) - before

    async def follow(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self.to_the_end()
            await asyncio.sleep(0.1)
