"""Access: actors, their logins and their personal data, as the catalogue's examples tell it."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import httpx
import pytest

from beamwright.kernel import wellknown
from beamwright.kernel.profiles import DELETED_USER
from tests.acceptance.conftest import Logged
from tests.acceptance.stage import Person, Stage, at_once, denial, done, refusal

ISSUER = wellknown.BUILT_IN_ISSUER


@contextmanager
def refused_by_the_database(stage: Stage, name: str) -> Iterator[None]:
    """While this lasts, the profile store cannot take a profile of this name."""
    stage.rows(f"ALTER TABLE actor_profile ADD CONSTRAINT broken CHECK (name <> '{name}')")
    try:
        yield
    finally:
        stage.rows("ALTER TABLE actor_profile DROP CONSTRAINT broken")


def holding(stage: Stage, text: str) -> list[str]:
    """The tables beside the profile store of which some column holds `text`."""
    tables = stage.rows(
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
        "WHERE schemaname IN ('public', 'lists') AND tablename NOT IN ('actor_profile', 'actor_identity')"
    )
    found = [
        (table, stage.rows(f"SELECT FROM {table} AS t WHERE strpos(lower(t::text), $1) > 0", text.lower()))
        for (table,) in tables
    ]
    return [table for table, rows in found if rows]


def login_ids(person: Person, of: str) -> list[str]:
    return [each["identity_id"] for each in done(person.get(f"/actors/{of}/profile"))["identities"]]


def link(person: Person, actor_id: str, subject: str) -> httpx.Response:
    return person.post(f"/actors/{actor_id}/identities/link", issuer=ISSUER, subject=subject)


def test_registering_keeps_the_name_out_of_the_event(stage: Stage) -> None:
    ada = done(stage.admin.post("/actors", name="Ada Wachholder", kind="human"))["actor_id"]
    [event] = stage.rows(
        "SELECT event_type, payload::jsonb ->> 'kind', e::text FROM events e WHERE stream_id = $1", ada
    )
    assert list(event[:2]) == ["ActorRegistered", "human"] and "Ada" not in event[2]
    assert stage.rows("SELECT name FROM actor_profile WHERE actor_id = $1", ada)[0][0] == "Ada Wachholder"


def test_nothing_is_recorded_when_the_profile_cannot_be(stage: Stage) -> None:
    before = stage.event_count()
    with refused_by_the_database(stage, "Ada Unlucky"):
        answer = stage.admin.post("/actors", name="Ada Unlucky", email="unlucky@example.org")
    assert answer.status_code == 500 and stage.event_count() == before


def test_a_failure_of_the_profile_store_names_nobody(stage: Stage, logged: Logged) -> None:
    with refused_by_the_database(stage, "Ada Unlucky"):
        answer = stage.admin.post("/actors", name="Ada Unlucky", email="unlucky@example.org")
    assert "nlucky" not in answer.text
    assert "unexpected_error" in logged.text() and "nlucky" not in logged.text()


def test_forgetting_erases_profile_and_logins(stage: Stage) -> None:
    ada = stage.person()
    done(link(stage.admin, ada.id, uuid4().hex))
    done(stage.admin.post(f"/actors/{ada.id}/forget"))
    assert stage.rows("SELECT FROM actor_profile WHERE actor_id = $1", ada.id) == []
    assert stage.rows("SELECT FROM actor_identity WHERE actor_id = $1", ada.id) == []


def test_forgetting_leaves_an_event_with_two_keys(stage: Stage) -> None:
    ada = stage.person()
    done(link(stage.admin, ada.id, uuid4().hex))
    assert done(stage.admin.post(f"/actors/{ada.id}/forget"))["events"] == [
        "ActorIdentityUnlinked",
        "ActorIdentityUnlinked",
        "ActorProfileForgotten",
    ]
    last = done(stage.admin.get(f"/actors/{ada.id}/events"))["items"][-1]
    assert set(last["payload"]) == {"actor_id", "occurred_at"}


def test_the_forgotten_is_nameless_wherever_a_name_is_shown(stage: Stage) -> None:
    ada = stage.person(name="Ada Forgettable")
    surface = stage.surface()
    visit = stage.attended(ada, surface_id=surface)
    done(ada.post(f"/visits/{visit}/surface-control/take"))
    path = f"/surfaces/{surface}"
    assert done(stage.admin.get(f"{path}/control"))["holder"]["name"] == "Ada Forgettable"
    as_of = done(stage.admin.post(f"/actors/{ada.id}/forget"))["as_of"]

    assert done(stage.admin.get(f"/actors/{ada.id}"))["name"] == DELETED_USER
    assert done(stage.admin.get(f"/actors/{ada.id}", as_of_version=1))["name"] == DELETED_USER
    assert done(stage.admin.get(f"{path}/control"))["holder"]["name"] == DELETED_USER
    assert done(stage.admin.get(f"{path}/events"))["items"][-1]["principal_name"] == DELETED_USER
    assert done(stage.admin.get(f"/visits/{visit}/presence"))["items"][0]["name"] == DELETED_USER
    assert done(stage.admin.get("/presence", visit_id=visit))["items"][0]["name"] == DELETED_USER
    [listed] = done(stage.admin.get("/actors", visit_id=visit, consistent_with=as_of))["items"]
    assert (listed["name"], listed["forgotten"]) == (DELETED_USER, True)
    assert done(stage.admin.get("/actors", q="Forgettable"))["items"] == []
    assert refusal(stage.admin.get(f"/actors/{ada.id}/profile")) == (404, "ActorProfileNotFoundError")


def test_what_the_forgotten_made_is_by_nobody(stage: Stage) -> None:
    ada = stage.administrator()
    zone = done(ada.post("/zones", name=uuid4().hex))
    path = f"/zones/{zone['zone_id']}"
    assert done(stage.admin.get(path))["created_by_name"] == "Somebody"
    done(stage.admin.post(f"/actors/{ada.id}/forget"))
    assert done(stage.admin.get(path))["created_by_name"] == DELETED_USER
    [listed] = done(stage.admin.get("/zones", limit=1, consistent_with=zone["as_of"]))["items"]
    assert listed["created_by_name"] == DELETED_USER


def test_the_token_of_the_forgotten_is_linked_to_nobody(stage: Stage) -> None:
    ada = stage.person()
    done(ada.get("/actors/current"))
    done(stage.admin.post(f"/actors/{ada.id}/forget"))
    assert refusal(ada.get("/actors/current")) == (403, "IdentityNotLinkedError")


def test_forgetting_again_changes_nothing(stage: Stage) -> None:
    ada = stage.person()
    done(stage.admin.post(f"/actors/{ada.id}/forget"))
    again = stage.admin.post(f"/actors/{ada.id}/forget")
    assert (again.status_code, again.json()["events"]) == (200, [])


def test_the_forgotten_is_not_reactivated(stage: Stage) -> None:
    ada = stage.person()
    done(stage.admin.post(f"/actors/{ada.id}/deactivate", reason="Departed"))
    done(stage.admin.post(f"/actors/{ada.id}/forget"))
    answer = stage.admin.post(f"/actors/{ada.id}/reactivate")
    assert refusal(answer) == (409, "ActorCannotReactivateError")


def test_a_linked_login_is_given_to_nobody_else(stage: Stage) -> None:
    ada, ben, cora = stage.person(), stage.person(), stage.person()
    answers = at_once(*[lambda to=to: link(stage.admin, to.id, ada.subject) for to in (ben, cora)])
    assert [refusal(answer) for answer in answers] == [(409, "ActorIdentityAlreadyLinkedError")] * 2


@pytest.mark.parametrize("_", range(5))
def test_a_free_login_is_given_to_one_of_two(stage: Stage, _: int) -> None:
    ada, ben, cora = stage.person(), stage.person(), stage.person()
    [login] = login_ids(stage.admin, ada.id)
    done(stage.admin.post(f"/actors/{ada.id}/identities/unlink", identity_id=login, reason="Mistaken"))
    other = stage.caller(str(wellknown.ADMINISTRATOR), str(wellknown.ADMINISTRATOR))
    answers = at_once(
        lambda: link(stage.admin, ben.id, ada.subject), lambda: link(other, cora.id, ada.subject)
    )
    won = [to.id for to, answer in zip((ben, cora), answers, strict=True) if answer.is_success]
    lost = [refusal(answer) for answer in answers if not answer.is_success]
    assert len(won) == 1 and lost == [(409, "ActorIdentityAlreadyLinkedError")]
    assert done(ada.get("/actors/current"))["actor"]["id"] == won[0]


def test_an_unlinked_login_stops_at_the_door(stage: Stage) -> None:
    ada = stage.person()
    done(ada.get("/actors/current"))
    [login] = login_ids(ada, ada.id)
    done(stage.admin.post(f"/actors/{ada.id}/identities/unlink", identity_id=login, reason="Replaced"))
    assert refusal(ada.get("/actors/current")) == (403, "IdentityNotLinkedError")


def test_a_login_of_nobody_is_refused_and_leaves_nothing(stage: Stage) -> None:
    subject = uuid4().hex
    stranger = stage.caller("", subject)
    counted = "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM idempotency)"
    before = stage.rows(counted)
    key = {"idempotency-key": uuid4().hex}
    listening = {"host": f"127.0.0.1:{stage.server.settings.port}"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_zones"}}
    answers = [
        stranger.client.get("/zones"),
        stranger.client.post("/zones", json={"name": "mine"}, headers=key),
        stranger.client.post("/mcp", json=message, headers=listening),
    ]
    assert [refusal(answer) for answer in answers] == [(403, "IdentityNotLinkedError")] * 3
    assert all("administrator" in a.json()["detail"] and subject not in a.text for a in answers)
    assert stage.rows(counted) == before


def test_the_deactivated_is_refused_from_the_next_call_on(stage: Stage) -> None:
    ada = stage.administrator()
    zone = stage.zone()
    done(ada.get(f"/zones/{zone}"))
    done(stage.admin.post(f"/actors/{ada.id}/deactivate", reason="Compromised"))
    assert denial(ada.get(f"/zones/{zone}")) == (403, "ActorInactive")
    assert denial(ada.post(f"/zones/{zone}/update", name=uuid4().hex)) == (403, "ActorInactive")
    assert stage.event_types(zone) == ["ZoneDefined"]


@pytest.mark.parametrize("below", ["", "/profile", "/events"])
def test_a_stranger_does_not_find_another_actor(stage: Stage, below: str) -> None:
    stranger, ada = stage.person(), stage.person()
    assert refusal(stranger.get(f"/actors/{ada.id}{below}")) == (404, "ActorNotFoundError")
    assert stranger.get(f"/actors/{stranger.id}{below}").is_success


def test_a_stranger_lists_only_itself(stage: Stage) -> None:
    stranger = stage.person()
    as_of = done(stage.admin.post("/actors", name="Somebody"))["as_of"]
    page = done(stranger.get("/actors", consistent_with=as_of, limit=1))
    assert [item["id"] for item in page["items"]] == [stranger.id] and page["next_cursor"] is None
    found = done(stranger.get("/actors", q="Somebody"))["items"]
    assert [item["id"] for item in found] == [stranger.id]


def test_members_of_one_visit_see_each_other(stage: Stage) -> None:
    ada, ben = stage.person(), stage.person()
    stage.visit({ada: "Member", ben: "Observer"})
    assert done(ada.get(f"/actors/{ben.id}"))["id"] == ben.id
    assert denial(ada.get(f"/actors/{ben.id}/profile")) == (403, "OutOfReach")


def test_no_header_names_a_principal(stage: Stage) -> None:
    header = {"x-principal-id": str(wellknown.ADMINISTRATOR)}
    stranger = stage.person()
    assert stage.nobody(**header).get("/actors/current").status_code == 401
    current = stranger.client.get("/actors/current", headers=header)
    assert done(current)["actor"]["id"] == stranger.id
    assert denial(stranger.client.get("/zones", headers=header)) == (403, "NoGrant")


def test_the_last_administrator_stays_until_there_is_a_second(own_stage: Stage) -> None:
    last = f"/actors/{wellknown.ADMINISTRATOR}"
    [login] = login_ids(own_stage.admin, str(wellknown.ADMINISTRATOR))
    calls = [
        (f"{last}/deactivate", {"reason": "Departed"}),
        (f"{last}/identities/unlink", {"identity_id": login, "reason": "Departed"}),
        (f"{last}/forget", {}),
    ]
    refused = [refusal(own_stage.admin.post(path, **body)) for path, body in calls]
    assert refused == [(409, "LastAdministratorError")] * 3

    second = own_stage.administrator()
    done(second.post(*calls[0][:1], **calls[0][1]))
    done(second.post(f"{last}/reactivate"))
    done(second.post(*calls[1][:1], **calls[1][1]))
    done(link(second, str(wellknown.ADMINISTRATOR), str(wellknown.ADMINISTRATOR)))
    done(second.post(*calls[2][:1], **calls[2][1]))


def test_two_administrators_who_deactivate_each_other_leave_one(own_stage: Stage) -> None:
    second = own_stage.administrator()
    first = own_stage.admin
    answers = at_once(
        lambda: first.post(f"/actors/{second.id}/deactivate", reason="Departed"),
        lambda: second.post(f"/actors/{first.id}/deactivate", reason="Departed"),
    )
    assert sorted(answer.status_code for answer in answers) == [200, 403]


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"name": "Ada", "kind": "agent"}, (400, "InvalidActorKindError")),
        ({"name": "  "}, (400, "InvalidActorNameError")),
        ({"name": "Ada", "surprise": True}, (422, "ShapeError")),
    ],
    ids=["agent", "blank", "unknown field"],
)
def test_bad_registrations_are_refused(
    stage: Stage, body: dict[str, object], answer: tuple[int, str]
) -> None:
    assert refusal(stage.admin.client.post("/actors", json=body)) == answer


def test_personal_data_is_in_the_profile_store_and_nowhere_else(stage: Stage, logged: Logged) -> None:
    mark = f"q{uuid4().hex}"
    key = iter(f"{uuid4().hex}" for _ in range(100))

    def post(path: str, **body: object) -> httpx.Response:
        return stage.admin.client.post(path, json=body, headers={"idempotency-key": next(key)})

    login = {"issuer": ISSUER, "subject": f"{mark}-1"}
    profile = {"name": f"{mark} A", "email": f"{mark}@example.org", "phone": mark, "affiliation": mark}
    ada = done(post("/actors", identities=[login], **profile))["actor_id"]
    done(post(f"/actors/{ada}/update-profile", name=f"{mark} B", email=f"{mark}@example.com"))
    done(post(f"/actors/{ada}/assign-external-ref", scheme="proposal", value=mark, authority=mark))
    done(link(stage.admin, ada, f"{mark}-2"))
    refused = [
        post("/actors", name=mark, email=f"{mark} at example.org"),
        post("/actors", name=mark * 20),
        post("/actors", name=f"{mark}\u0007"),
        post("/actors", name=mark, identities=[login]),
        post("/actors", name=mark, identities=[login, login]),
        post("/actors", name=mark, identities=[{"issuer": ISSUER, "subject": mark * 20}]),
        post(f"/actors/{ada}/update-profile", name=f"{mark}\u0007"),
        post(f"/actors/{ada}/assign-external-ref", scheme="orcid", value=mark, authority="ORCID"),
        post("/actors", name={"first": mark}),
    ]
    assert {answer.status_code for answer in refused} == {400, 409, 422}
    her = stage.caller(ada, f"{mark}-1")
    visit = stage.attended(her, surface_id=stage.surface())
    done(her.post(f"/visits/{visit}/surface-control/take"))
    for path in ("/actors/current", f"/actors/{ada}/profile", f"/visits/{visit}/presence"):
        done(her.get(path))
    found = done(stage.admin.get("/actors", q=mark, sort="name"))["items"]
    assert [item["name"] for item in found] == [f"{mark} B"]
    stage.server.run(lambda app: app.verdicts.flush())

    assert holding(stage, mark) == []
    assert "update_actor_profile" in logged.text() and mark not in logged.text()
    assert mark not in stage.admin.get("/events", stream_type="Actor", limit=200).text
    assert mark not in stage.nobody().get("/metrics").text
