"""Asset: its two axes, what describes it, what it claims and how it is found."""

from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.asset import (
    AssetAlternateIdentifierAdded,
    AssetAlternateIdentifierRemoved,
    AssetAttachedToFixture,
    AssetCommand,
    AssetCondition,
    AssetDegraded,
    AssetDetachedFromFixture,
    AssetDrawingAssigned,
    AssetFaulted,
    AssetInstalledInMount,
    AssetOwnerAdded,
    AssetOwnerRemoved,
    AssetPersistentIdentifierAssigned,
    AssetPortAdded,
    AssetPortRemoved,
    AssetRestored,
    AssetUninstalledFromMount,
    InvalidAssetNameError,
    InvalidAssetReasonError,
    assets,
)
from beamwright.contexts.equipment.asset_moves import (
    DegradeAsset,
    EnterAssetMaintenance,
    ExitAssetMaintenance,
    FaultAsset,
    RenameAsset,
    RestoreAsset,
)
from beamwright.contexts.equipment.asset_parts import (
    MOST_ALTERNATE_IDENTIFIERS,
    MOST_PORTS,
    AddAssetAlternateIdentifier,
    AddAssetPort,
    AssetAlternateIdentifierAlreadyPresentError,
    AssetAlternateIdentifierNotPresentError,
    AssetOwnerNotPresentError,
    AssetPortAlreadyPresentError,
    AssetPortNotPresentError,
    AssignAssetDrawing,
    RemoveAssetAlternateIdentifier,
    RemoveAssetOwner,
    RemoveAssetPort,
)
from beamwright.contexts.equipment.asset_values import (
    AlternateIdentifier,
    AlternateIdentifierKind,
    AssetOwner,
    AssetPort,
    InvalidAlternateIdentifierError,
    InvalidAssetPortError,
)
from beamwright.contexts.equipment.values import Drawing, DrawingSystem, InvalidDrawingError, PortDirection
from beamwright.kernel.event import Belonging
from beamwright.kernel.identifiers import PersistentIdentifierScheme
from beamwright.kernel.value import replace
from tests.contexts.equipment.asset_examples import (
    DECOMMISSIONED,
    REGISTERED,
    ROTARY,
    STAGE,
    asset,
    check_lifecycles,
    stays,
)
from tests.grids import check_grid
from tests.rules import NOW, outcome

FIXTURE, MOUNT = UUID(int=720), UUID(int=721)
PORT = AssetPort(name="trigger", direction=PortDirection.INPUT, signal_type="TTL")
SERIAL = AlternateIdentifier(kind=AlternateIdentifierKind.SERIAL_NUMBER, value="A-17")
DRAWING = Drawing(system=DrawingSystem.EDMS, number="123")
OWNER = AssetOwner(name="Argonne")

DEGRADED = AssetDegraded(
    asset_id=STAGE, occurred_at=NOW, from_condition=AssetCondition.NOMINAL, reason="drift"
)
FAULTED = AssetFaulted(asset_id=STAGE, occurred_at=NOW, from_condition=AssetCondition.NOMINAL, reason="stuck")


def test_an_asset_begins_commissioned_and_nominal() -> None:
    stage = asset()
    assert (stage.lifecycle, stage.condition, stage.condition_since) == ("Commissioned", "Nominal", NOW)


ENTER = """
               enter-maintenance
Commissioned   -
Active         Maintenance
Maintenance    -
Decommissioned -
"""
EXIT = """
               exit-maintenance
Commissioned   -
Active         -
Maintenance    Active
Decommissioned -
"""


