"""Samples of a run's channels: delivered in bulk, kept beside the log, read by channel and time."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Literal, NoReturn, get_args
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.aggregate import Cursor
from beamwright.kernel.download import Download
from beamwright.kernel.entries import Inserted
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.event import event_type
from beamwright.kernel.observations import (
    Delivery,
    FeedSource,
    Observation,
    ObservationBatch,
    ObservationFormat,
    ObservationKind,
    ObservationSelection,
    ObservationSeries,
    RunChannel,
    UnreadableTableError,
)
from beamwright.kernel.operation import Composite, Issue, Query, World
from beamwright.kernel.units import Unit, UnitSystem, unit_fault
from beamwright.kernel.value import Time, Value, replace

from .run import Run, RunEnd, runs

MOST_ENTRIES = 5_000
MOST_ROWS = 200_000
MOST_POINTS = 100_000
ARROW_STREAM = "application/vnd.apache.arrow.stream"
MEDIA_TYPES: dict[ObservationFormat, str] = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "arrow": ARROW_STREAM,
}
# A producer's clock may be behind ours by this much.
BEFORE_START = timedelta(seconds=60)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LATEST = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
ENDS = tuple(event_type(each).name for each in get_args(RunEnd.__value__))

type ChannelName = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 255})]
type SourceId = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 100})]


class SamplingProcedure(StrEnum):
    BASELINE = "Baseline"
    MONITOR = "Monitor"


class InvalidChannelNameError(InvalidError):
    """A channel's name is blank or too long."""


class InvalidObservationValueError(InvalidError):
    """A value is not a finite number."""


class InvalidObservationUnitError(InvalidError):
    """A unit's system, code or label is not known or too long."""


class InvalidObservationBatchError(InvalidError):
    """The batch is empty, too large or not readable, or its source is malformed."""


class InvalidObservationPointsError(InvalidError):
    """So many points of so many channels are too much for one answer."""


class RunObservationsClosedError(ConflictError):
    """A sample was taken before the run started or after it ended."""


class ObservationEntry(Value, forbid_unknown_fields=True):
    """One sample as a producer sends it; its id makes sure that it is kept once."""

    event_id: UUID
    channel_name: ChannelName
    value: float
    unit: Unit | None = None
    sampling_procedure: SamplingProcedure
    sampled_at: Time
    simulated: bool = False


@runs.operation("POST /runs/{run_id}/observations/append", bodies={ARROW_STREAM: "entries"})
class AppendObservations(Composite[Inserted]):
    """Deliver samples of a run's channels, each kept once: up to 5000 as JSON, 200000 as an Apache Arrow stream.

    None at all, with a source_id, says that the source is alive.
    """

    run_id: UUID
    source_id: SourceId | None = None
    entries: (
        tuple[ObservationEntry, ...]
        | Annotated[bytes, Meta(description="an Apache Arrow IPC stream of the same columns")]
    )

    async def conduct(self, world: World, issue: Issue) -> Inserted:
        run = await world.load(runs, self.run_id)
        batch = checked(await self._batch(world))
        source_id = self.checked_source(batch)
        check_window(run, batch.sampled_at)
        delivery = Delivery(
            run_id=run.id,
            source_id=source_id,
            principal_id=world.caller.principal_id,
            correlation_id=world.correlation_id,
            recorded_at=world.now,
            late=run.ended_at is not None,
        )
        return await world.observations.append(batch, delivery, ENDS)

    async def _batch(self, world: World) -> ObservationBatch:
        if not isinstance(self.entries, bytes):
            return by_column(self.entries)
        try:
            return await world.observations.read_table(self.entries, MOST_ROWS)
        except UnreadableTableError as error:
            raise InvalidObservationBatchError(str(error)) from None

    def checked_source(self, batch: ObservationBatch) -> str | None:
        if self.source_id is not None:
            return text.trimmed(self.source_id, 100, InvalidObservationBatchError, "source id")
        if not batch.size:
            raise InvalidObservationBatchError("Send samples, or name the source_id that is alive.")
        return None


