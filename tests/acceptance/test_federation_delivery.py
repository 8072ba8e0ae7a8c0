"""Two served installations that exchange artifacts over HTTP, while lines and peers come and go."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from beamwright.adapters.secrets.memory import public_key
from beamwright.app import App
from beamwright.contexts.federation.artifact import artifacts
from tests.acceptance.exchange import Exchange, eventually
from tests.acceptance.stage import Stage, done, refusal
from tests.live import Cluster, LiveServer, serving

BETA = "https://beta.test/base"
ARTIFACTS = "/federation/artifacts/receive"


class Line(httpx.AsyncBaseTransport):
    """Stands for TLS and a name: what is posted to an address arrives at the server behind it, while it is up."""

    def __init__(self, servers: dict[str, LiveServer]) -> None:
        self.servers = servers
        self.up = True
        self.posted: list[str] = []
        self.answers: list[tuple[str, int]] = []
        # Whose next answer never comes back, although the peer has given it.
        self.losing: set[str] = set()
        self._inner = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not self.up:
            raise httpx.ConnectError("no route")
        assert request.url.scheme == "https" and request.headers["authorization"].startswith("Bearer ")
        path = request.url.raw_path.decode().removeprefix("/base")
        self.posted.append(path)
        url = httpx.URL(self.servers[request.url.host].url + path)
        kept = {name: request.headers[name] for name in ("authorization", "content-type", "content-length")}
        target = httpx.Request(
            request.method, url, headers={"host": url.netloc.decode(), **kept}, stream=request.stream
        )
        response = await self._inner.handle_async_request(target)
        await response.aread()
        self.answers.append((path, response.status_code))
        if path in self.losing:
            self.losing.discard(path)
            raise httpx.ReadTimeout("the answer was lost")
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


@pytest.fixture(scope="module")
def alpha(cluster: Cluster) -> Iterator[Exchange]:
    with serving(cluster, secret_store="memory") as server, Stage(server) as stage:
        exchange = Exchange(stage)
        exchange.seal()
        yield exchange


@pytest.fixture(scope="module")
def beta(cluster: Cluster) -> Iterator[Exchange]:
    """Another installation, with an own Site of another name."""
    given: dict[str, Any] = {"secret_store": "memory", "self_facility_code": "beta"}
    with serving(cluster, dsn=cluster.empty_database(), **given) as server, Stage(server) as stage:
        yield Exchange(stage, "beta")


@pytest.fixture(scope="module")
def line(alpha: Exchange, beta: Exchange) -> Line:
    line = Line({"beta.test": beta.stage.server})

    async def connect(app: Any) -> None:
        app.peers.client = httpx.AsyncClient(transport=line)

    alpha.stage.server.run(connect)
    return line


async def all_listed(app: App) -> None:
    """Wait until the list of artifacts shows all that there are."""
    if (unseen := await app.lists.unseen(artifacts)) is not None:
        await app.readers.caught_up(artifacts.snake, unseen)


class Way:
    """From one installation to the other: what both operators agreed on."""

    def __init__(self, alpha: Exchange, beta: Exchange) -> None:
        self.alpha, self.beta = alpha, beta
        self.account = beta.account()
        self.alpha_there = beta.peer("home", peer_actor_id=self.account.id)
        self.beta_here = alpha.peer("beta", base_url=BETA)
        beta.believe(self.alpha_there, alpha.online, alpha.root, alpha.first_key)
        audience = f"urn:beta:{uuid4().hex}"
        self.outbound = self.agree(audience)
        self.authenticate(audience)

    def agree(self, audience: str) -> str:
        """The permit of the one, by which the other lets in what comes for this audience."""
        ref = f"env:{uuid4().hex}"
        key = public_key(ref)
        signing = self.alpha.credential(self.alpha.own, "Signing", audience, secret_ref=ref, public_key=key)
        verification = self.beta.credential(self.alpha_there, "Verification", audience, public_key=key)
        self.beta.permit(self.alpha_there, "Inbound", verification, audience=audience)
        return self.alpha.permit(self.beta_here, "Outbound", signing, audience=audience)

    def authenticate(self, audience: str) -> None:
        """Give the one the token that the other has minted for it."""
        ref, token = f"env:{uuid4().hex}", self.beta.stage.server.token(self.account.subject)
        self.alpha.stage.server.app.secrets.kept[ref] = token.encode()
        self.alpha.credential(self.alpha.own, "Authentication", audience, secret_ref=ref)

    def there(self) -> list[dict[str, Any]]:
        self.beta.stage.server.run(all_listed)
        return done(self.beta.admin.get("/federation/artifacts", sort="-created_at"))["items"]

    def delivery(self, artifact: str) -> dict[str, Any]:
        return self.alpha.artifact(artifact)["delivery"] or {}


@pytest.fixture(scope="module")
def way(alpha: Exchange, beta: Exchange, line: Line) -> Way:
    return Way(alpha, beta)


def pass_time(exchange: Exchange, **time: float) -> None:
    exchange.stage.server.clock.ahead += timedelta(**time)


def put_off(delivery: dict[str, Any]) -> bool:
    """An attempt has ended, and the next is due by the clock that it ended at."""
    return delivery.get("last_error") is not None


def test_what_cannot_be_delivered_yet_says_why(way: Way, line: Line) -> None:
    audience = f"urn:beta:{uuid4().hex}"
    line.posted.clear()
    artifact = done(way.alpha.publish(way.agree(audience)))["artifact_id"]
    way.alpha.point()
    seen = eventually(lambda: way.delivery(artifact), put_off)
    assert (seen["state"], seen["attempts"]) == ("Pending", 1) and "Authentication" in seen["last_error"]
    assert ARTIFACTS not in line.posted
    way.authenticate(audience)
    for server in (way.alpha, way.beta):
        pass_time(server, seconds=31)
    seen = eventually(lambda: way.delivery(artifact), lambda delivery: delivery["state"] == "Done")
    assert (seen["attempts"], seen["delivered_at"] is not None) == (2, True)


def test_an_artifact_reaches_the_other_installation_and_is_accepted_there(way: Way, line: Line) -> None:
    revision = way.alpha.revision()
    line.posted.clear()
    artifact = done(way.alpha.publish(way.outbound, revision))["artifact_id"]
    way.alpha.point()
    eventually(lambda: way.delivery(artifact), lambda delivery: delivery.get("state") == "Done")
    received = way.there()[0]
    assert (received["status"], received["peer_facility_id"]) == ("Accepted", way.alpha_there)
    assert set(received["stages"].values()) == {"Passed"}
    assert received["content"]["revision_id"] == revision[1]
    assert way.beta.envelope(received["id"]) == way.alpha.envelope(artifact)
    # The pointer that covers it went before it; the schedule may have signed one more.
    assert (line.posted[0], line.posted.count(ARTIFACTS)) == ("/federation/seals/receive", 1)


def test_the_value_is_imported_there(way: Way) -> None:
    artifact = done(way.alpha.publish(way.outbound))["artifact_id"]
    way.alpha.point()
    eventually(lambda: way.delivery(artifact), lambda delivery: delivery.get("state") == "Done")
    received = way.there()[0]
    content = received["content"]
    calibration = way.beta.things.calibration(
        way.beta.things.active(way.beta.things.unit(facility_code="beta")),
        operating_point=content["operating_point"],
    )
    path = f"/calibrations/{calibration}/revisions/append"
    source = {"kind": "Imported", "id": received["id"]}
    done(way.beta.admin.post(path, value=content["value"], source=source))


def test_a_peer_that_is_away_gets_it_when_it_is_back(way: Way, line: Line) -> None:
    line.up = False
    artifact = done(way.alpha.publish(way.outbound))["artifact_id"]
    way.alpha.point()
    seen = eventually(lambda: way.delivery(artifact), put_off)
    assert "no route" in seen["last_error"]
    line.up = True
    for server in (way.alpha, way.beta):
        pass_time(server, seconds=31)
    eventually(lambda: way.delivery(artifact), lambda delivery: delivery["state"] == "Done")
    assert way.there()[0]["status"] == "Accepted"


def test_an_answer_that_was_lost_does_not_deliver_it_twice(way: Way, line: Line) -> None:
    before = len(way.there())
    line.answers.clear()
    line.losing = {ARTIFACTS}
    artifact = done(way.alpha.publish(way.outbound))["artifact_id"]
    way.alpha.point()
    eventually(lambda: way.delivery(artifact), put_off)
    for server in (way.alpha, way.beta):
        pass_time(server, seconds=31)
    seen = eventually(lambda: way.delivery(artifact), lambda delivery: delivery["state"] == "Done")
    answers = [status for path, status in line.answers if path == ARTIFACTS]
    assert (seen["attempts"], answers) == (2, [201, 409])
    assert len(way.there()) == before + 1


def test_a_withdrawn_artifact_is_not_sent_any_more(way: Way, line: Line) -> None:
    line.up = False
    artifact = done(way.alpha.publish(way.outbound))["artifact_id"]
    way.alpha.point()
    eventually(lambda: way.delivery(artifact), put_off)
    done(way.alpha.admin.post(f"/federation/artifacts/{artifact}/withdraw", reason="wrong"))
    line.up = True
    for server in (way.alpha, way.beta):
        pass_time(server, seconds=31)
    seen = eventually(lambda: way.delivery(artifact), lambda delivery: delivery["state"] == "Failed")
    assert "withdrawn" in seen["last_error"]


def test_a_peer_without_an_address_pulls(way: Way, alpha: Exchange) -> None:
    account = alpha.account()
    artifact = done(alpha.publish(alpha.outbound(alpha.peer(peer_actor_id=account.id))))["artifact_id"]
    assert alpha.artifact(artifact)["delivery"] is None
    assert done(account.get(f"/federation/artifacts/{artifact}/envelope"))["signatures"]


def test_what_comes_before_its_pointer_waits_in_quarantine(way: Way) -> None:
    artifact = done(way.alpha.publish(way.outbound))["artifact_id"]
    early = way.account.post("/federation/artifacts/receive", envelope=way.alpha.envelope(artifact))
    id = done(early)["artifact_id"]
    assert way.beta.artifact(id)["stages"]["Freshness"] == "Failed"
    path = f"/federation/artifacts/{id}"
    assert refusal(way.beta.admin.post(f"{path}/accept")) == (409, "ArtifactCannotAcceptError")
    way.alpha.point()
    eventually(lambda: way.delivery(artifact), lambda delivery: delivery.get("state") == "Done")
    done(way.beta.admin.post(f"{path}/verify"))
    assert way.beta.artifact(id)["status"] == "Accepted"
