"""What two installations need to exchange artifacts, made as their operators make it."""

import base64
import json
import time
from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from typing import Any
from uuid import uuid4

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from beamwright.adapters.secrets.memory import public_key
from beamwright.kernel import signing, wellknown
from tests.acceptance.stage import Person, Stage, done
from tests.acceptance.things import Things

PURPOSE = "calibration-exchange"
KINDS = ["CalibrationRevision"]


def made_key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def public(key: Ed25519PrivateKey) -> str:
    return base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).decode().rstrip("=")


def signed(name: str, payload: dict[str, Any], *keys: Ed25519PrivateKey) -> dict[str, Any]:
    """An envelope as another implementation would write it."""
    kind = f"application/vnd.beamwright.{name}.v1+json"
    octets = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return enveloped(kind, octets, *keys)


def enveloped(kind: str, octets: bytes, *keys: Ed25519PrivateKey) -> dict[str, Any]:
    encoded = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(octets), octets)
    signatures = [
        {"keyid": signing.key_id(public(key)), "sig": base64.b64encode(key.sign(encoded)).decode()}
        for key in keys
    ]
    return {"payload": base64.b64encode(octets).decode(), "payloadType": kind, "signatures": signatures}


class Exchange:
    """One side of it; what signs needs an installation whose secrets are in memory."""

    def __init__(self, stage: Stage, code: str = "home") -> None:
        self.stage = stage
        self.admin = stage.admin
        self.things = Things(stage)
        self.code = code
        [own] = done(self.admin.get("/federation/facilities", code=code))["items"]
        self.own: str = own["id"]
        self.root = made_key()

    @cached_property
    def second(self) -> Person:
        """A second person, who verifies."""
        return self.stage.administrator()

    def now(self, **ahead: float) -> str:
        return (self.stage.server.clock() + timedelta(**ahead)).isoformat().replace("+00:00", "Z")

    def credential(self, facility: str, purpose: str, audience: str | None = None, **fields: Any) -> str:
        given = {
            "facility_id": facility,
            "purpose": purpose,
            "audience": audience or f"urn:test:{uuid4().hex}",
        } | fields
        return self.things.made("/federation/credentials", "credential_id", **given)

    def secret(self, facility: str, purpose: str, audience: str | None = None) -> str:
        """A credential of ours whose private part is in the store."""
        ref = self.last_ref = f"env:{uuid4().hex}"
        return self.credential(facility, purpose, audience, secret_ref=ref, public_key=public_key(ref))

    def seal(self) -> None:
        """Begin the own seal, with a root that is nowhere but here."""
        ref = f"env:{uuid4().hex}"
        online = self.credential(self.own, "SealOnlineSigning", secret_ref=ref, public_key=public_key(ref))
        offline = self.credential(self.own, "SealOfflineRoot", public_key=public(self.root))
        done(self.admin.post(f"/federation/facilities/{self.own}/trust-anchors/add", credential_id=offline))
        self.online = public_key(ref)
        self.first_key = self.key_statement(self.code, self.online, self.root)
        done(
            self.admin.post(
                "/federation/seals",
                facility_id=self.own,
                online_credential_id=online,
                offline_credential_id=offline,
                envelope=self.first_key,
            )
        )

    def key_statement(self, code: str, online: str, root: Ed25519PrivateKey) -> dict[str, Any]:
        """What the root of a facility says of its first online key."""
        statement = {
            "facility_code": code,
            "rotation_number": 0,
            "key_id": signing.key_id(online),
            "public_key": online,
            "previous_key_id": None,
            "issued_at": self.now(),
        }
        return signed("seal-key", statement, root)

    def believe(self, peer: str, online: str, root: Ed25519PrivateKey, statement: dict[str, Any]) -> None:
        """Take up the seal of a peer."""
        online_id = self.credential(peer, "SealOnlineSigning", public_key=online)
        offline_id = self.credential(peer, "SealOfflineRoot", public_key=public(root))
        done(self.admin.post(f"/federation/facilities/{peer}/trust-anchors/add", credential_id=offline_id))
        done(
            self.admin.post(
                "/federation/seals",
                facility_id=peer,
                online_credential_id=online_id,
                offline_credential_id=offline_id,
                envelope=statement,
            )
        )

    def point(self) -> None:
        done(self.admin.post(f"/federation/seals/{self.own}/pointer/sign"))

    def peer(self, code: str | None = None, **fields: Any) -> str:
        code = code or uuid4().hex
        given = {"code": code, "display_name": code, "kind": "Peer"} | fields
        return self.things.made("/federation/facilities", "facility_id", **given)

    def account(self) -> Person:
        """A service account that may do what peers may."""
        person = self.stage.person("service_account")
        policy = f"/policies/{wellknown.PEER_POLICY}/add-principal"
        done(self.admin.post(policy, principal_id=person.id))
        return person

    def permit(self, peer: str, direction: str, *credentials: str, **fields: Any) -> str:
        """An Active permit."""
        terms = (
            {"read_scope": "Full", "onward_actions": ["CacheLocally"]}
            if direction == "Outbound"
            else {"automatic": True}
        )
        given = {
            "peer_facility_id": peer,
            "audience": f"urn:test:{uuid4().hex}",
            "purpose": PURPOSE,
            "direction": direction,
            "allowed_credential_ids": credentials,
            "allowed_artifact_kinds": KINDS,
            "accepted_tiers": ["Stable"],
            "terms": terms,
        } | fields
        permit = self.things.made("/federation/permits", "permit_id", **given)
        done(self.admin.post(f"/federation/permits/{permit}/activate"))
        return permit

    def outbound(self, peer: str | None = None, **fields: Any) -> str:
        return self.permit(peer or self.peer(), "Outbound", self.secret(self.own, "Signing"), **fields)

    def revision(self, *, verified: bool = True, **fields: Any) -> tuple[str, str]:
        """A calibration with a revision that somebody else has verified."""
        calibration = self.things.calibration(**fields)
        revision = self.things.revision(calibration)
        if verified:
            done(self.second.post(f"/calibrations/{calibration}/revisions/{revision}/verify"))
        return calibration, revision

    def publish(self, permit: str, revision: tuple[str, str] | None = None, **fields: Any) -> httpx.Response:
        calibration, revision_id = revision or self.revision()
        given = {"permit_id": permit, "tier": "Stable"} | fields
        return self.admin.post(f"/calibrations/{calibration}/revisions/{revision_id}/publish", **given)

    def artifact(self, id: str) -> dict[str, Any]:
        return done(self.admin.get(f"/federation/artifacts/{id}"))

    def envelope(self, id: str) -> dict[str, Any]:
        return done(self.admin.get(f"/federation/artifacts/{id}/envelope"))


