"""REST as a client sees it: receipts, conditions, idempotency, and a problem document for every kind of bad input."""

import socket
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import httpx
import pytest

from tests.live import LiveServer

NOBODY = UUID(int=7)


def zone(client: httpx.Client, **headers: str) -> httpx.Response:
    return client.post("/zones", json={"name": f"zone {uuid4().hex}"}, headers=headers)


def test_creation_answers_a_receipt_with_location_and_etag(admin: httpx.Client) -> None:
    made = zone(admin)
    assert made.status_code == 201
    assert set(made.json()) == {"zone_id", "version", "as_of", "events"}
    assert (made.headers["location"], made.headers["etag"]) == (f"/zones/{made.json()['zone_id']}", '"1"')


def test_list_shows_what_the_token_stands_for(admin: httpx.Client) -> None:
    made = zone(admin).json()
    page = admin.get("/zones", params={"consistent_with": made["as_of"], "limit": 1}).json()
    assert [item["id"] for item in page["items"]] == [made["zone_id"]]


def test_get_is_current_and_travels_in_time(admin: httpx.Client) -> None:
    path = zone(admin).headers["location"]
    before = admin.get(path).json()
    admin.post(f"{path}/update", json={"description": "changed"})
    assert admin.get(path).json()["description"] == "changed"
    assert admin.get(path, params={"as_of_version": 1}).json()["description"] is None
    assert admin.get(path, params={"as_of": before["created_at"]}).json()["version"] == 1
    assert admin.get(path, params={"as_of": "2001-01-01T00:00:00Z"}).status_code == 404


def test_history_shows_the_envelope(admin: httpx.Client) -> None:
    path = zone(admin, **{"x-correlation-id": "my-id"}).headers["location"]
    [event] = admin.get(f"{path}/events").json()["items"]
    assert (event["event_type"], event["command_name"], event["correlation_id"]) == (
        "ZoneDefined",
        "define_zone",
        "my-id",
    )
    assert event["principal_name"] == "Administrator"


def test_if_match_is_honoured(admin: httpx.Client) -> None:
    path = zone(admin).headers["location"]
    assert admin.post(f"{path}/update", json={"name": uuid4().hex}, headers={"if-match": '"1"'}).is_success
    late = admin.post(f"{path}/update", json={"name": uuid4().hex}, headers={"if-match": '"1"'})
    assert (late.status_code, late.json()["code"]) == (409, "ConcurrencyError")


def test_no_op_answers_200_without_events(admin: httpx.Client) -> None:
    path = zone(admin).headers["location"]
    same = admin.post(f"{path}/update", json={"description": None})
    assert (same.status_code, same.json()["events"], same.json()["version"]) == (200, [], 1)


def test_same_key_replays_byte_for_byte(admin: httpx.Client) -> None:
    body = {"name": uuid4().hex}
    first = admin.post("/zones", json=body, headers={"idempotency-key": body["name"]})
    again = admin.post("/zones", json=body, headers={"idempotency-key": body["name"]})
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["location"] == first.headers["location"]


def test_refusals_replay_too(admin: httpx.Client) -> None:
    key = {"idempotency-key": uuid4().hex}
    first = admin.post("/zones", json={"name": " "}, headers=key)
    again = admin.post("/zones", json={"name": " "}, headers=key)
    assert first.status_code == again.status_code == 400
    assert again.headers["idempotency-replayed"] == "true" and again.content == first.content


def test_key_with_another_request_is_refused(admin: httpx.Client) -> None:
    key = {"idempotency-key": uuid4().hex}
    zone(admin, **key)
    other = zone(admin, **key)
    assert (other.status_code, other.json()["code"]) == (422, "IdempotencyKeyReusedError")


def test_many_calls_with_one_key_give_one_event(server: LiveServer) -> None:
    name = uuid4().hex

    def call(_: int) -> httpx.Response:
        with server.client() as client:
            return client.post("/zones", json={"name": name}, headers={"idempotency-key": name})

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(call, range(20)))
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert len({answer.json()["zone_id"] for answer in answers if answer.status_code == 201}) == 1
    assert all(a.json()["code"] == "IdempotencyInProgressError" for a in answers if a.status_code == 409)


def test_correlation_id_is_accepted_and_echoed(admin: httpx.Client) -> None:
    assert zone(admin, **{"x-correlation-id": "abc-1"}).headers["x-correlation-id"] == "abc-1"
    assert len(zone(admin, **{"x-correlation-id": "bad id!"}).headers["x-correlation-id"]) == 32