def by_column(entries: Sequence[ObservationEntry]) -> ObservationBatch:
    if len(entries) > MOST_ENTRIES:
        raise InvalidObservationBatchError(
            f"At most {MOST_ENTRIES} samples are taken at once as JSON, {MOST_ROWS} as {ARROW_STREAM}.",
            most=MOST_ENTRIES,
        )
    numbers: dict[tuple[str, str, bool, Unit | None], int] = {}
    kind_numbers = [
        numbers.setdefault((e.channel_name, e.sampling_procedure, e.simulated, e.unit), len(numbers))
        for e in entries
    ]
    return ObservationBatch(
        kinds=tuple(
            ObservationKind(channel_name=name, sampling_procedure=procedure, simulated=simulated, unit=unit)
            for name, procedure, simulated, unit in numbers
        ),
        kind_numbers=kind_numbers,
        event_ids=[entry.event_id.bytes for entry in entries],
        values=[entry.value for entry in entries],
        sampled_at=[microseconds(entry.sampled_at) for entry in entries],
    )


def microseconds(time: datetime) -> int:
    """Since 1970."""
    return (time - EPOCH) // MICROSECOND


def checked(batch: ObservationBatch) -> ObservationBatch:
    """The batch with its channel names trimmed, or a refusal that says at which entry it begins."""
    names = [checked_name(batch, number) for number in range(len(batch.kinds))]
    if not all(map(math.isfinite, batch.values)):
        index = next(n for n, value in enumerate(batch.values) if not math.isfinite(value))
        refuse(InvalidObservationValueError, "the value is not a finite number", index)
    for number, kind in enumerate(batch.kinds):
        if fault := kind_unit_fault(kind.unit):
            refuse(InvalidObservationUnitError, fault, batch.kind_numbers.index(number))
    for number, kind in enumerate(batch.kinds):
        if kind.sampling_procedure not in set(SamplingProcedure):
            known = " or ".join(SamplingProcedure)
            index = batch.kind_numbers.index(number)
            refuse(InvalidObservationBatchError, f"the sampling procedure is {known}", index)
    if batch.size and max(batch.sampled_at) > LATEST:
        index = batch.sampled_at.index(max(batch.sampled_at))
        refuse(InvalidObservationBatchError, "there is no such year", index)
    kinds = (replace(kind, channel_name=name) for kind, name in zip(batch.kinds, names, strict=True))
    return replace(batch, kinds=tuple(kinds))


def checked_name(batch: ObservationBatch, number: int) -> str:
    refusal = InvalidChannelNameError
    try:
        return text.trimmed(batch.kinds[number].channel_name, 255, refusal, "channel name")
    except InvalidChannelNameError as error:
        refuse(refusal, error.detail, batch.kind_numbers.index(number))


def kind_unit_fault(unit: Unit | None) -> str | None:
    """What is wrong with a unit; that of a table may be of any system."""
    if unit is None:
        return None
    if unit.system not in set(UnitSystem):
        return f"the system of a unit is one of {', '.join(UnitSystem)}"
    if unit.label is not None and not unit.label.isprintable():
        return "the label of a unit has printable characters only"
    return unit_fault(unit)


def refuse(refusal: type[InvalidError], why: str, index: int) -> NoReturn:
    raise refusal(f"Entry {index}: {why}", index=index)


def check_window(run: Run, sampled_at: Sequence[int]) -> None:
    """Gate: samples are of the time between the run's start, give or take a clock, and its end."""
    earliest = microseconds(run.started_at - BEFORE_START)
    latest = LATEST if run.ended_at is None else microseconds(run.ended_at)
    if not sampled_at or (min(sampled_at) >= earliest and max(sampled_at) <= latest):
        return
    index = next(n for n, time in enumerate(sampled_at) if not earliest <= time <= latest)
    end = "goes on" if run.ended_at is None else f"ended at {run.ended_at.isoformat()}"
    raise RunObservationsClosedError(
        f"Entry {index} is of another time: {run.name} started at {run.started_at.isoformat()} and {end}.",
        index=index,
        run_id=str(run.id),
        started_at=run.started_at.isoformat(),
        ended_at=None if run.ended_at is None else run.ended_at.isoformat(),
    )