class Issuer:
    """A peer that is nothing but a key: what it states is written by hand."""

    def __init__(self, exchange: Exchange, **fields: Any) -> None:
        self.exchange = exchange
        self.code = uuid4().hex
        self.key = made_key()
        self.id = exchange.peer(self.code, **fields)
        self.audience = f"urn:test:{uuid4().hex}"
        self.credential = exchange.credential(self.id, "Verification", public_key=public(self.key))

    def permit(self, **fields: Any) -> str:
        given = {"audience": self.audience} | fields
        return self.exchange.permit(self.id, "Inbound", self.credential, **given)

    def statement(self, **fields: Any) -> dict[str, Any]:
        content: dict[str, Any] = {"quantity": "encoder_offset", "value": {"offset": 1.5}}
        return {
            "artifact_id": str(uuid4()),
            "artifact_kind": "CalibrationRevision",
            "facility_code": self.code,
            "recipient_facility_code": self.exchange.code,
            "audience": self.audience,
            "purpose": PURPOSE,
            "tier": "Stable",
            "terms": {"read_scope": "Full", "onward_actions": ["CacheLocally"]},
            "ledger_number": 1,
            "content_hash": signing.hashed(signing.canonical(fields.get("content", content))),
            "content": content,
            "issued_at": self.exchange.now(),
            "expires_at": None,
            "nonce": base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("="),
        } | fields

    def envelope(self, **fields: Any) -> dict[str, Any]:
        return signed("artifact", self.statement(**fields), self.key)


def receive(person: Person, envelope: dict[str, Any]) -> httpx.Response:
    return person.post("/federation/artifacts/receive", envelope=envelope)


def eventually[T](look: Callable[[], T], good: Callable[[T], bool], seconds: float = 20) -> T:
    """What is seen once it is good."""
    deadline = time.monotonic() + seconds
    while not good(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)
    return seen
