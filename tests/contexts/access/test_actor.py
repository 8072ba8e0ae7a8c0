"""Actor: its rules, and its status grid over activity and forgetting."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import msgspec
import pytest

from beamwright.contexts.access.actor import (
    Actor,
    ActorCannotAssignExternalRefError,
    ActorCannotDeactivateError,
    ActorCannotLinkIdentityError,
    ActorCannotUnlinkIdentityError,
    ActorCannotUpdateProfileError,
    ActorDeactivated,
    ActorDeactivationReason,
    ActorExternalRefAssigned,
    ActorIdentityAlreadyLinkedError,
    ActorIdentityLinked,
    ActorIdentityUnlinked,
    ActorLogin,
    ActorNotFoundError,
    ActorProfileForgotten,
    ActorProfileNotFoundError,
    ActorProfileUpdated,
    ActorReactivated,
    ActorRegistered,
    AssignActorExternalRef,
    DeactivateActor,
    ForgetActor,
    GetActorProfile,
    GuardedActor,
    IdentityUnlinkReason,
    InvalidActorContactError,
    InvalidActorExternalRefError,
    InvalidActorIdentityError,
    InvalidActorKindError,
    InvalidActorNameError,
    InvalidActorReasonError,
    LinkableActor,
    LinkActorIdentity,
    ProfiledActor,
    ReactivateActor,
    RegisterActor,
    UnlinkActorIdentity,
    UpdateActorProfile,
    actor_extras,
    actors,
)
from beamwright.kernel.authority import LastAdministratorError
from beamwright.kernel.errors import DomainError
from beamwright.kernel.event import Beside, Event, payload
from beamwright.kernel.operation import Occasion
from beamwright.kernel.profiles import (
    DELETED_USER,
    ErasedIdentity,
    ErasedProfile,
    ExternalRef,
    Identity,
    Profile,
)
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import replace
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, OCCASION, given, outcome

ACTOR = UUID(int=2)
LOGIN, OTHER_LOGIN = UUID(int=31), UUID(int=30)
ISSUER = "https://login.example.org"
EARLIER = NOW - timedelta(days=1)

REGISTERED = ActorRegistered(actor_id=ACTOR, occurred_at=NOW, kind=ActorKind.HUMAN)
LINKED = ActorIdentityLinked(actor_id=ACTOR, occurred_at=NOW, identity_id=LOGIN, issuer=ISSUER)
DEACTIVATED = ActorDeactivated(actor_id=ACTOR, occurred_at=NOW, reason=ActorDeactivationReason.ADMINISTRATIVE)
FORGOTTEN = ActorProfileForgotten(actor_id=ACTOR, occurred_at=NOW)

PROFILE = Profile(actor_id=ACTOR, name="Ada", email="ada@example.org", created_at=EARLIER, updated_at=EARLIER)
IDENTITY = Identity(identity_id=LOGIN, actor_id=ACTOR, issuer=ISSUER, subject="s-1", linked_at=EARLIER)


class Administrators:
    """An authority that knows who would remain, and remembers what it was asked about."""

    def __init__(self, *remaining: UUID) -> None:
        self.remaining = frozenset(remaining)
        self.asked: Sequence[Event] = ()

    def administrators(self, after: Sequence[Event], now: datetime) -> frozenset[UUID]:
        self.asked = after
        return self.remaining


SOMEBODY = Administrators(UUID(int=9))
NOBODY = Administrators()


def actor(*history: Event) -> Actor:
    return given(actors, REGISTERED, *history)


def guarded(*history: Event, authority: Any = SOMEBODY) -> GuardedActor:
    return GuardedActor(actor=actor(*history), authority=authority)


def profiled(*history: Event, profile: Profile | None = PROFILE) -> ProfiledActor:
    return ProfiledActor(actor=actor(*history), profile=profile)


def linkable(*history: Event, taken: Identity | None = None) -> LinkableActor:
    return LinkableActor(actor=actor(*history), taken=taken)


def links(count: int) -> list[ActorIdentityLinked]:
    return [replace(LINKED, identity_id=UUID(int=100 + number)) for number in range(count)]


# --- register ---


def test_register_writes_the_profile_beside_the_event_and_not_into_it() -> None:
    got = outcome(RegisterActor(name=" Ada ", affiliation="Lab"), ())
    assert got == [
        ActorRegistered(actor_id=NEW_ID, occurred_at=NOW, kind=ActorKind.HUMAN),
        Profile(actor_id=NEW_ID, name="Ada", affiliation="Lab", created_at=NOW, updated_at=NOW),
    ]


def test_register_links_each_login_under_an_id_of_its_own() -> None:
    logins = (ActorLogin(issuer=ISSUER, subject="a"), ActorLogin(issuer="urn:x", subject="b"))
    got = outcome(RegisterActor(name="Ada", identities=logins), ())
    first, second = OCCASION.fresh_id(0), OCCASION.fresh_id(1)
    assert got[2:] == [
        ActorIdentityLinked(actor_id=NEW_ID, occurred_at=NOW, identity_id=first, issuer=ISSUER),
        Identity(identity_id=first, actor_id=NEW_ID, issuer=ISSUER, subject="a", linked_at=NOW),
        ActorIdentityLinked(actor_id=NEW_ID, occurred_at=NOW, identity_id=second, issuer="urn:x"),
        Identity(identity_id=second, actor_id=NEW_ID, issuer="urn:x", subject="b", linked_at=NOW),
    ]


def test_register_refuses_a_login_that_is_somebodys() -> None:
    command = RegisterActor(name="Ada", identities=(ActorLogin(issuer=ISSUER, subject="s-1"),))
    assert outcome(command, (IDENTITY,)) == ActorIdentityAlreadyLinkedError


@pytest.mark.parametrize("name", [" ", "x" * 201, "a\nb"])
def test_register_refuses_a_bad_name(name: str) -> None:
    assert outcome(RegisterActor(name=name), ()) == InvalidActorNameError


@pytest.mark.parametrize(
    "contact",
    [
        {"email": ""},
        {"email": "@b"},
        {"email": "ada"},
        {"email": "a@b@c"},
        {"email": "a b@c"},
        {"email": "a@" + "b" * 253},
        {"phone": " "},
        {"phone": "1" * 51},
        {"affiliation": " "},
        {"affiliation": "x" * 201},
    ],
)
def test_register_refuses_bad_contact_data(contact: dict[str, str]) -> None:
    assert outcome(RegisterActor(name="Ada", **contact), ()) == InvalidActorContactError


@pytest.mark.parametrize("email", ["a@b", "a@" + "b" * 252, " ada@example.org "])
def test_register_takes_an_email_address_with_one_at(email: str) -> None:
    assert outcome(RegisterActor(name="Ada", email=email), ())[1].email == email.strip()


def test_only_defining_an_agent_makes_an_actor_of_kind_agent() -> None:
    assert outcome(RegisterActor(name="Ada", kind=ActorKind.AGENT), ()) == InvalidActorKindError


@pytest.mark.parametrize(
    ("issuer", "subject"),
    [
        (" ", "s"),
        ("http://login.example.org", "s"),
        ("https://" + "x" * 493, "s"),
        (ISSUER, ""),
        (ISSUER, "  "),
        (ISSUER, "s" * 256),
        (ISSUER, "s\x00"),
    ],
)
def test_register_refuses_a_malformed_login(issuer: str, subject: str) -> None:
    command = RegisterActor(name="Ada", identities=(ActorLogin(issuer=issuer, subject=subject),))
    assert outcome(command, ()) == InvalidActorIdentityError


def test_register_refuses_a_login_given_twice() -> None:
    twice = (ActorLogin(issuer=ISSUER, subject="s"), ActorLogin(issuer=f" {ISSUER}", subject="s"))
    assert outcome(RegisterActor(name="Ada", identities=twice), ()) == InvalidActorIdentityError


@pytest.mark.parametrize(("count", "accepted"), [(8, True), (9, False)])
def test_register_takes_eight_logins(count: int, accepted: bool) -> None:
    logins = tuple(ActorLogin(issuer=ISSUER, subject=str(number)) for number in range(count))
    got = outcome(RegisterActor(name="Ada", identities=logins), ())
    assert (got != InvalidActorIdentityError) is accepted


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (RegisterActor(name=" ", email="x", kind=ActorKind.AGENT), InvalidActorNameError),
        (RegisterActor(name="Ada", email="x", kind=ActorKind.AGENT), InvalidActorContactError),
        (
            RegisterActor(
                name="Ada", kind=ActorKind.AGENT, identities=(ActorLogin(issuer="x", subject="s"),)
            ),
            InvalidActorKindError,
        ),
    ],
)
def test_register_refuses_in_order(command: RegisterActor, refusal: type[DomainError]) -> None:
    assert outcome(command, (IDENTITY,)) == refusal


def test_a_refused_login_never_echoes_its_subject() -> None:
    with pytest.raises(InvalidActorIdentityError) as refused:
        ActorLogin(issuer=ISSUER, subject="secret\x00").checked()
    assert "secret" not in f"{refused.value.detail}{refused.value.context}"


# --- profile ---


def test_update_names_the_changed_fields_and_never_their_values() -> None:
    got = outcome(UpdateActorProfile(actor_id=ACTOR, name=" Ada L. ", email=None, phone=None), profiled())
    assert got == [
        ActorProfileUpdated(actor_id=ACTOR, occurred_at=NOW, changed_fields=frozenset({"name", "email"})),
        replace(PROFILE, name="Ada L.", email=None, updated_at=NOW),
    ]


def test_update_that_changes_nothing_is_a_no_op() -> None:
    assert outcome(UpdateActorProfile(actor_id=ACTOR, name="Ada "), profiled()) == []


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (UpdateActorProfile(actor_id=ACTOR, name=" ", email=" "), InvalidActorNameError),
        (UpdateActorProfile(actor_id=ACTOR, email="ada"), InvalidActorContactError),
        (UpdateActorProfile(actor_id=ACTOR, phone=""), InvalidActorContactError),
        (UpdateActorProfile(actor_id=ACTOR, affiliation=""), InvalidActorContactError),
        (UpdateActorProfile(actor_id=ACTOR, name="Ada"), ActorCannotUpdateProfileError),
    ],
)
def test_update_refuses_bad_values_before_a_forgotten_actor(
    command: UpdateActorProfile, refusal: type[DomainError]
) -> None:
    assert outcome(command, profiled(FORGOTTEN, profile=None)) == refusal


def test_a_name_cannot_become_null() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"actor_id": str(ACTOR), "name": None}, UpdateActorProfile)


# --- external references ---

ORCID = AssignActorExternalRef(
    actor_id=ACTOR, scheme="orcid", value="0000-0002-1825-0097", authority="https://orcid.org"
)
REF = ExternalRef(value=ORCID.value, authority=ORCID.authority, assigned_at=EARLIER)


def test_assign_keeps_the_value_out_of_the_event() -> None:
    new = {"orcid": replace(REF, assigned_at=NOW)}
    assert outcome(ORCID, profiled()) == [
        ActorExternalRefAssigned(actor_id=ACTOR, occurred_at=NOW, scheme="orcid"),
        replace(PROFILE, external_refs=new, updated_at=NOW),
    ]


def test_assign_of_the_same_value_is_a_no_op() -> None:
    assert outcome(ORCID, profiled(profile=replace(PROFILE, external_refs={"orcid": REF}))) == []


@pytest.mark.parametrize("value", ["0000-0001-5109-3700", "0000-0002-1694-233X"])
def test_assign_takes_a_bare_orcid_with_its_check_digit(value: str) -> None:
    assert len(outcome(replace(ORCID, value=value), profiled())) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"value": "0000-0002-1825-0098"},
        {"value": "0000-0002-1694-2331"},
        {"value": "https://orcid.org/0000-0002-1825-0097"},
        {"value": "0000000218250097"},
        {"scheme": "ORCID"},
        {"scheme": " "},
        {"scheme": "x" * 51},
        {"scheme": "isni", "value": " "},
        {"scheme": "isni", "value": "x" * 201},
        {"authority": " "},
        {"authority": "x" * 201},
    ],
)
def test_assign_refuses_a_malformed_reference(changes: dict[str, str]) -> None:
    assert outcome(msgspec.structs.replace(ORCID, **changes), profiled()) == InvalidActorExternalRefError


def test_assign_refuses_a_ninth_scheme() -> None:
    full = replace(PROFILE, external_refs={f"scheme-{number}": REF for number in range(8)})
    assert outcome(ORCID, profiled(profile=full)) == ActorCannotAssignExternalRefError


# --- logins ---

LINK = LinkActorIdentity(actor_id=ACTOR, issuer=f" {ISSUER} ", subject=" S-2")


def test_link_keeps_the_subject_exactly_and_beside_the_log() -> None:
    assert outcome(LINK, linkable()) == [
        ActorIdentityLinked(actor_id=ACTOR, occurred_at=NOW, identity_id=NEW_ID, issuer=ISSUER),
        Identity(identity_id=NEW_ID, actor_id=ACTOR, issuer=ISSUER, subject=" S-2", linked_at=NOW),
    ]


@pytest.mark.parametrize(
    ("command", "seen", "refusal"),
    [
        (replace(LINK, issuer="x"), linkable(FORGOTTEN), InvalidActorIdentityError),
        (LINK, linkable(FORGOTTEN, taken=IDENTITY), ActorCannotLinkIdentityError),
        (LINK, linkable(*links(8), taken=IDENTITY), ActorCannotLinkIdentityError),
        (LINK, linkable(*links(7), taken=IDENTITY), ActorIdentityAlreadyLinkedError),
    ],
)
def test_link_refuses_in_order(
    command: LinkActorIdentity, seen: LinkableActor, refusal: type[DomainError]
) -> None:
    assert outcome(command, seen) == refusal


UNLINK = UnlinkActorIdentity(actor_id=ACTOR, identity_id=LOGIN, reason=IdentityUnlinkReason.REPLACED)
UNLINKED = ActorIdentityUnlinked(
    actor_id=ACTOR, occurred_at=NOW, identity_id=LOGIN, reason=IdentityUnlinkReason.REPLACED
)


def test_unlink_erases_the_login() -> None:
    assert outcome(UNLINK, guarded(LINKED)) == [UNLINKED, ErasedIdentity(identity_id=LOGIN)]


def test_an_unlinked_login_is_no_longer_the_actors() -> None:
    assert actor(LINKED, UNLINKED).identities == {}


@pytest.mark.parametrize(
    ("command", "seen", "refusal"),
    [
        (replace(UNLINK, reason=IdentityUnlinkReason.FORGOTTEN), guarded(), InvalidActorReasonError),
        (UNLINK, guarded(authority=NOBODY), ActorCannotUnlinkIdentityError),
        (UNLINK, guarded(LINKED, authority=NOBODY), LastAdministratorError),
    ],
)
def test_unlink_refuses_in_order(
    command: UnlinkActorIdentity, seen: GuardedActor, refusal: type[DomainError]
) -> None:
    assert outcome(command, seen) == refusal


# --- activity ---

DEACTIVATE = DeactivateActor(actor_id=ACTOR, reason=ActorDeactivationReason.DEPARTED)


def test_deactivate_keeps_its_reason_until_reactivation() -> None:
    reactivated = ActorReactivated(actor_id=ACTOR, occurred_at=NOW)
    assert actor(DEACTIVATED).deactivation_reason is ActorDeactivationReason.ADMINISTRATIVE
    assert actor(DEACTIVATED, reactivated) == actor()


def test_deactivate_refuses_the_last_administrator() -> None:
    assert outcome(DEACTIVATE, guarded(authority=NOBODY)) == LastAdministratorError


def test_deactivate_looks_at_activity_before_the_administrators() -> None:
    assert outcome(DEACTIVATE, guarded(DEACTIVATED, authority=NOBODY)) == ActorCannotDeactivateError


# --- forgetting ---


def test_forget_unlinks_every_login_and_erases_the_profile() -> None:
    other = replace(LINKED, identity_id=OTHER_LOGIN)
    by_forgetting = replace(UNLINKED, reason=IdentityUnlinkReason.FORGOTTEN)
    assert outcome(ForgetActor(actor_id=ACTOR), guarded(LINKED, other)) == [
        replace(by_forgetting, identity_id=OTHER_LOGIN),
        by_forgetting,
        FORGOTTEN,
        ErasedProfile(actor_id=ACTOR),
    ]


def test_the_forgotten_event_carries_nothing_but_id_and_time() -> None:
    assert msgspec.json.decode(payload(FORGOTTEN)).keys() == {"actor_id", "occurred_at"}


def test_forget_again_is_a_no_op_even_without_administrators() -> None:
    assert outcome(ForgetActor(actor_id=ACTOR), guarded(FORGOTTEN, authority=NOBODY)) == []


def test_forget_refuses_the_last_administrator() -> None:
    assert outcome(ForgetActor(actor_id=ACTOR), guarded(LINKED, authority=NOBODY)) == LastAdministratorError


def test_the_lock_out_guard_is_asked_about_events_only() -> None:
    authority = Administrators(ACTOR)
    decided = outcome(ForgetActor(actor_id=ACTOR), guarded(LINKED, authority=authority))
    assert authority.asked == [each for each in decided if isinstance(each, Event)]


def test_forgetting_leaves_activity_alone_and_drops_the_schemes() -> None:
    assigned = ActorExternalRefAssigned(actor_id=ACTOR, occurred_at=NOW, scheme="orcid")
    assert actor(assigned, FORGOTTEN) == replace(actor(), forgotten=True)


# --- status ---

GRID = """
                   update-profile  assign-external-ref  link-identity  unlink-identity
