"""What the restore suite does again and again: a load, a backup, a restore, and the whole of a log or a list."""

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import asyncpg
import httpx

from beamwright.adapters.backup_file import Manifest
from beamwright.adapters.postgres.embedded import EmbeddedPostgres
from beamwright.kernel.store import Mark
from beamwright.maintenance import read_models, registry, verify_database
from beamwright.preservation import Progress, make_backup, restore_backup
from beamwright.settings import Settings
from tests.live import LiveServer

WRITERS = 6


class Receipt(NamedTuple):
    """What a writer was told, and the key by which it can be told again."""

    key: str
    name: str
    body: dict[str, Any]

    @property
    def mark(self) -> Mark:
        return Mark.parse(self.body["as_of"])


class Load:
    """Writers that define zones, each with an idempotency key, until told to stop."""

    def __init__(self, server: LiveServer) -> None:
        self.receipts: list[Receipt] = []
        self.failures: list[str] = []
        self._server = server
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write) for _ in range(WRITERS)]

    def _write(self) -> None:
        with self._server.client() as client:
            while not self._stop.is_set():
                name = uuid4().hex
                answer = define(client, name, name)
                if answer.status_code != 201:
                    self.failures.append(answer.text)
                    return
                self.receipts.append(Receipt(name, name, answer.json()))

    def wait_for(self, more: int) -> None:
        wanted = len(self.receipts) + more
        for _ in range(6000):
            if len(self.receipts) >= wanted or self.failures:
                return
            self._stop.wait(0.01)

    @contextmanager
    def running(self) -> Iterator["Load"]:
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(60)
        assert not self.failures, self.failures


def _nobody(what: str, done: int, total: int) -> None:
    assert done >= 0


def define(client: httpx.Client, name: str, key: str) -> httpx.Response:
    return client.post("/zones", json={"name": name}, headers={"idempotency-key": key})


def saved(
    dsn: str,
    path: Path,
    after: Path | None = None,
    *,
    issuer_key: bool = False,
    told: Progress = _nobody,
    **settings: Any,
) -> Manifest:
    chosen = Settings(**({"data": path.parent, "database_url": dsn} | settings))
    return make_backup(dsn, chosen, path, after, issuer_key, told)


def brought_back(dsn: str | None, *paths: Path, **settings: Any) -> Manifest:
    chosen = Settings(**({"data": paths[0].parent / "restored", "database_url": dsn} | settings))
    return restore_backup(paths, chosen, _nobody)


class Elsewhere:
    """Another cluster, whose login owns its databases and is no superuser."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._embedded = EmbeddedPostgres(directory)
        self.admin_dsn = self._embedded.start()
        self.bin = self._embedded.bin
        run(
            execute(
                self.admin_dsn,
                "CREATE ROLE keeper LOGIN",
                "CREATE ROLE beamwright_service NOLOGIN",
                "GRANT beamwright_service TO keeper WITH ADMIN OPTION",
            )
        )

    def database(self) -> str:
        name = f"restored_{uuid4().hex}"
        run(execute(self.admin_dsn, f"CREATE DATABASE {name} OWNER keeper"))
        return self.admin_dsn.replace("postgres@/postgres?", f"keeper@/{name}?")

    def counter(self) -> int:
        return run(fetch(self.admin_dsn, "SELECT pg_current_xact_id()::text::bigint"))[0][0]

    def stop(self) -> None:
        """At once: nobody needs these databases again."""
        pid = int((self._directory / "postgres" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        self._embedded.stop()


def burn(dsn: str, transactions: int) -> None:
    """Count so many transactions, as a busy cluster does."""
    loop = f"FOR i IN 1..{transactions} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP"
    run(execute(dsn, f"DO $$ BEGIN {loop}; END $$"))


def run[T](work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def execute(dsn: str, *statements: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def fetch(dsn: str, query: str, *arguments: Any) -> list[Any]:
    settings = {"beamwright.profiles": "open"}
    connection = await asyncpg.connect(dsn, server_settings=settings)
    try:
        return await connection.fetch(query, *arguments)
    finally:
        await connection.close()


def log(dsn: str) -> list[tuple[Mark, UUID]]:
    """The log in reading order."""
    rows = run(
        fetch(dsn, "SELECT transaction_id, position, event_id FROM events ORDER BY transaction_id, position")
    )
    return [(Mark(row[0], row[1]), row[2]) for row in rows]


def whole(dsn: str, table: str) -> list[str]:
    """Every row of a table as text."""
    return sorted(row[0] for row in run(fetch(dsn, f"SELECT t::text FROM {table} AS t")))


def lists(dsn: str) -> dict[str, list[str]]:
    """Every serving list, byte for byte."""
    serving = run(fetch(dsn, "SELECT name, version FROM projections WHERE serving"))
    return {name: whole(dsn, f"lists.{name}_{version}") for name, version in serving}


def rebuild(dsn: str) -> None:
    async def every() -> None:
        async with read_models(dsn) as models:
            await models.rebuild([each.snake for each in registry().aggregates.values()], lambda built: None)

    run(every())


def findings(dsn: str) -> list[str]:
    report = run(verify_database(dsn, lambda done, total: None))
    return [f"{finding.subject}: {finding.detail}" for finding in report.findings]


def follow(client: httpx.Client, after: str | None = None) -> Iterator[dict[str, Any]]:
    """The feed from a token to its end."""
    while True:
        given = {"limit": "200"} | ({} if after is None else {"after": after})
        answer = client.get("/events", params=given)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        yield from page["items"]
        if page["next"] == after:
            return
        after = page["next"]


def ids(items: Iterator[dict[str, Any]]) -> Sequence[UUID]:
    return [UUID(item["id"]) for item in items]
