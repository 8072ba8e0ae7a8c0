"""Reads of calibrations: what holds at a time, the tables that values are, and who uses a revision."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from beamwright.contexts.equipment.asset import assets
from beamwright.kernel.content_hash import canonical
from beamwright.kernel.declared_schema import annotated_unit
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.operation import Query, World
from beamwright.kernel.units import Unit
from beamwright.kernel.value import Time, Value

from .calibration import (
    Calibration,
    CalibrationNotFoundError,
    CalibrationRevision,
    CalibrationRevisionNotFoundError,
    CalibrationStatus,
    calibrations,
)
from .calibration_definition import InvalidCalibrationOperatingPointError, load_quantity
from .quantity import QuantityCode, QuantityVersion, calibration_quantities

type OperatingPointText = Annotated[
    str, Meta(max_length=10_000, description="an operating point as a JSON object")
]


class CalibrationNotLookupValuedError(ConflictError):
    """Values of this quantity are no tables."""


class CurrentCalibration(Value):
    """What holds at one operating point."""

    calibration_id: UUID
    operating_point: dict[str, Any]
    revision: CalibrationRevision


class CurrentCalibrations(Value):
    """One entry for each operating point where something holds."""

    items: list[CurrentCalibration]


@calibrations.operation("GET /calibrations/current")
class GetCurrentCalibration(Query[CurrentCalibrations]):
    """Read which revision of an asset's quantity holds at a time (`at`), as it was known at another (`as_of`)."""

    target_id: UUID
    quantity: QuantityCode
    at: Time | None = None
    operating_point: OperatingPointText | None = None
    include_provisional: bool = False
    as_of: Time | None = None

    async def answer(self, world: World) -> CurrentCalibrations:
        asset = await world.load(assets, self.target_id)
        quantity = await load_quantity(world, self.quantity)
        wanted = None if self.operating_point is None else canonical(parsed(self.operating_point))
        reach = world.reach("get_current_calibration")
        found = [
            each
            for each in await world.find(calibrations, target_id=asset.id, quantity=quantity.code)
            if reach.holds(calibrations.belongs(each), reading=True)
            and (wanted is None or canonical(each.operating_point) == wanted)
        ]
        known = [await as_known(world, each, self.as_of) for each in found]
        at = self.at or world.now
        return CurrentCalibrations(items=holding(known, at, include_provisional=self.include_provisional))


def parsed(operating_point: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(operating_point, type=dict[str, Any])
    except msgspec.MsgspecError:
        raise InvalidCalibrationOperatingPointError(
            'Give the operating point as a JSON object, for example {"energy": 25}.'
        ) from None


async def as_known(world: World, calibration: Calibration, as_of: datetime | None) -> Calibration | None:
    """The calibration as it was at a time, if it was."""
    if as_of is None:
        return calibration
    try:
        view = await world.view(calibrations, calibration.id, None, as_of)
    except CalibrationNotFoundError:
        return None
    return Calibration(**{field: getattr(view, field) for field in Calibration.__struct_fields__})


def holding(
    known: Sequence[Calibration | None], at: datetime, *, include_provisional: bool
) -> list[CurrentCalibration]:
    """What holds of each calibration that is in use."""
    in_use = [each for each in known if each is not None and each.status is CalibrationStatus.ACTIVE]
    return [
        CurrentCalibration(calibration_id=each.id, operating_point=each.operating_point, revision=revision)
        for each in sorted(in_use, key=lambda each: each.id)
        if (revision := each.current_at(at, include_provisional=include_provisional)) is not None
    ]


async def load_revision(world: World, id: UUID) -> tuple[Calibration, CalibrationRevision]:
    """A revision and its calibration, within the caller's reach."""
    found: Sequence[Calibration] = await world.look_up("Calibration", revision_id=frozenset({id})) or ()
    reach = world.reach("get_calibration")
    for calibration in found:
        if reach.holds(calibrations.belongs(calibration), reading=True):
            return calibration, calibration.revision(id)
    raise CalibrationRevisionNotFoundError.of("Calibration revision", id)


class CalibrationLookup(Value):
    """The points of a table-like value in order, and the units of both columns."""

    points: list[tuple[float, float]]
    x_unit: Unit | None
    y_unit: Unit | None


@calibrations.operation("GET /calibration-revisions/{revision_id}/lookup")
class GetCalibrationLookup(Query[CalibrationLookup]):
    """Read a table-like value as points to look up in."""

    revision_id: UUID

    async def answer(self, world: World) -> CalibrationLookup:
        calibration, revision = await load_revision(world, self.revision_id)
        quantity = await world.load(calibration_quantities, calibration.quantity_id)
        return lookup_table(quantity.at_version(revision.quantity_version), revision)


def lookup_table(version: QuantityVersion, revision: CalibrationRevision) -> CalibrationLookup:
    lookup = version.lookup
    if lookup is None:
        raise CalibrationNotLookupValuedError(
            "Values of this quantity are no tables; read the revision instead.",
            revision_id=str(revision.revision_id),
        )
    members = version.value_schema["properties"][lookup.points]["items"]["properties"]
    rows: list[dict[str, Any]] = revision.value.get(lookup.points, [])
    return CalibrationLookup(
        points=[
            (index if lookup.x is None else row[lookup.x], row[lookup.y]) for index, row in enumerate(rows)
        ],
        x_unit=None if lookup.x is None else annotated_unit(members[lookup.x]),
        y_unit=annotated_unit(members[lookup.y]),
    )


class RevisionUse(Value):
    """A run that pinned a revision, or a dataset that used it."""

    id: UUID
    name: str
    status: str


class RevisionUses(Value):
    """The uses within your reach, and how many more there are."""

    runs: list[RevisionUse]
    datasets: list[RevisionUse]
    hidden_count: int


@calibrations.operation("GET /calibration-revisions/{revision_id}/uses")
class GetCalibrationRevisionUses(Query[RevisionUses]):
    """List the runs that pinned a revision and the datasets that used it."""

    revision_id: UUID

    async def answer(self, world: World) -> RevisionUses:
        await load_revision(world, self.revision_id)
        runs = await world.look_up("Run", calibration_id=self.revision_id) or ()
        datasets = await world.look_up("Dataset", used_calibration_id=self.revision_id) or ()
        shown_runs = await within_reach(world, "Run", runs)
        shown_datasets = await within_reach(world, "Dataset", datasets)
        hidden = len(runs) + len(datasets) - len(shown_runs) - len(shown_datasets)
        return RevisionUses(runs=shown_runs, datasets=shown_datasets, hidden_count=hidden)


async def within_reach(world: World, aggregate: str, users: Sequence[Any]) -> list[RevisionUse]:
    """Those of some objects whose single read the caller is granted, by id."""
    if not users:
        return []
    reach = world.reach(f"get_{aggregate.lower()}")
    return [
        RevisionUse(id=user.id, name=user.name, status=str(user.status))
        for user in sorted(users, key=lambda user: user.id)
        if reach.holds(await world.belonging(aggregate, user.id), reading=True)
    ]
