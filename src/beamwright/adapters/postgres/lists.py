"""Reads of the list tables; what a caller may not see is never counted, sorted or searched."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.authority import Reach, Span
from beamwright.kernel.cursor import InvalidCursorError, decode_cursor, encode_cursor
from beamwright.kernel.errors import ReadModelBehindError
from beamwright.kernel.store import Found, ListRow, Mark, Matched
from beamwright.kernel.trees import Branch

from .database import Database
from .driver import Row
from .list_tables import ENVELOPE, ListTable, sql_type

TRIES = 40
# So many rows are fetched and sorted sooner than a whole list is walked in its order.
FEW = 1000
LIST = "the_list"  # stands for the table of whichever generation serves
STEP = "c.s_name || E'\\x01' || c.id::text"  # siblings come in the order of their names


class PostgresLists:
    """Knows which generation of each list serves, and asks it."""

    def __init__(self, database: Database, aggregates: Sequence[Aggregate[Any, Any]]) -> None:
        self._database = database
        self._tables = {aggregate.name: ListTable(aggregate) for aggregate in aggregates}

    async def refresh(self) -> None:
        """Find out which generation serves; needed at start and after a swap."""
        rows = await self._database.fetch("SELECT name, version FROM projections WHERE serving")
        serving = {row["name"]: row["version"] for row in rows}
        for name, table in self._tables.items():
            shape, _, generation = serving.get(table.aggregate.snake, "").partition("_")
            if shape == table.shape:
                self._tables[name] = ListTable(table.aggregate, int(generation))

    async def page(self, aggregate: Aggregate[Any, Any], request: Any, reach: Reach, now: datetime) -> Found:
        table = self._tables[aggregate.name]
        query = Conditions()
        reach_condition(query, reach)
        _filters(query, table, request, now)
        if getattr(request, "q", None) is not None:
            query.add(f"words @@ websearch_to_tsquery('simple', {query.value(request.q)})")
        key = request.sort.removeprefix("-")
        column, descending = (key if key in ENVELOPE else f"s_{key}"), request.sort.startswith("-")
        if request.cursor is not None:
            _after(query, request.sort, column, _column_type(table, column), request.cursor, descending)
        order = f"{column} {'DESC' if descending else 'ASC'}, id {'DESC' if descending else 'ASC'}"
        wanted = f"SELECT id, version, state, created_at, updated_at, created_by, {column} AS sort_value FROM {LIST}"
        sql = query.page(wanted, column, f"ORDER BY {order} LIMIT {request.limit + 1}")
        rows, mark = await self._fetch(table, sql, query, order.replace(column, "sort_value", 1))
        more = len(rows) > request.limit
        rows = rows[: request.limit]
        next_cursor = (
            encode_cursor([request.sort, _text(rows[-1]["sort_value"]), str(rows[-1]["id"])])
            if more
            else None
        )
        return Found([ListRow(*list(row)[2:8]) for row in rows], next_cursor, mark)

    async def matching(self, aggregate: Aggregate[Any, Any], filters: Mapping[str, Any]) -> Matched:
        table = self._tables[aggregate.name]
        query = Conditions()
        for name, value in filters.items():
            _filter(query, table.filters[name], value, datetime.min)
        sql = f"SELECT id FROM {LIST} {query.where()}"
        rows = await self._rows(table, sql, query, "id", _unseen(query, aggregate))
        ids = [row["id"] for row in rows if row["id"] is not None]
        return Matched(ids, _mark(rows[0]), _unseen_mark(rows[0]))

    async def unseen(self, aggregate: Aggregate[Any, Any]) -> Mark | None:
        query = Conditions()
        beside = _unseen(query, aggregate)
        rows = await self._rows(self._tables[aggregate.name], "SELECT 1 AS id", query, "id", beside)
        return _unseen_mark(rows[0])

    async def tally(
        self,
        aggregate: Aggregate[Any, Any],
        by: Sequence[str],
        reach: Reach,
        within: Mapping[str, Collection[Any]],
    ) -> Mapping[tuple[Any, ...], int]:
        query = Conditions()
        reach_condition(query, reach)
        for name, values in within.items():
            query.add(f"f_{name} = ANY ({query.value(sorted(values))})")
        columns = ", ".join(f"f_{name}" for name in by)
        sql = f"SELECT {columns}, count(*) AS id FROM {LIST} {query.where()} GROUP BY {columns}"
        rows, _ = await self._fetch(self._tables[aggregate.name], sql, query, columns)
        return {tuple(row[f"f_{name}"] for name in by): row["id"] for row in rows}

    async def subtree(
        self, aggregate: Aggregate[Any, Any], branch: Branch, reach: Reach
    ) -> tuple[Found, Sequence[int]]:
        """Names make the path, so siblings come in their order; the cursor is the last object of a page."""
        table, query = self._tables[aggregate.name], Conditions()
        root, deepest = query.value(branch.root_id), query.value(branch.max_depth)
        begin, further = _continued(query.value(branch.after), root) if branch.after else ("", "true")
        walk = f"""WITH RECURSIVE {begin} tree AS (
            SELECT id, 0 AS depth, ARRAY[]::text[] COLLATE "C" AS path FROM {LIST} WHERE id = {root}
            UNION ALL SELECT c.id, t.depth + 1, t.path || ({STEP})
            FROM tree t JOIN {LIST} c ON c.f_parent_id = t.id WHERE t.depth < {deepest} AND {further})"""
        reach_condition(query, reach)
        for name, value in branch.hidden.items():
            query.add(f"f_{name} IS DISTINCT FROM {query.value(value)}")
        if branch.after is not None:
            query.add("path > (SELECT path FROM shown)")
        sql = f"""{walk} SELECT l.id, version, state, created_at, updated_at, created_by, depth, path
            FROM tree JOIN {LIST} l USING (id) {query.where()} ORDER BY path LIMIT {branch.limit + 1}"""
        rows, mark = await self._fetch(table, sql, query, "path")
        more, rows = len(rows) > branch.limit, rows[: branch.limit]
        cursor = encode_cursor([str(rows[-1]["id"])]) if more else None
        found = Found([ListRow(*list(row)[2:8]) for row in rows], cursor, mark)
        return found, [row["depth"] for row in rows]

    async def height(self, aggregate: Aggregate[Any, Any], root_id: UUID) -> int:
        query = Conditions()
        sql = f"""WITH RECURSIVE tree AS (SELECT {query.value(root_id)}::uuid AS id, 0 AS depth
            UNION ALL SELECT c.id, t.depth + 1 FROM tree t JOIN {LIST} c ON c.f_parent_id = t.id WHERE t.depth < 64)
            SELECT max(depth) AS id FROM tree"""
        rows, _ = await self._fetch(self._tables[aggregate.name], sql, query, "id")
        return rows[0]["id"]

    async def _fetch(
        self, table: ListTable, sql: str, query: "Conditions", order: str
    ) -> tuple[list[Row], Mark]:
        """Rows, and the bookmark they stand at."""
        rows = await self._rows(table, sql, query, order)
        return [row for row in rows if row["id"] is not None], _mark(rows[0])

    async def _rows(
        self, table: ListTable, sql: str, query: "Conditions", order: str, beside: str = ""
    ) -> list[Row]:
        """Rows with the bookmark they stand at, which may come alone, from one snapshot; waits out a list that is
        just being swapped."""
        whole = f"""WITH rows AS ({sql}) SELECT b.transaction_id, b.position, rows.*{", unseen.*" if beside else ""}
            FROM projections b LEFT JOIN rows ON true {beside} WHERE b.name = {query.value(table.aggregate.snake)}
            AND b.version = ${len(query.values) + 1} AND b.serving ORDER BY {order}"""
        for _ in range(TRIES):
            try:
                rows = await self._database.fetch(
                    whole.replace(LIST, table.table), *query.values, table.version
                )
            except asyncpg.UndefinedTableError:
                rows = []
            if rows:
                return rows
            await asyncio.sleep(0.05)
            await self.refresh()
            table = self._tables[table.aggregate.name]
        raise ReadModelBehindError("This list is being built; ask again shortly.")


def _mark(row: Row) -> Mark:
    return Mark(row["transaction_id"], row["position"])


def _unseen(query: "Conditions", aggregate: Aggregate[Any, Any]) -> str:
    """Beside a bookmark: the newest event of the aggregate beyond it, whatever readers of the log may see."""
    return f"""LEFT JOIN LATERAL (
        SELECT e.transaction_id AS unseen_transaction_id, e.position AS unseen_position FROM events e
        WHERE (e.transaction_id, e.position) > (b.transaction_id::text::xid8, b.position)
            AND e.stream_type = {query.value(aggregate.name)}
        ORDER BY e.transaction_id DESC, e.position DESC LIMIT 1) unseen ON true"""


def _unseen_mark(row: Row) -> Mark | None:
    transaction_id = row["unseen_transaction_id"]
    return None if transaction_id is None else Mark(transaction_id, row["unseen_position"])


class Conditions:
    """The WHERE clause of a list query, with its values apart from its text."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.by_member = False
        self.values: list[Any] = []

    def value(self, value: Any) -> str:
        self.values.append(value)
        return f"${len(self.values)}"

    def add(self, part: str) -> None:
        self.parts.append(part)

    def contains(self, part: str) -> None:
        """A condition on the members of a collection."""
        self.by_member = True
        self.add(part)

    def where(self, *also: str) -> str:
        parts = [*self.parts, *also]
        return f"WHERE {' AND '.join(parts)}" if parts else ""

    def page(self, wanted: str, column: str, order: str) -> str:
        """A page of what is wanted in its order: quick for members that are rare and for those found everywhere.

        The planner cannot tell how often a member occurs when nearly all differ; it then walks the list in its
        order until a page is full, which for a rare one is the whole list. So the rows are looked up first, a
        few at most, and only where there are more is the list walked. A branch that is not taken is not begun.
        """
        if not self.by_member:
            return f"{wanted} {self.where()} {order}"
        counted = "(SELECT count(*) FROM few)"
        return f"""WITH few AS MATERIALIZED (SELECT id, {column} FROM {LIST} {self.where()} LIMIT {FEW + 1})
            ({wanted} WHERE id IN (SELECT id FROM few WHERE {counted} <= {FEW} {order}) {order})
            UNION ALL ({wanted} {self.where(f"{counted} > {FEW}")} {order})"""


