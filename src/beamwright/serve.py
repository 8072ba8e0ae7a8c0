"""Runs the service: the embedded database when none is given, then one or more serving processes."""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import structlog
import uvicorn

from beamwright.adapters.postgres.embedded import EmbeddedPostgres
from beamwright.app import App, http
from beamwright.settings import Settings

log = structlog.get_logger("beamwright")

# How a process ends that cannot start and has said why: another try would end the same.
REFUSED = 2


def configure_logging(level: str) -> None:
    """One JSON object per line on standard error; no line holds a body, a name or a token."""
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_line),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
        cache_logger_on_first_use=True,
    )


def _line(fields: Any, **_: Any) -> bytes:
    return msgspec.json.encode(fields, enc_hook=str)


def listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((settings.host, settings.port))
    listener.listen(2048)
    listener.set_inheritable(True)
    return listener


class Server(uvicorn.Server):
    """Leaves signals to us: uvicorn would raise them again after its shutdown, and so skip ours."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def serve_process(settings: Settings, dsn: str, listener: socket.socket) -> None:
    """One serving process, until it is told to stop."""
    app = await App.open(settings, dsn)
    app.start_workers()
    config = uvicorn.Config(
        http(app),
        loop="none",
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=3,
    )
    server = Server(config)
    log.info("serving", address=settings.base_url, docs=f"{settings.base_url}/docs", data=str(settings.data))
    for wanted in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(wanted, server.handle_exit, wanted, None)
    try:
        await server.serve(sockets=[listener])
    finally:
        await app.close()


def run_process(settings: Settings, dsn: str, listener: socket.socket) -> None:
    import uvloop

    uvloop.run(serve_process(settings, dsn, listener))


def serve(settings: Settings) -> None:
    """Bring the database up, serve, and take it down again."""
    configure_logging(settings.log_level)
    settings.data.mkdir(parents=True, exist_ok=True)
    listener = listen(settings)
    embedded = EmbeddedPostgres(settings.data) if settings.database_url is None else None
    dsn = embedded.start() if embedded is not None else str(settings.database_url)
    try:
        if settings.processes == 1:
            run_process(settings, dsn, listener)
        else:
            _run_many(settings, dsn, listener)
    finally:
        if embedded is not None:
            embedded.stop()
        log.info("stopped")


def _run_many(settings: Settings, dsn: str, listener: socket.socket) -> None:
    """Serving processes share one listening socket; when one dies, another takes its place."""
    fd = listener.fileno()
    command = [sys.executable, "-m", "beamwright", "serve-process", "--fd", str(fd)]
    command += ["--data", str(settings.data), "--host", settings.host, "--port", str(settings.port)]
    # The address may hold a password, which a command line would show to everyone on the machine.
    environment = os.environ | {"DATABASE_URL": dsn}

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, pass_fds=[fd], env=environment, start_new_session=True)  # noqa: S603 - our own program

    children = [start() for _ in range(settings.processes)]
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    while not stopping:
        for number, child in enumerate(children):
            if child.poll() is not None:
                log.warning("process_died", exit_code=child.returncode)
                if child.returncode == REFUSED:
                    _stop_all(children)
                    raise SystemExit(REFUSED)
                children[number] = start()
        signal.sigtimedwait([signal.SIGCHLD], 0.5)
    _stop_all(children)


def _stop_all(children: Sequence[subprocess.Popen[bytes]]) -> None:
    for child in children:
        child.terminate()
    for child in children:
        try:
            child.wait(timeout=20)
        except subprocess.TimeoutExpired:
            child.kill()


def run_forever(settings: Settings, fd: int) -> None:
    """Entry of a child process."""
    configure_logging(settings.log_level)
    run_process(settings, str(settings.database_url), socket.socket(fileno=fd))
