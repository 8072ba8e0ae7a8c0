"""Every operation, called by every kind of caller who has no business with its object, and by those who have.

The expectations are the two tables below; the operations come from the registry.
"""

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import pytest

from beamwright.app import registry
from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.errors import DomainError
from beamwright.kernel.operation import Operation
from beamwright.kernel.value import replace
from beamwright.runtime.call import Call
from tests.acceptance.scene import (
    ABOUT_ANOTHER,
    ABOUT_THE_CALLER,
    ACROSS,
    NAMING,
    OPERATIONS,
    TABLE,
    Belongs,
    Scene,
    missing,
)
from tests.acceptance.stage import Person, Stage, done, grant
from tests.faults.form import LONG, record
from tests.live import HTTP_AUDIENCE, MCP_AUDIENCE, LiveServer

# These four never get as far as the operation, whatever it is, and the stranger never past it.
AT_THE_DOOR = {
    "no token": (401, "MissingTokenError"),
    "expired token": (401, "RefusedTokenError"),
    "another surface's token": (401, "RefusedTokenError"),
    "deactivated": (403, "ActorInactive"),
    "stranger": (403, "NoGrant"),
}
# Those scoped to another facility or visit may do everything there. The observer has the ready-made policy, the agent
# what all agents have. `open` is what the members of visits and observers see of trust and federation.
GRID = """
kind of operation              | other facility | other visit  | observer  | agent     | administrator
read of somebody's, work       | not found      | not found    | allowed   | no grant  | allowed
read of everybody's, work      | allowed        | allowed      | allowed   | no grant  | allowed
read naming somebody's, work   | not found      | not found    | allowed   | no grant  | allowed
list, work                     | allowed        | allowed      | allowed   | no grant  | allowed
read of somebody's, open       | not found      | not found    | allowed   | no grant  | allowed
read of everybody's, open      | allowed        | allowed      | allowed   | no grant  | allowed
list, open                     | allowed        | allowed      | allowed   | no grant  | allowed
read of somebody's, trust      | not found      | not found    | no grant  | no grant  | allowed
read of everybody's, trust     | allowed        | allowed      | no grant  | no grant  | allowed
list, trust                    | allowed        | allowed      | no grant  | no grant  | allowed
read about oneself             | allowed        | allowed      | no grant  | allowed   | allowed
command on somebody's          | not found      | not found    | no grant  | no grant  | allowed
command on everybody's         | out of reach   | out of reach | no grant  | no grant  | allowed
report of a machine            | not found      | not found    | no grant  | denied    | denied
command over all one reaches   | allowed        | allowed      | no grant  | no grant  | allowed
command without an object      | refused        | refused      | no grant  | no grant  | allowed
"""
# `not found` is the refusal of the object's own aggregate. `allowed` is 200 for a read; a command is sent with a version
# that nothing has, and so gets as far as what it sees, and no further. `refused` is any refusal.
CODES = {
    "no grant": (403, "NoGrant"),
    "denied": (403, "DeniedByPolicy"),
    "out of reach": (403, "OutOfReach"),
}
CALLERS = (*AT_THE_DOOR, *(name.strip() for name in GRID.strip().splitlines()[0].split("|")[1:]))
EXPECTED = {
    cells[0]: dict(zip(CALLERS[len(AT_THE_DOOR) :], cells[1:], strict=True))
    for cells in ([cell.strip() for cell in line.split("|")] for line in GRID.strip().splitlines()[1:])
}

AREAS = {
    **dict.fromkeys(("access", "federation", "trust"), "trust"),
    **dict.fromkeys(("calibration", "campaign", "data", "decision", "enclosure", "equipment"), "work"),
    **dict.fromkeys(("operation", "recipe", "run", "safety", "subject", "supply"), "work"),
}
OPEN = {
    "get_facility",
    "get_facility_history",
    "get_surface",
    "get_surface_control",
    "get_surface_history",
    "get_visit",
    "get_visit_history",
    "list_events",
    "list_facilities",
    "list_presence",
    "list_surfaces",
    "list_visit_presence",
    "list_visits",
}
FOR_MACHINES = {"end_run_conduct", "observe_enclosure_status", "observe_supply_status"}
# Commands that go over whatever their caller reaches.
OVER_ALL = {"request_missing_asset_persistent_identifiers"}
# Reads of a part that the object of the scene does not have: this refusal shows that the object was found.
PARTS = {
    "get_run_conduct": "RunConductNotFoundError",
    "get_seal_key_statement": "SealNoPendingKeyError",
}
# What agents may do inside the service, beside reading all that is work.
AGENT_INSIDE = {
    "append_run_logbook_entry",
    "expire_clearance",
    "get_current_actor",
    "get_facility",
    "get_facility_history",
    "get_visit",
    "get_visit_history",
    "hold_run",
    "list_facilities",
    "list_permissions",
    "register_decision",
    "stop_run",
}
NO_SUCH_VERSION = 999_999_999
# All that a call could leave behind; lists follow from the log, and verdicts are looked at one by one.
LEFT_BEHIND = (
    "actor_identity",
    "actor_profile",
    "authority",
    "claims",
    "entries_procedure_activities",
    "entries_procedure_outcomes",
    "entries_run_observations",
    "erasable_texts",
    "events",
    "federation_outbox",
    "idempotency",
    "identifier_outbox",
    "run_channels",
    "run_feed_heartbeats",
)


