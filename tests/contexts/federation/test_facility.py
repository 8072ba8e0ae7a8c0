"""Facility: its rules, its place in the tree, and its status grid."""

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.access.actor import Actor, ActorNotFoundError
from beamwright.contexts.federation.credential import (
    Credential,
    CredentialPurpose,
    CredentialStatus,
    Key,
)
from beamwright.contexts.federation.decommissioning import (
    DecommissionFacility,
    FacilityHasActiveChildrenError,
    FacilityInUseError,
    FacilityIsOwnSiteError,
    FacilityPlace,
)
from beamwright.contexts.federation.facility import (
    AssignFacilityExternalRef,
    Facility,
    FacilityCannotAddTrustAnchorError,
    FacilityCannotDecommissionError,
    FacilityCannotRemoveTrustAnchorError,
    FacilityCannotUpdateError,
    FacilityDecommissioned,
    FacilityExternalRefAssigned,
    FacilityKind,
    FacilityNotFoundError,
    FacilityRegistered,
    FacilityTrustAnchorAdded,
    FacilityTrustAnchorRemoved,
    FacilityUpdated,
    InvalidFacilityBaseUrlError,
    InvalidFacilityCodeError,
    InvalidFacilityDisplayNameError,
    InvalidFacilityExternalRefError,
    InvalidFacilityParentError,
    InvalidFacilityPeerActorError,
    InvalidFacilityReasonError,
    facilities,
    facility_extras,
)
from beamwright.contexts.federation.permit import (
    FederationPermitStatus,
    Permit,
    PermitDirection,
    PermitTerms,
)
from beamwright.contexts.federation.registration import (
    FacilityParentNotActiveError,
    FacilityPeerActorKindError,
    FacilitySurroundings,
    FacilityTreeTooDeepError,
    FacilityWithPeerActor,
    RegisterFacility,
    UpdateFacility,
)
from beamwright.contexts.federation.seal import Seal
from beamwright.contexts.federation.trust_anchors import (
    AddFacilityTrustAnchor,
    FacilityTrustAnchorAlreadyPresentError,
    FacilityTrustAnchorInUseError,
    FacilityTrustAnchorMismatchError,
    FacilityTrustAnchorNotPresentError,
    FacilityWithRoot,
    FacilityWithSeal,
    RemoveFacilityTrustAnchor,
)
from beamwright.kernel.errors import DomainError
from beamwright.kernel.operation import Installation
from beamwright.kernel.profiles import ExternalRef
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import replace
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, given, outcome

SITE, AREA, PEER, ACCOUNT, ROOT = (UUID(int=number) for number in (2, 3, 4, 5, 6))
URL = "https://peer.example.org/api"

SITE_REGISTERED = FacilityRegistered(
    facility_id=SITE, occurred_at=NOW, code="north", display_name="North", kind=FacilityKind.SITE
)
AREA_REGISTERED = replace(
    SITE_REGISTERED, facility_id=AREA, code="hall", kind=FacilityKind.AREA, parent_id=SITE
)
PEER_REGISTERED = replace(
    SITE_REGISTERED,
    facility_id=PEER,
    code="peer",
    kind=FacilityKind.PEER,
    base_url=URL,
    peer_actor_id=ACCOUNT,
)
SITE_DECOMMISSIONED = FacilityDecommissioned(facility_id=SITE, occurred_at=NOW, reason="sold")
PEER_DECOMMISSIONED = replace(SITE_DECOMMISSIONED, facility_id=PEER)

THE_SITE: Facility = given(facilities, SITE_REGISTERED)
THE_AREA: Facility = given(facilities, AREA_REGISTERED)
THE_PEER: Facility = given(facilities, PEER_REGISTERED)
CLOSED_SITE: Facility = given(facilities, SITE_REGISTERED, SITE_DECOMMISSIONED)
CLOSED_PEER: Facility = given(facilities, PEER_REGISTERED, PEER_DECOMMISSIONED)

MACHINE = Actor(id=ACCOUNT, kind=ActorKind.SERVICE_ACCOUNT)
PERSON = Actor(id=ACCOUNT, kind=ActorKind.HUMAN)
ALONE = FacilitySurroundings()

REGISTER_SITE = RegisterFacility(code="south", display_name="South", kind=FacilityKind.SITE)
REGISTER_AREA = replace(REGISTER_SITE, kind=FacilityKind.AREA, parent_id=SITE)
REGISTER_PEER = replace(REGISTER_SITE, kind=FacilityKind.PEER, base_url=URL, peer_actor_id=ACCOUNT)