Active             Active          Active               Active         Active
Inactive           Inactive        Inactive             Inactive       Inactive
Forgotten          -               -                    -              -
ForgottenInactive  -               -                    -              -
"""
ACTIVITY_GRID = """
                   deactivate         reactivate  forget
Active             Inactive           -           Forgotten
Inactive           -                  Active      ForgottenInactive
Forgotten          ForgottenInactive  -           Forgotten
ForgottenInactive  -                  -           ForgottenInactive
"""
BY_FORGETTING = [replace(UNLINKED, reason=IdentityUnlinkReason.FORGOTTEN), FORGOTTEN]
REACH = {
    "Active": [REGISTERED, LINKED],
    "Inactive": [REGISTERED, LINKED, DEACTIVATED],
    "Forgotten": [REGISTERED, LINKED, *BY_FORGETTING],
    "ForgottenInactive": [REGISTERED, LINKED, DEACTIVATED, *BY_FORGETTING],
}


class Seeing:
    """A command that is shown more than the actor."""

    def __init__(self, command: Any, seen: Callable[[Actor], Any]) -> None:
        self.command = command
        self.seen = seen

    def decide(self, actor: Actor, occasion: Occasion) -> Event | Sequence[Event | Beside]:
        return self.command.decide(self.seen(actor), occasion)


def status(actor: Actor) -> str:
    activity = "Active" if actor.active else "Inactive"
    return f"Forgotten{activity}".removesuffix("Active") if actor.forgotten else activity


def with_profile(actor: Actor) -> ProfiledActor:
    return ProfiledActor(actor=actor, profile=None if actor.forgotten else PROFILE)


def with_free_login(actor: Actor) -> LinkableActor:
    return LinkableActor(actor=actor, taken=None)


def with_administrators(actor: Actor) -> GuardedActor:
    return GuardedActor(actor=actor, authority=SOMEBODY)


def test_a_forgotten_actor_is_not_described_any_more() -> None:
    verbs = {
        "update-profile": Seeing(UpdateActorProfile(actor_id=ACTOR, name="Eve"), with_profile),
        "assign-external-ref": Seeing(ORCID, with_profile),
        "link-identity": Seeing(LINK, with_free_login),
        "unlink-identity": Seeing(UNLINK, with_administrators),
    }
    check_grid(GRID, actors, status=status, reach=REACH, verbs=verbs)


def test_activity_and_forgetting() -> None:
    verbs = {
        "deactivate": Seeing(DEACTIVATE, with_administrators),
        "reactivate": ReactivateActor(actor_id=ACTOR),
        "forget": Seeing(ForgetActor(actor_id=ACTOR), with_administrators),
    }
    check_grid(ACTIVITY_GRID, actors, status=status, reach=REACH, verbs=verbs)


# --- reads ---


class OneProfile:
    """A profile store that knows Ada, or nobody."""

    def __init__(self, profile: Profile | None) -> None:
        self.known = profile

    async def profile(self, actor_id: UUID) -> Profile | None:
        return self.known

    async def identities(self, actor_id: UUID) -> list[Identity]:
        return [IDENTITY]

    async def identity(self, issuer: str, subject: str) -> Identity | None:
        return IDENTITY if (issuer, subject) == (ISSUER, "s-1") else None

    async def names(self, actor_ids: Sequence[UUID]) -> dict[UUID, str]:
        return {id: self.known.name if self.known else DELETED_USER for id in actor_ids}


def world(profile: Profile | None = PROFILE) -> Any:
    async def load(aggregate: object, id: UUID) -> Actor:
        if id != ACTOR:
            raise ActorNotFoundError.of("Actor", id)
        return actor(LINKED)

    return SimpleNamespace(profiles=OneProfile(profile), load=load, authority=SOMEBODY)


def test_the_view_shows_the_name_and_how_many_logins_there_are() -> None:
    [extras] = asyncio.run(actor_extras(world(), [actor(LINKED)]))
    assert (extras.name, extras.identity_count) == ("Ada", 1)


def test_the_profile_shows_contact_data_and_logins() -> None:
    shown = asyncio.run(GetActorProfile(actor_id=ACTOR).answer(world()))
    assert (shown.email, shown.identities[0].subject) == ("ada@example.org", "s-1")


def test_a_forgotten_actor_has_no_profile() -> None:
    with pytest.raises(ActorProfileNotFoundError):
        asyncio.run(GetActorProfile(actor_id=ACTOR).answer(world(profile=None)))


def test_register_sees_whose_the_logins_are() -> None:
    logins = (ActorLogin(issuer=f"{ISSUER} ", subject="s-1"), ActorLogin(issuer=ISSUER, subject="S-1"))
    assert asyncio.run(RegisterActor(name="Ada", identities=logins).gather(world())) == (IDENTITY,)


@pytest.mark.parametrize(
    "command",
    [LINK, UNLINK, DEACTIVATE, ORCID, UpdateActorProfile(actor_id=ACTOR), ForgetActor(actor_id=ACTOR)],
)
def test_an_unknown_actor_is_not_found(command: Any) -> None:
    with pytest.raises(ActorNotFoundError):
        asyncio.run(replace(command, actor_id=UUID(int=99)).gather(world()))


def test_an_actor_belongs_to_itself_and_to_those_who_share_a_visit_with_it() -> None:
    belonging = actors.belongs(actor())
    assert (belonging.owner_id, belonging.member_id, belonging.facility_code) == (ACTOR, ACTOR, None)


@pytest.mark.parametrize(
    ("request_class", "fields"),
    [
        (RegisterActor, {"name", "email", "phone", "affiliation"}),
        (UpdateActorProfile, {"name", "email", "phone", "affiliation"}),
        (ActorLogin, {"subject"}),
        (LinkActorIdentity, {"subject"}),
        (AssignActorExternalRef, {"value"}),
    ],
)
def test_the_schema_marks_personal_data(request_class: type, fields: set[str]) -> None:
    properties = msgspec.json.schema(request_class)["$defs"][request_class.__name__]["properties"]
    assert {field for field, schema in properties.items() if "x-personal-data" in str(schema)} == fields
