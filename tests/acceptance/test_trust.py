"""Trust: policies, their reach and the moment they begin to count, as the catalogue's examples tell it."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from beamwright.contexts.trust.zone import UpdateZone
from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.errors import AuthorizationDeniedError
from beamwright.runtime.call import Call
from tests.acceptance.stage import (
    OWN_VISITS,
    Person,
    Stage,
    denial,
    done,
    facility,
    grant,
    refusal,
)
from tests.live import HTTP_AUDIENCE, MCP_AUDIENCE, Cluster, LiveServer, serving

CROWD = 200


def evaluated(stage: Stage, person: Person, command: str, visit: str) -> dict[str, Any]:
    return done(
        stage.admin.get(
            "/authorization/evaluate",
            principal_id=person.id,
            command_name=command,
            surface_id=str(wellknown.HTTP_SURFACE),
            object_type="Visit",
            object_id=visit,
        )
    )


def verdicts(stage: Stage, person: Person, command: str) -> list[dict[str, Any]]:
    """What the verdict log keeps of this person's calls, newest first."""
    stage.server.run(lambda app: app.verdicts.flush())
    path = f"/conduits/{wellknown.CLIENTS_CONDUIT}/verdicts"
    return done(stage.admin.get(path, principal_id=person.id, command_name=command))["items"]


# A revocation counts at once, for commands everywhere and for reads here.


@pytest.fixture
def ann(stage: Stage) -> Person:
    return stage.person()


@pytest.fixture
def holding(stage: Stage, ann: Person) -> str:
    """The policy that lets Ann hold and read the visits of the own Site."""
    return stage.policy(grant("hold_visit", "get_visit", scope=facility("home")), to=ann)


def revoke(person: Person, policy: str, ann: Person) -> None:
    done(person.post(f"/policies/{policy}/grants/revoke", principal_id=ann.id, reason="left the group"))


def test_a_revoked_grant_stops_the_next_command_of_another_process(
    stage: Stage, elsewhere: LiveServer, ann: Person, holding: str
) -> None:
    visit = stage.visit_in_progress()
    there = stage.caller(ann.id, ann.subject, through=elsewhere)
    elsewhere.run(lambda app: app.authority.refresh())
    assert there.get(f"/visits/{visit}").is_success
    revoke(stage.admin, holding, ann)
    assert denial(there.post(f"/visits/{visit}/hold", reason="a break")) == (403, "NoGrant")
    assert "VisitHeld" not in stage.event_types(visit)


def test_a_revoked_grant_stops_the_next_read_of_the_same_process(
    stage: Stage, ann: Person, holding: str
) -> None:
    visit = stage.visit()
    assert ann.get(f"/visits/{visit}").is_success
    revoke(stage.admin, holding, ann)
    assert denial(ann.get(f"/visits/{visit}")) == (403, "NoGrant")


def test_a_revoked_grant_stops_reads_of_another_process_within_a_poll(
    stage: Stage, elsewhere: LiveServer, ann: Person, holding: str
) -> None:
    visit = stage.visit()
    assert ann.get(f"/visits/{visit}").is_success
    admin_there = stage.caller(stage.admin.id, stage.admin.subject, through=elsewhere)
    revoke(admin_there, holding, ann)
    deadline = time.monotonic() + 10
    while ann.get(f"/visits/{visit}").is_success:
        assert time.monotonic() < deadline
    assert denial(ann.get(f"/visits/{visit}")) == (403, "NoGrant")


def test_another_process_counts_an_administrator_that_it_has_not_seen_yet(
    own_stage: Stage, cluster: Cluster
) -> None:
    with serving(cluster, dsn=own_stage.server.dsn, authority_poll_seconds=3600) as elsewhere:
        own_stage.administrator()
        there = own_stage.caller(own_stage.admin.id, own_stage.admin.subject, through=elsewhere)
        assert there.post(f"/actors/{own_stage.admin.id}/deactivate", reason="Departed").is_success