def below(*lineage: Facility) -> FacilitySurroundings:
    return FacilitySurroundings(lineage=lineage)


# --- register ---


def test_register_trims_code_name_and_url() -> None:
    command = RegisterFacility(
        code=" south ",
        display_name=" South ",
        kind=FacilityKind.PEER,
        base_url=f" {URL} ",
        peer_actor_id=ACCOUNT,
    )
    assert outcome(command, FacilitySurroundings(peer_actor=MACHINE)) == [
        FacilityRegistered(
            facility_id=NEW_ID,
            occurred_at=NOW,
            code="south",
            display_name="South",
            kind=FacilityKind.PEER,
            base_url=URL,
            peer_actor_id=ACCOUNT,
        )
    ]


@pytest.mark.parametrize("code", ["", "South", "a_b", "x" * 33, "ä"])
def test_register_refuses_a_malformed_code(code: str) -> None:
    assert outcome(replace(REGISTER_SITE, code=code), ALONE) == InvalidFacilityCodeError


@pytest.mark.parametrize("display_name", [" ", "x" * 201])
def test_register_refuses_a_bad_display_name(display_name: str) -> None:
    command = replace(REGISTER_SITE, display_name=display_name)
    assert outcome(command, ALONE) == InvalidFacilityDisplayNameError


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "peer.example.org",
        "http://peer.example.org",
        "https://",
        "https:///api",
        "https://user:secret@peer.example.org",
        "https://@peer.example.org",
        "https://peer.example.org/#top",
        "https://peer.example.org/?a=b",
        "https://peer.example.org:99999",
        "https://[::1",
        "https://peer example.org",
        "https://peer.example.org/" + "x" * 476,
    ],
)
def test_register_refuses_a_base_url_that_is_not_plain_https(base_url: str) -> None:
    assert outcome(replace(REGISTER_PEER, base_url=base_url), ALONE) == InvalidFacilityBaseUrlError


@pytest.mark.parametrize(
    "base_url",
    ["https://peer.example.org", "HTTPS://peer.example.org:8443/a/@b", "https://[2001:db8::1]/api"],
)
def test_register_takes_a_plain_https_url(base_url: str) -> None:
    [registered] = outcome(replace(REGISTER_PEER, base_url=base_url), ALONE)
    assert registered.base_url == base_url


@pytest.mark.parametrize("command", [REGISTER_SITE, REGISTER_AREA])
def test_only_a_peer_has_a_base_url(command: RegisterFacility) -> None:
    assert outcome(replace(command, base_url=URL), below(THE_SITE)) == InvalidFacilityBaseUrlError


@pytest.mark.parametrize("command", [REGISTER_SITE, REGISTER_AREA])
def test_only_a_peer_has_a_peer_actor(command: RegisterFacility) -> None:
    assert outcome(replace(command, peer_actor_id=ACCOUNT), ALONE) == InvalidFacilityPeerActorError


@pytest.mark.parametrize(
    "command",
    [
        replace(REGISTER_AREA, parent_id=None),
        replace(REGISTER_SITE, parent_id=SITE),
        replace(REGISTER_PEER, parent_id=SITE),
    ],
)
def test_exactly_an_area_has_a_parent(command: RegisterFacility) -> None:
    assert outcome(command, ALONE) == InvalidFacilityParentError


@pytest.mark.parametrize("parent", [CLOSED_SITE, THE_PEER])
def test_a_parent_is_active_and_no_peer(parent: Facility) -> None:
    assert outcome(REGISTER_AREA, below(parent)) == FacilityParentNotActiveError


@pytest.mark.parametrize(("ancestors", "deep"), [(7, False), (8, True)])
def test_facilities_are_eight_levels_deep_at_most(ancestors: int, deep: bool) -> None:
    got = outcome(REGISTER_AREA, below(*[THE_AREA] * (ancestors - 1), THE_SITE))
    assert (got == FacilityTreeTooDeepError) is deep


