"""The command line: serve, mint a token, ask, call, follow, rebuild and verify."""

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn
from uuid import UUID

import typer

from beamwright import __version__
from beamwright.kernel.wellknown import ADMINISTRATOR
from beamwright.settings import Settings

from .cataloguing import catalogue
from .importing import exports, import_facility
from .maintaining import projections, verify
from .preserving import backup, restore
from .terminal import (
    NOT_DONE,
    Data,
    DatabaseUrl,
    console,
    fail,
    printable,
    settings_of,
)

# Whatever else a command needs is imported by that command, so that a token is minted at once.
if TYPE_CHECKING:
    from beamwright.kernel.operation import Operation

    from .calling import Client

HTTP_AUDIENCE = "urn:beamwright:http"
MCP_AUDIENCE = "urn:beamwright:mcp"
LOCAL_TOKEN_HOURS = 0.1

app = typer.Typer(
    help="Operations control for experiment facilities.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
events = typer.Typer(help="Read and follow what happened.", no_args_is_help=True)
app.add_typer(events, name="events")
app.add_typer(catalogue, name="catalogue")
app.command("import")(import_facility)
app.add_typer(exports, name="export")

Url = Annotated[
    str | None,
    typer.Option(help="Address of the service.", show_default="BEAMWRIGHT_URL or http://HOST:PORT"),
]
SeparateWorker = Annotated[
    bool | None,
    typer.Option(
        "--separate-worker",
        help="Leave background work to `beamwright worker`.",
        show_default="SEPARATE_WORKER or false",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        help="Bearer token; for a local service it is minted where the issuer's key is at hand.",
        show_default="BEAMWRIGHT_TOKEN",
    ),
]


def main() -> None:
    """Entry point of `beamwright`."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        app(prog_name="beamwright")
    except BrokenPipeError:
        # Whoever read our output has gone; Python would stumble over that once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(NOT_DONE)


def _stop(*_: object) -> NoReturn:
    """A request to stop unwinds like an interrupt, so that whatever was started is stopped."""
    raise SystemExit(128 + signal.SIGTERM)


@app.callback(invoke_without_command=True)
def version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
) -> None:
    if version:
        typer.echo(f"beamwright {__version__}")
        raise typer.Exit


@app.command()
def serve(
    data: Data = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.", show_default="HOST or 127.0.0.1")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.", show_default="PORT or 8000")] = None,
    processes: Annotated[
        int | None, typer.Option(help="How many serving processes.", show_default="PROCESSES or 1")
    ] = None,
    separate_worker: SeparateWorker = None,
) -> None:
    """Serve until told to stop. Without DATABASE_URL the database lives in the data folder."""
    settings = settings_of(
        data=data, host=host, port=port, processes=processes, separate_worker=separate_worker
    )
    from beamwright.serve import serve

    with starting(settings):
        serve(settings)


@app.command("serve-process", hidden=True)
def serve_process(
    fd: Annotated[int, typer.Option()],
    data: Data = None,
    host: Annotated[str | None, typer.Option()] = None,
    port: Annotated[int | None, typer.Option()] = None,
    separate_worker: SeparateWorker = None,
    embedded: Annotated[bool, typer.Option("--embedded")] = False,
) -> None:
    """One of several serving processes; `serve` starts it with the socket that all of them share."""
    settings = settings_of(data=data, host=host, port=port, separate_worker=separate_worker)
    _end_with(os.getppid())
    from beamwright.serve import run_forever

    with starting(settings):
        run_forever(settings, fd, settings.data if embedded else None)


@app.command()
def worker(data: Data = None, database_url: DatabaseUrl = None) -> None:
    """Do the background work of services that run with --separate-worker, until told to stop."""
    settings = settings_of(data=data, database_url=database_url)
    from beamwright.maintenance import joined
    from beamwright.serve import work

    with starting(settings):
        work(settings, joined(settings))


@contextmanager
def starting(settings: Settings) -> Generator[None]:
    """Says in a sentence why the service cannot start, and lets a stopped one unwind."""
    from beamwright.maintenance import NotPossibleError, in_sentences

    # Before the server takes the signals over, and after it, a stop unwinds: Python's own handlers would
    # leave an embedded database running behind us.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    try:
        with in_sentences(), _listening(settings):
            yield
    except NotPossibleError as error:
        fail(str(error))


@contextmanager
def _listening(settings: Settings) -> Generator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            fail(f"Port {settings.port} of {settings.host} is in use. Choose another with --port.")
        if error.errno == errno.EADDRNOTAVAIL:
            fail(f"{settings.host} is not an address of this machine. Choose another with --host.")
        raise


def _end(*_: object) -> NoReturn:
    raise SystemExit(0)


def _end_with(parent: int) -> None:
    """Stop once the process that started us is gone: nobody serves on its socket unsupervised."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


@app.command()
def token(
    data: Data = None,
    actor: Annotated[UUID, typer.Option(help="Whom the token is for.")] = ADMINISTRATOR,
    audience: Annotated[
        list[str] | None,
        typer.Option(
            help="Surface that the token is for; repeat it for several.",
            show_default=f"{HTTP_AUDIENCE} and {MCP_AUDIENCE}",
        ),
    ] = None,
    hours: Annotated[float, typer.Option(help="How long it is valid.", min=0.001, max=8760)] = 12,
    scope: Annotated[
        list[str] | None, typer.Option(help="Scope that limits it; repeat it for several.")
    ] = None,
) -> None:
    """Mint a bearer token with the built-in issuer, and print nothing else."""
    settings = settings_of(data=data)
    if not settings.issuer_active:
        fail("The built-in issuer is switched off here. Get a token from the identity provider.")
    typer.echo(minted(settings.data, actor, audience or (HTTP_AUDIENCE, MCP_AUDIENCE), hours, scope or ()))


def minted(
    data: Path, actor: UUID, audiences: Sequence[str], hours: float, scopes: Sequence[str] = ()
) -> str:
    from beamwright.adapters.tokens.builtin import BuiltInIssuer, IssuerKeyError

    try:
        return BuiltInIssuer(data).mint(str(actor), audiences, timedelta(hours=hours), scopes)
    except ValueError as error:
        fail(f"No such token can be minted: {error}.")
    except (IssuerKeyError, OSError) as error:
        fail(str(error))


@app.command()
def status(url: Url = None) -> None:
    """Ask a service whether it is ready. Ends with 1 when it is not, and with 2 when nothing answers."""
    from rich.table import Table

    with answering():
        report = client_of(url, None, None).report()
    table = Table("part", "state", "behind", "failures", "last error", box=None)
    table.add_row("database", report["database"])
    table.add_row("migrations", report["migrations"])
    for each in report["projections"]:
        state = "serves" if each["serving"] else "is being built"
        behind = f"{each['behind_events']} events, {each['behind_seconds']:.1f} s" if each["serving"] else ""
        error = printable(each["last_error"] or "")
        table.add_row(f"list {each['name']}", state, behind, str(each["failures"]), error)
    for each in report.get("workers", ()):
        state = "works" if each["working"] else f"idle for {each['idle_seconds']:.0f} s"
        table.add_row(f"worker {each['name']}", state)
    out = console()
    out.print(table)
    for reason in report["reasons"]:
        out.print(printable(reason), style="red")
    if report["held_back_by"]:
        out.print(printable(f"Readers wait for {holder_of(report['held_back_by'])}."), style="yellow")
    out.print("ready" if report["ready"] else "not ready", style="green" if report["ready"] else "red")
    if not report["ready"]:
        raise typer.Exit(NOT_DONE)


def holder_of(holder: dict[str, Any]) -> str:
    """Who has to end a transaction before readers go on."""
    who = f"process {holder['process']}" if holder["process"] else "a prepared transaction"
    doing = f", “{holder['statement']}”" if holder["statement"] else ""
    return f"{who} ({holder['application']}, database {holder['database']}), {holder['state']} since {holder['since']}{doing}"


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
)
def call(
    context: typer.Context,
    operation: Annotated[str | None, typer.Argument(help="Name of the operation.")] = None,
    json: Annotated[
        str | None, typer.Option(help="Fields as a JSON object; a field's own option goes before.")
    ] = None,
    url: Url = None,
    token: Token = None,
    data: Data = None,
    idempotency_key: Annotated[str | None, typer.Option(help="Makes the call safe to repeat.")] = None,
    if_match: Annotated[int | None, typer.Option(help="Version that the object must have.", min=0)] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show every operation.")] = False,
    help: Annotated[bool, typer.Option("--help", help="Show this, or an operation's fields.")] = False,
) -> None:
    """Call an operation of a running service with its fields as options, and print the answer.

    For example: beamwright call define_zone --name "Control room"

    A list is given as JSON or by repeating its option, an object as JSON; null only through --json.
    """
    from . import calling

    if list_:
        return show_operations()
    if operation is None:
        return typer.echo(context.get_help())
    with answering():
        found = calling.operation(operation)
        if help:
            return show_fields(found)
        typed = calling.typed_options(found, context.args)
        wanted = calling.wanted(found, typed, calling.json_object(json or "{}"))
        headers = dict(wanted.headers)
        headers |= {} if idempotency_key is None else {"idempotency-key": idempotency_key}
        headers |= {} if if_match is None else {"if-match": f'"{if_match}"'}
        answer = client_of(url, token, data).send(wanted._replace(headers=headers))
    if found.media_types:
        sys.stdout.buffer.write(answer)
        return None
    return show_json(answer)


