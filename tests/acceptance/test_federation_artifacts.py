"""Artifacts of a served installation: published under permits, received from peers, and told from forged ones."""

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from beamwright.kernel import signing
from beamwright.runtime.calibration_reactions import CALIBRATION_REACTIONS
from tests.acceptance.clients import by_mcp
from tests.acceptance.exchange import (
    Exchange,
    Issuer,
    enveloped,
    eventually,
    made_key,
    receive,
    signed,
)
from tests.acceptance.stage import OWN_VISITS, Person, Stage, at_once, denial, done, grant, refusal
from tests.live import Cluster, LiveServer, serving


@pytest.fixture(scope="module")
def server(cluster: Cluster) -> Iterator[LiveServer]:
    with serving(cluster, secret_store="memory") as server:
        yield server


@pytest.fixture(scope="module")
def here(stage: Stage) -> Exchange:
    exchange = Exchange(stage)
    exchange.seal()
    return exchange


def move(here: Exchange, permit: str, verb: str, **fields: Any) -> None:
    done(here.admin.post(f"/federation/permits/{permit}/{verb}", **fields))


def events_of(here: Exchange, correlation: str) -> list[tuple[str, str]]:
    found = here.stage.rows(
        "SELECT event_type, stream_type, transaction_id::text FROM events WHERE correlation_id = $1 ORDER BY position",
        correlation,
    )
    assert len({row[2] for row in found}) == 1
    return [(row[0], row[1]) for row in found]


# Publishing


def test_a_published_revision_is_three_events_on_three_streams_in_one_append(here: Exchange) -> None:
    answer = here.publish(here.outbound())
    receipt = done(answer)
    assert events_of(here, answer.headers["x-correlation-id"]) == [
        ("CalibrationRevisionPublished", "Calibration"),
        ("ArtifactPublished", "Artifact"),
        ("SealLedgerExtended", "Seal"),
    ]
    artifact = here.artifact(receipt["artifact_id"])
    assert (artifact["status"], artifact["direction"]) == ("Published", "Outbound")


def test_what_publish_artifact_publishes_is_two_events_in_one_transaction(here: Exchange) -> None:
    _, revision = here.revision()
    body = {"artifact_kind": "CalibrationRevision", "source_id": revision, "tier": "Stable"}
    answer = here.admin.post("/federation/artifacts", permit_id=here.outbound(), **body)
    assert answer.status_code == 201
    assert events_of(here, answer.headers["x-correlation-id"]) == [
        ("ArtifactPublished", "Artifact"),
        ("SealLedgerExtended", "Seal"),
    ]


def test_the_envelope_verifies_with_a_plain_library(here: Exchange) -> None:
    permit = here.outbound()
    calibration, revision = here.revision()
    id = done(here.publish(permit, (calibration, revision)))["artifact_id"]
    answer = here.admin.get(f"/federation/artifacts/{id}/envelope")
    assert answer.headers["content-type"] == "application/vnd.dsse.envelope.v1+json"
    envelope, artifact = answer.json(), here.artifact(id)
    kind, payload = envelope["payloadType"].encode(), base64.b64decode(envelope["payload"])
    [signature] = envelope["signatures"]
    credential = done(here.admin.get(f"/federation/credentials/{artifact['credential_id']}"))
    key = base64.urlsafe_b64decode(f"{credential['current']['public_key']}=")
    encoded = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    Ed25519PublicKey.from_public_bytes(key).verify(base64.b64decode(signature["sig"]), encoded)
    stated = json.loads(payload)
    content = stated["content"]
    assert (stated["artifact_id"], stated["ledger_number"]) == (id, artifact["ledger_number"])
    assert set(content) == {
        "calibration_id", "revision_id", "content_hash", "source_facility_code", "quantity",
        "operating_point", "value", "uncertainty_basis", "valid_from", "valid_until",
    }  # fmt: skip
    assert (content["calibration_id"], content["revision_id"]) == (calibration, revision)
    assert content["source_facility_code"] == "home"


def test_a_suspended_permit_lets_nothing_out_and_asks_no_signer(here: Exchange) -> None:
    permit, revision = here.outbound(), here.revision()
    move(here, permit, "suspend", reason="wait")
    head, asked = ledger(here), count_signatures(here)
    assert refusal(here.publish(permit, revision)) == (409, "ArtifactPermitNotInForceError")
    assert (ledger(here), asked()) == (head, 0)
    move(here, permit, "resume")
    done(here.publish(permit, revision))
    assert asked() == 1


