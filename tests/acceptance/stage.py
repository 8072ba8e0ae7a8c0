"""People, visits, surfaces and policies of a served installation, made as a client makes them."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, Self
from uuid import uuid4

import asyncpg
import httpx

from beamwright.kernel import wellknown
from tests.live import HTTP_AUDIENCE, MCP_AUDIENCE, LiveServer

EVERYTHING = {"kind": "Everything"}
OWN_VISITS = {"kind": "OwnVisits"}


def facility(*codes: str) -> dict[str, Any]:
    """The scope of what belongs to these facilities."""
    return {"kind": "Facility", "facility_codes": codes}


class Person:
    """Somebody who calls the service."""

    def __init__(self, id: str, subject: str, client: httpx.Client) -> None:
        self.id = id
        self.subject = subject
        self.client = client

    def get(self, path: str, **parameters: Any) -> httpx.Response:
        return self.client.get(path, params=parameters)

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.client.post(path, json=body)


class Stage:
    """A served installation and whoever was invited to it; every client is closed in the end."""

    def __init__(self, server: LiveServer) -> None:
        self.server = server
        self._clients = ExitStack()

    def __enter__(self) -> Self:
        self.admin = self.caller(str(wellknown.ADMINISTRATOR), str(wellknown.ADMINISTRATOR))
        return self

    def __exit__(self, *_: object) -> None:
        self._clients.close()

    def caller(
        self, id: str, subject: str, *audiences: str, through: LiveServer | None = None, **options: Any
    ) -> Person:
        """Somebody with a token for these audiences, at this process or another of the installation."""
        server = through or self.server
        token = server.token(subject, *(audiences or (HTTP_AUDIENCE, MCP_AUDIENCE)), **options)
        client = httpx.Client(
            base_url=server.url, headers={"authorization": f"Bearer {token}"}, timeout=30, verify=False
        )
        return Person(id, subject, self._clients.enter_context(client))

    def nobody(self, **headers: str) -> httpx.Client:
        """A client without a token."""
        return self._clients.enter_context(
            httpx.Client(base_url=self.server.url, headers=headers, timeout=30, verify=False)
        )

    def person(self, kind: str = "human", name: str = "Somebody") -> Person:
        """A newcomer with a login and nothing but what its kind may do."""
        subject = uuid4().hex
        login = {"issuer": wellknown.BUILT_IN_ISSUER, "subject": subject}
        made = done(self.admin.post("/actors", name=name, kind=kind, identities=[login]))
        return self.caller(made["actor_id"], subject)

    def administrator(self) -> Person:
        """A further effective administrator."""
        person = self.person()
        self.policy(grant("*:*"), to=person)
        return person

    def policy(self, *grants: dict[str, Any], to: Person | None = None) -> str:
        principals = {} if to is None else {"actor_ids": [to.id]}
        body = {"name": f"policy {uuid4().hex}", "principals": principals, "grants": grants}
        return done(self.admin.post("/policies", **body))["policy_id"]

    def surface(self, **fields: Any) -> str:
        """A door of its own, so that its control is nobody else's."""
        name = uuid4().hex
        given = {"name": name, "kind": "HTTP", "audience": f"urn:test:{name}"} | fields
        return done(self.admin.post("/surfaces", conduit_id=str(wellknown.CLIENTS_CONDUIT), **given))[
            "surface_id"
        ]

    def site(self) -> str:
        """The code of another Site of this installation."""
        code = uuid4().hex
        done(self.admin.post("/federation/facilities", code=code, display_name=code, kind="Site"))
        return code

    def visit(self, members: dict[Person, str] | None = None, **fields: Any) -> str:
        now = self.server.clock()
        given = {
            "code": uuid4().hex,
            "title": "A stay",
            "facility_code": "home",
            "surface_id": str(wellknown.HTTP_SURFACE),
            "type": "User",
            "planned_start_at": now.isoformat(),
            "planned_end_at": (now + timedelta(days=3)).isoformat(),
            "members": {person.id: role for person, role in (members or {}).items()},
        }
        return done(self.admin.post("/visits", **given | fields))["visit_id"]

    def visit_in_progress(self, members: dict[Person, str] | None = None, **fields: Any) -> str:
        visit = self.visit(members, **fields)
        for move in ("record-arrival", "start"):
            done(self.admin.post(f"/visits/{visit}/{move}"))
        return visit

    def attended(self, *people: Person, **fields: Any) -> str:
        """A visit in progress in which these members are present."""
        visit = self.visit_in_progress(dict.fromkeys(people, "Member"), **fields)
        for person in people:
            done(person.post(f"/visits/{visit}/presence/open", mode="Physical"))
        return visit

    def zone(self) -> str:
        return done(self.admin.post("/zones", name=uuid4().hex))["zone_id"]

    def crowd(self, *calls: tuple[str, dict[str, Any]]) -> list[httpx.Response]:
        """The answers to commands of the administrator that are all under way at once."""

        async def gathered() -> list[httpx.Response]:
            async with httpx.AsyncClient(
                base_url=self.server.url,
                headers=self.admin.client.headers,
                limits=httpx.Limits(max_connections=len(calls)),
                timeout=60,
                verify=False,
            ) as client:
                return await asyncio.gather(*(client.post(path, json=body) for path, body in calls))

        return asyncio.run(gathered())

    def rows(self, sql: str, *arguments: Any) -> list[Any]:
        """What the database holds, as its owner sees it."""

        async def fetched() -> list[Any]:
            connection = await asyncpg.connect(self.server.dsn)
            try:
                return await connection.fetch(sql, *arguments)
            finally:
                await connection.close()

        return asyncio.run(fetched())

    def event_count(self) -> int:
        """How long the log is, but for what the sealer signs by itself whenever it is due."""
        return self.rows("SELECT count(*) FROM events WHERE event_type <> 'SealPointerSigned'")[0][0]

    def event_types(self, id: str) -> list[str]:
        found = self.rows("SELECT event_type FROM events WHERE stream_id = $1 ORDER BY version", id)
        return [row[0] for row in found]


def grant(
    *operations: str,
    effect: str = "Allow",
    scope: dict[str, Any] = EVERYTHING,
    principals: dict[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    return {"effect": effect, "operations": operations, "scope": scope, "principals": principals, **fields}


def done(answer: httpx.Response) -> Any:
    """The body of an answer that is no refusal."""
    assert answer.is_success, answer.text
    return answer.json()


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("code")


def denial(answer: httpx.Response) -> tuple[int, str]:
    """The status of a refusal, and the reason that its context gives."""
    return answer.status_code, answer.json().get("context", {}).get("reason")


def at_once(*calls: Callable[[], httpx.Response]) -> list[httpx.Response]:
    """The answers to calls that set off together."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], httpx.Response]) -> httpx.Response:
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))
