"""What an outside driver records of a procedure in bulk: of which time it may be, and when it comes late."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, NoReturn, get_args

from msgspec import Meta

from beamwright.kernel.entries import Entry, EntryDelivery, EntryTable, Inserted
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.event import event_type
from beamwright.kernel.operation import World

from .procedure import Procedure, ProcedureEnd

# A driver's clock may be behind ours by this much.
BEFORE_START = timedelta(seconds=60)
ENDS = tuple(event_type(each).name for each in get_args(ProcedureEnd.__value__))
LARGEST_INDEX = 2**31 - 1

type EntryLimit = Annotated[int, Meta(ge=1, le=1000)]


class ProcedureActivitiesClosedError(ConflictError):
    """The procedure has not started, or an entry is of the time before its start or after its end."""


async def append_entries[E: Entry, K: Entry](
    world: World, procedure: Procedure, table: EntryTable[E, K], entries: Sequence[E]
) -> Inserted:
    """Each entry once; what a procedure that has ended takes is late."""
    delivery = EntryDelivery(
        stream_id=procedure.id,
        principal_id=world.caller.principal_id,
        correlation_id=world.correlation_id,
        recorded_at=world.now,
        late=procedure.ended_at is not None,
    )
    return await world.entries.append(table, entries, delivery, ENDS)


def check_window(procedure: Procedure, entries: Sequence[Entry]) -> None:
    """Gate: entries are of the time between the procedure's start, give or take a clock, and its end."""
    started_at, ended_at = procedure.started_at, procedure.ended_at
    if started_at is None:
        raise ProcedureActivitiesClosedError(
            f"{procedure.name} has not started: start_procedure first.", procedure_id=str(procedure.id)
        )
    for index, entry in enumerate(entries):
        if entry.sampled_at < started_at - BEFORE_START or (ended_at and entry.sampled_at > ended_at):
            end = "goes on" if ended_at is None else f"ended at {ended_at.isoformat()}"
            raise ProcedureActivitiesClosedError(
                f"Entry {index} is of another time: {procedure.name} started at {started_at.isoformat()} and {end}.",
                index=index,
                procedure_id=str(procedure.id),
                started_at=started_at.isoformat(),
                ended_at=None if ended_at is None else ended_at.isoformat(),
            )


def check_size(entries: Sequence[object], most: int, refusal: type[InvalidError]) -> None:
    if not 1 <= len(entries) <= most:
        raise refusal(f"Send 1 to {most} entries at once, not {len(entries)}.", most=most)


def refuse(refusal: type[InvalidError], why: str, index: int) -> NoReturn:
    raise refusal(f"Entry {index}: {why}", index=index)
