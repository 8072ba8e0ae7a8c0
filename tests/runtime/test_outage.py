"""The database goes away and comes back: the service says so, answers 503, and recovers by itself."""

import tempfile
import time
from pathlib import Path
from uuid import uuid4

from beamwright.adapters.postgres.embedded import EmbeddedPostgres
from beamwright.settings import Settings
from tests.live import LiveServer


def test_the_service_survives_a_database_outage() -> None:
    with tempfile.TemporaryDirectory(prefix="beamwright-outage-", ignore_cleanup_errors=True) as directory:
        embedded = EmbeddedPostgres(Path(directory))
        server = LiveServer(Settings(data=Path(directory), port=0), embedded.start()).start()
        with server.client() as client:
            made = client.post("/zones", json={"name": uuid4().hex})
            assert made.status_code == 201
            embedded.stop()
            away = client.post("/zones", json={"name": uuid4().hex})
            assert (away.status_code, away.headers["retry-after"]) == (503, "5")
            assert away.json()["code"] == "DatabaseUnavailableError"
            assert client.get("/health").status_code == 200
            assert client.get("/ready").status_code == 503
            embedded.start()
            deadline = time.monotonic() + 30
            while client.get("/ready").status_code != 200:
                assert time.monotonic() < deadline, "it recovers by itself"
            assert client.get(made.headers["location"]).status_code == 200
            again = client.post("/zones", json={"name": uuid4().hex}).json()
            listed = client.get("/zones", params={"consistent_with": again["as_of"], "limit": 1}).json()
            assert listed["items"][0]["id"] == again["zone_id"]
        server.stop()
        embedded.stop()
