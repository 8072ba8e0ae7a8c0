"""Credentials, permits and trust anchors, as the federation catalogue tells it: examples 1, 2 and 10."""

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from beamwright.adapters.secrets.memory import public_key, seed
from tests.acceptance.clients import by_mcp
from tests.acceptance.conftest import Logged
from tests.acceptance.stage import OWN_VISITS, Person, Stage, at_once, done, facility, grant, refusal
from tests.live import Cluster, LiveServer, serving

FACILITIES, CREDENTIALS, PERMITS = "/federation/facilities", "/federation/credentials", "/federation/permits"
AT_ONCE = 20


@pytest.fixture(scope="module")
def server(cluster: Cluster) -> Iterator[LiveServer]:
    """An installation with keys in memory, so that every reference has one."""
    with serving(cluster, secret_store="memory") as server:
        yield server


@pytest.fixture(scope="module")
def other(cluster: Cluster, server: LiveServer) -> Iterator[LiveServer]:
    """Another process of the installation."""
    with serving(cluster, dsn=server.dsn, secret_store="memory") as other:
        yield other


def fresh() -> str:
    return f"urn:test:{uuid4().hex}"


def secret() -> str:
    return f"vault:hush-{uuid4().hex}"


def home(stage: Stage) -> str:
    return done(stage.admin.get(FACILITIES, code="home"))["items"][0]["id"]


def peer(stage: Stage, **fields: Any) -> str:
    given = {"code": uuid4().hex, "display_name": "A peer", "kind": "Peer"} | fields
    return done(stage.admin.post(FACILITIES, **given))["facility_id"]


def signing(stage: Stage, by: Person | None = None, **fields: Any) -> httpx.Response:
    """A credential with which the own Site signs."""
    ref = fields.pop("secret_ref", None) or secret()
    given = {"facility_id": home(stage), "audience": fresh(), "purpose": "Signing", "secret_ref": ref}
    return (by or stage.admin).post(CREDENTIALS, **given | {"public_key": public_key(ref)} | fields)


def verification(stage: Stage, peer_id: str) -> str:
    """A credential with which a peer's artifacts are verified."""
    key = public_key(secret())
    fields = {"facility_id": peer_id, "audience": fresh(), "purpose": "Verification", "public_key": key}
    return done(stage.admin.post(CREDENTIALS, **fields))["credential_id"]


def permit(stage: Stage, peer_id: str, credential_id: str, **fields: Any) -> httpx.Response:
    outbound = {
        "peer_facility_id": peer_id,
        "audience": "urn:p",
        "purpose": "calibration-exchange",
        "direction": "Outbound",
        "allowed_credential_ids": [credential_id],
        "allowed_artifact_kinds": ["CalibrationRevision"],
        "accepted_tiers": ["Stable"],
        "terms": {"read_scope": "Full", "onward_actions": []},
    }
    return stage.admin.post(PERMITS, **outbound | fields)


# --- example 1 ---


def test_a_triple_belongs_to_one_credential_whoever_comes_at_once(stage: Stage, other: LiveServer) -> None:
    audience, ref = fresh(), secret()
    there = stage.caller(stage.admin.id, stage.admin.subject, through=other)
    first = done(signing(stage, audience=audience, secret_ref=ref))["credential_id"]
    callers = [stage.admin, there] * (AT_ONCE // 2)
    calls = [lambda by=by: signing(stage, by, audience=audience, secret_ref=ref) for by in callers]
    with reading(stage) as lists:
        refused = at_once(*calls)
        done(stage.admin.post(f"{CREDENTIALS}/{first}/revoke", reason="lost"))
        answers = at_once(*calls)
    assert [refusal(each) for each in refused] == [(409, "CredentialTripleTakenError")] * AT_ONCE
    [won] = [each.json() for each in answers if each.is_success]
    lost = [refusal(each) for each in answers if not each.is_success]
    assert lost == [(409, "CredentialTripleTakenError")] * (AT_ONCE - 1)
    assert len(lists) > 1 and all(each.is_success for each in lists)
    found = done(stage.admin.get(CREDENTIALS, audience=audience, consistent_with=won["as_of"]))["items"]
    assert {each["id"]: each["status"] for each in found} == {
        first: "Revoked",
        won["credential_id"]: "Active",
    }


class reading:
    """The answers of a list that is read again and again meanwhile."""

    def __init__(self, stage: Stage) -> None:
        self.reader = stage.caller(stage.admin.id, stage.admin.subject)
        self.answers: list[httpx.Response] = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.read)

    def read(self) -> None:
        while not self.over.is_set():
            self.answers.append(self.reader.get(CREDENTIALS))

    def __enter__(self) -> list[httpx.Response]:
        self.thread.start()
        return self.answers

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()


