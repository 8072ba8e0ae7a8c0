"""Samples as Apache Arrow, Parquet and CSV files. The library is loaded by the first who needs it."""

import asyncio
from array import array
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from io import BytesIO
from typing import Any, cast

from beamwright.kernel.observations import (
    ObservationBatch,
    ObservationFormat,
    ObservationKind,
    UnreadableTableError,
)
from beamwright.kernel.units import Unit

REQUIRED = ("event_id", "channel_name", "value", "sampled_at", "sampling_procedure")
OPTIONAL = ("simulated", "unit_system", "unit_code", "unit_label")
KIND = ("channel_name", "sampling_procedure", "simulated", "unit_system", "unit_code", "unit_label")
EXPORTED = (
    "event_id",
    "sampled_at",
    "channel_name",
    "value",
    "unit_system",
    "unit_code",
    "unit_label",
    "sampling_procedure",
    "simulated",
    "late",
    "source_id",
    "recorded_at",
)


@cache
def _arrow(name: str = "") -> Any:
    return import_module(f"pyarrow{name}")


async def read_table(content: bytes, most: int) -> ObservationBatch:
    """The samples of an Arrow stream; another thread reads it, because that takes a while."""
    return await asyncio.to_thread(_read, content, most)


def _read(content: bytes, most: int) -> ObservationBatch:
    pa = _arrow()
    try:
        table = _table(content, most)
        event_ids = _ids(_column(table, "event_id"))
        values = _numbers(_column(table, "value"), pa.float64(), "d")
        sampled_at = _times(_column(table, "sampled_at"))
        kinds, kind_numbers = _kinds(table)
    except UnreadableTableError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        # The library tells bytes that are no stream in any of these ways.
        raise UnreadableTableError(f"The Arrow stream cannot be read: {str(error)[:300]}.") from None
    return ObservationBatch(
        kinds=kinds, kind_numbers=kind_numbers, event_ids=event_ids, values=values, sampled_at=sampled_at
    )


def _table(content: bytes, most: int) -> Any:
    pa = _arrow()
    with _arrow(".ipc").open_stream(pa.py_buffer(content)) as reader:
        names: list[str] = reader.schema.names
        if unknown := sorted(set(names) - {*REQUIRED, *OPTIONAL}):
            raise UnreadableTableError(f"There is no column {', '.join(unknown)[:200]}.")
        if missing := [name for name in REQUIRED if names.count(name) != 1]:
            raise UnreadableTableError(f"The column {missing[0]} is needed, once.")
        batches: list[Any] = []
        rows = 0
        for batch in reader:
            rows += batch.num_rows
            if rows > most:
                raise UnreadableTableError(f"At most {most} rows are taken at once.")
            batch.validate(full=True)
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema).combine_chunks()


def _column(table: Any, name: str) -> Any:
    """A whole column without nulls."""
    column = table.column(name)
    if column.null_count:
        raise UnreadableTableError(f"The column {name} has empty places.")
    return column.chunk(0) if column.num_chunks else _arrow().array([], column.type)


def _ids(column: Any) -> Sequence[bytes]:
    pa = _arrow()
    type = column.type
    if isinstance(type, pa.BaseExtensionType):
        column, type = column.storage, type.storage_type
    if type == pa.binary(16):
        raw = _content(column, 16)
    elif pa.types.is_string(type) or pa.types.is_large_string(type):
        raw = _parsed("".join(_arrow(".compute").replace_substring(column, "-", "").to_pylist()), len(column))
    else:
        raise UnreadableTableError("The column event_id holds 16 bytes, or UUIDs as text.")
    return [raw[place : place + 16] for place in range(0, len(raw), 16)]


def _parsed(digits: str, count: int) -> bytes:
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        raw = b""
    if len(raw) != 16 * count or len(digits) != 32 * count:
        raise UnreadableTableError("The column event_id holds something that is no UUID.")
    return raw


def _times(column: Any) -> Sequence[int]:
    pa = _arrow()
    type = column.type
    if not pa.types.is_timestamp(type) or type.tz is None:
        raise UnreadableTableError("The column sampled_at holds timestamps with a time zone.")
    times = column.cast(pa.timestamp("us", type.tz), safe=type.unit != "ns")
    return _numbers(times, pa.timestamp("us", type.tz), "q")


def _numbers(column: Any, type: Any, code: str) -> Any:
    numbers = cast(Any, array)(code)
    numbers.frombytes(_content(column if column.type == type else column.cast(type), 8))
    return numbers


