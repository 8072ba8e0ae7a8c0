"""The real service for tests: embedded PostgreSQL, a real server on loopback, real tokens."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import uvicorn

from beamwright.adapters.postgres.embedded import EmbeddedPostgres
from beamwright.adapters.tokens.builtin import BuiltInIssuer
from beamwright.app import App, http
from beamwright.kernel import wellknown
from beamwright.settings import Settings

TEMPLATE = "beamwright_template"
HTTP_AUDIENCE = "urn:beamwright:http"
MCP_AUDIENCE = "urn:beamwright:mcp"


class Cluster:
    """One PostgreSQL for a test process; databases are copied from a migrated and seeded template."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.embedded = EmbeddedPostgres(directory)
        self.admin_dsn = self.embedded.start()
        self.data = directory / "data"
        self.data.mkdir()
        asyncio.run(self._make_template())

    def stop(self) -> None:
        """At once: nobody needs these databases again, and writing them all out would take long."""
        pid = int((self.directory / "postgres" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        self.embedded.stop()

    def dsn(self, database: str) -> str:
        return self.admin_dsn.replace("/postgres?", f"/{database}?")

    def database(self, template: str = TEMPLATE) -> str:
        """The address of a fresh database."""
        name = f"test_{uuid4().hex}"
        asyncio.run(self._execute(f"CREATE DATABASE {name} TEMPLATE {template}"))
        return self.dsn(name)

    def empty_database(self) -> str:
        """The address of a database without anything in it."""
        return self.database("template0")

    async def _make_template(self) -> None:
        await self._execute(f"CREATE DATABASE {TEMPLATE}")
        app = await App.open(Settings(data=self.data), self.dsn(TEMPLATE))
        await app.projector.prepare()
        while await app.projector.catch_up():
            pass
        await app.projector.catch_up()
        await app.close()

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.admin_dsn)
        await connection.execute(statement)
        await connection.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Clock:
    """A clock that tests can move."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


class LiveServer:
    """One serving process in a thread of its own."""

    def __init__(self, settings: Settings, dsn: str) -> None:
        self.settings = settings
        self.dsn = dsn
        self.clock = Clock()
        self.issuer = BuiltInIssuer(settings.data)
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> "LiveServer":
        self._thread.start()
        self._ready.wait(30)
        if self._failure is not None:
            raise self._failure
        return self

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(30)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
            self._ready.set()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.app = await App.open(self.settings, self.dsn, self.clock)
        self.app.start_workers()
        listener = socket.socket(proto=socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", self.settings.port))
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(http(self.app), log_config=None, access_log=False, ws="none", lifespan="on")
        self.server = uvicorn.Server(config)
        task = asyncio.create_task(self.server.serve(sockets=[listener]))
        while not self.server.started and not task.done():
            await asyncio.sleep(0.01)
        self._ready.set()
        await task
        await self.app.close()

    def run[T](self, work: Callable[[App], Coroutine[Any, Any, T]]) -> T:
        """Run something inside the server's own loop."""
        return asyncio.run_coroutine_threadsafe(work(self.app), self.loop).result(60)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def token(self, actor: UUID | str = wellknown.ADMINISTRATOR, *audiences: str, **options: Any) -> str:
        chosen = audiences or (HTTP_AUDIENCE, MCP_AUDIENCE)
        return self.issuer.mint(str(actor), chosen, timedelta(hours=1), now=self.clock(), **options)

    def client(self, actor: UUID | str | None = wellknown.ADMINISTRATOR) -> httpx.Client:
        """A client that calls as `actor`, or without a token."""
        headers = {} if actor is None else {"authorization": f"Bearer {self.token(actor)}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30)

    def newcomer(self, kind: str = "human", name: str = "Somebody") -> UUID:
        """A registered actor with a login and no grants beyond what its kind has."""
        subject = uuid4().hex
        with self.client() as admin:
            login = {"issuer": "urn:beamwright:local", "subject": subject}
            body = {"name": name, "kind": kind, "identities": [login]}
            made = admin.post("/actors", json=body)
            assert made.status_code == 201, made.text
        self.subjects = {**getattr(self, "subjects", {}), UUID(made.json()["actor_id"]): subject}
        return UUID(made.json()["actor_id"])

    def as_newcomer(self, actor: UUID) -> httpx.Client:
        return self.client(self.subjects[actor])


@contextmanager
def serving(cluster: Cluster, dsn: str | None = None, **settings: Any) -> Iterator[LiveServer]:
    """A served installation on a database of its own."""
    given = {"data": cluster.data, "port": 0} | settings
    server = LiveServer(Settings(**given), dsn or cluster.database()).start()
    try:
        yield server
    finally:
        server.stop()
