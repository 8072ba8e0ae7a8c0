"""Runs in a log without the plan, assets and gates that starting one takes."""

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from beamwright.app import App, new_id
from beamwright.contexts.run.run import RunStarted
from beamwright.kernel import wellknown
from beamwright.kernel.event import Event, event_type, payload
from beamwright.kernel.store import Append, Envelope, NewEvent


async def start_run(app: App, at: datetime, **fields: Any) -> UUID:
    """A run that started then, as `start_run` would have recorded it."""
    run_id = new_id()
    given: dict[str, Any] = {"name": "Run", "facility_code": "home", "asset_ids": frozenset()} | fields
    started = RunStarted(
        run_id=run_id,
        occurred_at=at,
        plan_id=uuid4(),
        plan_stream_version=1,
        plan_content_hash="0" * 64,
        practice_id=uuid4(),
        method_id=uuid4(),
        method_stream_version=1,
        capability_id=uuid4(),
        started_by=wellknown.ADMINISTRATOR,
        **given,
    )
    await record(app, "Run", run_id, 1, started)
    return run_id


async def record(app: App, stream_type: str, stream_id: UUID, version: int, event: Event) -> None:
    kind = event_type(type(event))
    new = NewEvent(
        new_id(),
        stream_type,
        stream_id,
        version,
        kind.name,
        kind.schema_version,
        payload(event).decode(),
        event.occurred_at,
    )
    envelope = Envelope(wellknown.ADMINISTRATOR, "start_run", wellknown.HTTP_SURFACE, "test")
    seen = {(stream_type, stream_id): version - 1}
    await app.store.append(Append(envelope=envelope, events=[new], seen=seen))
    app.readers.wake()
