"""Fixture: what makes assets a realisation of an assembly, its identifiers and its status grid."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.assembly import (
    Assembly,
    AssemblyDefined,
    AssemblyDeprecated,
    SlotCardinality,
    SubAssemblyLink,
    TemplateSlot,
    TemplateWire,
    assemblies,
)
from beamwright.contexts.equipment.asset import (
    Asset,
    AssetActivated,
    AssetAttachedToFixture,
    AssetDecommissioned,
    AssetDetachedFromFixture,
    AssetInstalledInMount,
    AssetMaintenanceEntered,
    AssetRegistered,
    AssetTier,
    assets,
)
from beamwright.contexts.equipment.asset_values import AssetOwner, AssetPort
from beamwright.contexts.equipment.blueprint import SubAssemblyContentHashMismatchError
from beamwright.contexts.equipment.family import Family, FamilyDefined, families
from beamwright.contexts.equipment.fixture import (
    Fixture,
    FixturePersistentIdentifierAssigned,
    FixturePersistentIdentifierFailed,
    FixturePersistentIdentifierRequested,
    FixtureRegistered,
    FixtureRetired,
    InvalidFixtureReasonError,
    InvalidFixtureSlotAssetBindingsError,
    SlotAssetBinding,
    fixtures,
)
from beamwright.contexts.equipment.fixture_identifiers import (
    AssignFixturePersistentIdentifier,
    FailFixturePersistentIdentifier,
    FixtureCannotAssignPersistentIdentifierError,
    FixtureCannotFailPersistentIdentifierError,
    FixtureCannotRequestPersistentIdentifierError,
    FixturePersistentIdentifierAlreadyAssignedError,
    FixturePersistentIdentifierAlreadyRequestedError,
    FixturePersistentIdentifierSchemeMismatchError,
    FixtureWithAssets,
    RequestFixturePersistentIdentifier,
)
from beamwright.contexts.equipment.fixture_registration import (
    AssemblyCannotInstantiateError,
    FixtureParts,
    FixtureRoleNotSatisfiedError,
    InvalidFixtureParameterOverridesError,
    RegisterFixture,
    RetireFixture,
)
from beamwright.contexts.equipment.fixture_rules import (
    AssetAlreadyAttachedToFixtureError,
    FixtureAssetBoundTwiceError,
    FixtureAssetFacilityMismatchError,
    FixtureAssetFamilyMismatchError,
    FixtureAssetNotAttachableError,
    FixtureAssetNotInstalledError,
    FixtureMappingIncompleteError,
    FixtureWireNotSatisfiedError,
    admits,
    check_wires_joined,
    joins,
)
from beamwright.contexts.equipment.identifiers import (
    InvalidPersistentIdentifierError,
    PersistentIdentifierTakenError,
)
from beamwright.contexts.equipment.pidinst import (
    FixtureManufacturerNotAvailableError,
    FixtureOwnerNotAvailableError,
)
from beamwright.contexts.equipment.role import Role, RoleDefined, roles
from beamwright.contexts.equipment.values import Affordance, PortDirection
from beamwright.kernel.event import Event
from beamwright.kernel.identifiers import PersistentIdentifierScheme
from beamwright.kernel.value import replace
from tests.contexts.trust.examples import SmallWorld, check_columns
from tests.rules import NEW_ID, NOW, given, outcome

ASSEMBLY, CHILD, STAGES, CAMERAS, ROLE, MODEL, MOUNT, FIXTURE, OTHER_FIXTURE = (
    UUID(int=number) for number in range(601, 610)
)
STAGE, CAMERA, SPARE = (UUID(int=number) for number in range(701, 704))
HASH = "0123456789abcdef" * 4
ENCODER = AssetPort(name="encoder", direction=PortDirection.OUTPUT, signal_type="TTL")
TRIGGER = AssetPort(name="trigger", direction=PortDirection.INPUT, signal_type="TTL")
DOI, HANDLE = PersistentIdentifierScheme.DOI, PersistentIdentifierScheme.HANDLE


def slot(
    name: str, family_id: UUID = STAGES, cardinality: SlotCardinality = SlotCardinality.EXACTLY_1
) -> TemplateSlot:
    return TemplateSlot(slot_name=name, required_family_ids=frozenset({family_id}), cardinality=cardinality)


WIRE = TemplateWire(
    source_slot_name="rotation",
    source_port_name="encoder",
    target_slot_name="camera",
    target_port_name="trigger",
)


def assembly(*events: Event, **changes: Any) -> Assembly:
    first = AssemblyDefined(
        assembly_id=ASSEMBLY,
        occurred_at=NOW,
        name="Tomography",
        presented_role_ids=frozenset(),
        required_slots=(slot("camera", CAMERAS), slot("rotation")),
        required_wires=(WIRE,),
        required_sub_assemblies=(),
        parameter_overrides_schema=None,
        drawing=None,
        version_tag=None,
        content_hash=HASH,
    )
    return given(assemblies, replace(first, **changes), *events)


def asset(id: UUID, *events: Event, **changes: Any) -> Asset:
    """An active asset in a mount of its own."""
    first = AssetRegistered(
        asset_id=id,
        occurred_at=NOW,
        name=f"Asset {id.int}",
        tier=AssetTier.DEVICE,
        parent_id=None,
        facility_code="aps",
        scope_facility_code="aps",
        family_ids=frozenset({STAGES}),
        ports=(ENCODER,),
    )
    activated = AssetActivated(asset_id=id, occurred_at=NOW)
    installed = AssetInstalledInMount(asset_id=id, occurred_at=NOW, mount_id=MOUNT)
    return given(assets, replace(first, **changes), activated, installed, *events)


def family(id: UUID, *affordances: Affordance) -> Family:
    first = FamilyDefined(
        family_id=id,
        occurred_at=NOW,
        name=f"Family {id.int}",
        affordances=frozenset(affordances),
        settings_schema=None,
        settings_schema_version=0,
        presented_role_ids=frozenset(),
    )
    return given(families, first)


def role() -> Role:
    first = RoleDefined(
        role_id=ROLE,
        occurred_at=NOW,
        name="Detector",
        description="Yields frames.",
        required_affordances=frozenset({Affordance.IMAGEABLE}),
        optional_affordances=frozenset(),
        produces=frozenset(),
        consumes=frozenset(),
    )
    return given(roles, first)


def bind(slot_name: str, asset_id: UUID) -> SlotAssetBinding:
    return SlotAssetBinding(slot_name=slot_name, asset_id=asset_id)


THE_STAGE = asset(STAGE)
THE_CAMERA = asset(CAMERA, family_ids=frozenset({CAMERAS}), ports=(TRIGGER,))
BINDINGS = (bind("camera", CAMERA), bind("rotation", STAGE))
PARTS = FixtureParts(
    assembly=assembly(),
    assets=(THE_STAGE, THE_CAMERA),
    families=(family(STAGES), family(CAMERAS, Affordance.IMAGEABLE)),
)
REGISTER = RegisterFixture(assembly_id=ASSEMBLY, slot_asset_bindings=BINDINGS)
REGISTERED = FixtureRegistered(
    fixture_id=FIXTURE,
    occurred_at=NOW,
    assembly_id=ASSEMBLY,
    assembly_content_hash=HASH,
    facility_code="aps",
    slot_asset_bindings=BINDINGS,
    parameter_overrides={},
)
RETIRED = FixtureRetired(fixture_id=FIXTURE, occurred_at=NOW, reason="rebuilt")
REQUESTED = FixturePersistentIdentifierRequested(
    fixture_id=FIXTURE, occurred_at=NOW, scheme=DOI, suffix=str(FIXTURE)
)
ASSIGNED = FixturePersistentIdentifierAssigned(
    fixture_id=FIXTURE, occurred_at=NOW, scheme=DOI, value="10.5072/Ab", authority="DataCite"
)
FAILED = FixturePersistentIdentifierFailed(fixture_id=FIXTURE, occurred_at=NOW, scheme=DOI, reason="quota")


def fixture(*events: Event) -> Fixture:
    return given(fixtures, REGISTERED, *events)


def test_register_attaches_every_asset_in_the_same_append() -> None:
    command = RegisterFixture(
        assembly_id=ASSEMBLY, slot_asset_bindings=(bind(" rotation ", STAGE), bind("camera", CAMERA))
    )
    assert outcome(command, PARTS) == [
        replace(REGISTERED, fixture_id=NEW_ID),
        AssetAttachedToFixture(asset_id=CAMERA, occurred_at=NOW, fixture_id=NEW_ID, slot_name="camera"),
        AssetAttachedToFixture(asset_id=STAGE, occurred_at=NOW, fixture_id=NEW_ID, slot_name="rotation"),
    ]


def test_an_asset_in_maintenance_may_be_part() -> None:
    resting = asset(STAGE, AssetMaintenanceEntered(asset_id=STAGE, occurred_at=NOW, reason="cleaning"))
    assert not isinstance(outcome(REGISTER, replace(PARTS, assets=(resting, THE_CAMERA))), type)


@pytest.mark.parametrize(
    "bindings",
    [(), (bind(" ", STAGE),), (bind("x" * 101, STAGE),), tuple(bind("a", UUID(int=n)) for n in range(201))],
)
def test_register_refuses_bad_bindings_first(bindings: tuple[SlotAssetBinding, ...]) -> None:
    command = replace(REGISTER, slot_asset_bindings=bindings)
    deprecated = replace(PARTS, assembly=OLD_ASSEMBLY)
    assert outcome(command, deprecated) == InvalidFixtureSlotAssetBindingsError


OLD_ASSEMBLY = assembly(AssemblyDeprecated(assembly_id=ASSEMBLY, occurred_at=NOW, reason="old"))
LINK = SubAssemblyLink(slot_name="optics", sub_assembly_id=CHILD, content_hash="f" * 64)
WHOLE = assembly(required_sub_assemblies=(LINK,))


def part(*events: Event, **changes: Any) -> Assembly:
    own: dict[str, Any] = {
        "assembly_id": CHILD,
        "required_slots": (slot("lens"),),
        "required_wires": (),
        "content_hash": "f" * 64,
    }
    return assembly(*events, **(own | changes))


OLD_PART = part(AssemblyDeprecated(assembly_id=CHILD, occurred_at=NOW, reason="old"), content_hash=HASH)
TWICE = (*BINDINGS, bind("camera", STAGE))
COMMISSIONED = given(
    assets,
    AssetRegistered(
        asset_id=STAGE,
        occurred_at=NOW,
        name="Stage",
        tier=AssetTier.DEVICE,
        parent_id=None,
        facility_code="als",
        scope_facility_code="als",
    ),
)
UNMOUNTED = given(
    assets,
    AssetRegistered(
        asset_id=STAGE,
        occurred_at=NOW,
        name="Stage",
        tier=AssetTier.DEVICE,
        parent_id=None,
        facility_code="als",
        scope_facility_code="als",
    ),
    AssetActivated(asset_id=STAGE, occurred_at=NOW),
)
DECOMMISSIONED = asset(STAGE, AssetDecommissioned(asset_id=STAGE, occurred_at=NOW, reason="worn"))
ATTACHED = replace(UNMOUNTED, fixture_id=OTHER_FIXTURE)
FOREIGN = asset(STAGE, facility_code="als", scope_facility_code="als")
OTHER_FAMILY = asset(STAGE, family_ids=frozenset({MODEL}), ports=())
UNWIRED = asset(STAGE, ports=())


@pytest.mark.parametrize(
    ("bindings", "parts", "refusal"),
    [
        (TWICE, {"assembly": OLD_ASSEMBLY}, AssemblyCannotInstantiateError),
        (TWICE, {"assembly": WHOLE, "children": (OLD_PART,)}, AssemblyCannotInstantiateError),
        (
            TWICE,
            {"assembly": WHOLE, "children": (part(content_hash=HASH),)},
            SubAssemblyContentHashMismatchError,
        ),
        (TWICE, {"assets": (COMMISSIONED, THE_CAMERA)}, FixtureAssetBoundTwiceError),
        (BINDINGS, {"assets": (COMMISSIONED, THE_CAMERA)}, FixtureAssetNotAttachableError),
        (BINDINGS, {"assets": (DECOMMISSIONED, THE_CAMERA)}, FixtureAssetNotAttachableError),
        (BINDINGS, {"assets": (ATTACHED, THE_CAMERA)}, AssetAlreadyAttachedToFixtureError),
        (BINDINGS, {"assets": (UNMOUNTED, THE_CAMERA)}, FixtureAssetNotInstalledError),
        (
            (bind("nowhere", CAMERA), bind("rotation", STAGE)),
            {"assets": (FOREIGN, THE_CAMERA)},
            FixtureAssetFacilityMismatchError,
        ),
        ((bind("nowhere", CAMERA), bind("rotation", STAGE)), {}, FixtureMappingIncompleteError),
        ((bind("rotation", STAGE),), {"assets": (OTHER_FAMILY,)}, FixtureMappingIncompleteError),
        (BINDINGS, {"assembly": WHOLE, "children": (part(),)}, FixtureMappingIncompleteError),
        (BINDINGS, {"assets": (OTHER_FAMILY, THE_CAMERA)}, FixtureAssetFamilyMismatchError),
        (
            BINDINGS,
            {"assets": (UNWIRED, THE_CAMERA), "families": (), "roles": (role(),)},
            FixtureWireNotSatisfiedError,
        ),
        (BINDINGS, {"families": (family(STAGES),), "roles": (role(),)}, FixtureRoleNotSatisfiedError),
    ],
)
def test_register_refusals_in_order(
    bindings: tuple[SlotAssetBinding, ...], parts: dict[str, Any], refusal: type
) -> None:
    command = replace(REGISTER, slot_asset_bindings=bindings, parameter_overrides={"speed": 1})
    assert outcome(command, replace(PARTS, **parts)) == refusal


SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"speed": {"type": "number"}},
    "required": ["speed"],
    "additionalProperties": False,
    "unevaluatedProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "overrides", "accepted"),
    [
        (None, {}, True),
        (None, {"speed": 1}, False),
        ({}, {"anything": 1}, True),
        (SCHEMA, {}, True),
        (SCHEMA, {"speed": 1}, True),
        (SCHEMA, {"speed": "fast"}, False),
    ],
)
def test_overrides_follow_the_carrier_rule(
    schema: dict[str, Any] | None, overrides: dict[str, Any], accepted: bool
) -> None:
    parts = replace(PARTS, assembly=assembly(parameter_overrides_schema=schema))
    got = outcome(replace(REGISTER, parameter_overrides=overrides), parts)
    assert (got == InvalidFixtureParameterOverridesError) is not accepted
    assert isinstance(got, type) is not accepted


def test_slots_of_sub_assemblies_are_filled_beside_the_own() -> None:
    lens = asset(SPARE)
    parts = replace(PARTS, assembly=WHOLE, children=(part(),), assets=(THE_STAGE, THE_CAMERA, lens))
    got = outcome(replace(REGISTER, slot_asset_bindings=(*BINDINGS, bind("lens", SPARE))), parts)
    assert not isinstance(got, type), got


def test_wires_of_sub_assemblies_count() -> None:
    inner = replace(WIRE, source_slot_name="lens", target_slot_name="lens", target_port_name="missing")
    parts = replace(
        PARTS,
        assembly=WHOLE,
        children=(part(required_wires=(inner,)),),
        assets=(THE_STAGE, THE_CAMERA, asset(SPARE)),
    )
    got = outcome(replace(REGISTER, slot_asset_bindings=(*BINDINGS, bind("lens", SPARE))), parts)
    assert got == FixtureWireNotSatisfiedError


CARDINALITIES = """
             0  1  2