def test_a_peer_calls_through_a_service_account() -> None:
    seen = FacilitySurroundings(peer_actor=PERSON)
    assert outcome(REGISTER_PEER, seen) == FacilityPeerActorKindError


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (replace(REGISTER_SITE, code="", display_name=""), InvalidFacilityCodeError),
        (replace(REGISTER_SITE, display_name="", base_url="x"), InvalidFacilityDisplayNameError),
        (replace(REGISTER_SITE, base_url=URL, parent_id=SITE), InvalidFacilityBaseUrlError),
        (replace(REGISTER_SITE, parent_id=SITE, peer_actor_id=ACCOUNT), InvalidFacilityParentError),
        (REGISTER_AREA, FacilityParentNotActiveError),
        (REGISTER_PEER, FacilityParentNotActiveError),
    ],
)
def test_register_refuses_in_order(command: RegisterFacility, refusal: type[DomainError]) -> None:
    seen = FacilitySurroundings(lineage=(CLOSED_SITE,) * 8, peer_actor=PERSON)
    assert outcome(command, seen) == refusal


# --- what register and update see ---


def world(*states: Facility | Actor | Credential | Permit) -> Any:
    known: Mapping[UUID, Any] = {state.id: state for state in states}

    async def load(aggregate: Any, id: UUID) -> Any:
        if id not in known:
            raise aggregate.missing.of(aggregate.name, id)
        return known[id]

    async def find(aggregate: Any, **filters: UUID) -> list[Any]:
        [(field, id)] = filters.items()
        kind = aggregate.state
        return [state for state in states if isinstance(state, kind) and getattr(state, field) == id]

    return SimpleNamespace(
        load=load,
        find=find,
        installation=Installation(self_facility_code="home"),
        authority=SimpleNamespace(facility_ancestors=lambda id: (SITE,) if id == AREA else ()),
    )


def test_register_sees_the_parent_and_its_ancestors_nearest_first() -> None:
    seen = asyncio.run(replace(REGISTER_AREA, parent_id=AREA).gather(world(THE_SITE, THE_AREA)))
    assert seen == below(THE_AREA, THE_SITE)


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (replace(REGISTER_AREA, code=""), InvalidFacilityCodeError),
        (replace(REGISTER_PEER, base_url="x"), InvalidFacilityBaseUrlError),
        (REGISTER_AREA, FacilityNotFoundError),
        (REGISTER_PEER, ActorNotFoundError),
        (UpdateFacility(facility_id=SITE), FacilityNotFoundError),
        (
            UpdateFacility(facility_id=PEER, display_name="", peer_actor_id=AREA),
            InvalidFacilityDisplayNameError,
        ),
        (UpdateFacility(facility_id=PEER, peer_actor_id=AREA), ActorNotFoundError),
    ],
)
def test_values_are_refused_before_missing_references(command: Any, refusal: type[DomainError]) -> None:
    with pytest.raises(refusal):
        asyncio.run(command.gather(world(THE_PEER)))


def test_update_sees_the_account_only_when_one_is_given() -> None:
    gone = asyncio.run(UpdateFacility(facility_id=PEER, peer_actor_id=None).gather(world(THE_PEER, MACHINE)))
    given_one = UpdateFacility(facility_id=PEER, peer_actor_id=ACCOUNT).gather(world(THE_PEER, MACHINE))
    assert (gone.peer_actor, asyncio.run(given_one).peer_actor) == (None, MACHINE)


def test_the_view_shows_the_ancestors() -> None:
    shown = asyncio.run(facility_extras(world(), [THE_AREA, THE_SITE]))
    assert [extras.ancestor_ids for extras in shown] == [(SITE,), ()]


# --- update ---


def test_update_keeps_what_is_absent_and_clears_what_is_null() -> None:
    command = UpdateFacility(facility_id=PEER, base_url=None)
    assert outcome(command, FacilityWithPeerActor(facility=THE_PEER)) == [
        FacilityUpdated(
            facility_id=PEER, occurred_at=NOW, display_name="North", base_url=None, peer_actor_id=ACCOUNT
        )
    ]


def test_update_that_changes_nothing_is_a_no_op() -> None:
    command = UpdateFacility(facility_id=PEER, display_name="North ", base_url=URL)
    assert outcome(command, FacilityWithPeerActor(facility=THE_PEER)) == []