def test_a_deactivated_actor_takes_no_control_in_another_process(stage: Stage, elsewhere: LiveServer) -> None:
    ada, surface = stage.person(), stage.surface()
    visit = stage.attended(ada, surface_id=surface)
    elsewhere.run(lambda app: app.authority.refresh())
    there = stage.caller(ada.id, ada.subject, through=elsewhere)
    done(stage.admin.post(f"/actors/{ada.id}/deactivate", reason="AccessEnded"))
    assert denial(there.post(f"/visits/{visit}/surface-control/take")) == (403, "ActorInactive")
    assert stage.event_types(surface) == ["SurfaceDefined"]


# Deny narrows.


@pytest.fixture
def allowed_and_denied(stage: Stage, ann: Person) -> Iterator[tuple[str, str]]:
    """Ann may do everything; no human may hold visits of the own Site."""
    human = {"kinds": ["human"]}
    allow = stage.policy(grant("*:*"), to=ann)
    deny = stage.policy(grant("hold_visit", effect="Deny", scope=facility("home"), principals=human))
    yield allow, deny
    done(stage.admin.post(f"/policies/{deny}/revoke", reason="the example is over"))


def test_a_deny_for_a_facility_holds_there_and_not_elsewhere(
    stage: Stage, ann: Person, allowed_and_denied: tuple[str, str]
) -> None:
    here, there = stage.visit_in_progress(), stage.visit_in_progress(facility_code=stage.site())
    refused = ann.post(f"/visits/{here}/hold", reason="a break")
    assert denial(refused) == (403, "OutOfReach")
    assert refused.json()["context"]["determining_policies"] == sorted(allowed_and_denied)
    assert ann.post(f"/visits/{there}/hold", reason="a break").is_success


def test_evaluation_names_the_policies_that_decide(
    stage: Stage, ann: Person, allowed_and_denied: tuple[str, str]
) -> None:
    answer = evaluated(stage, ann, "hold_visit", stage.visit())
    assert (answer["decision"], answer["reason"]) == ("Deny", "OutOfReach")
    assert answer["determining_policies"] == sorted(allowed_and_denied)


def test_evaluation_is_what_the_call_is_answered(
    stage: Stage, ann: Person, allowed_and_denied: tuple[str, str]
) -> None:
    visit = stage.visit_in_progress(facility_code=stage.site())
    answer = evaluated(stage, ann, "hold_visit", visit)
    assert (answer["decision"], answer["determining_policies"]) == ("Allow", [allowed_and_denied[0]])
    assert ann.post(f"/visits/{visit}/hold", reason="a break").is_success


def test_an_administrator_is_bound_by_a_deny(stage: Stage) -> None:
    root = stage.administrator()
    machines = {"kinds": ["human", "agent"]}
    policy = stage.policy(grant("expire_visit_presence", effect="Deny", principals=machines))
    visit = stage.visit()
    refused = root.post(f"/visits/{visit}/presence/expire", actor_id=root.id)
    assert denial(refused) == (403, "DeniedByPolicy")
    assert refused.json()["context"]["determining_policies"] == [policy]
    [verdict] = verdicts(stage, root, "expire_visit_presence")
    assert (verdict["decision"], verdict["reason"]) == ("Deny", "DeniedByPolicy")
    assert (verdict["determining_policies"], verdict["object_id"]) == ([policy], visit)


def test_a_call_leaves_one_verdict(stage: Stage, ann: Person, holding: str) -> None:
    here, there = stage.visit_in_progress(), stage.visit_in_progress(facility_code=stage.site())
    stage.policy(grant("get_visit"), to=ann)
    done(ann.post(f"/visits/{here}/hold", reason="a break"))
    assert denial(ann.post(f"/visits/{there}/hold", reason="a break")) == (403, "OutOfReach")
    assert refusal(ann.post(f"/visits/{here}/hold", reason="once more")) == (409, "VisitCannotHoldError")
    assert [(each["decision"], each["object_id"]) for each in verdicts(stage, ann, "hold_visit")] == [
        ("Allow", here),
        ("Deny", there),
        ("Allow", here),
    ]