class NoExpectationError(AssertionError):
    """An operation has no row in the table."""


def row(operation: Operation) -> str:
    """The row of the table that an operation belongs to."""
    name = operation.name
    if name in ABOUT_THE_CALLER:
        return "read about oneself"
    if name in FOR_MACHINES:
        return "report of a machine"
    if name in OVER_ALL:
        return "command over all one reaches"
    whose = f"{'somebody' if of_somebody(operation) else 'everybody'}'s"
    if not operation.reads:
        return f"command on {whose}" if operation.target else "command without an object"
    area = "open" if name in OPEN else AREAS.get(operation.context)
    if area is None:
        raise NoExpectationError(
            f"{name}: say in AREAS whether observers may read the context {operation.context} ('work') or not "
            "('trust')."
        )
    if name in NAMING:
        return f"read naming somebody's, {area}"
    if operation.target or name in ABOUT_ANOTHER:
        return f"read of {whose}, {area}"
    if name in ACROSS or name == f"list_{registry().aggregates[operation.aggregate].plural}":
        return f"list, {area}"
    raise NoExpectationError(
        f"{name} reads without naming an object in its path. If it is filtered by reach like a list, add it to ACROSS "
        "of tests/acceptance/scene.py; if its fields name an object, to NAMING; if it is about the caller, to "
        "ABOUT_THE_CALLER."
    )


def of_somebody(operation: Operation) -> bool:
    if operation.name in ABOUT_ANOTHER:
        return True
    aggregate = operation.target or operation.aggregate
    if aggregate not in TABLE:
        raise NoExpectationError(
            f"{operation.name}: say in TABLE of tests/acceptance/scene.py whose the objects of {aggregate} are, and make "
            "one in Scene."
        )
    return TABLE[aggregate] is Belongs.TO_SOMEBODY


class Answer(NamedTuple):
    """What one call got; for a refusal by the authorization, its reason instead of the code."""

    status: int
    code: str
    about: Sequence[str]

    @classmethod
    def of(cls, status: int, problem: dict[str, Any]) -> "Answer":
        context: dict[str, Any] = problem.get("context", {})
        code = context.get("reason") if status == 403 else problem.get("code")
        return cls(status, str(code), context.get("ids", [context.get("id", "")]))


class Cell(NamedTuple):
    """One call, found again in the verdict log by its correlation id."""

    operation: Operation
    caller: str
    expected: str
    answer: Answer
    correlation_id: str


class Callers:
    """Whoever calls, each with a token for every door."""

    def __init__(self, scene: Scene) -> None:
        stage, self.server = scene.stage, scene.stage.server
        visit = stage.visit()
        self.people = {
            "deactivated": stage.administrator(),
            "stranger": stage.person("service_account"),
            "other facility": scene.foreigner,
            "other visit": stage.person("service_account"),
            "observer": stage.person("service_account"),
            "agent": agent(stage),
            "administrator": stage.admin,
        }
        only_there = {"kind": "Visit", "visit_ids": [visit]}
        stage.policy(grant("*:*", scope=only_there), to=self.people["other visit"])
        observers = f"/policies/{wellknown.OBSERVER_POLICY}/add-principal"
        done(stage.admin.post(observers, principal_id=self.people["observer"].id))
        done(stage.admin.post(f"/actors/{self.people['deactivated'].id}/deactivate", reason="Departed"))

    def token(self, caller: str, audience: str) -> str | None:
        if caller == "no token":
            return None
        person = self.people.get(caller, self.people["administrator"])
        age = timedelta(hours=2 if caller == "expired token" else 0)
        if caller == "another surface's token":
            audience = MCP_AUDIENCE if audience == HTTP_AUDIENCE else HTTP_AUDIENCE
        now = self.server.clock() - age
        return self.server.issuer.mint(person.subject, (audience,), timedelta(hours=1), now=now)