# --- example 2 ---


def test_the_audience_tells_the_directions_apart(stage: Stage) -> None:
    peer_id = peer(stage)
    ours, theirs = done(signing(stage))["credential_id"], verification(stage, peer_id)
    assert permit(stage, peer_id, ours).status_code == 201
    inbound = {"direction": "Inbound", "allowed_credential_ids": [theirs], "terms": {"automatic": True}}
    assert refusal(permit(stage, peer_id, ours, **inbound)) == (409, "PermitKeyTakenError")
    assert permit(stage, peer_id, ours, audience="urn:home", **inbound).status_code == 201


def test_a_revoked_permit_frees_its_key(stage: Stage) -> None:
    peer_id, ours = peer(stage), done(signing(stage))["credential_id"]
    first = done(permit(stage, peer_id, ours))["permit_id"]
    done(stage.admin.post(f"{PERMITS}/{first}/revoke", reason="over"))
    assert permit(stage, peer_id, ours).status_code == 201


# --- example 10 ---


def test_a_stranger_finds_no_credential_and_no_permit(stage: Stage) -> None:
    stranger = stage.person()
    stage.policy(grant("*:@reads", scope=OWN_VISITS), to=stranger)
    stage.attended(stranger)
    credential = done(signing(stage))["credential_id"]
    granted = done(permit(stage, peer(stage), credential))
    read = (f"{CREDENTIALS}/{credential}", f"{PERMITS}/{granted['permit_id']}")
    assert [refusal(stranger.get(path)) for path in read] == [
        (404, "CredentialNotFoundError"),
        (404, "PermitNotFoundError"),
    ]
    assert [refusal(stranger.get(f"{path}/events"))[0] for path in read] == [404, 404]
    for path in (CREDENTIALS, PERMITS):
        assert done(stranger.get(path, consistent_with=granted["as_of"]))["items"] == []


def test_whoever_reads_the_own_site_reads_its_credentials(stage: Stage) -> None:
    reader, elsewhere = stage.person(), stage.person()
    stage.policy(grant("*:@reads", scope=facility("home")), to=reader)
    stage.policy(grant("*:@reads", scope=facility(stage.site())), to=elsewhere)
    path = f"{CREDENTIALS}/{done(signing(stage))['credential_id']}"
    assert reader.get(path).status_code == 200
    assert refusal(elsewhere.get(path)) == (404, "CredentialNotFoundError")


def shown(stage: Stage, credential_id: str, as_of: str) -> dict[str, Any]:
    """Everything that an administrator can read of a credential."""
    path, feed = f"{CREDENTIALS}/{credential_id}", []
    after = None
    while True:
        given = {"stream_type": "Credential", "limit": 200} | ({"after": after} if after else {})
        page = done(stage.admin.get("/events", **given))
        feed += [item for item in page["items"] if item["streamid"] == credential_id]
        if not page["items"]:
            break
        after = page["next"]
    return {
        "view": done(stage.admin.get(path)),
        "as it was": done(stage.admin.get(path, as_of_version=1)),
        "list": done(stage.admin.get(CREDENTIALS, consistent_with=as_of)),
        "history": done(stage.admin.get(f"{path}/events")),
        "feed": feed,
        "stream": streamed(stage, credential_id),
    }


def streamed(stage: Stage, credential_id: str) -> list[str]:
    """The credential's events as server-sent events."""
    found: list[str] = []
    headers = {"accept": "text/event-stream"}
    query = {"stream_type": "Credential"}
    with stage.admin.client.stream("GET", "/events", params=query, headers=headers) as answer:
        for line in answer.iter_lines():
            if line.startswith("data:") and credential_id in line:
                found.append(line)
            if len(found) == 3:
                break
    return found


