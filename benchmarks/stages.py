"""Where the microseconds go without a database, and what starting costs."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import msgspec
import psutil
import uvicorn
import uvloop
from litestar import Litestar, Response, get

from beamwright.adapters.memory.store import MemoryEventStore
from beamwright.app import new_id, registry
from beamwright.contexts.trust.authorization import Snapshot
from beamwright.contexts.trust.zone import DefineZone, zones
from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.event import payload
from beamwright.kernel.operation import Installation, Occasion
from beamwright.kernel.value import encode
from beamwright.runtime.authority import AuthorityKeeper
from beamwright.runtime.call import Call
from beamwright.runtime.readers import Readers
from beamwright.runtime.seeding import seed_installation
from beamwright.runtime.service import Service
from beamwright.runtime.verdicts import Verdicts
from benchmarks.load import free_port, request, send
from benchmarks.table import Figure

CALL = Call(
    caller=Caller(principal_id=wellknown.ADMINISTRATOR, kind="human"),
    surface_id=wellknown.HTTP_SURFACE,
    conduit_id=wellknown.CLIENTS_CONDUIT,
    correlation_id="bench",
)


def now() -> datetime:
    return datetime.now(UTC)


class _Nothing:
    """Seams that a creation does not touch."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    async def write(self, verdicts: Any) -> None:
        return None


async def _service() -> Service:
    store: Any = MemoryEventStore()
    installation = Installation(issuers=frozenset({wellknown.BUILT_IN_ISSUER}))
    keeper = AuthorityKeeper(
        registry(),
        store,
        lambda states, epoch, before: Snapshot(states, registry().operations, installation, epoch, before),
    )
    nothing: Any = _Nothing()
    service = Service(
        registry(),
        store=store,
        lists=nothing,
        profiles=nothing,
        authority=keeper,
        verdicts=Verdicts(nothing, new_id, lambda conduit: "Denials"),
        readers=Readers(nothing),
        contacts=nothing,
        texts=nothing,
        observations=nothing,
        entries=nothing,
        signer=nothing,
        outbox=nothing,
        deliveries=nothing,
        installation=installation,
        now=now,
        new_id=new_id,
    )
    await seed_installation(service, builtin_issuer=True)
    return service


def _micro(work: Callable[[], object], count: int = 20_000) -> float:
    work()
    began = time.perf_counter()
    for _ in range(count):
        work()
    return (time.perf_counter() - began) / count * 1e6


async def _stages() -> list[Figure]:
    service = await _service()
    operation = registry().operations["define_zone"]
    body = b'{"name":"0123456789abcdef"}'
    occasion = Occasion(now=now(), principal_id=CALL.caller.principal_id, new_id=new_id())
    command = DefineZone(name="0123456789abcdef")
    decided = command.decide(None, occasion)
    authority = service.authority.current
    authorize = lambda: authority.authorize(  # noqa: E731 - measured as one expression
        CALL.caller, "define_zone", CALL.conduit_id, CALL.surface_id, occasion.now
    )
    began = time.perf_counter()
    for _ in range(3000):
        await service.call(DefineZone(name=uuid4().hex), CALL)
    whole = (time.perf_counter() - began) / 3000 * 1e6
    stages = {
        "decode the body and shape the command": lambda: service.decode(
            operation, msgspec.json.decode(body), strict=True
        ),
        "authorize (remembered)": authorize,
        "decide": lambda: command.decide(None, occasion),
        "fold the new state": lambda: zones.fold([decided]),
        "encode the payload": lambda: payload(decided),
        "new id": new_id,
        "encode a receipt": lambda: encode(
            zones.receipt(zone_id=uuid4(), version=1, as_of="1.1", events=["ZoneDefined"])
        ),
    }
    figures = [Figure(f"stage: {name}", f"{_micro(work):.1f} us") for name, work in stages.items()]
    return [*figures, Figure("whole command in memory: authorize, gather, decide, append", f"{whole:.0f} us")]


async def _empty_route() -> float:
    """An empty litestar route behind the same server and load generator."""

    @get("/", sync_to_thread=False)
    def nothing() -> Response[bytes]:
        return Response(b"{}", media_type="application/json")

    port = free_port()
    config = uvicorn.Config(
        Litestar([nothing], openapi_config=None), port=port, log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    await send(port, 1, lambda: iter([request("GET", "/", "x")] * 500))
    sent = await send(port, 1, lambda: iter([request("GET", "/", "x")] * 3000))
    server.should_exit = True
    await task
    return sent.p50 * 1e6


def overhead() -> list[Figure]:
    figures = uvloop.run(_stages())
    return [
        *figures,
        Figure("an empty litestar route, client included, p50", f"{uvloop.run(_empty_route()):.0f} us"),
    ]


def starting() -> list[Figure]:
    """From the command to /ready, with an empty data folder and again with a used one."""
    directory = Path(tempfile.mkdtemp(prefix="beamwright-start-"))
    figures: list[Figure] = []
    try:
        for label, aim in (("cold", 4.0), ("warm", 2.0)):
            port = free_port()
            environment = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
            began = time.perf_counter()
            server = subprocess.Popen(
                [sys.executable, "-m", "beamwright", "serve", "--data", str(directory), "--port", str(port)],
                env=environment | {"LOG_LEVEL": "warning"},
            )
            took = _until_ready(port, began)
            resident = psutil.Process(server.pid).memory_info().rss / 1e6
            server.send_signal(signal.SIGTERM)
            server.wait(30)
            figures.append(
                Figure(f"start to ready, {label}", f"{took:.2f} s", aim=f"{aim:g} s", met=took <= aim)
            )
            if label == "warm":
                figures.append(
                    Figure(
                        "resident memory of a serving process",
                        f"{resident:.0f} MB",
                        aim="150 MB",
                        met=resident <= 150,
                    )
                )
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return figures


def _until_ready(port: int, began: float) -> float:
    while time.perf_counter() - began < 60:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/ready", timeout=5).status_code == 200:
                return time.perf_counter() - began
        except httpx.TransportError:
            time.sleep(0.01)
    raise TimeoutError("the service did not become ready")