def agent(stage: Stage) -> Person:
    """The seeded agent, with a login."""
    subject = uuid4().hex
    path = f"/actors/{wellknown.CLEARANCE_EXPIRER}/identities/link"
    done(stage.admin.post(path, issuer=wellknown.BUILT_IN_ISSUER, subject=subject))
    return stage.caller(str(wellknown.CLEARANCE_EXPIRER), subject)


class Sweep:
    """Calls everything as everybody."""

    def __init__(self, scene: Scene, callers: Callers) -> None:
        self.scene = scene
        self.callers = callers
        self.cells: list[Cell] = []

    def by_rest(self) -> None:
        for caller in CALLERS:
            token = self.callers.token(caller, HTTP_AUDIENCE)
            client = self.scene.stage.nobody(**({"authorization": f"Bearer {token}"} if token else {}))
            for name, operation in sorted(OPERATIONS.items()):
                id = uuid4().hex
                held = {} if operation.reads else {"if-match": f'"{NO_SUCH_VERSION}"'}
                got = self.scene.call(client, name, **{"x-correlation-id": id}, **held)
                problem: dict[str, Any] = {} if got.is_success else got.json()
                self.note(operation, caller, Answer.of(got.status_code, problem), id)

    def by_mcp(self, names: Sequence[str]) -> None:
        """The same, as tools."""
        for caller in CALLERS:
            token = self.callers.token(caller, MCP_AUDIENCE)
            client = self.scene.stage.nobody(**({"authorization": f"Bearer {token}"} if token else {}))
            for name in names:
                id = uuid4().hex
                answer = self.tool(client, OPERATIONS[name], id)
                self.note(OPERATIONS[name], caller, answer, id)

    def tool(self, client: httpx.Client, operation: Operation, correlation_id: str) -> Answer:
        meta = {} if operation.reads else {"beamwright/if-match": NO_SUCH_VERSION}
        params = {"name": operation.name, "arguments": self.scene.body(operation), "_meta": meta}
        headers = {"accept": "application/json, text/event-stream", "x-correlation-id": correlation_id}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        got = client.post("/mcp", json=message, headers=headers)
        if got.is_error:
            return Answer.of(got.status_code, got.json())
        result = got.json()["result"]
        body = result["structuredContent"]
        return Answer.of(body["status"], body) if result.get("isError") else Answer(200, "", [])

    def note(self, operation: Operation, caller: str, answer: Answer, correlation_id: str) -> None:
        kind = row(operation)
        expected = caller if caller in AT_THE_DOOR else EXPECTED[kind][caller]
        self.cells.append(Cell(operation, caller, expected, answer, correlation_id))


def fits(cell: Cell, target_id: str | None) -> bool:
    """Whether a call got what the table says."""
    status, code, about = cell.answer
    if cell.expected in AT_THE_DOOR:
        return (status, code) == AT_THE_DOOR[cell.expected]
    match cell.expected:
        case "allowed" if cell.operation.reads:
            unready = cell.operation.name in NAMING and status == 409
            return status == 200 or unready or code == PARTS.get(cell.operation.name)
        case "allowed":
            # Not 422: a request that has lost its shape would prove nothing.
            return status in (200, 400, 404, 409) and target_id not in about
        case "not found" if cell.operation.name in NAMING:
            return status == 404
        case "not found":
            return (status, code) == (404, missing(cell.operation.name)) and target_id in about
        case "refused":
            return 400 <= status < 500
        case _:
            return (status, code) == CODES[cell.expected]


def target_id(scene: Scene, operation: Operation) -> str | None:
    """The object that a call is about."""
    if operation.name in ABOUT_ANOTHER:
        return scene.owner.id
    return scene.objects[operation.target] if operation.target else None


def contradictions(scene: Scene, cells: Sequence[Cell]) -> list[str]:
    return [
        f"{cell.operation.name} ({row(cell.operation)}) as {cell.caller}: expected {cell.expected}, got "
        f"{cell.answer.status} {cell.answer.code}"
        for cell in cells
        if not fits(cell, target_id(scene, cell.operation))
    ]


def fingerprint(stage: Stage) -> dict[str, str]:
    """All that calls leave behind, table by table."""
    sql = "SELECT coalesce(md5(string_agg(t::text, ' ' ORDER BY t::text)), '') FROM {} AS t"
    return {table: stage.rows(sql.format(table))[0][0] for table in LEFT_BEHIND}


