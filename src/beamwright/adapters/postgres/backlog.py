"""How far the read models are behind, and which transaction holds every reader back."""

from beamwright.kernel.store import Mark
from beamwright.runtime.health import Backlog

from .database import Database
from .migrate import HEAD

NEWEST = "SELECT transaction_id::text::bigint, position FROM events ORDER BY events.transaction_id DESC, events.position DESC LIMIT 1"

HORIZON = """SELECT transaction_id::text::bigint, position FROM events
    WHERE transaction_id < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY events.transaction_id DESC, events.position DESC LIMIT 1"""

BEHIND = """SELECT p.name, count(e.position) AS events,
        coalesce(extract(epoch FROM clock_timestamp() - min(e.recorded_at)), 0)::float8 AS seconds
    FROM projections p LEFT JOIN LATERAL (
        SELECT position, recorded_at FROM events
        WHERE (transaction_id, position) > (p.transaction_id::text::xid8, p.position)
        ORDER BY transaction_id, position LIMIT 10000) e ON true
    WHERE p.serving GROUP BY p.name"""

HOLDER = """SELECT format('process %s of %s, %s since %s', pid, coalesce(nullif(application_name, ''), usename),
        state, xact_start)
    FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
    ORDER BY age(backend_xid) DESC LIMIT 1"""


class PostgresBacklogs:
    """Measured by the database itself."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def schema_current(self) -> bool:
        row = await self._database.fetchrow("SELECT version_num FROM alembic_version")
        return row is not None and row[0] == HEAD

    async def backlog(self) -> Backlog:
        newest, horizon = await self._mark(NEWEST), await self._mark(HORIZON)
        rows = await self._database.fetch(BEHIND)
        holder = await self._database.fetchrow(HOLDER) if horizon < newest else None
        return Backlog(
            newest=newest,
            horizon=horizon,
            behind_events={row["name"]: row["events"] for row in rows},
            behind_seconds={row["name"]: max(row["seconds"], 0.0) for row in rows},
            holder=holder[0] if holder is not None else None,
        )

    async def _mark(self, query: str) -> Mark:
        row = await self._database.fetchrow(query)
        return Mark(*row) if row is not None else Mark(0, 0)
