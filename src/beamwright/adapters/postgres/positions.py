"""How far each reaction has followed the log."""

from beamwright.kernel.store import BEGINNING, Mark

from .database import Database

VERSION = "1"

# No serving list: that a reaction waits for something must not make the service unready.
# Never backwards: a process that slept through the end of its lease must not undo another's progress.
SAVE = """INSERT INTO projections (name, version, transaction_id, position) VALUES ($1, $2, $3, $4)
    ON CONFLICT (name, version) DO UPDATE SET transaction_id = excluded.transaction_id,
    position = excluded.position, updated_at = clock_timestamp()
    WHERE (projections.transaction_id, projections.position) < (excluded.transaction_id, excluded.position)"""


class PostgresPositions:
    """Rows of `projections` beside those of the lists."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def position(self, name: str) -> Mark:
        row = await self._database.fetchrow(
            "SELECT transaction_id, position FROM projections WHERE name = $1 AND version = $2", name, VERSION
        )
        return Mark(*row) if row is not None else BEGINNING

    async def save(self, name: str, mark: Mark) -> None:
        await self._database.execute(SAVE, name, VERSION, *mark)