Exactly1     -  x  -
ZeroOrOne    x  x  -
OneOrMore    -  x  x
ZeroOrMore   x  x  x
"""


def test_cardinality_table() -> None:
    header, *rows = [line.split() for line in CARDINALITIES.strip().splitlines()]
    assert [row[0] for row in rows] == [*SlotCardinality]
    for name, *cells in rows:
        assert [admits(SlotCardinality(name), int(count)) for count in header] == [c == "x" for c in cells]


@pytest.mark.parametrize(
    ("source", "target", "joined"),
    [
        (ENCODER, TRIGGER, True),
        (replace(ENCODER, name="other"), TRIGGER, False),
        (ENCODER, replace(TRIGGER, name="other"), False),
        (replace(ENCODER, direction=PortDirection.INPUT), TRIGGER, False),
        (ENCODER, replace(TRIGGER, direction=PortDirection.OUTPUT), False),
        (ENCODER, replace(TRIGGER, signal_type="ttl"), False),
    ],
)
def test_a_wire_joins_an_output_to_an_input_of_the_same_signal(
    source: AssetPort, target: AssetPort, joined: bool
) -> None:
    assert joins(WIRE, asset(STAGE, ports=(source,)), asset(CAMERA, ports=(target,))) is joined


def test_a_wire_joins_every_pair_of_its_slots() -> None:
    with pytest.raises(FixtureWireNotSatisfiedError) as refused:
        check_wires_joined([WIRE], {"rotation": [THE_STAGE, UNWIRED], "camera": [THE_CAMERA]})
    assert refused.value.context["target_asset_id"] == str(CAMERA)


def test_a_wire_with_an_unbound_slot_is_skipped() -> None:
    check_wires_joined([WIRE], {"rotation": [UNWIRED]})


def test_register_sees_assembly_children_assets_families_and_roles() -> None:
    whole = assembly(required_sub_assemblies=(LINK,), presented_role_ids=frozenset({ROLE}))
    states = (whole, part(), THE_STAGE, THE_CAMERA, family(STAGES), family(CAMERAS), role())
    world: Any = SmallWorld(*states)
    assert asyncio.run(REGISTER.gather(world)) == FixtureParts(
        assembly=whole,
        assets=(THE_STAGE, THE_CAMERA),
        children=(part(),),
        families=(family(STAGES), family(CAMERAS)),
        roles=(role(),),
    )


def test_retire_detaches_every_asset_in_the_same_append() -> None:
    assert outcome(RetireFixture(fixture_id=FIXTURE, reason="rebuilt"), fixture()) == [
        RETIRED,
        AssetDetachedFromFixture(asset_id=CAMERA, occurred_at=NOW, fixture_id=FIXTURE),
        AssetDetachedFromFixture(asset_id=STAGE, occurred_at=NOW, fixture_id=FIXTURE),
    ]


def test_a_retired_fixture_says_since_when() -> None:
    assert fixture(RETIRED).retired_at == NOW


def test_retire_asks_for_a_reason_first() -> None:
    command = RetireFixture(fixture_id=FIXTURE, reason=" ")
    assert outcome(command, fixture(RETIRED)) == InvalidFixtureReasonError


def test_retire_loads_the_assets_that_it_writes() -> None:
    loaded: list[UUID] = []

    class Watching(SmallWorld):
        async def load(self, aggregate: Any, id: UUID) -> Any:
            loaded.append(id)
            return await super().load(aggregate, id)

    world: Any = Watching(fixture(), THE_STAGE, THE_CAMERA)
    asyncio.run(RetireFixture(fixture_id=FIXTURE, reason="rebuilt").gather(world))
    assert loaded == [FIXTURE, STAGE, CAMERA]


def test_filters_tell_assets_and_whether_identified() -> None:
    of = {each.name: each.of for each in fixtures.listing.filters}
    assert of["asset_id"](fixture()) == [STAGE, CAMERA]
    assert [of["identified"](fixture()), of["identified"](fixture(ASSIGNED))] == [False, True]


GRID = """
              retire
