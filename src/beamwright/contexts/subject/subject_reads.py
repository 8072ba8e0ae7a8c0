"""Reads of subjects: their views with what was made out of them, and the chain of their custody."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.aggregate import Filter, HistoryRequest, RecordedEvent, Test
from beamwright.kernel.operation import World
from beamwright.kernel.value import Time, Value, encode

from .subject import (
    Location,
    Subject,
    SubjectCustodyTransferred,
    SubjectDiscarded,
    SubjectDismounted,
    SubjectEvent,
    SubjectMounted,
    SubjectReceived,
    SubjectRegistered,
    SubjectRemoved,
    SubjectReturned,
    SubjectStatus,
    SubjectStored,
    subjects,
)

type Short = Annotated[str, Meta(max_length=200)]


class SubjectExtras(Value):
    """What a subject's view shows beyond its state: what was made out of it, and who people are."""

    child_ids: list[UUID]
    owner_name: str | None
    custodian_name: str | None


async def subject_extras(world: World, states: Sequence[Subject]) -> list[SubjectExtras]:
    people = {id for subject in states for id in (subject.owner_id, subject.custodian_id) if id is not None}
    names = await world.profiles.names(people)
    children = await children_within_reach(world, [subject.id for subject in states])
    return [
        SubjectExtras(
            child_ids=sorted(child.id for child in children if child.parent_id == subject.id),
            owner_name=None if subject.owner_id is None else names[subject.owner_id],
            custodian_name=None if subject.custodian_id is None else names[subject.custodian_id],
        )
        for subject in states
    ]


async def children_within_reach(world: World, ids: Sequence[UUID]) -> list[Subject]:
    """What was made out of some subjects, as far as the caller may read it."""
    if not ids:
        return []
    found: Sequence[Subject] = await world.look_up("Subject", parent_id=frozenset(ids)) or ()
    reach = world.reach("get_subject")
    return [child for child in found if reach.holds(subjects.belongs(child), reading=True)]


# Given both, external_scheme and external_value find subjects that have the scheme and have the value.
subjects.reads(
    "/subjects",
    filters=(
        Filter[Subject](
            name="status",
            type=frozenset[SubjectStatus],
            of=lambda subject: subject.status,
            test=Test.ONE_OF,
        ),
        "kind",
        "facility_code",
        "visit_id",
        "owner_id",
        "custodian_id",
        Filter[Subject](
            name="parent_id", type=frozenset[UUID], of=lambda subject: subject.parent_id, test=Test.ONE_OF
        ),
        "mounted_on_asset_id",
        Filter[Subject](
            name="hazard",
            type=Short,
            of=lambda subject: [hazard.text for hazard in subject.hazards],
            test=Test.CONTAINS,
        ),
        Filter[Subject](name="measured", type=bool, of=lambda subject: subject.measured_count > 0),
        Filter[Subject](
            name="external_scheme",
            type=Short,
            of=lambda subject: sorted(subject.external_refs),
            test=Test.CONTAINS,
        ),
        Filter[Subject](
            name="external_value",
            type=Short,
            of=lambda subject: sorted({ref.value for ref in subject.external_refs.values()}),
            test=Test.CONTAINS,
        ),
        Filter[Subject](
            name="created_from", type=Time, of=lambda subject: subject.registered_at, test=Test.AT_LEAST
        ),
        Filter[Subject](
            name="created_until", type=Time, of=lambda subject: subject.registered_at, test=Test.BEFORE
        ),
    ),
    sorts=("created_at", "updated_at", "name"),
    text=("words",),
    extras=(SubjectExtras, subject_extras),
)


class CustodyEntry(Value):
    """One hand-over or change of place: what is told of it, and nothing where nothing is."""

    at: Time
    by: UUID
    by_name: str
    event: str
    version: int
    visit_id: UUID | None = None
    custodian_id: UUID | None = None
    location: Location | None = None
    asset_id: UUID | None = None
    reason: text.Reason | None = None


class SubjectCustody(Value):
    """Entries in order; `next_version` is what `after_version` of the next page must be, null at the end."""

    items: list[CustodyEntry]
    next_version: int | None
    as_of: str


# What each event tells of custody.
TOLD: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    SubjectRegistered: lambda event: {
        "visit_id": event.visit_id,
        "custodian_id": event.custodian_id,
        "location": event.location,
    },
    SubjectMounted: lambda event: {"asset_id": event.asset_id, "reason": event.reason},
    SubjectDismounted: lambda event: {"asset_id": event.from_asset_id, "reason": event.reason},
    SubjectRemoved: lambda event: {"reason": event.reason},
    SubjectReturned: lambda event: {"custodian_id": event.to_custodian_id, "reason": event.note},
    SubjectStored: lambda event: {"custodian_id": event.to_custodian_id, "location": event.location},
    SubjectDiscarded: lambda event: {"reason": event.reason},
    SubjectReceived: lambda event: {
        "visit_id": event.visit_id,
        "custodian_id": event.custodian_id,
        "location": event.location,
        "reason": event.note,
    },
    SubjectCustodyTransferred: lambda event: {
        "custodian_id": event.to_custodian_id,
        "location": event.to_location,
        "reason": event.reason,
    },
}


@subjects.operation("GET /subjects/{subject_id}/custody")
class ListSubjectCustody(HistoryRequest):
    """List every hand-over of a subject and every place it was at, in order."""

    subject_id: UUID

    async def answer(self, world: World) -> SubjectCustody:
        history = await world.history(subjects, self)
        entries = (custody_entry(record) for record in history.items)
        return SubjectCustody(
            items=[entry for entry in entries if entry is not None],
            next_version=history.next_version,
            as_of=history.as_of,
        )


def custody_entry(record: RecordedEvent) -> CustodyEntry | None:
    """What a recorded event says of custody, if anything."""
    event = decoded(record)
    if type(event) not in TOLD:
        return None
    return CustodyEntry(
        at=record.occurred_at,
        by=record.principal_id,
        by_name=record.principal_name,
        event=record.event_type,
        version=record.version,
        **TOLD[type(event)](event),
    )


def decoded(record: RecordedEvent) -> SubjectEvent:
    """The event of a record in today's form."""
    [event] = subjects.stream_decoder.decode(encode([{"event_type": tag(record), **record.payload}]))
    return subjects.current(event)


def tag(record: RecordedEvent) -> str:
    version = record.schema_version
    return record.event_type if version == 1 else f"{record.event_type}#{version}"