@pytest.mark.parametrize(
    ("grid", "command"),
    [
        (ENTER, EnterAssetMaintenance(asset_id=STAGE, reason="grease")),
        (EXIT, ExitAssetMaintenance(asset_id=STAGE)),
        (stays("rename"), RenameAsset(asset_id=STAGE, name="Hexapod")),
        (stays("degrade"), DegradeAsset(asset_id=STAGE, reason="drift")),
        (stays("fault"), FaultAsset(asset_id=STAGE, reason="stuck")),
        (stays("restore"), RestoreAsset(asset_id=STAGE, reason="repaired")),
        (stays("assign-drawing"), AssignAssetDrawing(asset_id=STAGE, drawing=DRAWING)),
        (
            stays("add-port"),
            AddAssetPort(asset_id=STAGE, name="out", direction=PortDirection.OUTPUT, signal_type="TTL"),
        ),
        (stays("remove-port"), RemoveAssetPort(asset_id=STAGE, name="trigger")),
        (
            stays("add-alternate-identifier"),
            AddAssetAlternateIdentifier(asset_id=STAGE, kind=AlternateIdentifierKind.OTHER, value="x"),
        ),
        (
            stays("remove-alternate-identifier"),
            RemoveAssetAlternateIdentifier(asset_id=STAGE, kind=SERIAL.kind, value=SERIAL.value),
        ),
        (stays("remove-owner"), RemoveAssetOwner(asset_id=STAGE, owner_name="argonne")),
    ],
)
def test_lifecycle_grid(grid: str, command: AssetCommand) -> None:
    first = replace(REGISTERED, ports=(PORT,), alternate_identifiers=(SERIAL,), owners=(OWNER,))
    check_lifecycles(grid, command, first=first)


CONDITIONS = """
           degrade   fault    restore
Nominal    Degraded  Faulted  Nominal
Degraded   Degraded  Faulted  Nominal
Faulted    Degraded  Faulted  Nominal
"""


def test_condition_grid() -> None:
    check_grid(
        CONDITIONS,
        assets,
        status=lambda state: state.condition,
        reach={
            "Nominal": [REGISTERED],
            "Degraded": [REGISTERED, DEGRADED],
            "Faulted": [REGISTERED, FAULTED],
        },
        verbs={
            "degrade": DegradeAsset(asset_id=STAGE, reason="worse"),
            "fault": FaultAsset(asset_id=STAGE, reason="dead"),
            "restore": RestoreAsset(asset_id=STAGE, reason="repaired"),
        },
    )


def test_the_same_condition_for_the_same_reason_is_a_no_op() -> None:
    assert outcome(DegradeAsset(asset_id=STAGE, reason=" drift "), asset(DEGRADED)) == []


def test_the_same_condition_for_another_reason_is_kept() -> None:
    got = outcome(DegradeAsset(asset_id=STAGE, reason="drift grew"), asset(DEGRADED))
    assert got == [replace(DEGRADED, from_condition=AssetCondition.DEGRADED, reason="drift grew")]


def test_restoring_says_from_which_condition() -> None:
    got = outcome(RestoreAsset(asset_id=STAGE, reason="repaired"), asset(FAULTED))
    restored = AssetRestored(
        asset_id=STAGE, occurred_at=NOW, from_condition=AssetCondition.FAULTED, reason="repaired"
    )
    assert got == [restored]


def test_a_condition_leaves_the_lifecycle_alone() -> None:
    assert asset(DEGRADED, FAULTED).lifecycle == "Commissioned"


@pytest.mark.parametrize(
    "command",
    [
        DegradeAsset(asset_id=STAGE, reason=" "),
        FaultAsset(asset_id=STAGE, reason=" "),
        RestoreAsset(asset_id=STAGE, reason="x" * 501),
        EnterAssetMaintenance(asset_id=STAGE, reason=""),
    ],
)
def test_a_blank_reason_is_refused_before_the_lifecycle(command: AssetCommand) -> None:
    assert outcome(command, asset(DECOMMISSIONED)) == InvalidAssetReasonError


def test_renaming_to_the_same_name_is_a_no_op() -> None:
    assert outcome(RenameAsset(asset_id=STAGE, name=" Stage "), asset()) == []


def test_a_blank_name_is_refused_before_the_lifecycle() -> None:
    assert outcome(RenameAsset(asset_id=STAGE, name=" "), asset(DECOMMISSIONED)) == InvalidAssetNameError


