"""Persistent identifiers of assets: requested, assigned, failed, and requested for all that lack one."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.asset import (
    Asset,
    AssetCommand,
    AssetPartitionRuleUpdated,
    AssetPersistentIdentifierAssigned,
    AssetPersistentIdentifierFailed,
    AssetPersistentIdentifierRequested,
    InvalidAssetReasonError,
    assets,
)
from beamwright.contexts.equipment.asset_identifiers import (
    AssetCannotFailPersistentIdentifierError,
    AssetPersistentIdentifierAlreadyAssignedError,
    AssetPersistentIdentifierAlreadyRequestedError,
    AssetPersistentIdentifierSchemeMismatchError,
    AssetToIdentify,
    AssignAssetPersistentIdentifier,
    FailAssetPersistentIdentifier,
    RequestAssetPersistentIdentifier,
    RequestMissingAssetPersistentIdentifiers,
    SkippedAsset,
)
from beamwright.contexts.equipment.asset_values import AssetOwner
from beamwright.contexts.equipment.identifiers import InvalidPersistentIdentifierError
from beamwright.contexts.equipment.model import ModelNotFoundError
from beamwright.contexts.equipment.partition_rule import AffineRule
from beamwright.contexts.equipment.pidinst import (
    AssetManufacturerNotAvailableError,
    AssetOwnerNotAvailableError,
    VirtualAxisNotPidinstableError,
)
from beamwright.kernel.aggregate import Page
from beamwright.kernel.errors import DatabaseUnavailableError
from beamwright.kernel.identifiers import PersistentIdentifierScheme
from beamwright.kernel.value import replace
from tests.contexts.equipment.asset_examples import (
    DECOMMISSIONED,
    MODEL,
    REGISTERED,
    STAGE,
    asset,
    check_lifecycles,
    stays,
)
from tests.contexts.trust.examples import SmallWorld
from tests.rules import NOW, outcome

DOI, HANDLE = PersistentIdentifierScheme
CITABLE = replace(REGISTERED, owners=(AssetOwner(name="Argonne"),), model_id=MODEL)
REQUESTED = AssetPersistentIdentifierRequested(asset_id=STAGE, occurred_at=NOW, scheme=DOI, suffix=str(STAGE))
ASSIGNED = AssetPersistentIdentifierAssigned(
    asset_id=STAGE, occurred_at=NOW, scheme=DOI, value="10.5072/abc", authority="stub"
)
FAILED = AssetPersistentIdentifierFailed(asset_id=STAGE, occurred_at=NOW, scheme=DOI, reason="refused")
REQUEST = RequestAssetPersistentIdentifier(asset_id=STAGE)
ASSIGN = AssignAssetPersistentIdentifier(asset_id=STAGE, scheme=DOI, value="10.5072/abc", authority="stub")
FAIL = FailAssetPersistentIdentifier(asset_id=STAGE, reason="refused")


def citable(*events: Any) -> Asset:
    return asset(*events, owners=CITABLE.owners, model_id=MODEL)


def to_identify(stage: Asset) -> AssetToIdentify:
    return AssetToIdentify(asset=stage, default_scheme=DOI)


def test_grids() -> None:
    check_lifecycles(stays("request-persistent-identifier"), REQUEST, to_identify, CITABLE)
    check_lifecycles(stays("assign-persistent-identifier"), ASSIGN)


def test_a_request_takes_the_installations_scheme_and_the_id_as_suffix() -> None:
    assert outcome(REQUEST, to_identify(citable())) == [REQUESTED]
    of_handle = [replace(REQUESTED, scheme=HANDLE)]
    assert outcome(replace(REQUEST, scheme=HANDLE), to_identify(citable())) == of_handle


VIRTUAL = AssetPartitionRuleUpdated(asset_id=STAGE, occurred_at=NOW, partition_rule=AffineRule())


@pytest.mark.parametrize(
    ("stage", "refusal"),
    [
        (citable(ASSIGNED), AssetPersistentIdentifierAlreadyAssignedError),
        (citable(REQUESTED), AssetPersistentIdentifierAlreadyRequestedError),
        (citable(VIRTUAL), VirtualAxisNotPidinstableError),
        (asset(model_id=MODEL), AssetOwnerNotAvailableError),
        (asset(owners=CITABLE.owners), AssetManufacturerNotAvailableError),
    ],
)
def test_request_refusals(stage: Asset, refusal: type) -> None:
    assert outcome(REQUEST, to_identify(stage)) == refusal


def test_a_request_loads_the_model() -> None:
    world: Any = SmallWorld(citable())
    with pytest.raises(ModelNotFoundError):
        asyncio.run(REQUEST.gather(world))


@pytest.mark.parametrize("history", [[], [REQUESTED], [REQUESTED, DECOMMISSIONED]])
def test_an_identifier_is_assigned_with_or_without_a_request(history: list[Any]) -> None:
    assert outcome(ASSIGN, citable(*history)) == [ASSIGNED]


def test_an_assigned_identifier_ends_the_request() -> None:
    stage = citable(REQUESTED, ASSIGNED)
    assert (stage.persistent_identifier_request, stage.external_refs["DOI"].value) == (None, "10.5072/abc")


@pytest.mark.parametrize(
    ("command", "stage", "refusal"),
    [
        (ASSIGN, citable(ASSIGNED), AssetPersistentIdentifierAlreadyAssignedError),
        (
            replace(ASSIGN, scheme=HANDLE),
            citable(REQUESTED),
            AssetPersistentIdentifierSchemeMismatchError,
        ),
        (FAIL, citable(), AssetCannotFailPersistentIdentifierError),
        (replace(FAIL, reason=" "), citable(), InvalidAssetReasonError),
    ],
)
def test_assign_and_fail_refusals(command: AssetCommand, stage: Asset, refusal: type) -> None:
    assert outcome(command, stage) == refusal


@pytest.mark.parametrize(
    "changes",
    [
        {"value": " "},
        {"value": "x" * 201},
        {"value": "doi:10.5072/abc"},
        {"value": "HTTPS://doi.org/10.5072/abc"},
        {"value": "11.5072/abc"},
        {"value": "10.5072/a b"},
        {"value": "hdl:20.500/abc", "scheme": HANDLE},
        {"authority": " "},
        {"authority": "x" * 101},
    ],
)
def test_an_identifier_is_written_as_its_scheme_asks(changes: dict[str, Any]) -> None:
    assert outcome(replace(ASSIGN, **changes), citable(DECOMMISSIONED)) == InvalidPersistentIdentifierError


def test_a_refused_request_may_be_made_again() -> None:
    assert outcome(FAIL, citable(REQUESTED, DECOMMISSIONED)) == [FAILED]
    assert outcome(REQUEST, to_identify(citable(REQUESTED, FAILED))) == [REQUESTED]


class ListingWorld(SmallWorld):
    """A world whose list of assets comes in pages of two, oldest first."""

    def __init__(self, *states: Asset) -> None:
        super().__init__()
        self.listed = states
        self.operations = {each.name: each for each in assets.operations}
        self.asked: list[Any] = []

    async def page(self, aggregate: Any, request: Any) -> Page:
        self.asked.append(request)
        start = int(request.cursor or 0)
        end = start + 2
        more = str(end) if end < len(self.listed) else None
        return Page(items=list(self.listed[start:end]), next_cursor=more, as_of="")


def numbered(n: int, *events: Any) -> Asset:
    return asset(*(replace(event, asset_id=UUID(int=n)) for event in events), asset_id=UUID(int=n))


def conducted(
    world: Any, command: RequestMissingAssetPersistentIdentifiers, refused: tuple[int, ...] = ()
) -> Any:
    issued: list[Any] = []

    async def issue(part: Any) -> None:
        issued.append(part)
        if part.asset_id.int in refused:
            raise AssetOwnerNotAvailableError("It has no owner.")

    return asyncio.run(command.conduct(world, issue)), issued


def test_every_asset_in_use_without_identifier_or_request_is_asked_for() -> None:
    world = ListingWorld(
        numbered(1), numbered(2, REQUESTED), numbered(3, DECOMMISSIONED), numbered(4), numbered(5)
    )
    answer, issued = conducted(world, RequestMissingAssetPersistentIdentifiers(scheme=HANDLE), refused=(4,))
    assert (answer.scanned, answer.requested) == (3, [UUID(int=1), UUID(int=5)])
    assert answer.skipped == [SkippedAsset(asset_id=UUID(int=4), code="AssetOwnerNotAvailableError")]
    assert issued[0] == RequestAssetPersistentIdentifier(asset_id=UUID(int=1), scheme=HANDLE)


def test_no_more_are_asked_for_than_allowed() -> None:
    world = ListingWorld(*(numbered(n) for n in range(1, 9)))
    answer, _ = conducted(world, RequestMissingAssetPersistentIdentifiers(limit=3))
    assert answer.requested == [UUID(int=1), UUID(int=2), UUID(int=3)]


def test_candidates_are_listed_oldest_first_within_the_facility() -> None:
    world = ListingWorld()
    conducted(world, RequestMissingAssetPersistentIdentifiers(facility_code="aps"))
    (request,) = world.asked
    assert (request.identified, request.facility_code, request.sort) == (False, "aps", "created_at")


def test_a_failing_store_ends_the_composite() -> None:
    world: Any = ListingWorld(numbered(1))

    async def issue(part: Any) -> None:
        raise DatabaseUnavailableError("away")

    with pytest.raises(DatabaseUnavailableError):
        asyncio.run(RequestMissingAssetPersistentIdentifiers().conduct(world, issue))
