"""How far the read models are behind, and which transaction holds every reader back."""

from beamwright.kernel.store import Mark
from beamwright.runtime.health import Backlog, Holder

from .database import Database
from .migrate import HEAD

NEWEST = "SELECT transaction_id::text::bigint, position FROM events ORDER BY events.transaction_id DESC, events.position DESC LIMIT 1"

HORIZON = """SELECT transaction_id::text::bigint, position FROM events
    WHERE transaction_id < log_horizon()
    ORDER BY events.transaction_id DESC, events.position DESC LIMIT 1"""

# Most lists stand at the same place, so each place is looked at once.
BEHIND = """SELECT p.name, m.events, m.seconds FROM projections p JOIN (
        SELECT d.transaction_id, d.position, count(e.position) AS events,
            coalesce(extract(epoch FROM clock_timestamp() - min(e.recorded_at)), 0)::float8 AS seconds
        FROM (SELECT DISTINCT transaction_id, position FROM projections WHERE serving) d LEFT JOIN LATERAL (
            SELECT position, recorded_at FROM events
            WHERE (transaction_id, position) > (d.transaction_id::text::xid8, d.position)
            ORDER BY transaction_id, position LIMIT 10000) e ON true
        GROUP BY d.transaction_id, d.position) m USING (transaction_id, position)
    WHERE p.serving"""

# The oldest of all transactions in the cluster, in whatever database. Of its statement only the beginning is shown,
# up to the first thing that could be a value.
HOLDER = """SELECT * FROM (
        SELECT pid AS process, datname AS database, coalesce(nullif(application_name, ''), usename) AS application,
            state, xact_start AS since, backend_xid AS xid,
            left(trim(substring(query FROM '^[A-Za-z_.\\s]*')), 80) AS statement
        FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
        UNION ALL SELECT NULL, database, owner, 'prepared', prepared, transaction, '' FROM pg_prepared_xacts) AS open
    ORDER BY age(xid) DESC LIMIT 1"""


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
        return Backlog(
            newest=newest,
            horizon=horizon,
            behind_events={row["name"]: row["events"] for row in rows},
            behind_seconds={row["name"]: max(row["seconds"], 0.0) for row in rows},
            holder=await self._holder() if horizon < newest else None,
        )

    async def _holder(self) -> Holder | None:
        """Asked as whoever logged in: the service's own role is not shown what other roles do."""
        async with self._database.connection() as connection, connection.transaction(readonly=True):
            await connection.execute("SET LOCAL ROLE NONE")
            row = await connection.fetchrow(HOLDER)
        if row is None:
            return None
        return Holder(**{name: row[name] for name in Holder.__struct_fields__})

    async def _mark(self, query: str) -> Mark:
        row = await self._database.fetchrow(query)
        return Mark(*row) if row is not None else Mark(0, 0)