def _continued(after: str, root: str) -> tuple[str, str]:
    """The path of the last object that was shown, and which children the walk still has to visit.

    What stands before that object was shown, unless it is above it: then only the rest below it is new.
    """
    begin = f"""up AS (SELECT c.id, c.f_parent_id, {STEP} AS step, 0 AS above FROM {LIST} c WHERE c.id = {after}
            UNION ALL SELECT c.id, c.f_parent_id, {STEP}, above + 1 FROM up JOIN {LIST} c ON c.id = up.f_parent_id
            WHERE up.id <> {root} AND above < 64),
        shown AS (SELECT CASE WHEN bool_or(id = {root})
            THEN coalesce(array_agg(step ORDER BY above DESC) FILTER (WHERE id <> {root}), ARRAY[]::text[])
            END COLLATE "C" AS path FROM up),"""
    whole, seen = f"(t.path || ({STEP}))", '((SELECT path FROM shown) COLLATE "C")'
    return begin, f"({whole} > {seen} OR {seen}[:t.depth + 1] = {whole})"


def reach_condition(query: Conditions, reach: Reach) -> None:
    if reach.everything:
        return
    # Whoever may read the list at all may read what belongs to nobody.
    nowhere = (
        "(facility_code IS NULL AND cardinality(visit_ids) = 0 AND owner_id IS NULL AND member_id IS NULL)"
    )
    allowed = [nowhere, *(_span(query, candidate.span) for candidate in reach.allow)]
    query.add(f"({' OR '.join(allowed)})" if reach.allow else "false")
    for candidate in reach.deny:
        query.add(f"NOT coalesce({_span(query, candidate.span)}, false)")


