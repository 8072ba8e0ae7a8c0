"""Derived list tables: typed columns from an aggregate's declared filters, fed by one generic projection."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple, TypeAliasType, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec

from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.event import Belonging
from beamwright.kernel.store import Stored
from beamwright.kernel.value import encode

from .database import Database
from .driver import Connection, Row

ENVELOPE = ("created_at", "updated_at")
WRITTEN = (
    ("id", "uuid"),
    ("version", "integer"),
    ("state", "text"),
    ("created_at", "timestamptz"),
    ("updated_at", "timestamptz"),
    ("created_by", "uuid"),
    ("facility_code", "text"),
    ("owner_id", "uuid"),
    ("member_id", "uuid"),
    ("words_text", "text"),
)
LISTS = (Test.CONTAINS, Test.CONTAINS_ANY, Test.COVERS)
# What sorts after everything else of its type.
NOT_YET: Mapping[str, Any] = {
    "timestamptz": datetime(9999, 1, 1, tzinfo=UTC),
    "text": "\U0010ffff",
    "bigint": 2**63 - 1,
    "uuid": UUID(int=2**128 - 1),
}
# From this many new rows on, COPY is faster than an upsert.
MANY = 100


class Column(NamedTuple):
    """One column of a list table."""

    name: str
    type: str
    of: Callable[[Any], Any] | None

    @property
    def array(self) -> bool:
        return self.type.endswith("[]")


class ListTable:
    """The list table of one aggregate, in the shape of today's declarations; a rebuild is a new generation."""

    def __init__(self, aggregate: Aggregate[Any, Any], generation: int = 1) -> None:
        self.aggregate = aggregate
        self.filters: Mapping[str, Filter[Any]] = {each.name: each for each in aggregate.listing.filters}
        self.columns = [*_filter_columns(self.filters.values()), *_sort_columns(aggregate)]
        self.shape = _shape(aggregate)
        self.version = f"{self.shape}_{generation}"
        self.name = f"{aggregate.snake}_{self.version}"
        self.table = f"lists.{self.name}"

    def ddl(self) -> list[str]:
        """The table and an index for each way of reading it."""
        columns = "".join(f", {column.name} {column.type}" for column in self.columns)
        create = f"""CREATE TABLE IF NOT EXISTS {self.table} (
            id uuid PRIMARY KEY, version integer NOT NULL, state text NOT NULL, created_at timestamptz NOT NULL,
            updated_at timestamptz NOT NULL, created_by uuid NOT NULL, facility_code text,
            visit_ids uuid[] NOT NULL, owner_id uuid, member_id uuid, words_text text NOT NULL,
            words tsvector GENERATED ALWAYS AS (to_tsvector('simple', words_text)) STORED{columns})"""
        return [
            create,
            *(f"CREATE INDEX IF NOT EXISTS {name} ON {self.table} {on}" for name, on in self._indexes()),
        ]

    def _indexes(self) -> list[tuple[str, str]]:
        indexes = [("created_at", "(created_at, id)")]
        indexes += [
            (f"s_{key}", f"(s_{key}, id)") for key in self.aggregate.listing.sorts if key not in ENVELOPE
        ]
        for column in self.columns:
            if column.name.startswith("f_"):
                array = column.type.endswith("[]")
                indexes.append(
                    (
                        column.name,
                        f"USING gin ({column.name})" if array else f"({column.name}, created_at, id)",
                    )
                )
        if self.aggregate.listing.text:
            indexes.append(("words", "USING gin (words)"))
        return [(f"{self.name}_{name}"[:63], on) for name, on in indexes]

    @property
    def fields(self) -> list[Column]:
        """Every column that is written, in the order of `row`; those that hold arrays come last."""
        envelope = [Column(name, type, None) for name, type in WRITTEN]
        single = [column for column in self.columns if not column.array]
        return [
            *envelope,
            *single,
            Column("visit_ids", "uuid[]", None),
            *(c for c in self.columns if c.array),
        ]

    def upsert(self) -> str:
        fields = self.fields
        # Arrays of arrays do not unnest by row, so array columns travel as text and are cast back.
        sources = ", ".join(f"${n}::{'text' if c.array else c.type}[]" for n, c in enumerate(fields, 1))
        selected = ", ".join(f"{c.name}::{c.type}" if c.array else c.name for c in fields)
        names = ", ".join(column.name for column in fields)
        kept = ("id", "created_at", "created_by")
        updates = ", ".join(f"{c.name} = excluded.{c.name}" for c in fields if c.name not in kept)
        return f"""INSERT INTO {self.table} AS t ({names}) SELECT {selected} FROM unnest({sources}) AS n ({names})
            ON CONFLICT (id) DO UPDATE SET {updates} WHERE t.version < excluded.version"""

    def row(
        self, state: Any, version: int, created_at: datetime, updated_at: datetime, created_by: UUID
    ) -> list[Any]:
        belonging: Belonging = self.aggregate.belongs(state)
        words = " ".join(text for key in self.aggregate.listing.text if (text := getattr(state, key)))
        return [
            state.id,
            version,
            encode(state).decode(),
            created_at,
            updated_at,
            created_by,
            belonging.facility_code,
            belonging.owner_id,
            belonging.member_id,
            words,
            *(column.of(state) for column in self.columns if column.of and not column.array),
            sorted(belonging.visit_ids),
            *(list(column.of(state)) for column in self.columns if column.of and column.array),
        ]