def count_signatures(here: Exchange) -> Any:
    """How often the service's own signer was asked since for the key made last; the seal is signed meanwhile."""
    service = here.stage.server.app.service
    inner, asked, wanted = service.signer, list[str](), here.last_ref

    class Counting:
        async def sign(self, secret_ref: str, octets: bytes) -> bytes:
            asked.append(secret_ref)
            return await inner.sign(secret_ref, octets)

    service.signer = Counting()
    return lambda: asked.count(wanted)


def ledger(here: Exchange) -> tuple[int, str]:
    seal = done(here.admin.get(f"/federation/seals/{here.own}"))
    return seal["ledger_length"], seal["ledger_head"]


def test_an_outage_of_the_secrets_publishes_nothing(here: Exchange) -> None:
    permit, revision, secrets = here.outbound(), here.revision(), here.stage.server.app.secrets
    before = ledger(here)
    secrets.reachable = False
    try:
        answer = here.publish(permit, revision)
    finally:
        secrets.reachable = True
    assert refusal(answer) == (503, "SecretStoreUnavailableError") and "retry-after" in answer.headers
    assert ledger(here) == before


def test_of_publications_at_once_each_has_its_own_place_in_the_ledger(here: Exchange) -> None:
    permit, revisions, (length, _) = here.outbound(), [here.revision() for _ in range(6)], ledger(here)
    answers = at_once(*(lambda each=each: here.publish(permit, each) for each in revisions))
    numbers: list[int] = []
    for answer in answers:
        artifact = done(answer)["artifact_id"]
        stated = json.loads(base64.b64decode(here.envelope(artifact)["payload"]))
        assert stated["ledger_number"] == here.artifact(artifact)["ledger_number"]
        numbers.append(stated["ledger_number"])
    assert sorted(numbers) == list(range(length + 1, length + 7))


def test_a_revision_is_published_once_under_a_permit(here: Exchange) -> None:
    permit, revision = here.outbound(), here.revision()
    first = done(here.publish(permit, revision))["artifact_id"]
    again = here.publish(permit, revision)
    assert refusal(again) == (409, "CalibrationRevisionAlreadyPublishedError") and first in again.text
    done(here.admin.post(f"/federation/artifacts/{first}/withdraw", reason="once more"))
    done(here.publish(permit, revision))


def test_only_a_verified_revision_is_published(here: Exchange) -> None:
    permit, provisional = here.outbound(), here.revision(verified=False)
    assert refusal(here.publish(permit, provisional)) == (409, "CalibrationRevisionCannotPublishError")
    body = {"artifact_kind": "CalibrationRevision", "source_id": provisional[1], "tier": "Stable"}
    answer = here.admin.post("/federation/artifacts", permit_id=permit, **body)
    assert refusal(answer) == (409, "ArtifactSourceNotPublishableError")


def test_what_is_not_there_is_not_published(here: Exchange) -> None:
    permit, (calibration, revision) = here.outbound(), here.revision()
    body = {"artifact_kind": "CalibrationRevision", "source_id": calibration, "tier": "Stable"}
    answer = here.admin.post("/federation/artifacts", permit_id=permit, **body)
    assert refusal(answer) == (404, "CalibrationRevisionNotFoundError")
    assert refusal(here.publish(permit, (calibration, calibration)))[1] == "CalibrationRevisionNotFoundError"
    assert refusal(here.publish(revision, (calibration, revision))) == (404, "PermitNotFoundError")
    late = here.publish(permit, (calibration, revision), expires_at="2020-01-01T00:00:00Z")
    assert refusal(late) == (400, "InvalidArtifactExpiryError")


def test_a_stranger_publishes_no_revision_that_it_cannot_read(here: Exchange) -> None:
    permit, (_, revision) = here.outbound(), here.revision()
    stranger = here.stage.person()
    here.stage.policy(grant("publish_artifact", "get_permit"), to=stranger)
    body = {"artifact_kind": "CalibrationRevision", "source_id": revision, "tier": "Stable"}
    answer = stranger.post("/federation/artifacts", permit_id=permit, **body)
    assert refusal(answer) == (404, "CalibrationRevisionNotFoundError")


