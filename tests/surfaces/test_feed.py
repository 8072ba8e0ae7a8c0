"""The feed: everything in order, resumable, and only what the caller may see."""

import json
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import httpx

from tests.live import LiveServer


def define(admin: httpx.Client) -> dict[str, str]:
    return admin.post("/zones", json={"name": uuid4().hex}).json()


def follow(client: httpx.Client, **headers: str) -> Iterator[dict[str, str]]:
    """Server-sent events as dictionaries."""
    with client.stream("GET", "/events", headers={"accept": "text/event-stream", **headers}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        event: dict[str, str] = {}
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            if line:
                event[name] = value
            elif "data" in event:
                yield event
                event = {}
            else:
                event = {}


def test_pages_give_every_event_once_in_order(admin: httpx.Client) -> None:
    start = admin.get("/events", params={"limit": 200}).json()["next"]
    made = [define(admin)["zone_id"] for _ in range(5)]
    seen: list[str] = []
    for _ in range(20):
        page = admin.get("/events", params={"after": start, "limit": 2}).json()
        seen += [item["streamid"] for item in page["items"]]
        start = page["next"]
        if len(seen) >= 5:
            break
    assert seen == made


def test_items_are_cloud_events(admin: httpx.Client) -> None:
    made = define(admin)
    params = {"after": "0.0", "event_type": "ZoneDefined", "limit": 200}
    item = admin.get("/events", params=params).json()["items"][-1]
    assert (item["specversion"], item["type"], item["subject"]) == (
        "1.0",
        "beamwright.ZoneDefined",
        f"Zone/{made['zone_id']}",
    )
    assert item["data"]["zone_id"] == made["zone_id"] and item["commandname"] == "define_zone"


def test_followers_see_new_events_and_resume_where_they_were(admin: httpx.Client) -> None:
    token = define(admin)["as_of"]
    first, second = define(admin), define(admin)
    stream = follow(admin, **{"last-event-id": token})
    seen = next(stream)
    assert json.loads(seen["data"])["streamid"] == first["zone_id"]
    stream.close()
    resumed = follow(admin, **{"last-event-id": seen["id"]})
    assert json.loads(next(resumed)["data"])["streamid"] == second["zone_id"]
    third = define(admin)
    assert json.loads(next(resumed)["data"])["streamid"] == third["zone_id"]
    resumed.close()


def test_a_caller_sees_only_what_its_single_reads_reach(server: LiveServer, admin: httpx.Client) -> None:
    reader = server.newcomer("service_account")
    grant = {"effect": "Allow", "operations": ["*:@reads"], "scope": {"kind": "OwnVisits"}}
    body = {"name": uuid4().hex, "principals": {"actor_ids": [str(reader)]}, "grants": [grant]}
    assert admin.post("/policies", json=body).status_code == 201
    with server.as_newcomer(reader) as client:
        types = {item["streamtype"] for item in client.get("/events", params={"limit": 200}).json()["items"]}
        assert "Zone" in types, "what belongs to nobody is open to readers"
        actors = client.get("/events", params={"stream_type": "Actor", "limit": 200}).json()["items"]
        assert {item["streamid"] for item in actors} == {str(reader)}


def test_a_revoked_reader_is_cut_off(server: LiveServer, admin: httpx.Client) -> None:
    reader = server.newcomer("service_account")
    grant = {"effect": "Allow", "operations": ["*:@reads"], "scope": {"kind": "Everything"}}
    body = {"name": uuid4().hex, "principals": {"actor_ids": [str(reader)]}, "grants": [grant]}
    policy = admin.post("/policies", json=body).json()["policy_id"]
    with server.as_newcomer(reader) as client:
        stream = follow(client)
        next(stream)
        assert admin.post(f"/policies/{policy}/revoke", json={"reason": "over"}).status_code == 200
        last = [event for event in stream][-1]
    assert last["event"] == "problem" and json.loads(last["data"])["code"] == "AuthorizationDeniedError"


def test_a_stream_ends_with_its_token(server: LiveServer, admin: httpx.Client) -> None:
    with server.client() as client:
        stream = follow(client)
        next(stream)
        server.clock.ahead = timedelta(hours=3)
        try:
            last = [event for event in stream][-1]
        finally:
            server.clock.ahead = timedelta()
    assert last["event"] == "problem" and json.loads(last["data"])["code"] == "RefusedTokenError"
