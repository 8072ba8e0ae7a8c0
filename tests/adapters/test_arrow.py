"""Samples as an Apache Arrow stream: what is read, in which forms, and what is refused."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from beamwright.adapters.arrow import read_table
from beamwright.kernel.observations import ObservationBatch, ObservationKind, UnreadableTableError
from beamwright.kernel.units import Unit, UnitSystem

IDS = [UUID(int=n, version=4) for n in range(1, 4)]
TIMES = [datetime(2026, 1, 1, second=second, microsecond=7, tzinfo=UTC) for second in range(3)]
COLUMNS: dict[str, Any] = {
    "event_id": pa.array([id.bytes for id in IDS], pa.binary(16)),
    "channel_name": pa.array(["t1", "t2", "t1"]),
    "value": pa.array([1.0, 2.5, -3.0]),
    "sampled_at": pa.array(TIMES, pa.timestamp("us", "UTC")),
    "sampling_procedure": pa.array(["Monitor"] * 3),
}


def stream(*batches: dict[str, Any]) -> bytes:
    tables = [pa.table(batch) for batch in batches]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    return sink.getvalue().to_pybytes()


def read(content: bytes, most: int = 100) -> ObservationBatch:
    return asyncio.run(read_table(content, most))


def test_columns_are_read() -> None:
    batch = read(stream(COLUMNS))
    assert [UUID(bytes=id) for id in batch.event_ids] == IDS
    assert list(batch.values) == [1.0, 2.5, -3.0]
    assert list(batch.sampled_at) == [int(time.timestamp()) * 1_000_000 + 7 for time in TIMES]
    assert [batch.kinds[number].channel_name for number in batch.kind_numbers] == ["t1", "t2", "t1"]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("event_id", pa.array(list(map(str, IDS)))),
        ("event_id", pa.array(list(map(str, IDS)), pa.large_string())),
        ("event_id", pa.array([id.hex for id in IDS])),
        ("event_id", pa.ExtensionArray.from_storage(pa.uuid(), COLUMNS["event_id"])),
        ("channel_name", COLUMNS["channel_name"].dictionary_encode()),
        ("channel_name", COLUMNS["channel_name"].cast(pa.large_string())),
        ("value", pa.array([1.0, 2.5, -3.0], pa.float32())),
        ("sampled_at", COLUMNS["sampled_at"].cast(pa.timestamp("us", "Europe/Berlin"))),
        ("sampled_at", COLUMNS["sampled_at"].cast(pa.timestamp("ns", "UTC"))),
        ("simulated", pa.array([False, None, False])),
    ],
    ids=str,
)
def test_other_forms_of_a_column_say_the_same(name: str, column: Any) -> None:
    assert read(stream({**COLUMNS, name: column})) == read(stream(COLUMNS))


def test_several_batches_are_one_and_slices_are_read_from_their_own_place() -> None:
    table = pa.table(COLUMNS)
    pieces = [{name: table[name].chunk(0)[cut] for name in COLUMNS} for cut in (slice(0, 1), slice(1, 3))]
    assert read(stream(*pieces)) == read(stream(COLUMNS))


def test_nothing_at_all_is_an_empty_batch() -> None:
    empty = {name: column[:0] for name, column in COLUMNS.items()}
    assert read(stream(empty)).size == 0


def test_units_and_simulation_are_read() -> None:
    unit = {"unit_system": ["udunits"] * 3, "unit_code": ["degC"] * 3, "unit_label": [None, "°C", None]}
    more: dict[str, Any] = {name: pa.array(column, pa.string()) for name, column in unit.items()}
    batch = read(stream({**COLUMNS, **more, "simulated": pa.array([True] * 3)}))
    labelled = Unit(system=UnitSystem.UDUNITS, code="degC", label="°C")
    assert batch.kinds[1] == ObservationKind(
        channel_name="t2", sampling_procedure="Monitor", simulated=True, unit=labelled
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "cannot be read"),
        (b"{}", "cannot be read"),
        (stream(COLUMNS)[:-200], "cannot be read"),
        (stream({**COLUMNS, "surprise": pa.array([1, 2, 3])}), "no column surprise"),
        (stream({name: column for name, column in COLUMNS.items() if name != "value"}), "value is needed"),
        (stream({**COLUMNS, "value": pa.array([1.0, None, 2.0])}), "value has empty places"),
        (stream({**COLUMNS, "channel_name": pa.array(["t1", None, "t1"])}), "channel_name has empty places"),
        (stream({**COLUMNS, "event_id": pa.array(["x", "y", "z"])}), "no UUID"),
        (stream({**COLUMNS, "event_id": pa.array([1, 2, 3])}), "UUIDs as text"),
        (stream({**COLUMNS, "sampled_at": pa.array([1, 2, 3])}), "timestamps with a time zone"),
        (
            stream({**COLUMNS, "sampled_at": pa.array(TIMES, pa.timestamp("us"))}),
            "timestamps with a time zone",
        ),
        (stream({**COLUMNS, "value": pa.array(["a", "b", "c"])}), "cannot be read"),
        (stream({**COLUMNS, "unit_code": pa.array(["K"] * 3)}), "unit_system and unit_code together"),
    ],
    ids=range(13),
)
def test_what_is_no_table_of_samples_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(UnreadableTableError, match=why):
        read(content)


def test_more_rows_than_are_taken_are_refused() -> None:
    with pytest.raises(UnreadableTableError, match="At most 2 rows"):
        read(stream(COLUMNS), most=2)


def test_broken_streams_are_refused_and_never_more() -> None:
    whole, chance = stream(COLUMNS), Random(1)
    for _ in range(500):
        broken = bytearray(whole)
        for _ in range(chance.choice((1, 2, 8))):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        with suppress(UnreadableTableError):
            read(bytes(broken))