def test_where_a_revision_was_published_is_read_and_found(here: Exchange) -> None:
    peer = here.peer()
    permit, (calibration, revision) = here.outbound(peer), here.revision()
    receipt = done(here.publish(permit, (calibration, revision)))
    view = done(here.admin.get(f"/calibration-revisions/{revision}"))
    assert view["publications"] == {
        permit: {
            "peer_facility_id": peer,
            "artifact_id": receipt["artifact_id"],
            "status": "Published",
            "delivery": None,
        }
    }
    asked = {"published_to": peer, "consistent_with": receipt["as_of"]}
    found = done(here.admin.get("/calibration-revisions", **asked))["items"]
    assert [each["revision_id"] for each in found] == [revision]
    assert done(here.admin.get("/calibration-revisions", published_to=here.peer()))["items"] == []


def test_the_artifacts_of_a_withdrawn_revision_are_withdrawn_by_the_reactor(here: Exchange) -> None:
    permit, (calibration, revision) = here.outbound(), here.revision()
    artifact = done(here.publish(permit, (calibration, revision)))["artifact_id"]
    body = {"artifact_kind": "CalibrationRevision", "source_id": revision, "tier": "Stable"}
    other = done(here.admin.post("/federation/artifacts", permit_id=here.outbound(), **body))["artifact_id"]
    length, _ = ledger(here)
    path = f"/calibrations/{calibration}/revisions/{revision}/withdraw"
    done(here.admin.post(path, reason="the encoder slipped"))
    for id in (artifact, other):
        eventually(lambda id=id: here.artifact(id)["status"], lambda status: status == "Withdrawn")
    assert ledger(here)[0] == length + 2
    again = here.publish(permit, (calibration, revision))
    assert refusal(again) == (409, "CalibrationRevisionCannotPublishError")


def test_the_reactor_waits_for_the_seal(here: Exchange) -> None:
    permit, (calibration, revision) = here.outbound(), here.revision()
    artifact = done(here.publish(permit, (calibration, revision)))["artifact_id"]
    seal = f"/federation/seals/{here.own}"
    done(here.admin.post(f"{seal}/republishing/start", reason="restored"))
    assert refusal(here.publish(permit)) == (409, "ArtifactSealNotLiveError")
    done(here.admin.post(f"/calibrations/{calibration}/revisions/{revision}/withdraw", reason="wrong"))
    withdrawal = here.admin.post(f"/federation/artifacts/{artifact}/withdraw", reason="wrong")
    assert refusal(withdrawal) == (409, "ArtifactSealNotLiveError")
    # The reaction has met the event by now, whoever was quicker.
    here.stage.server.run(lambda app: app.reactions.react(CALIBRATION_REACTIONS[0]))
    assert here.artifact(artifact)["status"] == "Published"
    floor = done(here.admin.get(seal))["sequence_number"] + 5
    done(here.admin.post(f"{seal}/republishing/complete", sequence_floor=floor))
    eventually(lambda: here.artifact(artifact)["status"], lambda status: status == "Withdrawn")


def test_a_peer_reads_what_is_addressed_to_it_and_nothing_else(here: Exchange) -> None:
    account = here.account()
    theirs = done(here.publish(here.outbound(here.peer(peer_actor_id=account.id))))
    another = done(here.publish(here.outbound()))["artifact_id"]
    assert done(account.get(f"/federation/artifacts/{theirs['artifact_id']}/envelope"))["payload"]
    assert account.get(f"/federation/artifacts/{another}").status_code == 404
    assert account.get(f"/federation/artifacts/{another}/envelope").status_code == 404
    listed = done(account.get("/federation/artifacts", consistent_with=theirs["as_of"]))["items"]
    assert [each["id"] for each in listed] == [theirs["artifact_id"]]
    done(account.get(f"/federation/seals/{here.own}/ledger"))


def test_a_stranger_reads_no_artifact(here: Exchange) -> None:
    artifact = done(here.publish(here.outbound()))["artifact_id"]
    stranger = here.stage.person()
    here.stage.policy(grant("*:@reads", scope=OWN_VISITS), to=stranger)
    for path in ("", "/envelope", "/events"):
        assert stranger.get(f"/federation/artifacts/{artifact}{path}").status_code == 404


# Receiving


@pytest.fixture
def issuer(here: Exchange) -> Issuer:
    return Issuer(here)


def taken(here: Exchange, envelope: dict[str, Any]) -> dict[str, Any]:
    answer = receive(here.admin, envelope)
    assert answer.status_code == 201, answer.text
    return here.artifact(answer.json()["artifact_id"])


def test_an_artifact_that_a_permit_speaks_for_is_accepted(here: Exchange, issuer: Issuer) -> None:
    permit, envelope = issuer.permit(), issuer.envelope()
    artifact = taken(here, envelope)
    assert (artifact["status"], artifact["permit_id"]) == ("Accepted", permit)
    assert artifact["stages"] == dict.fromkeys(
        ("Permit", "Kind", "Tier", "Expiry", "ContentHash"), "Passed"
    ) | {"Freshness": "Skipped"}
    assert here.envelope(artifact["id"]) == envelope