def _content(column: Any, width: int) -> bytes:
    """The bytes of a column of fixed width."""
    if not len(column):
        return b""
    begin = column.offset * width
    return bytes(memoryview(column.buffers()[1])[begin : begin + len(column) * width])


def _kinds(table: Any) -> tuple[tuple[ObservationKind, ...], Sequence[int]]:
    """The different kinds of samples, and which one each row has."""
    columns = [_coded(table, name) for name in KIND]
    numbers: dict[tuple[int | None, ...], int] = {}
    rows = zip(*(codes for codes, _ in columns), strict=True)
    kind_numbers = [numbers.setdefault(row, len(numbers)) for row in rows]
    texts = [texts for _, texts in columns]
    kinds = tuple(
        _kind(*(None if code is None else texts[place][code] for place, code in enumerate(row)))
        for row in numbers
    )
    return kinds, kind_numbers


def _coded(table: Any, name: str) -> tuple[Sequence[int | None], Sequence[Any]]:
    """A column as the numbers of its different values; one that is absent is empty everywhere."""
    pa = _arrow()
    if name not in table.column_names:
        return [None] * table.num_rows, []
    column = table.column(name)
    wanted = pa.bool_() if name == "simulated" else pa.string()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.type != wanted:
        column = column.cast(wanted)
    if name in REQUIRED and column.null_count:
        raise UnreadableTableError(f"The column {name} has empty places.")
    coded = column.combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.chunk(0) if coded.num_chunks else pa.array([], wanted).dictionary_encode()
    return coded.indices.to_pylist(), coded.dictionary.to_pylist()


def _kind(
    channel_name: Any, sampling_procedure: Any, simulated: Any, system: Any, code: Any, label: Any
) -> ObservationKind:
    if (system is None) != (code is None) or (system is None and label is not None):
        raise UnreadableTableError("Give unit_system and unit_code together, or neither.")
    return ObservationKind(
        channel_name=channel_name,
        sampling_procedure=sampling_procedure,
        simulated=bool(simulated),
        unit=None if system is None else Unit(system=system, code=code, label=label),
    )


class FileWriter:
    """Turns pieces of CSV into pieces of a file in the wanted format."""

    def __init__(self, format: ObservationFormat) -> None:
        self._format = format
        self._begun = False
        self._sink = _Sink()
        self._writer: Any = None

    async def write(self, csv: bytes) -> bytes:
        if self._format == "csv":
            head = b"" if self._begun else _HEAD
            self._begun = True
            return head + csv
        return await asyncio.to_thread(self._converted, csv)

    async def close(self) -> bytes:
        """What ends the file; of an empty one, all of it."""
        if self._format == "csv":
            return b"" if self._begun else _HEAD
        return await asyncio.to_thread(self._closed)

    def _converted(self, csv: bytes) -> bytes:
        self._open().write_table(_parsed_csv(csv))
        return self._sink.taken()

    def _closed(self) -> bytes:
        self._open().close()
        return self._sink.taken()

    def _open(self) -> Any:
        if self._writer is None:
            file = _arrow().PythonFile(self._sink, mode="w")
            if self._format == "parquet":
                self._writer = _arrow(".parquet").ParquetWriter(file, _schema(), compression="zstd")
            else:
                self._writer = _arrow(".ipc").new_stream(file, _schema())
        return self._writer


class _Sink(BytesIO):
    """Holds what was written until it is taken away; places count from the beginning of the file."""

    def __init__(self) -> None:
        super().__init__()
        self._before = 0

    def tell(self) -> int:
        return self._before + super().tell()

    def taken(self) -> bytes:
        content = self.getvalue()
        self._before += len(content)
        self.seek(0)
        self.truncate()
        return content


_HEAD = ",".join(EXPORTED).encode() + b"\n"


@cache
def _schema() -> Any:
    pa = _arrow()
    words, time = pa.dictionary(pa.int32(), pa.string()), pa.timestamp("us", "UTC")
    types = {"event_id": pa.string(), "value": pa.float64(), "simulated": pa.bool_(), "late": pa.bool_()}
    types |= {"sampled_at": time, "recorded_at": time}
    return pa.schema([(name, types.get(name, words)) for name in EXPORTED])


def _parsed_csv(content: bytes) -> Any:
    csv = _arrow(".csv")
    schema = _schema()
    return csv.read_csv(
        BytesIO(content),
        read_options=csv.ReadOptions(column_names=list(EXPORTED), block_size=max(len(content), 1)),
        parse_options=csv.ParseOptions(newlines_in_values=False),
        convert_options=csv.ConvertOptions(
            column_types={name: schema.field(name).type for name in EXPORTED},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