def test_decommissioning_is_dated() -> None:
    assert asset(DECOMMISSIONED).decommissioned_at == NOW


def test_a_drawing_is_trimmed_and_can_be_taken_back() -> None:
    given_with = asset(AssetDrawingAssigned(asset_id=STAGE, occurred_at=NOW, drawing=DRAWING))
    again = AssignAssetDrawing(asset_id=STAGE, drawing=replace(DRAWING, number=" 123 "))
    assert outcome(again, given_with) == []
    taken_back = [AssetDrawingAssigned(asset_id=STAGE, occurred_at=NOW, drawing=None)]
    assert outcome(AssignAssetDrawing(asset_id=STAGE), given_with) == taken_back


def test_a_drawing_without_number_is_refused() -> None:
    blank = AssignAssetDrawing(asset_id=STAGE, drawing=replace(DRAWING, number=" "))
    assert outcome(blank, asset()) == InvalidDrawingError


def add_port(name: str, signal_type: str = "TTL") -> AddAssetPort:
    return AddAssetPort(asset_id=STAGE, name=name, direction=PortDirection.INPUT, signal_type=signal_type)


def test_ports_come_and_go_by_name() -> None:
    added = AssetPortAdded(asset_id=STAGE, occurred_at=NOW, port=PORT)
    assert outcome(add_port(" trigger "), asset()) == [added]
    removed = AssetPortRemoved(asset_id=STAGE, occurred_at=NOW, port_name="trigger")
    assert outcome(RemoveAssetPort(asset_id=STAGE, name="trigger"), asset(added)) == [removed]
    assert asset(added, removed).ports == ()


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (add_port(" "), InvalidAssetPortError),
        (add_port("x" * 101), InvalidAssetPortError),
        (add_port("out", "x" * 51), InvalidAssetPortError),
        (add_port("trigger", "24 V"), AssetPortAlreadyPresentError),
        (RemoveAssetPort(asset_id=STAGE, name="gate"), AssetPortNotPresentError),
    ],
)
def test_port_refusals(command: AssetCommand, refusal: type) -> None:
    assert outcome(command, asset(ports=(PORT,))) == refusal


def test_ports_are_bounded() -> None:
    full = asset(ports=tuple(replace(PORT, name=f"port {n}") for n in range(MOST_PORTS)))
    assert outcome(add_port("one more"), full) == InvalidAssetPortError


def add_identifier(value: str, kind: AlternateIdentifierKind = SERIAL.kind) -> AddAssetAlternateIdentifier:
    return AddAssetAlternateIdentifier(asset_id=STAGE, kind=kind, value=value)


def test_alternate_identifiers_come_and_go() -> None:
    added = AssetAlternateIdentifierAdded(asset_id=STAGE, occurred_at=NOW, alternate_identifier=SERIAL)
    assert outcome(add_identifier(" A-17"), asset()) == [added]
    removed = AssetAlternateIdentifierRemoved(asset_id=STAGE, occurred_at=NOW, alternate_identifier=SERIAL)
    remove = RemoveAssetAlternateIdentifier(asset_id=STAGE, kind=SERIAL.kind, value="A-17")
    assert outcome(remove, asset(added)) == [removed]
    assert asset(added, removed).alternate_identifiers == ()


def test_one_value_of_two_kinds_is_two_identifiers() -> None:
    got = outcome(
        add_identifier("A-17", AlternateIdentifierKind.INVENTORY_NUMBER),
        asset(alternate_identifiers=(SERIAL,)),
    )
    assert isinstance(got, list)


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (add_identifier(" "), InvalidAlternateIdentifierError),
        (add_identifier("x" * 201), InvalidAlternateIdentifierError),
        (add_identifier("A-17"), AssetAlternateIdentifierAlreadyPresentError),
        (
            RemoveAssetAlternateIdentifier(asset_id=STAGE, kind=AlternateIdentifierKind.OTHER, value="A-17"),
            AssetAlternateIdentifierNotPresentError,
        ),
    ],
)
def test_alternate_identifier_refusals(command: AssetCommand, refusal: type) -> None:
    assert outcome(command, asset(alternate_identifiers=(SERIAL,))) == refusal


