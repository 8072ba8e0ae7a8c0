"""Revisions of every calibration, found by what they say and where they come from."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec

from beamwright.contexts.federation.artifact import Artifact, ArtifactStatus
from beamwright.kernel.aggregate import ListRequest
from beamwright.kernel.cursor import InvalidCursorError, decode_cursor, encode_cursor
from beamwright.kernel.delivery import Delivery
from beamwright.kernel.operation import Query, World
from beamwright.kernel.value import Time, Value

from .calibration import (
    Calibration,
    CalibrationPublication,
    CalibrationRevision,
    CalibrationRevisionStatus,
    CalibrationSourceKind,
    calibrations,
)
from .calibration_reads import load_revision
from .quantity import QuantityCode


class CalibrationPublicationView(CalibrationPublication):
    """A publication, and what has become of its artifact."""

    status: ArtifactStatus
    delivery: Delivery | None


class CalibrationRevisionView(CalibrationRevision):
    """A revision, the calibration it belongs to, who established it, and where it was published."""

    publications: Mapping[UUID, CalibrationPublicationView] = {}
    calibration_id: UUID
    target_id: UUID
    facility_code: str
    quantity: str
    operating_point: dict[str, Any]
    established_by_name: str


class CalibrationRevisionPage(Value):
    """One page of revisions."""

    items: list[CalibrationRevisionView]
    next_cursor: str | None


type Row = tuple[Calibration, CalibrationRevision]


@calibrations.operation("GET /calibration-revisions/{revision_id}")
class GetCalibrationRevision(Query[CalibrationRevisionView]):
    """Read one revision of a calibration."""

    revision_id: UUID

    async def answer(self, world: World) -> CalibrationRevisionView:
        [view] = await revision_views(world, [await load_revision(world, self.revision_id)])
        return view


@calibrations.operation("GET /calibration-revisions")
class ListCalibrationRevisions(ListRequest):
    """List revisions of calibrations, filtered and sorted."""

    calibration_id: UUID | None = None
    target_id: UUID | None = None
    quantity: QuantityCode | None = None
    status: CalibrationRevisionStatus | None = None
    source_kind: CalibrationSourceKind | None = None
    source_id: UUID | None = None
    established_by: UUID | None = None
    established_from: Time | None = None
    established_until: Time | None = None
    valid_at: Time | None = None
    # The peer that it was published to.
    published_to: UUID | None = None
    sort: Literal["established_at", "-established_at", "valid_from", "-valid_from"] = "-established_at"

    async def answer(self, world: World) -> CalibrationRevisionPage:
        await world.caught_up(calibrations, self.consistent_with)
        reach = world.reach("list_calibration_revisions")
        found = (
            each
            for each in await self.candidates(world)
            if reach.holds(calibrations.belongs(each), reading=True)
        )
        rows = self.ordered(self.matching(found))
        after = rows if self.cursor is None else self.beyond(rows, self.cursor)
        page = after[: self.limit]
        more = len(after) > len(page)
        return CalibrationRevisionPage(
            items=await revision_views(world, page), next_cursor=self.cursor_after(page[-1]) if more else None
        )

    async def candidates(self, world: World) -> Sequence[Calibration]:
        """The calibrations that may have such revisions."""
        ids = None if self.calibration_id is None else [self.calibration_id]
        wanted: dict[str, Any] = {"target_id": self.target_id, "quantity": self.quantity}
        filters = {name: value for name, value in wanted.items() if value is not None and ids is None}
        return await world.look_up("Calibration", ids, **filters) or ()

    def matching(self, found: Iterable[Calibration]) -> list[Row]:
        return [
            (calibration, revision)
            for calibration in found
            if self.target_id in (None, calibration.target_id)
            and self.quantity in (None, calibration.quantity)
            for revision in calibration.revisions
            if self.wants(revision)
        ]

    def wants(self, revision: CalibrationRevision) -> bool:
        return (
            self.status in (None, revision.status)
            and self.source_kind in (None, revision.source.kind)
            and self.source_id in (None, revision.source.id)
            and self.established_by in (None, revision.established_by)
            and (self.established_from is None or revision.established_at >= self.established_from)
            and (self.established_until is None or revision.established_at < self.established_until)
            and (self.valid_at is None or revision.valid_at(self.valid_at))
            and (self.published_to is None or self.published_to in published_to(revision))
        )

    def ordered(self, rows: list[Row]) -> list[Row]:
        return sorted(rows, key=self.key, reverse=self.sort.startswith("-"))

    def key(self, row: Row) -> tuple[datetime, UUID]:
        revision = row[1]
        by_validity = self.sort.endswith("valid_from")
        return (revision.valid_from if by_validity else revision.established_at), revision.revision_id

    def beyond(self, rows: Sequence[Row], cursor: str) -> Sequence[Row]:
        """The rows after the last one of the page before."""
        made_for, at, id = decode_cursor(cursor, 3)
        try:
            last = datetime.fromisoformat(at), UUID(id)
        except ValueError:
            last = None
        if last is None or last[0].tzinfo is None or made_for != self.sort:
            raise InvalidCursorError("Use the next_cursor of a page of the same list, unchanged, or none.")
        descending = self.sort.startswith("-")
        return [row for row in rows if (self.key(row) < last if descending else self.key(row) > last)]

    def cursor_after(self, row: Row) -> str:
        at, id = self.key(row)
        return encode_cursor([self.sort, at.isoformat(), str(id)])


def published_to(revision: CalibrationRevision) -> set[UUID]:
    return {publication.peer_facility_id for publication in revision.publications.values()}


async def revision_views(world: World, rows: Sequence[Row]) -> list[CalibrationRevisionView]:
    names = await world.profiles.names({revision.established_by for _, revision in rows})
    known = await publication_views(world, [revision for _, revision in rows])
    return [
        CalibrationRevisionView(
            **shown(revision, known),
            calibration_id=calibration.id,
            target_id=calibration.target_id,
            facility_code=calibration.facility_code,
            quantity=calibration.quantity,
            operating_point=calibration.operating_point,
            established_by_name=names[revision.established_by],
        )
        for calibration, revision in rows
    ]


def shown(revision: CalibrationRevision, known: Mapping[UUID, CalibrationPublicationView]) -> dict[str, Any]:
    publications = {
        permit_id: known[publication.artifact_id] for permit_id, publication in revision.publications.items()
    }
    return msgspec.structs.asdict(revision) | {"publications": publications}


async def publication_views(
    world: World, revisions: Sequence[CalibrationRevision]
) -> Mapping[UUID, CalibrationPublicationView]:
    """The publications of some revisions with what has become of them, by their artifacts."""
    published = [each for revision in revisions for each in revision.publications.values()]
    if not published:
        return {}
    ids = [each.artifact_id for each in published]
    found: Sequence[Artifact] = await world.look_up("Artifact", ids) or ()
    statuses, deliveries = {each.id: each.status for each in found}, await world.deliveries(ids)
    return {
        each.artifact_id: CalibrationPublicationView(
            peer_facility_id=each.peer_facility_id,
            artifact_id=each.artifact_id,
            status=statuses[each.artifact_id],
            delivery=deliveries.get(each.artifact_id),
        )
        for each in published
    }