Registered    Retired
Retired       -
"""


def test_status_grid() -> None:
    check_columns(
        GRID,
        fixtures,
        {"Registered": [REGISTERED], "Retired": [REGISTERED, RETIRED]},
        {"retire": (RetireFixture(fixture_id=FIXTURE, reason="rebuilt"), lambda state: state)},
    )


OWNED = asset(STAGE, owners=(AssetOwner(name="Argonne"),))
MODELLED = asset(CAMERA, model_id=MODEL)
REQUEST = RequestFixturePersistentIdentifier(fixture_id=FIXTURE)
ASSIGN = AssignFixturePersistentIdentifier(
    fixture_id=FIXTURE, scheme=DOI, value=" 10.5072/Ab ", authority="DataCite"
)
FAIL = FailFixturePersistentIdentifier(fixture_id=FIXTURE, reason="quota")


def citable(*events: Event, assets: tuple[Asset, ...] = (OWNED, MODELLED)) -> FixtureWithAssets:
    return FixtureWithAssets(fixture=fixture(*events), assets=assets, default_scheme=DOI)


def test_an_identifier_is_requested_with_the_fixture_id_as_suffix() -> None:
    assert outcome(REQUEST, citable()) == [REQUESTED]


def test_a_request_may_name_its_scheme() -> None:
    got = outcome(replace(REQUEST, scheme=HANDLE), citable())
    assert got == [replace(REQUESTED, scheme=HANDLE)]


@pytest.mark.parametrize(
    ("seen", "refusal"),
    [
        (citable(ASSIGNED, RETIRED), FixtureCannotRequestPersistentIdentifierError),
        (citable(ASSIGNED, assets=()), FixturePersistentIdentifierAlreadyAssignedError),
        (citable(REQUESTED, assets=()), FixturePersistentIdentifierAlreadyRequestedError),
        (citable(assets=(THE_STAGE, THE_CAMERA)), FixtureOwnerNotAvailableError),
        (citable(assets=(OWNED, THE_CAMERA)), FixtureManufacturerNotAvailableError),
    ],
)
def test_request_refusals_in_order(seen: FixtureWithAssets, refusal: type) -> None:
    assert outcome(REQUEST, seen) == refusal


def test_request_sees_the_assets_and_the_configured_scheme() -> None:
    world: Any = SmallWorld(fixture(), OWNED, MODELLED)
    assert asyncio.run(REQUEST.gather(world)) == citable()


@pytest.mark.parametrize("before", [(), (REQUESTED,), (REQUESTED, RETIRED)])
def test_an_identifier_is_assigned_to_a_pending_request_or_a_registered_fixture(
    before: tuple[Event, ...],
) -> None:
    assert outcome(ASSIGN, fixture(*before)) == [ASSIGNED]


def test_assignment_ends_the_request() -> None:
    after = fixture(REQUESTED, ASSIGNED)
    assert after.persistent_identifier_request is None
    assert after.external_refs["DOI"].value == "10.5072/Ab"


@pytest.mark.parametrize(
    ("command", "before", "refusal"),
    [
        (replace(ASSIGN, value="doi:10.5072/Ab"), (RETIRED,), InvalidPersistentIdentifierError),
        (ASSIGN, (RETIRED,), FixtureCannotAssignPersistentIdentifierError),
        (ASSIGN, (ASSIGNED, RETIRED), FixtureCannotAssignPersistentIdentifierError),
        (replace(ASSIGN, scheme=HANDLE), (ASSIGNED,), FixturePersistentIdentifierAlreadyAssignedError),
        (replace(ASSIGN, scheme=HANDLE), (REQUESTED,), FixturePersistentIdentifierSchemeMismatchError),
    ],
)
def test_assign_refusals_in_order(
    command: AssignFixturePersistentIdentifier, before: tuple[Event, ...], refusal: type
) -> None:
    assert outcome(command, fixture(*before)) == refusal


def test_a_refused_request_may_be_made_again() -> None:
    assert outcome(FAIL, fixture(REQUESTED)) == [FAILED]
    assert outcome(REQUEST, citable(REQUESTED, FAILED)) == [REQUESTED]


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (FAIL, FixtureCannotFailPersistentIdentifierError),
        (replace(FAIL, reason=""), InvalidFixtureReasonError),
    ],
)
def test_fail_refusals(command: FailFixturePersistentIdentifier, refusal: type) -> None:
    assert outcome(command, fixture()) == refusal


def test_an_identifier_is_claimed_for_ever() -> None:
    [claim] = fixtures.claims(fixture(ASSIGNED, RETIRED))
    assert (claim.kind, claim.key) == ("external-ref", "DOI:10.5072/ab")
    assert claim.taken is PersistentIdentifierTakenError
