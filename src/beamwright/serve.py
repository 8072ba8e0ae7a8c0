"""Runs the service: the embedded database when none is given, then one or more serving processes."""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import structlog
import uvicorn

from beamwright.adapters.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError
from beamwright.app import App, http
from beamwright.settings import Settings
from beamwright.surfaces.connection import connections

log = structlog.get_logger("beamwright")

# How a process ends that cannot start and has said why: another try would end the same.
REFUSED = 2
LOOK_AFTER_DATABASE = 1.0


def configure_logging(level: str) -> None:
    """One JSON object per line on standard error; no line holds a body, a name or a token."""
    number = logging.getLevelNamesMapping()[level.upper()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler])
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


class _Lines(logging.Formatter):
    """What libraries log, in the same form: a message of several lines is one line, and makes no fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "event": record.getMessage().strip(),
            "logger": record.name,
            "level": record.levelname.lower(),
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return _line(fields).decode()


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


async def serve_process(
    settings: Settings, dsn: str, listener: socket.socket, folder: Path | None = None
) -> None:
    """One serving process, until it is told to stop; `folder` holds an embedded database."""
    app = await App.open(settings, dsn, folder=folder)
    if settings.separate_worker:
        app.start_following()
    else:
        app.start_workers()
    config = uvicorn.Config(
        http(app),
        loop="none",
        http=connections(settings.request_body_seconds),
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=3,
    )
    server = Server(config)
    log.info(
        "serving",
        holder=str(app.holder),
        address=settings.base_url,
        docs=f"{settings.base_url}/docs",
        data=str(settings.data),
    )
    for wanted in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(wanted, server.handle_exit, wanted, None)
    try:
        await server.serve(sockets=[listener])
    finally:
        await app.close()


def run_process(settings: Settings, dsn: str, listener: socket.socket, folder: Path | None = None) -> None:
    import uvloop

    uvloop.run(serve_process(settings, dsn, listener, folder))


async def work_process(settings: Settings, dsn: str) -> None:
    """All background work and nothing else, until told to stop."""
    stopping = asyncio.Event()
    for wanted in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(wanted, stopping.set)
    folder = settings.data if settings.database_url is None else None
    app = await App.open(settings, dsn, folder=folder)
    app.start_workers()
    log.info("working", holder=str(app.holder), data=str(settings.data))
    try:
        await stopping.wait()
    finally:
        await app.close()
        log.info("stopped")


def work(settings: Settings, dsn: str) -> None:
    """Entry of `beamwright worker`."""
    import uvloop

    configure_logging(settings.log_level)
    uvloop.run(work_process(settings, dsn))


def serve(settings: Settings) -> None:
    """Bring the database up, serve, and take it down again."""
    configure_logging(settings.log_level)
    settings.data.mkdir(parents=True, exist_ok=True)
    listener = listen(settings)
    embedded = EmbeddedPostgres(settings.data) if settings.database_url is None else None
    dsn = embedded.start() if embedded is not None else str(settings.database_url)
    folder = settings.data if embedded is not None else None
    try:
        with _kept_running(embedded):
            if settings.processes == 1:
                run_process(settings, dsn, listener, folder)
            else:
                _run_many(settings, dsn, listener, folder)
    finally:
        if embedded is not None:
            embedded.stop()
        log.info("stopped")


@contextmanager
def _kept_running(embedded: EmbeddedPostgres | None) -> Generator[None]:
    """Start the database again when it ends by itself: killed, crashed, or out of room."""
    ending = threading.Event()

    def watch() -> None:
        while embedded is not None and not ending.wait(LOOK_AFTER_DATABASE):
            try:
                if embedded.revive():
                    log.warning("database_revived")
            except (EmbeddedPostgresError, OSError) as error:
                log.error("database_down", error=str(error)[-500:])

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ending.set()
        watcher.join()


def _run_many(settings: Settings, dsn: str, listener: socket.socket, folder: Path | None) -> None:
    """Serving processes share one listening socket; when one dies, another takes its place."""
    fd = listener.fileno()
    command = [sys.executable, "-m", "beamwright", "serve-process", "--fd", str(fd)]
    command += ["--data", str(settings.data), "--host", settings.host, "--port", str(settings.port)]
    command += ["--separate-worker"] if settings.separate_worker else []
    command += ["--embedded"] if folder is not None else []
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


def run_forever(settings: Settings, fd: int, folder: Path | None) -> None:
    """Entry of a child process."""
    configure_logging(settings.log_level)
    run_process(settings, str(settings.database_url), socket.socket(fileno=fd), folder)