@pytest.mark.parametrize(
    ("command", "facility", "refusal"),
    [
        (UpdateFacility(facility_id=SITE, display_name=""), THE_SITE, InvalidFacilityDisplayNameError),
        (UpdateFacility(facility_id=SITE, base_url=URL), THE_SITE, InvalidFacilityBaseUrlError),
        (UpdateFacility(facility_id=AREA, peer_actor_id=ACCOUNT), THE_AREA, InvalidFacilityPeerActorError),
        (UpdateFacility(facility_id=PEER, base_url="x"), CLOSED_PEER, InvalidFacilityBaseUrlError),
        (UpdateFacility(facility_id=PEER, peer_actor_id=ACCOUNT), CLOSED_PEER, FacilityPeerActorKindError),
    ],
)
def test_update_refuses_what_register_refuses(
    command: UpdateFacility, facility: Facility, refusal: type[DomainError]
) -> None:
    seen = FacilityWithPeerActor(facility=facility, peer_actor=PERSON)
    assert outcome(command, seen) == refusal


def test_a_decommissioned_facility_is_not_updated_even_to_what_it_is() -> None:
    command = UpdateFacility(facility_id=PEER, display_name="North")
    assert outcome(command, FacilityWithPeerActor(facility=CLOSED_PEER)) == FacilityCannotUpdateError


# --- external references ---

ROR = AssignFacilityExternalRef(
    facility_id=SITE, scheme=" ror ", value=" 02nv7yv05 ", authority="https://ror.org"
)
ASSIGNED = FacilityExternalRefAssigned(
    facility_id=SITE, occurred_at=NOW, scheme="ror", value="02nv7yv05", authority="https://ror.org"
)


@pytest.mark.parametrize("facility", [THE_SITE, CLOSED_SITE])
def test_assign_records_a_reference_in_any_status(facility: Facility) -> None:
    assert outcome(ROR, facility) == [ASSIGNED]


def test_an_assigned_reference_is_shown_with_its_time() -> None:
    refs = given(facilities, SITE_REGISTERED, ASSIGNED).external_refs
    assert refs == {"ror": ExternalRef(value="02nv7yv05", authority="https://ror.org", assigned_at=NOW)}


def test_assign_of_the_same_value_is_a_no_op() -> None:
    assert outcome(ROR, given(facilities, SITE_REGISTERED, ASSIGNED)) == []


@pytest.mark.parametrize(
    "command",
    [
        replace(ROR, scheme="ROR"),
        replace(ROR, scheme="x" * 51),
        replace(ROR, value=" "),
        replace(ROR, value="x" * 201),
        replace(ROR, authority=""),
        replace(ROR, authority="x" * 201),
    ],
)
def test_assign_refuses_a_malformed_reference(command: AssignFacilityExternalRef) -> None:
    assert outcome(command, THE_SITE) == InvalidFacilityExternalRefError


# --- decommission ---

DECOMMISSION = DecommissionFacility(facility_id=SITE, reason=" sold ")


def place(facility: Facility, *children: Facility, own: str = "home", **found: Any) -> FacilityPlace:
    return FacilityPlace(facility=facility, children=children, self_facility_code=own, **found)


def key(status: CredentialStatus = CredentialStatus.ACTIVE, **changes: Any) -> Credential:
    """A root key of the peer."""
    root = Credential(
        id=ROOT,
        site_code="home",
        facility_id=PEER,
        audience="urn:peer",
        purpose=CredentialPurpose.SEAL_OFFLINE_ROOT,
        current=Key(since_at=NOW),
        status=status,
    )
    return root.__replace__(**changes)


def flow(status: FederationPermitStatus) -> Permit:
    """A permit for the peer."""
    return Permit(
        id=UUID(int=7),
        site_code="home",
        peer_facility_id=PEER,
        audience="urn:peer",
        purpose="calibration-exchange",
        direction=PermitDirection.INBOUND,
        allowed_credential_ids=frozenset(),
        allowed_artifact_kinds=frozenset(),
        accepted_tiers=frozenset(),
        terms=PermitTerms(automatic=True),
        status=status,
    )


KEYS = (key(CredentialStatus.REVOKED),)
FLOWS = (flow(FederationPermitStatus.REVOKED),)


def test_decommission_needs_nothing_but_decommissioned_children() -> None:
    closed_area = given(facilities, AREA_REGISTERED, replace(SITE_DECOMMISSIONED, facility_id=AREA))
    assert outcome(DECOMMISSION, place(THE_SITE, closed_area)) == [SITE_DECOMMISSIONED]