def test_nobody_is_shown_where_a_secret_is(stage: Stage, logged: Logged) -> None:
    refs = [secret(), secret()]
    made = done(signing(stage, secret_ref=refs[0]))["credential_id"]
    path = f"{CREDENTIALS}/{made}"
    done(stage.admin.post(f"{path}/rotation/start", public_key=public_key(refs[1]), secret_ref=refs[1]))
    last = done(stage.admin.post(f"{path}/rotation/complete"))
    seen = shown(stage, made, last["as_of"])
    text = json.dumps(seen) + logged.text()
    assert "complete_credential_rotation" in text and not any(ref in text for ref in refs)
    view = seen["view"]
    assert view["current"]["secret_ref"] == view["retired"][0]["secret_ref"] == "<redacted>"
    assert view["secret_scheme"] == "vault"
    first, second, _ = seen["history"]["items"]
    assert first["payload"]["secret_ref"] == second["payload"]["pending"]["secret_ref"] == "<redacted>"
    assert [item["data"].get("secret_ref") for item in seen["feed"]] == ["<redacted>", None, None]
    assert len(seen["stream"]) == 3 and "<redacted>" in seen["stream"][0]


def test_a_refusal_does_not_repeat_a_secret_ref(stage: Stage) -> None:
    ref, of_other = secret(), public_key(secret())
    answers = [
        signing(stage, secret_ref=ref, public_key=of_other),
        signing(stage, secret_ref=f"http:{ref}"),
        signing(stage, secret_ref=ref, audience=7),
        signing(stage, secret_ref=ref, purpose="Verification"),
    ]
    assert [answer.status_code for answer in answers] == [409, 400, 422, 400]
    assert not any("hush" in answer.text for answer in answers)


def test_an_agent_is_shown_no_secret_either(stage: Stage) -> None:
    ref = secret()
    made = done(signing(stage, secret_ref=ref))["credential_id"]

    async def read() -> list[dict[str, Any]]:
        async with by_mcp(stage.server, stage.admin.subject) as agent:
            reads = ("get_credential", "get_credential_history")
            return [await agent.call(name, credential_id=made) for name in reads]

    view, history = asyncio.run(read())
    assert view["current"]["secret_ref"] == "<redacted>" and ref not in json.dumps([view, history])


# --- the secret store ---


def test_the_two_halves_of_a_key_belong_together(stage: Stage) -> None:
    refused = signing(stage, public_key=public_key(secret()))
    assert refusal(refused) == (409, "CredentialKeyMismatchError")


def test_an_outage_of_the_secret_store_can_be_waited_for(stage: Stage) -> None:
    secrets: Any = stage.server.app.secrets
    secrets.reachable = False
    try:
        refused = signing(stage)
    finally:
        secrets.reachable = True
    assert refusal(refused) == (503, "SecretStoreUnavailableError")
    assert int(refused.headers["retry-after"]) > 0
    assert signing(stage).status_code == 201


def test_a_real_installation_reads_a_private_file(cluster: Cluster) -> None:
    folder = cluster.data / "secrets"
    folder.mkdir(exist_ok=True)
    name = uuid4().hex
    (folder / name).write_bytes(seed("x").hex().encode())
    (folder / name).chmod(0o600)
    with serving(cluster) as server, Stage(server) as stage:
        ref = f"file:{name}"
        assert refusal(signing(stage, secret_ref=ref, public_key=public_key("x"))) == (
            409,
            "CredentialKeyMismatchError",
        )
        (folder / name).write_bytes(base64.b64encode(seed("x")))
        assert signing(stage, secret_ref=ref, public_key=public_key("x")).status_code == 201
        (folder / name).chmod(0o644)
        refused = signing(stage, secret_ref=ref, public_key=public_key("x"))
        assert refusal(refused) == (503, "SecretStoreUnavailableError")


# --- lists and lives ---


def ids(stage: Stage, path: str, token: str, **filters: Any) -> list[str]:
    found = done(stage.admin.get(path, consistent_with=token, **filters))["items"]
    return [item["id"] for item in found]


