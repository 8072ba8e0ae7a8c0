"""Time-driven commands run as the Scheduler account, through authorization like any other call."""

from datetime import timedelta

import httpx

from beamwright.app import App
from beamwright.kernel import wellknown
from beamwright.runtime.schedules import expire_presences
from tests.live import LiveServer


def test_a_presence_that_nobody_closed_is_closed_by_the_scheduler(
    server: LiveServer, admin: httpx.Client
) -> None:
    body = {
        "code": "forgotten-1",
        "title": "Left the light on",
        "type": "User",
        "facility_code": "home",
        "surface_id": str(wellknown.HTTP_SURFACE),
        "members": {str(wellknown.ADMINISTRATOR): "Lead"},
        "planned_start_at": "2026-01-01T00:00:00Z",
        "planned_end_at": "2026-01-02T00:00:00Z",
    }
    path = admin.post("/visits", json=body).headers["location"]
    assert admin.post(f"{path}/record-arrival").status_code == 200
    assert admin.post(f"{path}/presence/open", json={"mode": "Remote"}).status_code == 200

    async def expire(app: App) -> None:
        await expire_presences(app.service)

    server.run(expire)
    assert admin.get(f"{path}/presence").json()["items"][0]["closed_at"] is None
    server.clock.ahead = timedelta(days=2)
    server.run(expire)
    server.clock.ahead = timedelta()
    assert admin.get(f"{path}/presence").json()["items"][0]["closed_at"] is not None
    last = admin.get(f"{path}/events").json()["items"][-1]
    assert (last["command_name"], last["principal_name"]) == ("expire_visit_presence", "Scheduler")