def unlogged(scene: Scene, callers: Callers, cells: Sequence[Cell]) -> list[str]:
    """The refusals on objects that the verdict log does not tell as they were."""
    scene.stage.server.run(lambda app: app.verdicts.flush())
    rows = scene.stage.rows(
        "SELECT correlation_id, decision, reason, command_name, principal_id::text, object_id::text "
        "FROM conduit_verdicts"
    )
    logged = {row[0]: tuple(row)[1:] for row in rows}
    found: list[str] = []
    for cell in cells:
        name, target = cell.operation.name, cell.operation.target
        known = cell.caller in callers.people
        if not known or target is None or name in ABOUT_ANOTHER or cell.expected == "allowed":
            continue
        # The caller is told of no such object, the log why.
        reason = "OutOfReach" if cell.answer.status == 404 else cell.answer.code
        wanted = ("Deny", reason, name, callers.people[cell.caller].id, scene.objects[target])
        got = logged.get(cell.correlation_id)
        if got != wanted:
            found.append(f"{name} as {cell.caller}: {got}, not {wanted}")
    return found


@pytest.fixture(scope="module")
def scene(server: LiveServer) -> Iterator[Scene]:
    with Stage(server) as stage:
        yield Scene(stage)


def sample(names: Sequence[str]) -> list[str]:
    """One operation of each kind and context."""
    found: dict[tuple[str, str], str] = {}
    for name in names:
        found.setdefault((row(OPERATIONS[name]), OPERATIONS[name].context), name)
    return sorted(found.values())


def test_every_operation_answers_every_caller_as_the_table_says(scene: Scene) -> None:
    callers = Callers(scene)
    names = sorted(OPERATIONS)
    tools = names if LONG else sample(names)
    before = fingerprint(scene.stage)
    sweep = Sweep(scene, callers)
    began = time.monotonic()
    sweep.by_rest()
    sweep.by_mcp(tools)
    took = time.monotonic() - began
    wrong = contradictions(scene, sweep.cells)
    assert wrong == [], said(wrong)
    assert fingerprint(scene.stage) == before
    lost = unlogged(scene, callers, sweep.cells)
    assert lost == [], said(lost)
    record(
        "matrix",
        operations=len(names),
        operations_as_tools=len(tools),
        callers=len(CALLERS),
        cells=len(sweep.cells),
        refused=sum(cell.answer.status >= 400 and cell.expected != "allowed" for cell in sweep.cells),
        wrong=len(wrong),
        seconds=round(took, 1),
    )


def said(lines: Sequence[str]) -> str:
    return "\n".join([f"{len(lines)} cells:", *lines[:60]])


def test_an_agent_inside_the_service_reads_the_work_and_does_what_it_is_trusted_with(scene: Scene) -> None:
    caller = Caller(principal_id=wellknown.CLEARANCE_EXPIRER, kind="agent")
    wrong: list[str] = []
    for name, operation in sorted(OPERATIONS.items()):
        trusted = name in AGENT_INSIDE or (operation.reads and AREAS.get(operation.context) == "work")
        call = Call(
            caller=caller,
            surface_id=wellknown.IN_PROCESS_SURFACE,
            conduit_id=wellknown.SERVICE_CONDUIT,
            correlation_id=uuid4().hex,
            expected_version=None if operation.reads else NO_SUCH_VERSION,
        )
        status, code, _ = inside(scene, operation, call)
        barred = "DeniedByPolicy" if name in FOR_MACHINES else "NoGrant"
        if (status == 403) == trusted or (status == 403 and code != barred):
            wrong.append(f"{name}: {status} {code}")
    assert wrong == [], said(wrong)


def inside(scene: Scene, operation: Operation, call: Call) -> Answer:
    async def called(app: Any) -> Answer:
        try:
            request = app.service.decode(operation, scene.body(operation), strict=False)
            await app.service.call(request, call)
        except DomainError as error:
            return Answer.of(error.status, {"code": type(error).__name__, "context": error.context})
        return Answer(200, "", [])

    return scene.stage.server.run(called)


def test_every_row_of_the_table_has_an_operation() -> None:
    assert {row(operation) for operation in OPERATIONS.values()} == set(EXPECTED)


def test_every_aggregate_has_an_object(scene: Scene) -> None:
    assert set(scene.objects) == set(TABLE) == set(registry().aggregates)


@pytest.mark.parametrize(
    ("name", "changed", "advice"),
    [
        ("get_run", {"context": "cellar"}, "say in AREAS whether observers may read the context cellar"),
        (
            "get_run",
            {"target": "Cask"},
            "say in TABLE of tests/acceptance/scene.py whose the objects of Cask are",
        ),
        ("list_runs", {"name": "list_everything"}, "add it to ACROSS"),
    ],
)
def test_an_operation_without_an_expectation_is_told_what_to_do(
    name: str, changed: dict[str, str], advice: str
) -> None:
    with pytest.raises(NoExpectationError, match=advice):
        row(replace(OPERATIONS[name], **changed))
