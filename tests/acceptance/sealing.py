"""Seals of served installations: one that signs with an offline root of the test's own, and peers of test keys."""

import base64
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx

from beamwright.adapters.secrets.memory import public_key
from beamwright.contexts.federation.seal_statements import SealPointerStatement, SealStatement
from beamwright.kernel import wellknown
from beamwright.kernel.signing import Envelope
from beamwright.kernel.value import encode
from tests.acceptance.stage import Person, Stage, done
from tests.contexts.federation.seal_examples import Pair, key_statement, pointer, signed

FACILITIES, CREDENTIALS, SEALS = "/federation/facilities", "/federation/credentials", "/federation/seals"
AUDIENCE = "urn:beamwright:seal"
OWNER = {"kind": "Owner"}


def json(envelope: Envelope) -> Any:
    """The envelope as it travels."""
    return httpx.Response(200, content=encode(envelope)).json()


def offline(view: dict[str, str], *roots: Pair) -> dict[str, Any]:
    """What the offline machine makes of the octets that were carried to it."""
    pae = base64.b64decode(view["pae_base64"])
    signatures = [{"keyid": each.key_id, "sig": base64.b64encode(each.sign(pae)).decode()} for each in roots]
    return {"payload": view["payload"], "payloadType": view["payload_type"], "signatures": signatures}


class Sealed:
    """A facility with a seal, at one installation."""

    def __init__(self, stage: Stage, facility_id: str, online: str, root: str) -> None:
        self.stage = stage
        self.admin = stage.admin
        self.facility_id = facility_id
        self.online = online
        self.root = root
        self.path = f"{SEALS}/{facility_id}"

    def view(self) -> Any:
        return done(self.admin.get(self.path))

    def sign(self) -> Any:
        """The pointer that was signed just now."""
        done(self.admin.post(f"{self.path}/pointer/sign"))
        return self.view()["pointer"]

    def statement(self, key: str = "online") -> dict[str, str]:
        return done(self.admin.get(f"{self.path}/online-key/statement", key=key))

    def start_rotation(self, secret_ref: str) -> str:
        """The public part of the pending online key."""
        key = public_key(secret_ref)
        path = f"{CREDENTIALS}/{self.online}/rotation/start"
        done(self.admin.post(path, public_key=key, secret_ref=secret_ref))
        return key

    def rotate(self, envelope: Any, **more: Any) -> httpx.Response:
        return self.admin.post(f"{self.path}/online-key/rotate", envelope=envelope, **more)


def credential(stage: Stage, facility_id: str, purpose: str, **key: str) -> str:
    body = {"facility_id": facility_id, "audience": AUDIENCE, "purpose": purpose} | key
    return done(stage.admin.post(CREDENTIALS, **body))["credential_id"]


def own_seal(stage: Stage, code: str, root: Pair, secret_ref: str) -> Sealed:
    """The own Site's seal, begun as an operator begins it."""
    # The list of a fresh installation may still be on its way.
    [row] = stage.rows("SELECT stream_id FROM claims WHERE kind = 'facility-code' AND key = $1", code)
    site = str(row[0])
    online = credential(
        stage, site, "SealOnlineSigning", public_key=public_key(secret_ref), secret_ref=secret_ref
    )
    offline_root = credential(stage, site, "SealOfflineRoot", public_key=root.public_key)
    made = Sealed(stage, site, online, offline_root)
    begin(made, offline(made.statement(), root))
    return made


def begin(made: Sealed, envelope: Any) -> None:
    anchor = f"{FACILITIES}/{made.facility_id}/trust-anchors/add"
    done(made.admin.post(anchor, credential_id=made.root))
    body = {"online_credential_id": made.online, "offline_credential_id": made.root, "envelope": envelope}
    done(made.admin.post(SEALS, facility_id=made.facility_id, **body))


class Peer(Sealed):
    """A Peer's seal as it is kept here, and the account through which the Peer calls."""

    account: Person
    code: str
    keys: Pair

    def deliver(self, envelope: Any, by: Person | None = None) -> httpx.Response:
        return (by or self.account).post(f"{SEALS}/receive", envelope=envelope)

    def point(self, number: int, by: Person | None = None, **changes: Any) -> httpx.Response:
        """Deliver a pointer that the Peer's key has signed."""
        return self.deliver(json(signed(self.pointer(number, **changes), self.keys)), by)

    def pointer(self, number: int, **changes: Any) -> SealPointerStatement:
        now = self.stage.server.clock()
        said = {"facility_code": self.code, "signed_at": now, "valid_until": now + timedelta(days=7)}
        return pointer(number, **said | changes)

    def signed(self, statement: SealStatement) -> Any:
        return json(signed(statement, self.keys))


def account(stage: Stage) -> Person:
    """A service account with what the seeded policy lets a Peer do."""
    person = stage.person("service_account", "A peer")
    added = stage.admin.post(f"/policies/{wellknown.PEER_POLICY}/add-principal", principal_id=person.id)
    done(added)
    return person


def peer(stage: Stage, root: Pair, keys: Pair, *, code: str | None = None, envelope: Any = None) -> Peer:
    """A Peer whose keys are in the test's hands, or one that began with this envelope elsewhere."""
    code = code or f"peer-{uuid4().hex[:8]}"
    person = account(stage)
    body = {"code": code, "display_name": code, "kind": "Peer", "peer_actor_id": person.id}
    facility_id = done(stage.admin.post(FACILITIES, **body))["facility_id"]
    online = credential(stage, facility_id, "SealOnlineSigning", public_key=keys.public_key)
    made = Peer(
        stage,
        facility_id,
        online,
        credential(stage, facility_id, "SealOfflineRoot", public_key=root.public_key),
    )
    made.account, made.code, made.keys = person, code, keys
    first = key_statement(facility_code=code, key_id=keys.key_id, public_key=keys.public_key)
    begin(made, envelope or json(signed(first, root)))
    return made