def test_an_artifact_is_received_once_by_whomever_and_however(here: Exchange, issuer: Issuer) -> None:
    issuer.permit()
    envelope = issuer.envelope()
    taken(here, envelope)
    replayed = (409, "ArtifactReplayedError")
    before = here.stage.event_count()
    assert refusal(receive(here.admin, envelope)) == replayed
    assert refusal(receive(here.second, envelope)) == replayed
    again = signed("artifact", json.loads(base64.b64decode(envelope["payload"])), issuer.key)
    assert refusal(receive(here.second, again)) == replayed
    assert asyncio.run(over_mcp(here, envelope)) == replayed
    assert here.stage.event_count() == before


async def over_mcp(here: Exchange, envelope: dict[str, Any]) -> tuple[int, str]:
    async with by_mcp(here.stage.server, here.second.subject) as caller:
        refused = await caller.refusal("receive_artifact", envelope=envelope)
        return refused.status, refused.code


def test_of_the_same_artifact_at_once_one_is_taken(here: Exchange, issuer: Issuer) -> None:
    envelope = issuer.envelope()
    answers = at_once(*[lambda: receive(here.admin, envelope)] * 8)
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7
    assert {refusal(each)[1] for each in answers if each.is_error} == {"ArtifactReplayedError"}


def test_forged_envelopes_are_refused(here: Exchange, issuer: Issuer) -> None:
    issuer.permit()
    statement = issuer.statement()
    good = signed("artifact", statement, issuer.key)
    octets = base64.b64decode(good["payload"])
    changed = octets.replace(b'"ledger_number":1', b'"ledger_number":3')
    tampered = good | {"payload": base64.b64encode(changed).decode()}
    spaced = enveloped(good["payloadType"], json.dumps(statement).encode(), issuer.key)
    twice = good | {"signatures": good["signatures"] * 2}
    before = here.stage.event_count()
    assert refusal(receive(here.admin, tampered)) == (409, "ArtifactSignatureInvalidError")
    assert refusal(receive(here.admin, spaced)) == (400, "InvalidArtifactEnvelopeError")
    assert refusal(receive(here.admin, twice)) == (400, "InvalidArtifactEnvelopeError")
    assert here.stage.event_count() == before
    assert receive(here.admin, good).status_code == 201


def test_statements_of_nobody_known_are_refused_in_order(here: Exchange, issuer: Issuer) -> None:
    unknown = issuer.envelope(facility_code="nobody-here")
    assert refusal(receive(here.admin, unknown)) == (404, "FacilityNotFoundError")
    ours = issuer.envelope(facility_code="home")
    assert refusal(receive(here.admin, ours)) == (404, "FacilityNotFoundError")
    stranger = signed("artifact", issuer.statement(), made_key())
    assert refusal(receive(here.admin, stranger)) == (409, "ArtifactKeyUnknownError")
    elsewhere = issuer.envelope(recipient_facility_code="elsewhere")
    assert refusal(receive(here.admin, elsewhere)) == (409, "ArtifactRecipientMismatchError")
    for moved in ({"days": -31}, {"seconds": 400}):
        stale = issuer.envelope(issued_at=here.now(**moved))
        assert refusal(receive(here.admin, stale)) == (409, "ArtifactStaleError")


def test_an_artifact_of_another_kind_waits_until_the_permit_allows_it(here: Exchange, issuer: Issuer) -> None:
    permit = issuer.permit()
    artifact = taken(here, issuer.envelope(artifact_kind="Recipe"))
    path = f"/federation/artifacts/{artifact['id']}"
    assert (artifact["status"], artifact["stages"]["Kind"]) == ("Quarantined", "Failed")
    refused = here.admin.post(f"{path}/accept")
    assert refusal(refused) == (409, "ArtifactCannotAcceptError")
    assert refused.json()["context"]["failed_stages"] == ["Kind"]
    assert done(here.admin.post(f"{path}/verify"))["events"] == []
    kinds = ["CalibrationRevision", "Recipe"]
    move(here, permit, "amend", allowed_artifact_kinds=kinds, reason="recipes too")
    assert done(here.admin.post(f"{path}/verify"))["events"] == ["ArtifactVerified"]
    assert here.artifact(artifact["id"])["status"] == "Accepted"


