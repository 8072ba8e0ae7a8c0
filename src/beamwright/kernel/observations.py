"""The observations seam: samples of a run's channels, kept in bulk beside the log."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol
from uuid import UUID

from .entries import Inserted
from .units import Unit
from .value import Time, Value

type ObservationFormat = Literal["csv", "parquet", "arrow"]


class UnreadableTableError(ValueError):
    """The bytes are no table of samples; the message says why."""


class ObservationKind(Value):
    """What samples have in common: a batch says it once, however many there are."""

    channel_name: str
    sampling_procedure: str
    simulated: bool = False
    unit: Unit | None = None


class ObservationBatch(Value):
    """Samples by column; times are microseconds since 1970, ids their sixteen bytes."""

    kinds: tuple[ObservationKind, ...] = ()
    kind_numbers: Sequence[int] = ()
    event_ids: Sequence[bytes] = ()
    values: Sequence[float] = ()
    sampled_at: Sequence[int] = ()

    @property
    def size(self) -> int:
        return len(self.values)


class Delivery(Value):
    """Whose samples a batch holds, and how they came."""

    run_id: UUID
    source_id: str | None
    principal_id: UUID
    correlation_id: str
    recorded_at: datetime
    # Delivered after the run's end.
    late: bool


class ObservationSelection(Value):
    """Which samples a read is about; None is any."""

    run_id: UUID
    channel_names: frozenset[str] = frozenset()
    source_id: str | None = None
    sampling_procedure: str | None = None
    simulated: bool | None = None
    late: bool | None = None
    sampled_from: datetime | None = None
    sampled_until: datetime | None = None


class Observation(Value):
    """One sample of a channel."""

    event_id: UUID
    channel_name: str
    value: float
    unit: Unit | None
    sampling_procedure: str
    sampled_at: Time
    simulated: bool
    late: bool
    source_id: str | None
    principal_id: UUID
    correlation_id: str
    recorded_at: Time


class ObservationBucket(Value):
    """The samples of one stretch of time, which begins at `sampled_from`."""

    sampled_from: Time
    count: int
    minimum: float
    maximum: float
    mean: float


class ObservationSeries(Value):
    """One channel in buckets of equal width; a stretch without samples has none."""

    channel_name: str
    width: float
    buckets: list[ObservationBucket]


class RunChannel(Value):
    """All samples of one channel."""

    channel_name: str
    count: int
    first_sampled_at: Time
    last_sampled_at: Time
    minimum: float
    maximum: float
    last_value: float
    unit: Unit | None


class FeedSource(Value):
    """Who delivers samples, and when it was last heard: a quiet channel may have a live feed."""

    source_id: str
    last_seen_at: Time


class Observations(Protocol):
    """The table of samples. Each sample is kept once, by its producer's own id."""

    async def read_table(self, content: bytes, most: int) -> ObservationBatch:
        """The samples of an Apache Arrow stream of at most so many rows."""
        ...

    async def append(self, batch: ObservationBatch, delivery: Delivery, ends: Collection[str]) -> Inserted:
        """Write what is new. Unless it is late, no event of the types `ends` may be on the run's stream by then:
        this is verified in the same transaction, and a `LostRaceError` where it fails."""
        ...

    async def page(
        self, selection: ObservationSelection, *, descending: bool, limit: int, cursor: str | None
    ) -> tuple[Sequence[Observation], str | None]:
        """Samples by time, and the cursor of the next page."""
        ...

    async def series(self, selection: ObservationSelection, points: int) -> Sequence[ObservationSeries]:
        """Each channel in at most so many buckets over the selected time."""
        ...

    async def channels(self, run_id: UUID) -> Sequence[RunChannel]: ...
    async def sources(self, run_id: UUID) -> Sequence[FeedSource]: ...
    async def counts(self, run_ids: Collection[UUID]) -> Mapping[UUID, int]:
        """How many samples each run has; a run without any is absent."""
        ...

    def export(self, selection: ObservationSelection, format: ObservationFormat) -> AsyncIterator[bytes]:
        """Every selected sample by channel and time, as a file that grows while it is read."""
        ...