def test_alternate_identifiers_are_bounded() -> None:
    many = tuple(replace(SERIAL, value=str(n)) for n in range(MOST_ALTERNATE_IDENTIFIERS))
    assert (
        outcome(add_identifier("more"), asset(alternate_identifiers=many)) == InvalidAlternateIdentifierError
    )


def test_an_owner_is_removed_however_its_name_is_written() -> None:
    removed = AssetOwnerRemoved(asset_id=STAGE, occurred_at=NOW, owner_name="Argonne")
    owned = asset(AssetOwnerAdded(asset_id=STAGE, occurred_at=NOW, owner=OWNER))
    assert outcome(RemoveAssetOwner(asset_id=STAGE, owner_name=" ARGONNE "), owned) == [removed]


def test_an_owner_that_is_none_is_not_removed() -> None:
    assert outcome(RemoveAssetOwner(asset_id=STAGE, owner_name="CERN"), asset()) == AssetOwnerNotPresentError


def test_mount_and_fixture_are_written_by_their_own_operations() -> None:
    installed = AssetInstalledInMount(asset_id=STAGE, occurred_at=NOW, mount_id=MOUNT)
    attached = AssetAttachedToFixture(
        asset_id=STAGE, occurred_at=NOW, fixture_id=FIXTURE, slot_name="rotation"
    )
    bound = asset(installed, attached)
    assert (bound.mount_id, bound.fixture_id) == (MOUNT, FIXTURE)
    freed = asset(
        installed,
        attached,
        AssetUninstalledFromMount(asset_id=STAGE, occurred_at=NOW, mount_id=MOUNT),
        AssetDetachedFromFixture(asset_id=STAGE, occurred_at=NOW, fixture_id=FIXTURE),
    )
    assert (freed.mount_id, freed.fixture_id) == (None, None)


@pytest.mark.parametrize(
    ("scheme", "value", "key"),
    [
        (PersistentIdentifierScheme.DOI, "10.5072/ABC", "DOI:10.5072/abc"),
        (PersistentIdentifierScheme.HANDLE, "20.500.1/ABC", "Handle:20.500.1/ABC"),
    ],
)
def test_an_identifier_is_claimed_for_ever(scheme: PersistentIdentifierScheme, value: str, key: str) -> None:
    assigned = AssetPersistentIdentifierAssigned(
        asset_id=STAGE, occurred_at=NOW, scheme=scheme, value=value, authority="stub"
    )
    claimed = assets.claims(asset(assigned, DECOMMISSIONED))
    assert [(claim.kind, claim.key) for claim in claimed] == [("external-ref", key)]


def test_an_asset_belongs_to_the_facility_of_its_root() -> None:
    assert assets.belongs(asset()) == Belonging(facility_code="aps")


def test_search_finds_names_numbers_owners_and_the_serial_number() -> None:
    stage = asset(
        alternate_identifiers=(SERIAL,), owners=(OWNER,), settings={"serial_number": "SN-1", "gain": 3}
    )
    assert stage.words == "Stage A-17 Argonne SN-1"


@pytest.mark.parametrize(
    ("filter", "column"),
    [
        ("facility_code", "aps"),
        ("family_id", frozenset({ROTARY})),
        ("alternate_identifier", ["SerialNumber:A-17"]),
        ("identified", False),
        ("virtual", False),
    ],
)
def test_list_filters_that_are_no_field(filter: str, column: Any) -> None:
    of = next(each.of for each in assets.listing.filters if each.name == filter)
    assert of(asset(alternate_identifiers=(SERIAL,), family_ids=frozenset({ROTARY}))) == column