@pytest.mark.parametrize(
    ("command", "seen", "refusal"),
    [
        (replace(DECOMMISSION, reason=" "), place(CLOSED_SITE), InvalidFacilityReasonError),
        (DECOMMISSION, place(CLOSED_SITE, THE_AREA, own="north"), FacilityCannotDecommissionError),
        (DECOMMISSION, place(THE_SITE, THE_AREA, own="north"), FacilityIsOwnSiteError),
        (DECOMMISSION, place(THE_SITE, THE_AREA, credentials=(key(),)), FacilityHasActiveChildrenError),
        (DECOMMISSION, place(THE_SITE, credentials=(key(),)), FacilityInUseError),
    ],
)
def test_decommission_refuses_in_order(
    command: DecommissionFacility, seen: FacilityPlace, refusal: type[DomainError]
) -> None:
    assert outcome(command, seen) == refusal


@pytest.mark.parametrize("status", [each for each in CredentialStatus if each != "Revoked"])
def test_a_facility_outlives_its_credentials(status: CredentialStatus) -> None:
    seen = place(THE_PEER, credentials=(*KEYS, key(status)), permits=FLOWS)
    assert outcome(replace(DECOMMISSION, facility_id=PEER), seen) == FacilityInUseError


@pytest.mark.parametrize("status", [each for each in FederationPermitStatus if each != "Revoked"])
def test_a_facility_outlives_its_permits(status: FederationPermitStatus) -> None:
    seen = place(THE_PEER, credentials=KEYS, permits=(*FLOWS, flow(status)))
    assert outcome(replace(DECOMMISSION, facility_id=PEER), seen) == FacilityInUseError


def test_what_is_revoked_keeps_no_facility() -> None:
    seen = place(THE_PEER, credentials=KEYS, permits=FLOWS)
    assert outcome(replace(DECOMMISSION, facility_id=PEER), seen) == [PEER_DECOMMISSIONED]


def test_decommission_sees_the_children_and_the_own_code() -> None:
    seen = asyncio.run(DECOMMISSION.gather(world(THE_SITE, THE_AREA, THE_PEER)))
    assert seen == place(THE_SITE, THE_AREA)


def test_decommission_sees_the_credentials_and_permits() -> None:
    command = replace(DECOMMISSION, facility_id=PEER)
    seen = asyncio.run(command.gather(world(THE_SITE, THE_PEER, key(), *FLOWS)))
    assert seen == place(THE_PEER, credentials=(key(),), permits=FLOWS)


# --- trust anchors ---

ADD = AddFacilityTrustAnchor(facility_id=PEER, credential_id=ROOT)
REMOVE = RemoveFacilityTrustAnchor(facility_id=PEER, credential_id=ROOT, reason=" stolen ")
ANCHOR_ADDED = FacilityTrustAnchorAdded(facility_id=PEER, occurred_at=NOW, credential_id=ROOT)
ANCHOR_REMOVED = FacilityTrustAnchorRemoved(
    facility_id=PEER, occurred_at=NOW, credential_id=ROOT, reason="stolen"
)
ANCHORED: Facility = given(facilities, PEER_REGISTERED, ANCHOR_ADDED)
FULL = replace(THE_PEER, trust_anchor_credential_ids=frozenset(UUID(int=n) for n in range(100, 104)))


def rooted(facility: Facility, root: Credential | None = None, own: str = "home") -> FacilityWithRoot:
    return FacilityWithRoot(facility=facility, credential=root or key(), self_facility_code=own)


def test_a_root_of_a_peer_is_believed_until_it_is_removed() -> None:
    assert outcome(ADD, rooted(THE_PEER)) == [ANCHOR_ADDED]
    assert ANCHORED.trust_anchor_credential_ids == {ROOT}
    assert outcome(REMOVE, FacilityWithSeal(facility=ANCHORED)) == [ANCHOR_REMOVED]
    assert given(facilities, PEER_REGISTERED, ANCHOR_ADDED, ANCHOR_REMOVED) == THE_PEER


def test_a_root_of_the_own_site_is_believed() -> None:
    seen = rooted(THE_SITE, key(facility_id=SITE), own="north")
    assert outcome(replace(ADD, facility_id=SITE), seen) == [replace(ANCHOR_ADDED, facility_id=SITE)]