def show_operations() -> None:
    from rich.table import Table

    from .calling import registry

    table = Table("operation", "what it does", box=None)
    for context in registry().contexts:
        table.add_section()
        table.add_row(context, style="bold")
        for each in registry().operations.values():
            if each.context == context:
                table.add_row(f"  {each.name}", each.summary)
    console().print(table)


def show_fields(operation: "Operation") -> None:
    from rich.table import Table

    from .calling import described_fields, option

    out = console()
    out.print(f"{operation.summary}\n\nbeamwright call {operation.name} --field value ...")
    out.print(f"{operation.method} {operation.path}\n", style="dim")
    table = Table("field", "value", "", box=None)
    for field in described_fields(operation):
        table.add_row(option(field.name), field.kind, field.note)
    out.print(table)


def show_json(body: bytes) -> None:
    import msgspec

    text = printable(msgspec.json.format(body, indent=2).decode())
    if sys.stdout.isatty():
        console().print_json(text)
    else:
        typer.echo(text)


@events.command()
def tail(
    after: Annotated[
        str | None,
        typer.Option(help="Token to begin after, such as an `as_of`.", show_default="the beginning"),
    ] = None,
    type: Annotated[str | None, typer.Option(help="Only events of this type, such as ZoneDefined.")] = None,
    follow: Annotated[bool, typer.Option(help="Go on with what happens from now on.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print each event whole, one to a line.")] = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Print what happened, one event to a line, and go on until interrupted."""
    import msgspec

    from . import tailing

    def lost(why: str) -> None:
        typer.echo(printable(why), err=True)

    with answering():
        client = client_of(url, token, data)
        items = tailing.follow(client, after, type, lost) if follow else tailing.pages(client, after, type)
        try:
            for item in items:
                text = msgspec.json.encode(item).decode() if json else tailing.line_of(item)
                typer.echo(printable(text))
        except KeyboardInterrupt:
            return


def client_of(url: str | None, token: str | None, data: Path | None) -> "Client":
    """A client of the service at `url`; a minted token never leaves this machine."""
    from .calling import Client, on_this_machine

    address = url or os.environ.get("BEAMWRIGHT_URL") or None
    given = token or os.environ.get("BEAMWRIGHT_TOKEN") or None
    if address is not None and (given is not None or not on_this_machine(address)):
        return Client(address, lambda: given)
    settings = settings_of(data=data)
    mints = given is None and settings.issuer_active and (settings.data / "issuer.key").exists()

    kept: list[tuple[float, str]] = []

    def fresh() -> str | None:
        """Kept for half its life: minting anew for each of many calls would cost both sides."""
        if not mints:
            return given
        if not kept or time.monotonic() - kept[-1][0] > LOCAL_TOKEN_HOURS * 1800:
            token = minted(settings.data, ADMINISTRATOR, [HTTP_AUDIENCE], LOCAL_TOKEN_HOURS)
            kept[:] = [(time.monotonic(), token)]
        return kept[-1][1]

    return Client(address or settings.base_url, fresh)


@contextmanager
def answering() -> Generator[None]:
    """Ends with the sentences of whatever keeps a call from being answered."""
    from .calling import RefusedError, UnreachableError, UsageError

    try:
        yield
    except (UsageError, UnreachableError) as error:
        fail(str(error))
    except RefusedError as refusal:
        fail("\n".join(refusal_lines(refusal.problem)), NOT_DONE)


def refusal_lines(problem: Mapping[str, Any]) -> Iterator[str]:
    yield str(problem["title"])
    yield str(problem["detail"])
    yield from (f"  {fault['path']}: {fault['message']}" for fault in problem.get("faults", ()))
    if "code" in problem:
        yield f"{problem['code']}, correlation id {problem['correlation_id']}"


@app.command(hidden=True)
def reference(directory: Annotated[Path, typer.Argument()]) -> None:
    """Write the reference from the registry."""
    from .reference import write

    write(directory)


app.command()(verify)
app.command()(backup)
app.command()(restore)
app.add_typer(projections, name="projections")