@cache
def _shape(aggregate: Aggregate[Any, Any]) -> str:
    """Changes with the columns, the state's shape or the declared version of the fold."""
    columns = [*_filter_columns(aggregate.listing.filters), *_sort_columns(aggregate)]
    shape = [
        aggregate.fold_version,
        [(column.name, column.type) for column in columns],
        aggregate.listing.text,
        msgspec.json.schema(aggregate.state),
    ]
    return blake2b(encode(shape), digest_size=5).hexdigest()


class ListProjection:
    """Folds each batch per stream, from the row's own state on, and upserts it in one statement."""

    def __init__(self, aggregate: Aggregate[Any, Any], database: Database, generation: int = 1) -> None:
        self.table = ListTable(aggregate, generation)
        self.aggregate = aggregate
        self._database = database
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(aggregate.state)
        self._fields = self.table.fields
        self._upsert = self.table.upsert()
        self._known = f"SELECT id, version, state, created_at, updated_at, created_by FROM {self.table.table} WHERE id = ANY ($1::uuid[])"

    @property
    def name(self) -> str:
        return self.aggregate.snake

    @property
    def version(self) -> str:
        return self.table.version

    async def prepare(self) -> None:
        async with self._database.connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 7))", self.table.name)
            for statement in self.table.ddl():
                await connection.execute(statement)

    async def apply(self, transaction: Any, events: Sequence[Stored]) -> None:
        connection: Connection = transaction
        streams: dict[UUID, list[Stored]] = {}
        for event in events:
            if event.stream_type == self.aggregate.name:
                streams.setdefault(event.stream_id, []).append(event)
        if not streams:
            return
        known = await self._rows(connection, streams)
        new = [self._fold(None, batch) for batch in streams.values() if batch[0].version == 1]
        changed = [self._fold(known[id], batch) for id, batch in streams.items() if batch[0].version > 1]
        if len(new) >= MANY:
            await self._copy(connection, new)
            new = []
        if new or changed:
            await self._upsert_rows(connection, [*new, *changed])

    async def _copy(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
        """New streams have no row yet: the bookmark moves in the same transaction, so nothing comes twice."""
        await connection.copy_records_to_table(
            self.table.name, records=rows, columns=[c.name for c in self._fields], schema_name="lists"
        )

    async def _upsert_rows(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
        columns = zip(*rows, strict=True)
        arguments = [
            [_array(value) for value in values] if column.array else list(values)
            for column, values in zip(self._fields, columns, strict=True)
        ]
        await connection.execute(self._upsert, *arguments)

    async def _rows(
        self, connection: Connection, streams: Mapping[UUID, Sequence[Stored]]
    ) -> dict[UUID, Row]:
        older = [id for id, batch in streams.items() if batch[0].version > 1]
        return {row["id"]: row for row in await connection.fetch(self._known, older)} if older else {}

    def _fold(self, row: Row | None, batch: Sequence[Stored]) -> list[Any]:
        state = self._decoder.decode(row["state"]) if row is not None else None
        version: int = row["version"] if row is not None else 0
        new = [event for event in batch if event.version > version]
        state = self.aggregate.fold((self.aggregate.decoder.decode(event.tagged) for event in new), state)
        first, last = batch[0], batch[-1]
        updated = max(event.occurred_at for event in batch)
        if row is not None:
            updated = max(updated, row["updated_at"])
        created = (
            (row["created_at"], row["created_by"])
            if row is not None
            else (first.occurred_at, first.principal_id)
        )
        return self.table.row(state, max(version, last.version), created[0], updated, created[1])


def _filter_columns(filters: Iterable[Filter[Any]]) -> list[Column]:
    return [
        Column(f"f_{each.name}", sql_type(each.type) + ("[]" if each.test in LISTS else ""), each.of)
        if each.test not in (Test.PASSED, Test.AHEAD, Test.MATCHED_BY)
        else Column(f"f_{each.name}", "text[]" if each.test is Test.MATCHED_BY else "timestamptz", each.of)
        for each in filters
    ]


def _sort_columns(aggregate: Aggregate[Any, Any]) -> list[Column]:
    hints = {field.name: field.type for field in msgspec.structs.fields(aggregate.state)}
    return [
        Column(f"s_{key}", type := sql_type(hints.get(key) or _found(aggregate, key)), _sortable(key, type))
        for key in aggregate.listing.sorts
        if key not in ENVELOPE
    ]


def _found(aggregate: Aggregate[Any, Any], name: str) -> Any:
    """The type of a property of the state."""
    return get_type_hints(getattr(aggregate.state, name).fget)["return"]


def _sortable(name: str, type: str) -> Callable[[Any], Any]:
    """What a list is sorted by is never null, or its pages could not go on from it: what is not yet comes last."""

    def value(state: Any) -> Any:
        found = getattr(state, name)
        return NOT_YET.get(type) if found is None else found

    return value


def _array(values: Any) -> str:
    """A PostgreSQL array literal."""
    quoted = ('"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values)
    return "{" + ",".join(quoted) + "}"


SQL_TYPES: Mapping[Any, str] = {
    str: "text",
    UUID: "uuid",
    bool: "boolean",
    int: "bigint",
    datetime: "timestamptz",
}


def sql_type(hint: Any) -> str:
    """The column type of a Python type; enums and bounded text are text."""
    if isinstance(hint, TypeAliasType):
        return sql_type(hint.__value__)
    if get_origin(hint) is Annotated:
        return sql_type(get_args(hint)[0])
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return "text"
    members = [member for member in get_args(hint) if member is not type(None)]
    return sql_type(members[0]) if members else SQL_TYPES[hint]