def test_a_call_that_another_process_refuses_late_leaves_one_verdict(
    stage: Stage, elsewhere: LiveServer, ann: Person, holding: str
) -> None:
    visit = stage.visit_in_progress()
    elsewhere.run(lambda app: app.authority.refresh())
    revoke(stage.admin, holding, ann)
    there = stage.caller(ann.id, ann.subject, through=elsewhere)
    assert denial(there.post(f"/visits/{visit}/hold", reason="a break")) == (403, "NoGrant")
    elsewhere.run(lambda app: app.verdicts.flush())
    assert [each["decision"] for each in verdicts(stage, ann, "hold_visit")] == ["Deny"]


# Strangers.


@pytest.fixture(scope="module")
def outsider(stage: Stage) -> Person:
    """May read everything of its own visits, and has none."""
    outsider = stage.person("service_account")
    stage.policy(grant("*:@reads", scope=OWN_VISITS), to=outsider)
    return outsider


def test_the_feed_says_nothing_of_what_belongs_to_others(stage: Stage, outsider: Person) -> None:
    stage.visit({stage.person(): "Lead"})
    seen: set[str] = set()
    after: dict[str, str] = {}
    while (page := done(outsider.get("/events", limit=200, **after)))["items"]:
        seen |= {f"{item['streamtype']}/{item['streamid']}" for item in page["items"]}
        after = {"after": page["next"]}
    owned = {name for name in seen if name.startswith(("Visit/", "Actor/"))}
    assert owned == {f"Actor/{outsider.id}"}


def test_search_finds_nothing_of_what_belongs_to_others(stage: Stage, outsider: Person) -> None:
    word = uuid4().hex
    visit = stage.visit(title=f"about {word}")
    found = done(stage.admin.get("/visits", q=word, consistent_with=version_token(stage, visit)))
    assert [item["id"] for item in found["items"]] == [visit]
    page = done(outsider.get("/visits", q=word, limit=1))
    assert (page["items"], page["next_cursor"]) == ([], None)


def version_token(stage: Stage, visit: str) -> str:
    return done(stage.admin.get(f"/visits/{visit}/events"))["as_of"]


# Doors.