def test_a_tier_that_is_not_accepted_fails_its_stage_and_is_found(here: Exchange, issuer: Issuer) -> None:
    issuer.permit()
    answer = done(receive(here.admin, issuer.envelope(tier="Obsolete")))
    artifact = here.artifact(answer["artifact_id"])
    assert (artifact["status"], artifact["stages"]["Tier"]) == ("Quarantined", "Failed")
    asked = {"peer_facility_id": issuer.id, "consistent_with": answer["as_of"]}
    found = done(here.admin.get("/federation/artifacts", failed_stage="Tier", **asked))["items"]
    assert [each["id"] for each in found] == [artifact["id"]]
    assert done(here.admin.get("/federation/artifacts", failed_stage="Kind", **asked))["items"] == []


def test_a_person_decides_where_the_permit_is_not_automatic(here: Exchange, issuer: Issuer) -> None:
    issuer.permit(terms={"automatic": False})
    first, second = (taken(here, issuer.envelope())["id"] for _ in range(2))
    done(here.admin.post(f"/federation/artifacts/{first}/accept"))
    done(here.admin.post(f"/federation/artifacts/{second}/reject", reason="we have it"))
    assert [here.artifact(id)["status"] for id in (first, second)] == ["Accepted", "Rejected"]
    assert (
        refusal(here.admin.post(f"/federation/artifacts/{second}/accept"))[1] == "ArtifactCannotAcceptError"
    )


def test_a_peers_account_delivers_only_what_that_peer_has_issued(here: Exchange) -> None:
    account = here.account()
    mine, other = Issuer(here, peer_actor_id=account.id), Issuer(here)
    mine.permit()
    refused = receive(account, other.envelope())
    assert refusal(refused) == (409, "ArtifactIssuerMismatchError")
    artifact = done(receive(account, mine.envelope()))["artifact_id"]
    assert done(account.get(f"/federation/artifacts/{artifact}"))["status"] == "Accepted"
    done(here.admin.post(f"/actors/{account.id}/deactivate", reason="Departed"))
    assert denial(receive(account, mine.envelope())) == (403, "ActorInactive")


def test_an_account_without_the_peers_policy_delivers_nothing(here: Exchange, issuer: Issuer) -> None:
    stranger = here.stage.person("service_account")
    assert receive(stranger, issuer.envelope()).status_code == 403


def test_an_envelope_without_content_is_stored_by_its_hash(here: Exchange, issuer: Issuer) -> None:
    issuer.permit()
    artifact = taken(here, issuer.envelope(content=None, content_hash=signing.hashed(b"{}")))
    assert (artifact["status"], artifact["stages"]["ContentHash"]) == ("Accepted", "Skipped")


# Importing


def imported(here: Exchange, calibration: str, artifact: str, offset: float) -> Any:
    path = f"/calibrations/{calibration}/revisions/append"
    source = {"kind": "Imported", "id": artifact}
    return here.admin.post(path, value={"offset": offset}, source=source)


def test_an_accepted_artifact_is_imported_as_it_is(here: Exchange, issuer: Issuer) -> None:
    issuer.permit(terms={"automatic": False})
    point = {"axis_designation": issuer.code}
    calibration = here.things.calibration(operating_point=point)
    content = {"quantity": "encoder_offset", "operating_point": point, "value": {"offset": 2.5}}
    artifact = taken(here, issuer.envelope(content=content))["id"]
    mismatch = (409, "CalibrationArtifactMismatchError")
    assert refusal(imported(here, calibration, artifact, 2.5)) == mismatch
    done(here.admin.post(f"/federation/artifacts/{artifact}/accept"))
    assert refusal(imported(here, calibration, artifact, 2.6)) == mismatch
    assert refusal(imported(here, calibration, calibration, 2.5)) == (404, "ArtifactNotFoundError")
    revision = done(imported(here, calibration, artifact, 2.5))["revision_id"]
    assert done(here.admin.get(f"/calibration-revisions/{revision}"))["status"] == "Provisional"


def test_nobody_imports_an_artifact_that_it_cannot_read(here: Exchange, issuer: Issuer) -> None:
    issuer.permit()
    artifact, calibration = taken(here, issuer.envelope())["id"], here.things.calibration()
    person: Person = here.stage.person()
    granted = ("append_calibration_revision", "get_calibration")
    here.stage.policy(grant(*granted), to=person)
    path = f"/calibrations/{calibration}/revisions/append"
    answer = person.post(path, value={"offset": 1.5}, source={"kind": "Imported", "id": artifact})
    assert refusal(answer) == (404, "ArtifactNotFoundError")
