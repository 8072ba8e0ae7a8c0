"""The whole service starts from an empty folder, as root and as an ordinary user, and stops cleanly."""

import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import pytest

from beamwright.adapters.postgres.embedded import binaries
from beamwright.adapters.tokens.builtin import BuiltInIssuer
from tests.live import free_port

ROOT = os.geteuid() == 0
NOBODY = pwd.getpwnam("nobody")

# The interpreter may lie where only root can read, so the user is changed once everything is imported.
SERVICE = """
import os, sys
import uvicorn.lifespan.on, uvicorn.protocols.http.httptools_impl, uvloop
import beamwright.serve, beamwright.adapters.postgres.migrate as migrate
from beamwright.settings import read_settings
migrate._script(None, migrate.HEAD)
directory, port, user, group = sys.argv[1:]
if os.geteuid() != int(user):
    os.setgroups([]), os.setgid(int(group)), os.setuid(int(user))
beamwright.serve.serve(read_settings({}, data=directory, port=int(port), log_level="error"))
"""


def reachable(path: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in (path, *path.parents))


@pytest.mark.parametrize("user", ["root", "nobody"] if ROOT else [pwd.getpwuid(os.geteuid()).pw_name])
def test_an_empty_folder_becomes_a_service(user: str) -> None:
    if user == "nobody" and not reachable(binaries()):
        pytest.skip("nobody cannot reach the programs")
    account = pwd.getpwnam(user)
    with tempfile.TemporaryDirectory(prefix="beamwright-cold-", ignore_cleanup_errors=True) as directory:
        os.chown(directory, account.pw_uid, account.pw_gid)
        port = free_port()
        arguments = [directory, str(port), str(account.pw_uid), str(account.pw_gid)]
        process = subprocess.Popen([sys.executable, "-c", SERVICE, *arguments])
        try:
            wait_until_ready(process, port)
            key = Path(directory, "issuer.key")
            assert key.stat().st_uid == account.pw_uid and BuiltInIssuer(Path(directory))
            postmaster = Path(directory, "postgres", "postmaster.pid").read_text().split()[0]
            owner = NOBODY.pw_uid if user == "root" else account.pw_uid
            assert Path("/proc", postmaster).stat().st_uid == owner
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        assert not Path(directory, "postgres", "postmaster.pid").exists()


def wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None and time.monotonic() < deadline, "the service did not become ready"
        try:
            if httpx.get(f"http://127.0.0.1:{port}/ready", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