BAD_BODIES = {
    b"{": (400, "MalformedRequestError"),
    b"[]": (400, "MalformedRequestError"),
    b"null": (400, "MalformedRequestError"),
    b'"\xff"': (400, "MalformedRequestError"),
    b"[" * 100_000: (400, "MalformedRequestError"),
    b'{"a":' * 100_000: (400, "MalformedRequestError"),
    b'{"name": 1e999}': (400, "MalformedRequestError"),
    b'{"name": "\\ud800"}': (400, "MalformedRequestError"),
    b"{}": (422, "ShapeError"),
    b'{"name": 1}': (422, "ShapeError"),
    b'{"name": null}': (422, "ShapeError"),
    b'{"name": "x", "extra": 1}': (422, "ShapeError"),
    b'{"name": "a\\u0000b"}': (422, "ShapeError"),
    b'{"name": "   "}': (400, "InvalidZoneNameError"),
    b'{"name": "a\\u0007"}': (400, "InvalidZoneNameError"),
    b'{"name": "' + b"x" * 2**20 + b'"}': (413, "BodyTooLargeError"),
}


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: body[:24].decode("latin-1"))
def test_bad_bodies_get_a_problem_document(admin: httpx.Client, body: bytes) -> None:
    got = admin.post("/zones", content=body)
    assert (got.status_code, got.json()["code"]) == BAD_BODIES[body]
    assert got.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "code", "correlation_id"} <= set(got.json())


def test_wrong_shape_names_every_fault(admin: httpx.Client) -> None:
    got = admin.post("/visits", json={"code": 1, "title": [], "nonsense": True})
    paths = {fault["path"] for fault in got.json()["faults"]}
    assert {"$.code", "$.title", "$.nonsense", "$.facility_code", "$.surface_id"} <= paths


def test_body_is_counted_not_trusted(server: LiveServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        head = f"POST /zones HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token()}\r\n"
        raw.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        raw.settimeout(20)
        try:
            for _ in range(40):
                raw.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        except OSError:
            pass
        assert b"413" in raw.recv(100)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "UnknownRouteError"),
        ("GET", "/zones/x/y/z", 404, "UnknownRouteError"),
        ("DELETE", "/zones", 405, "MethodNotAllowedError"),
        ("PUT", "/zones", 405, "MethodNotAllowedError"),
        ("GET", "/zones/not-an-id", 422, "ShapeError"),
        ("GET", f"/zones/{NOBODY}", 404, "ZoneNotFoundError"),
        ("GET", "/zones?limit=0", 422, "ShapeError"),
        ("GET", "/zones?limit=9999999999999999999999", 422, "ShapeError"),
        ("GET", "/zones?sort=password", 422, "ShapeError"),
        ("GET", "/zones?status=Active&status=Retired", 400, "MalformedRequestError"),
        ("GET", "/zones?q=%ff", 400, "MalformedRequestError"),
        ("GET", "/zones?q=%00", 422, "ShapeError"),
        ("GET", "/zones?cursor=abc", 400, "InvalidCursorError"),
        ("GET", "/zones?consistent_with=abc", 400, "InvalidConsistencyTokenError"),
        ("GET", "/zones?surprise=1", 422, "ShapeError"),
        ("GET", f"/zones/{NOBODY}?as_of=yesterday", 422, "ShapeError"),
        ("GET", f"/zones/{NOBODY}?as_of_version=-1", 422, "ShapeError"),
        ("GET", "/events?after=zzz", 400, "InvalidConsistencyTokenError"),
    ],
)
def test_bad_addresses_get_a_problem_document(
    admin: httpx.Client, method: str, path: str, status: int, code: str
) -> None:
    got = admin.request(method, path)
    assert (got.status_code, got.json()["code"]) == (status, code)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"idempotency-key": "x" * 256}, "InvalidIdempotencyKeyError"),
        ({"idempotency-key": "with space"}, "InvalidIdempotencyKeyError"),
        ({"if-match": "nonsense"}, "InvalidExpectedVersionError"),
    ],
)
def test_bad_conditions_are_refused(admin: httpx.Client, headers: dict[str, str], code: str) -> None:
    got = zone(admin, **headers)
    assert (got.status_code, got.json()["code"]) == (400, code)


def test_pages_follow_one_another_without_gap_or_repeat(admin: httpx.Client) -> None:
    made = [zone(admin).json() for _ in range(7)]
    wanted, got, cursor = [each["zone_id"] for each in reversed(made)], [], None
    for _ in range(4):
        parameters = {
            "limit": 2,
            "consistent_with": made[-1]["as_of"],
            **({"cursor": cursor} if cursor else {}),
        }
        page = admin.get("/zones", params=parameters).json()
        got += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert got[:7] == wanted


def test_search_and_filters(admin: httpx.Client) -> None:
    word = f"w{uuid4().hex}"
    made = admin.post("/zones", json={"name": f"{word} clients", "description": "laboratory network"}).json()
    found = admin.get("/zones", params={"q": f"{word} laboratory", "consistent_with": made["as_of"]}).json()
    assert [item["id"] for item in found["items"]] == [made["zone_id"]]
    assert admin.get("/zones", params={"q": word, "status": "Retired"}).json()["items"] == []


def test_probes_are_open(server: LiveServer) -> None:
    with server.client(None) as stranger:
        assert stranger.get("/health").json() == {"status": "alive"}
        assert stranger.get("/ready").json()["ready"] is True
        assert b"beamwright_requests_total" in stranger.get("/metrics").content
        assert stranger.get("/docs").status_code == 200
        assert stranger.get("/docs/openapi.json").json()["openapi"] == "3.1.0"
        metadata = stranger.get("/.well-known/oauth-protected-resource").json()
    assert metadata["bearer_methods_supported"] == ["header"]