class ObservationQuery[Answer](Query[Answer]):
    """Which samples of a run are asked for."""

    run_id: UUID
    channel_name: frozenset[ChannelName] = frozenset()
    source_id: SourceId | None = None
    sampling_procedure: SamplingProcedure | None = None
    simulated: bool | None = None
    late: bool | None = None
    sampled_from: Time | None = None
    sampled_until: Time | None = None

    def selection(self) -> ObservationSelection:
        return ObservationSelection(
            run_id=self.run_id,
            channel_names=self.channel_name,
            source_id=self.source_id,
            sampling_procedure=self.sampling_procedure,
            simulated=self.simulated,
            late=self.late,
            sampled_from=self.sampled_from,
            sampled_until=self.sampled_until,
        )


class ObservationPage(Value):
    """Samples by time, or, where `max_points` was given, each channel in buckets instead."""

    items: list[Observation]
    next_cursor: str | None
    series: list[ObservationSeries] = []


@runs.operation("GET /runs/{run_id}/observations")
class ListRunObservations(ObservationQuery[ObservationPage]):
    """List the samples of a run by time, or, with max_points, the extremes and the mean of each stretch of time."""

    sort: Literal["sampled_at", "-sampled_at"] = "sampled_at"
    limit: Annotated[int, Meta(ge=1, le=5000)] = 500
    cursor: Cursor | None = None
    max_points: Annotated[int, Meta(ge=10, le=5000)] | None = None

    async def answer(self, world: World) -> ObservationPage:
        await world.load(runs, self.run_id)
        if self.max_points is not None:
            return await self._in_buckets(world, self.max_points)
        items, next_cursor = await world.observations.page(
            self.selection(), descending=self.sort.startswith("-"), limit=self.limit, cursor=self.cursor
        )
        return ObservationPage(items=list(items), next_cursor=next_cursor)

    async def _in_buckets(self, world: World, points: int) -> ObservationPage:
        channels = await world.observations.channels(self.run_id)
        check_points(points, self.channel_name, (channel.channel_name for channel in channels))
        series = await world.observations.series(self.selection(), points)
        return ObservationPage(items=[], next_cursor=None, series=list(series))


def check_points(points: int, asked: frozenset[str], known: Iterable[str]) -> None:
    count = sum(not asked or name in asked for name in known)
    if points * count > MOST_POINTS:
        raise InvalidObservationPointsError(
            f"{points} points of {count} channels are too many; name channels, or ask for fewer points.",
            most=MOST_POINTS,
        )


class RunChannels(Value):
    """What was measured, and who delivered it."""

    channels: list[RunChannel]
    sources: list[FeedSource]


@runs.operation("GET /runs/{run_id}/channels")
class ListRunChannels(Query[RunChannels]):
    """List the channels of a run with their extremes, and the sources with when each was last heard."""

    run_id: UUID

    async def answer(self, world: World) -> RunChannels:
        await world.load(runs, self.run_id)
        channels = await world.observations.channels(self.run_id)
        return RunChannels(
            channels=list(channels), sources=list(await world.observations.sources(self.run_id))
        )


@runs.operation("GET /runs/{run_id}/observations/export", media_types=tuple(MEDIA_TYPES.values()))
class GetRunObservationsExport(ObservationQuery[Download]):
    """Export the samples of a run by channel and time, as a CSV, Parquet or Apache Arrow file."""

    format: ObservationFormat = "csv"

    async def answer(self, world: World) -> Download:
        await world.load(runs, self.run_id)
        return Download(
            media_type=MEDIA_TYPES[self.format],
            filename=f"{self.run_id}.{self.format}",
            content=world.observations.export(self.selection(), self.format),
        )
