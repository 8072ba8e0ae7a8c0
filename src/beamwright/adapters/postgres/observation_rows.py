"""Samples as PostgreSQL's binary COPY reads them: what rows have in common is encoded once."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from struct import Struct

from beamwright.kernel.observations import Delivery, ObservationBatch, ObservationKind

COLUMNS = (
    "run_id",
    "event_id",
    "principal_id",
    "value",
    "sampled_at",
    "recorded_at",
    "simulated",
    "late",
    "channel_name",
    "sampling_procedure",
    "correlation_id",
    "source_id",
    "unit_system",
    "unit_code",
    "unit_label",
)
HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
NULL = b"\xff\xff\xff\xff"
# PostgreSQL counts from 2000, everybody else from 1970.
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
SINCE_1970 = 946_684_800_000_000
ROWS_AT_ONCE = 4096


async def encoded(batch: ObservationBatch, delivery: Delivery) -> AsyncIterator[bytes]:
    """The whole COPY stream in pieces that take a few milliseconds each."""
    start = len(COLUMNS).to_bytes(2) + _field(delivery.run_id.bytes) + _length(16)
    middle = _field(delivery.principal_id.bytes) + _length(8)
    ends = [_common(kind, delivery) for kind in batch.kinds]
    pack = Struct(f">{len(start)}s16s{len(middle)}sd4sq").pack
    eight = _length(8)
    yield HEADER
    for first in range(0, batch.size, ROWS_AT_ONCE):
        some = slice(first, first + ROWS_AT_ONCE)
        rows = zip(
            batch.event_ids[some],
            batch.values[some],
            batch.sampled_at[some],
            batch.kind_numbers[some],
            strict=True,
        )
        yield b"".join(
            [
                pack(start, id, middle, value, eight, time - SINCE_1970) + ends[kind]
                for id, value, time, kind in rows
            ]
        )
    yield TRAILER


def _common(kind: ObservationKind, delivery: Delivery) -> bytes:
    """The columns from `recorded_at` on."""
    unit = kind.unit
    texts = (
        kind.channel_name,
        kind.sampling_procedure,
        delivery.correlation_id,
        delivery.source_id,
        None if unit is None else unit.system,
        None if unit is None else unit.code,
        None if unit is None else unit.label,
    )
    recorded = (delivery.recorded_at - EPOCH) // timedelta(microseconds=1)
    flags = _field(bytes([kind.simulated])) + _field(bytes([delivery.late]))
    return _field(recorded.to_bytes(8, signed=True)) + flags + b"".join(map(_text, texts))


def _text(value: str | None) -> bytes:
    return NULL if value is None else _field(value.encode())


def _field(content: bytes) -> bytes:
    return _length(len(content)) + content


def _length(length: int) -> bytes:
    return length.to_bytes(4)