def test_credentials_are_found_by_key_and_expiry(stage: Stage) -> None:
    now = stage.server.clock()
    soon, later = ((now + timedelta(days=days)).isoformat() for days in (1, 3))
    audience = fresh()
    made = done(signing(stage, audience=audience, expires_at=soon))
    id, token = made["credential_id"], made["as_of"]
    view = done(stage.admin.get(f"{CREDENTIALS}/{id}"))
    assert not view["expired"]
    key = view["current"]["key_id"]
    assert ids(stage, CREDENTIALS, token, key_id=key, q=audience.rpartition(":")[2]) == [id]
    assert ids(stage, CREDENTIALS, token, audience=audience, expires_until=later, sort="expires_at") == [id]
    assert ids(stage, CREDENTIALS, token, audience=audience, expires_until=now.isoformat()) == []
    assert ids(stage, CREDENTIALS, token, audience=audience, status="Revoked") == []


def test_permits_are_found_by_what_they_allow(stage: Stage) -> None:
    peer_id, ours = peer(stage), done(signing(stage))["credential_id"]
    until = (stage.server.clock() + timedelta(days=1)).isoformat()
    made = done(permit(stage, peer_id, ours, expires_at=until))
    id, token = made["permit_id"], made["as_of"]
    assert ids(stage, PERMITS, token, credential_id=ours, artifact_kind="CalibrationRevision") == [id]
    assert ids(stage, PERMITS, token, peer_facility_id=peer_id, direction="Outbound", sort="expires_at") == [
        id
    ]
    assert ids(stage, PERMITS, token, peer_facility_id=peer_id, artifact_kind="Recipe") == []
    assert ids(stage, PERMITS, token, peer_facility_id=peer_id, q="calib", expires_until=until) == []


def test_a_permit_is_active_while_a_key_can_be_used(stage: Stage) -> None:
    peer_id, ours = peer(stage), done(signing(stage))["credential_id"]
    path = f"{PERMITS}/{done(permit(stage, peer_id, ours))['permit_id']}"
    done(stage.admin.post(f"{path}/activate"))
    done(stage.admin.post(f"{path}/suspend", reason="audit"))
    done(stage.admin.post(f"{CREDENTIALS}/{ours}/revoke", reason="stolen"))
    assert refusal(stage.admin.post(f"{path}/resume")) == (409, "PermitCredentialNotUsableError")
    another = done(signing(stage))["credential_id"]
    done(stage.admin.post(f"{path}/amend", allowed_credential_ids=[another], reason="new key"))
    done(stage.admin.post(f"{path}/resume"))
    assert done(stage.admin.get(path))["status"] == "Active"


def test_a_peer_outlives_its_credentials_and_permits(stage: Stage) -> None:
    peer_id = peer(stage)
    theirs = verification(stage, peer_id)
    inbound = {
        "audience": "urn:home",
        "direction": "Inbound",
        "allowed_credential_ids": [theirs],
        "terms": {"automatic": False},
    }
    flow = done(permit(stage, peer_id, theirs, **inbound))["permit_id"]
    path = f"{FACILITIES}/{peer_id}/decommission"
    refused = stage.admin.post(path, reason="over")
    assert refusal(refused) == (409, "FacilityInUseError")
    assert refused.json()["context"] == {"credential_ids": [theirs], "permit_ids": [flow]}
    done(stage.admin.post(f"{CREDENTIALS}/{theirs}/revoke", reason="over"))
    assert refusal(stage.admin.post(path, reason="over")) == (409, "FacilityInUseError")
    done(stage.admin.post(f"{PERMITS}/{flow}/revoke", reason="over"))
    done(stage.admin.post(path, reason="over"))


def test_a_root_becomes_a_trust_anchor_once(stage: Stage) -> None:
    peer_id = peer(stage)
    key = public_key(secret())
    root = done(
        stage.admin.post(
            CREDENTIALS, facility_id=peer_id, audience=fresh(), purpose="SealOfflineRoot", public_key=key
        )
    )["credential_id"]
    path = f"{FACILITIES}/{peer_id}/trust-anchors"
    done(stage.admin.post(f"{path}/add", credential_id=root))
    again = stage.admin.post(f"{path}/add", credential_id=root)
    assert refusal(again) == (409, "FacilityTrustAnchorAlreadyPresentError")
    assert done(stage.admin.get(f"{FACILITIES}/{peer_id}"))["trust_anchor_credential_ids"] == [root]
    done(stage.admin.post(f"{path}/remove", credential_id=root, reason="stolen"))
    assert done(stage.admin.get(f"{FACILITIES}/{peer_id}"))["trust_anchor_credential_ids"] == []