def test_a_token_opens_only_the_door_it_was_minted_for(stage: Stage) -> None:
    listening = {"host": f"127.0.0.1:{stage.server.settings.port}"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    rest = stage.caller(stage.admin.id, stage.admin.subject, HTTP_AUDIENCE)
    mcp = stage.caller(stage.admin.id, stage.admin.subject, MCP_AUDIENCE)
    assert rest.client.get("/zones").status_code == 200
    refused = rest.client.post("/mcp", json=message, headers=listening)
    assert refused.status_code == 401 and 'error="invalid_token"' in refused.headers["www-authenticate"]
    assert mcp.client.get("/zones").status_code == 401


@pytest.mark.parametrize("field", ["surface_id", "decided_by"])
def test_no_body_names_a_door_or_a_decider(stage: Stage, field: str) -> None:
    visit = stage.visit_in_progress()
    answer = stage.admin.post(f"/visits/{visit}/hold", reason="a break", **{field: str(uuid4())})
    assert refusal(answer) == (422, "ShapeError")


def test_a_token_narrows_and_never_widens(stage: Stage, ann: Person, holding: str) -> None:
    narrow = stage.caller(ann.id, ann.subject, scopes=("beamwright:trust:@reads", "beamwright:define_zone"))
    visit = stage.visit_in_progress()
    assert narrow.get(f"/visits/{visit}").is_success
    assert denial(narrow.post(f"/visits/{visit}/hold", reason="a break")) == (403, "TokenScope")
    assert denial(narrow.post("/zones", name=uuid4().hex)) == (403, "NoGrant")


def test_a_worker_needs_a_grant_that_names_the_inner_surface(stage: Stage) -> None:
    worker, zone = stage.person("service_account"), stage.zone()
    stage.policy(grant("*:*"), to=worker)
    call = Call(
        caller=Caller(principal_id=UUID(worker.id), kind="service_account"),
        surface_id=wellknown.IN_PROCESS_SURFACE,
        conduit_id=wellknown.SERVICE_CONDUIT,
        correlation_id="inner",
    )
    request = UpdateZone(zone_id=UUID(zone), description="by a worker")
    with pytest.raises(AuthorizationDeniedError) as refused:
        stage.server.run(lambda app: app.service.call(request, call))
    assert refused.value.context["reason"] == "NoGrant"

    inner = [str(wellknown.IN_PROCESS_SURFACE)]
    stage.policy(grant("update_zone", surface_ids=inner), to=worker)
    assert stage.server.run(lambda app: app.service.call(request, call)).status == 200


# Lock-out.


def test_administration_is_not_locked_out_until_there_is_a_second(own_stage: Stage) -> None:
    policy = f"/policies/{wellknown.ADMINISTRATOR_POLICY}"
    [grant_id] = done(own_stage.admin.get(policy))["grants"]
    deny = grant("add_grant", effect="Deny", principals={"actor_ids": [own_stage.admin.id]})
    calls: list[tuple[str, dict[str, Any]]] = [
        (f"{policy}/grants/add", {"grant": deny}),
        (f"{policy}/suspend", {"reason": "no longer"}),
        (f"{policy}/grants/revoke", {"grant_id": grant_id, "reason": "no longer"}),
    ]
    refused = [refusal(own_stage.admin.post(path, **body)) for path, body in calls]
    assert refused == [(409, "LastAdministratorError")] * 3

    second = own_stage.administrator()
    for path, body in calls:
        done(second.post(path, **body))
        restore(second, policy, path)


def restore(person: Person, policy: str, path: str) -> None:
    """Make the first administrator effective again, so that the next call takes it away by itself."""
    if path.endswith("/suspend"):
        done(person.post(f"{policy}/resume"))
    if path.endswith("/add"):
        grants = done(person.get(policy))["grants"]
        [deny] = [id for id, each in grants.items() if each["effect"] == "Deny"]
        done(person.post(f"{policy}/grants/revoke", grant_id=deny, reason="once more"))


def test_a_grant_that_ends_does_not_make_an_administrator(own_stage: Stage) -> None:
    guest = own_stage.person()
    own_stage.policy(grant("*:*", until_at="2099-01-01T00:00:00Z"), to=guest)
    answer = own_stage.admin.post(f"/policies/{wellknown.ADMINISTRATOR_POLICY}/suspend", reason="no longer")
    assert refusal(answer) == (409, "LastAdministratorError")


# Crowds.


def test_two_hundred_writers_of_one_stream_lose_nothing(stage: Stage) -> None:
    zone = stage.zone()
    path = f"/zones/{zone}/update"
    answers = stage.crowd(*((path, {"description": f"writer {number}"}) for number in range(CROWD)))
    won = sorted(answer.json()["version"] for answer in answers if answer.is_success)
    lost = Counter(refusal(answer) for answer in answers if not answer.is_success)
    assert set(lost) <= {(409, "ConcurrencyError")} and len(won) + lost.total() == CROWD
    versions = stage.rows("SELECT version FROM events WHERE stream_id = $1 ORDER BY version", zone)
    assert [row[0] for row in versions] == [1, *won] == list(range(1, len(won) + 2))


def test_changes_of_the_authority_that_do_not_concern_each_other_all_succeed(stage: Stage) -> None:
    answers = stage.crowd(*[("/actors", {"name": "One of many"})] * 30)
    assert {answer.status_code for answer in answers} == {201}
