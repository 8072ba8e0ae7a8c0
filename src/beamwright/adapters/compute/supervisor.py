"""Watches one program to its end, in a session of its own, whatever becomes of the service that asked for it.

A script of the standard library alone, run as `python -I -S supervisor.py <folder>`. What it leaves in the folder:

- `lock`, held by it and by the program as long as one of them lives: who lives is told by this, never by a number
  that another process may have by then;
- `begun`, written before the program is started and never again: it is the right to start it, given once;
- `end.json`, how it ended.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

# Somebody else supervises this job, or looks at it just now.
HELD = 75
PATIENCE = 2.0
LOOK_EVERY = 0.05
GRACE = 3.0
TAIL = 300
PR_SET_PDEATHSIG = 1


def main(folder: Path) -> int:
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    if not taken(lock):
        return HELD
    if (folder / "begun").exists() or (folder / "end.json").exists():
        return 0
    if (folder / "cancel").exists():
        ended(folder, "Cancelled", "cancelled before it began")
        return 0
    job: dict[str, Any] = json.loads((folder / "job.json").read_text())
    write(folder, "begun", datetime.now(UTC).isoformat())
    # Whoever asked waits for the first process only; the lock passes to the second without being free in between.
    if os.fork():
        return 0
    supervise(folder, job, lock)
    return 0


def taken(lock: int) -> bool:
    """A look at the lock takes it for an instant, so that one refusal says nothing yet."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_EVERY)
        else:
            return True


def supervise(folder: Path, job: dict[str, Any], lock: int) -> None:
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: stopping.append(received))
    try:
        program = start(folder / "work", job, lock)
    except (OSError, ValueError) as error:
        ended(folder, "Failed", f"cannot be started: {error}")
        return
    status = watched(folder, program, float(job["within"]), stopping)
    terminate(program, politely=status is not None)
    code = program.wait()
    if status == "TimedOut":
        ended(folder, status, f"killed after {job['within']:g} s", code)
    elif status == "Cancelled":
        ended(folder, status, "cancelled", code)
    elif status is not None:
        ended(folder, "Failed", "its supervisor was told to stop", code)
    elif code == 0:
        ended(folder, "Succeeded", None, code)
    else:
        how = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
        ended(folder, "Failed", f"{how}: {tail(folder / 'error.txt')}".rstrip(": "), code)


def start(work: Path, job: dict[str, Any], lock: int) -> subprocess.Popen[bytes]:
    """No shell, no input, no environment but the job's own."""
    with open(work.parent / "output.txt", "wb") as output, open(work.parent / "error.txt", "wb") as error:
        return subprocess.Popen(  # noqa: S603 - the adapter has checked the command
            job["command"],
            cwd=work,
            env=job["environment"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=error,
            start_new_session=True,
            pass_fds=(lock,),
            # This process has one thread, so nothing is half done when the program's begins.
            preexec_fn=die_with_parent,
        )


def die_with_parent() -> None:
    """On Linux, a program whose supervisor is killed ends too: nobody could tell how it went."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def watched(folder: Path, program: subprocess.Popen[bytes], within: float, stopping: list[int]) -> str | None:
    """Why the program must be ended, or None when it has ended by itself."""
    until = time.monotonic() + within
    while True:
        # Left unreaped, so that its number and its group stay its own until it is cleared away.
        if os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return None
        if (folder / "cancel").exists():
            return "Cancelled"
        if time.monotonic() > until:
            return "TimedOut"
        if stopping:
            return "Stopped"
        time.sleep(LOOK_EVERY)


def terminate(program: subprocess.Popen[bytes], *, politely: bool) -> None:
    """End the program and all that it started within its session."""
    if politely:
        signalled(program.pid, signal.SIGTERM)
        until = time.monotonic() + GRACE
        while (
            time.monotonic() < until
            and os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        ):
            time.sleep(LOOK_EVERY)
    signalled(program.pid, signal.SIGKILL)


def signalled(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def tail(path: Path) -> str:
    """The last characters of the error output."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - 4 * TAIL))
            return file.read().decode(errors="replace").strip()[-TAIL:]
    except OSError as error:
        return f"(its error output is not readable: {os.strerror(error.errno or errno.EIO)})"


def ended(folder: Path, status: str, failure: str | None, exit_code: int | None = None) -> None:
    end = {
        "status": status,
        "failure": failure,
        "exit_code": exit_code,
        "ended_at": datetime.now(UTC).isoformat(),
    }
    write(folder, "end.json", json.dumps(end))


def write(folder: Path, name: str, text: str) -> None:
    """All of it or nothing, and on the disk before anything follows from it."""
    partial = folder / f".{name}.{os.urandom(8).hex()}"
    with open(partial, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, folder / name)
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