@pytest.mark.parametrize(
    ("seen", "refusal"),
    [
        (rooted(CLOSED_PEER), FacilityCannotAddTrustAnchorError),
        (rooted(THE_AREA, key(facility_id=AREA)), FacilityCannotAddTrustAnchorError),
        (rooted(THE_SITE, key(facility_id=SITE)), FacilityCannotAddTrustAnchorError),
        (rooted(FULL), FacilityCannotAddTrustAnchorError),
        (rooted(ANCHORED, key(CredentialStatus.REVOKED)), FacilityTrustAnchorAlreadyPresentError),
        (rooted(THE_PEER, key(facility_id=SITE)), FacilityTrustAnchorMismatchError),
        (
            rooted(THE_PEER, key(purpose=CredentialPurpose.SEAL_ONLINE_SIGNING)),
            FacilityTrustAnchorMismatchError,
        ),
        (rooted(THE_PEER, key(CredentialStatus.ROTATING)), FacilityTrustAnchorMismatchError),
        (rooted(THE_PEER, key(CredentialStatus.REVOKED)), FacilityTrustAnchorMismatchError),
    ],
)
def test_add_trust_anchor_refuses_in_order(seen: FacilityWithRoot, refusal: type[DomainError]) -> None:
    assert outcome(ADD, seen) == refusal


def test_a_fourth_root_is_believed() -> None:
    three = replace(FULL, trust_anchor_credential_ids=frozenset(UUID(int=n) for n in range(100, 103)))
    assert outcome(ADD, rooted(three)) == [ANCHOR_ADDED]


def sealed(online: UUID, offline: UUID) -> Seal:
    return Seal(facility_id=PEER, online_credential_id=online, offline_credential_id=offline)


@pytest.mark.parametrize(
    ("command", "seen", "refusal"),
    [
        (replace(REMOVE, reason=""), FacilityWithSeal(facility=CLOSED_PEER), InvalidFacilityReasonError),
        (REMOVE, FacilityWithSeal(facility=CLOSED_PEER), FacilityCannotRemoveTrustAnchorError),
        (
            REMOVE,
            FacilityWithSeal(facility=THE_PEER, seal=sealed(UUID(int=8), ROOT)),
            FacilityTrustAnchorNotPresentError,
        ),
        (
            REMOVE,
            FacilityWithSeal(facility=ANCHORED, seal=sealed(UUID(int=8), ROOT)),
            FacilityTrustAnchorInUseError,
        ),
    ],
)
def test_remove_trust_anchor_refuses_in_order(
    command: RemoveFacilityTrustAnchor, seen: FacilityWithSeal, refusal: type[DomainError]
) -> None:
    assert outcome(command, seen) == refusal


def test_a_root_that_the_seal_no_longer_has_can_go() -> None:
    seen = FacilityWithSeal(facility=ANCHORED, seal=sealed(UUID(int=8), UUID(int=9)))
    assert outcome(REMOVE, seen) == [ANCHOR_REMOVED]


# --- claims and belonging ---


def claimed(facility: Facility) -> set[tuple[str, str]]:
    return {(claim.kind, claim.key) for claim in facilities.claims(facility)}


def test_a_peer_claims_its_code_and_its_account() -> None:
    assert claimed(THE_PEER) == {("facility-code", "peer"), ("facility-peer-actor", str(ACCOUNT))}


def test_decommissioning_releases_the_account_and_never_the_code() -> None:
    assert claimed(CLOSED_PEER) == {("facility-code", "peer")}


def test_facilities_are_installation_wide() -> None:
    assert facilities.belongs(THE_AREA).installation_wide


# --- status ---

GRID = """
                update  decommission
Active          Active  Decommissioned
Decommissioned  -       -
"""


class Seeing:
    """A command that is shown more than the facility."""

    def __init__(self, command: Any, seen: Callable[[Facility], Any]) -> None:
        self.command = command
        self.seen = seen

    def decide(self, facility: Facility, occasion: Any) -> Any:
        return self.command.decide(self.seen(facility), occasion)


def test_status_grid() -> None:
    check_grid(
        GRID,
        facilities,
        status=lambda facility: facility.status,
        reach={"Active": [SITE_REGISTERED], "Decommissioned": [SITE_REGISTERED, SITE_DECOMMISSIONED]},
        verbs={
            "update": Seeing(
                UpdateFacility(facility_id=SITE, display_name="Other"),
                lambda facility: FacilityWithPeerActor(facility=facility),
            ),
            "decommission": Seeing(DECOMMISSION, place),
        },
    )