def _span(query: Conditions, span: Span) -> str:
    if span.everything:
        return "true"
    parts: list[str] = []
    if span.facility_codes:
        parts.append(f"facility_code = ANY ({query.value(sorted(span.facility_codes))}::text[])")
    if span.visitless_facility_codes:
        codes = query.value(sorted(span.visitless_facility_codes))
        parts.append(f"(facility_code = ANY ({codes}::text[]) AND cardinality(visit_ids) = 0)")
    if span.visit_ids:
        parts.append(f"visit_ids && {query.value(sorted(span.visit_ids))}::uuid[]")
    if span.member_ids:
        parts.append(f"member_id = ANY ({query.value(sorted(span.member_ids))}::uuid[])")
    if span.owner_id is not None:
        parts.append(f"owner_id = {query.value(span.owner_id)}")
    return f"({' OR '.join(parts)})" if parts else "false"


def _filters(query: Conditions, table: ListTable, request: Any, now: datetime) -> None:
    for name, each in table.filters.items():
        value = getattr(request, name)
        if value is not None:
            _filter(query, each, value, now)


def _filter(query: Conditions, each: Filter[Any], value: Any, now: datetime) -> None:
    column = f"f_{each.name}"
    match each.test:
        case Test.EQUALS | Test.AT_LEAST | Test.BEFORE:
            query.add(f"{column} {each.test} {query.value(value)}")
        case Test.CONTAINS:
            query.contains(f"{column} @> ARRAY[{query.value(value)}]::{sql_type(each.type)}[]")
        case Test.ONE_OF:
            query.add(f"{column} = ANY ({query.value(sorted(value))}::{sql_type(each.type)}[])")
        case Test.NONE_OF:
            query.add(f"({column} = ANY ({query.value(sorted(value))}::{sql_type(each.type)}[])) IS NOT TRUE")
        case Test.CONTAINS_ANY:
            query.contains(f"{column} && {query.value(sorted(value))}::{sql_type(each.type)}[]")
        case Test.COVERS:
            time = query.value(value)
            query.add(f"(cardinality({column}) = 0 OR ({column}[1] <= {time} AND {time} < {column}[2]))")
        case Test.PASSED:
            passed = f"coalesce({column} < {query.value(now)}, false)"
            query.add(passed if value else f"NOT {passed}")
        case Test.AHEAD:
            ahead = f"coalesce({column} > {query.value(now)}, false)"
            query.add(ahead if value else f"NOT {ahead}")
        case Test.MATCHED_BY:
            texts = query.value(list(each.texts(value)))
            query.add(f"EXISTS (SELECT FROM unnest({column}) p, unnest({texts}::text[]) v WHERE v LIKE p)")


def _after(query: Conditions, sort: str, column: str, type: str, cursor: str, descending: bool) -> None:
    """Keyset: the rows beyond the last one of the page before."""
    made_for, value, id = decode_cursor(cursor, 3)
    try:
        typed = _typed(value, type), UUID(id)
    except ValueError:
        raise InvalidCursorError(
            "Use the next_cursor of a page of the same list, unchanged, or none."
        ) from None
    if made_for != sort:
        raise InvalidCursorError("The cursor was made for another sort order.")
    sign = "<" if descending else ">"
    query.add(f"({column}, id) {sign} ({query.value(typed[0])}, {query.value(typed[1])})")


def _column_type(table: ListTable, column: str) -> str:
    return next((c.type for c in table.columns if c.name == column), "timestamptz")


def _typed(value: str, type: str) -> Any:
    match type:
        case "timestamptz":
            return datetime.fromisoformat(value)
        case "bigint":
            return int(value)
        case "uuid":
            return UUID(value)
        case _:
            return value


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
