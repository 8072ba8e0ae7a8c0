"""The profile seam on PostgreSQL: the only reader of personal data."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.cursor import InvalidCursorError, decode_cursor, encode_cursor
from beamwright.kernel.errors import ReadModelBehindError
from beamwright.kernel.profiles import (
    DELETED_USER,
    ActorSearch,
    ExternalRef,
    Identity,
    Profile,
)
from beamwright.kernel.store import Mark

from .database import Database, Use
from .driver import Row
from .lists import Conditions, reach_condition

MOST_NAMES = 20_000


class PostgresProfiles:
    """Reads `actor_profile` and `actor_identity`; names are kept in memory until an actor changes."""

    def __init__(self, database: Database, actors: Aggregate[Any, Any]) -> None:
        self._database = database
        self._actors = actors
        self._names: dict[UUID, str] = {}

    async def profile(self, actor_id: UUID) -> Profile | None:
        rows = await self._fetch("SELECT * FROM actor_profile WHERE actor_id = $1", actor_id)
        return _profile(rows[0]) if rows else None

    async def identities(self, actor_id: UUID) -> Sequence[Identity]:
        rows = await self._fetch(
            "SELECT * FROM actor_identity WHERE actor_id = $1 ORDER BY linked_at, identity_id", actor_id
        )
        return [_identity(row) for row in rows]

    async def identity(self, issuer: str, subject: str) -> Identity | None:
        rows = await self._fetch(
            "SELECT * FROM actor_identity WHERE issuer = $1 AND subject = $2", issuer, subject
        )
        return _identity(rows[0]) if rows else None

    async def names(self, actor_ids: Collection[UUID]) -> Mapping[UUID, str]:
        # What is read while an actor changes goes into the memory that is thrown away.
        known = self._names
        unknown = [id for id in actor_ids if id not in known]
        if unknown:
            rows = await self._fetch(
                "SELECT actor_id, name FROM actor_profile WHERE actor_id = ANY ($1::uuid[])", unknown
            )
            known |= dict.fromkeys(unknown, DELETED_USER) | {row["actor_id"]: row["name"] for row in rows}
        found = {id: known[id] for id in actor_ids}
        if len(known) > MOST_NAMES:
            self.forget_names()
        return found

    def forget_names(self) -> None:
        """Some actor changed: read the names anew."""
        self._names = {}

    async def search(self, search: ActorSearch) -> tuple[Sequence[Mapping[str, Any]], str | None, Mark]:
        """The actors' list joined with their names at read time."""
        query = Conditions()
        reach_condition(query, search.reach)
        for column in ("kind", "active", "forgotten"):
            if (value := getattr(search, column)) is not None:
                query.add(f"f_{column} = {query.value(value)}")
        if search.visit_members is not None:
            query.add(f"id = ANY ({query.value(sorted(search.visit_members))}::uuid[])")
        if search.issuer is not None:
            issuer = query.value(search.issuer)
            query.add(f"EXISTS (SELECT FROM actor_identity i WHERE i.actor_id = id AND i.issuer = {issuer})")
        if search.q is not None:
            query.add(
                f"to_tsvector('simple', p.name) @@ websearch_to_tsquery('simple', {query.value(search.q)})"
            )
        key, descending = search.sort.removeprefix("-"), search.sort.startswith("-")
        column = "l.created_at" if key == "created_at" else f"coalesce(p.name, '{DELETED_USER}')"
        if search.cursor is not None:
            _after(query, search, column, key, descending)
        return await self._page(query, search, column, descending)

    async def _page(
        self, query: Conditions, search: ActorSearch, column: str, descending: bool
    ) -> tuple[Sequence[Mapping[str, Any]], str | None, Mark]:
        serving = await self._fetch(
            "SELECT version, transaction_id, position FROM projections WHERE name = 'actor' AND serving"
        )
        if not serving:
            raise ReadModelBehindError("This list is being built; ask again shortly.")
        direction = "DESC" if descending else "ASC"
        rows = await self._fetch(
            f"""SELECT l.id, l.state, l.version, l.created_at, l.updated_at, l.created_by,
                coalesce(p.name, '{DELETED_USER}') AS name, {column} AS sort_value,
                (SELECT count(*) FROM actor_identity i WHERE i.actor_id = l.id) AS identity_count
            FROM lists.actor_{serving[0]["version"]} l LEFT JOIN actor_profile p ON p.actor_id = l.id
            {query.where()} ORDER BY {column} {direction}, l.id {direction} LIMIT {search.limit + 1}""",
            *query.values,
        )
        mark = Mark(serving[0]["transaction_id"], serving[0]["position"])
        found: list[dict[str, Any]] = [dict(zip(ROW, row, strict=True)) for row in rows[: search.limit]]
        if len(rows) <= search.limit:
            return found, None, mark
        last = rows[search.limit - 1]
        value = last["sort_value"]
        text = value.isoformat() if isinstance(value, datetime) else str(value)
        return found, encode_cursor([search.sort, text, str(last["id"])]), mark

    async def _fetch(self, query: str, *arguments: Any) -> list[Row]:
        async with self._database.connection(Use.PROFILES) as connection:
            return await connection.fetch(query, *arguments)


ROW = (
    "id",
    "state",
    "version",
    "created_at",
    "updated_at",
    "created_by",
    "name",
    "sort_value",
    "identity_count",
)


def _after(query: Conditions, search: ActorSearch, column: str, key: str, descending: bool) -> None:
    made_for, value, id = decode_cursor(search.cursor or "", 3)
    try:
        typed: Any = datetime.fromisoformat(value) if key == "created_at" else value
        place = f"({query.value(typed)}, {query.value(UUID(id))})"
    except ValueError:
        made_for = ""
        place = ""
    if made_for != search.sort:
        raise InvalidCursorError("Use the next_cursor of a page of the same list, unchanged, or none.")
    query.add(f"({column}, l.id) {'<' if descending else '>'} {place}")


def _profile(row: Row) -> Profile:
    return Profile(
        actor_id=row["actor_id"],
        name=row["name"],
        email=row["email"],
        phone=row["phone"],
        affiliation=row["affiliation"],
        external_refs=msgspec.json.decode(row["external_refs"], type=dict[str, ExternalRef]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _identity(row: Row) -> Identity:
    return Identity(
        identity_id=row["identity_id"],
        actor_id=row["actor_id"],
        issuer=row["issuer"],
        subject=row["subject"],
        linked_at=row["linked_at"],
    )
