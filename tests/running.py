"""Runs and procedures in a log without the plan, recipe, assets and gates that starting one takes."""

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from beamwright.app import App, new_id
from beamwright.contexts.operation.procedure import (
    ProcedureRecipeExpanded,
    ProcedureRegistered,
    ProcedureStarted,
)
from beamwright.contexts.recipe.steps import StepLists
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


async def register_procedure(app: App, at: datetime, lists: StepLists | None = None) -> UUID:
    """A procedure as `register_procedure` would have recorded it then, with these steps."""
    procedure_id = new_id()
    registered = ProcedureRegistered(
        procedure_id=procedure_id,
        occurred_at=at,
        name="Homing",
        kind="homing",
        facility_code="home",
        registered_by=wellknown.ADMINISTRATOR,
    )
    await record(app, "Procedure", procedure_id, 1, registered)
    expanded = ProcedureRecipeExpanded(
        procedure_id=procedure_id,
        occurred_at=at,
        recipe_id=uuid4(),
        recipe_stream_version=1,
        recipe_version_tag="1",
        capability_id=uuid4(),
        capability_stream_version=1,
        bindings={},
        bindings_hash="0" * 64,
        steps=lists.steps if lists else (),
        closing_steps=lists.closing_steps if lists else (),
        steps_hash="0" * 64,
        expander_version=1,
    )
    await record(app, "Procedure", procedure_id, 2, expanded)
    return procedure_id


async def start_procedure(app: App, at: datetime, lists: StepLists | None = None) -> UUID:
    """A procedure that started then, as `start_procedure` would have recorded it."""
    procedure_id = await register_procedure(app, at, lists)
    started = ProcedureStarted(procedure_id=procedure_id, occurred_at=at, started_by=wellknown.ADMINISTRATOR)
    await record(app, "Procedure", procedure_id, 3, started)
    return procedure_id


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
