"""Mount: its rules, its place and its status grid."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.frame import Frame, FrameDecommissioned, FrameRegistered, frames
from beamwright.contexts.equipment.mount import (
    DecommissionMount,
    InvalidMountReasonError,
    InvalidSlotCodeError,
    Mount,
    MountAssetInstalled,
    MountAssetUninstalled,
    MountDecommissioned,
    MountHasActiveChildrenError,
    MountHasAssetInstalledError,
    MountInUse,
    MountPlacementUpdated,
    MountRegistered,
    mounts,
)
from beamwright.contexts.equipment.mount_registration import (
    MountFacilityMismatchError,
    MountFrameDecommissionedError,
    MountInFrame,
    MountParentDecommissionedError,
    MountSurroundings,
    RegisterMount,
    UpdateMountPlacement,
)
from beamwright.contexts.equipment.values import (
    Drawing,
    DrawingSystem,
    EquipmentFacilityNotActiveError,
    InvalidDrawingError,
    InvalidPlacementError,
    InvalidSurveyError,
    Placement,
    ReferenceSurface,
    Survey,
)
from beamwright.contexts.federation.facility import (
    Facility,
    FacilityDecommissioned,
    FacilityKind,
    FacilityRegistered,
    facilities,
)
from beamwright.kernel.event import Event
from beamwright.kernel.value import replace
from tests.contexts.trust.examples import SmallWorld, check_columns
from tests.rules import NEW_ID, NOW, given, outcome

FACILITY, HALL, TABLE, RACK, BAY, ASSET = (UUID(int=number) for number in range(501, 507))

PLACEMENT = Placement(
    parent_frame_id=HALL,
    reference_surface=ReferenceSurface.MOUNTING_FACE,
    x=0,
    y=1400,
    z=25000,
    rx=0,
    ry=0,
    rz=0,
    tolerance_x=0.1,
    tolerance_y=0.1,
    tolerance_z=0.1,
    tolerance_rx=0,
    tolerance_ry=0,
    tolerance_rz=0,
)
MOVED = replace(PLACEMENT, x=1)
SURVEY = Survey(method="laser tracker", performed_at=NOW, document=None, note=None)
REGISTERED = MountRegistered(
    mount_id=RACK,
    occurred_at=NOW,
    slot_code="A-1",
    facility_code="aps",
    parent_id=None,
    placement=PLACEMENT,
    drawing=None,
)
INSTALLED = MountAssetInstalled(mount_id=RACK, occurred_at=NOW, asset_id=ASSET)
UNINSTALLED = MountAssetUninstalled(mount_id=RACK, occurred_at=NOW, asset_id=ASSET, reason="repair")
DECOMMISSIONED = MountDecommissioned(mount_id=RACK, occurred_at=NOW, reason="rebuilt")
FRAME_DECOMMISSIONED = FrameDecommissioned(frame_id=HALL, occurred_at=NOW, reason="rebuilt")


def mount(*events: Event, **changes: Any) -> Mount:
    return given(mounts, replace(REGISTERED, **changes), *events)


def frame(*events: Event, id: UUID = HALL, facility_code: str = "aps") -> Frame:
    first = FrameRegistered(
        frame_id=id,
        occurred_at=NOW,
        name="Hall",
        facility_code=facility_code,
        parent_id=None,
        placement=None,
        supersedes=None,
    )
    return given(frames, first, *events)


def facility(*events: Event) -> Facility:
    first = FacilityRegistered(
        facility_id=FACILITY, occurred_at=NOW, code="aps", display_name="APS", kind=FacilityKind.SITE
    )
    return given(facilities, first, *events)


CLOSED = facility(FacilityDecommissioned(facility_id=FACILITY, occurred_at=NOW, reason="closed"))
REGISTER = RegisterMount(slot_code="A-1", facility_code="aps", placement=PLACEMENT)
UPDATE = UpdateMountPlacement(mount_id=RACK, placement=MOVED)
DECOMMISSION = DecommissionMount(mount_id=RACK, reason="rebuilt")


def test_register_trims_the_slot_code() -> None:
    got = outcome(replace(REGISTER, slot_code=" A-1 "), MountSurroundings(facility=facility(), frame=frame()))
    assert got == [replace(REGISTERED, mount_id=NEW_ID)]


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (replace(REGISTER, slot_code=" "), InvalidSlotCodeError),
        (replace(REGISTER, slot_code="x" * 201), InvalidSlotCodeError),
        (replace(REGISTER, placement=replace(PLACEMENT, tolerance_rx=-0.1)), InvalidPlacementError),
        (
            replace(REGISTER, drawing=Drawing(system=DrawingSystem.EDMS, number=" ", revision=None)),
            InvalidDrawingError,
        ),
    ],
)
def test_register_refuses_bad_values_first(command: RegisterMount, refusal: type) -> None:
    assert outcome(command, MountSurroundings(facility=CLOSED, frame=frame())) == refusal


@pytest.mark.parametrize(
    ("around", "refusal"),
    [
        (
            MountSurroundings(facility=CLOSED, frame=frame(), parent=mount(DECOMMISSIONED)),
            EquipmentFacilityNotActiveError,
        ),
        (
            MountSurroundings(
                facility=facility(), frame=frame(FRAME_DECOMMISSIONED), parent=mount(DECOMMISSIONED)
            ),
            MountParentDecommissionedError,
        ),
        (
            MountSurroundings(facility=facility(), frame=frame(FRAME_DECOMMISSIONED, facility_code="als")),
            MountFrameDecommissionedError,
        ),
        (
            MountSurroundings(facility=facility(), frame=frame(), parent=mount(facility_code="als")),
            MountFacilityMismatchError,
        ),
        (
            MountSurroundings(facility=facility(), frame=frame(facility_code="als")),
            MountFacilityMismatchError,
        ),
    ],
)
def test_register_refuses_bad_surroundings_in_order(around: MountSurroundings, refusal: type) -> None:
    assert outcome(REGISTER, around) == refusal


def test_register_sees_facility_parent_and_frame() -> None:
    world: Any = SmallWorld(facility(), frame(), mount())
    seen = asyncio.run(replace(REGISTER, parent_id=RACK).gather(world))
    assert seen == MountSurroundings(facility=facility(), frame=frame(), parent=mount())


def test_slot_code_is_claimed_within_the_facility_until_decommissioned() -> None:
    assert [(claim.kind, claim.key) for claim in mounts.claims(mount())] == [("mount-slot", "aps/A-1")]
    assert mounts.claims(mount(DECOMMISSIONED)) == []


def test_placement_may_move_to_another_frame_of_the_facility() -> None:
    elsewhere = replace(PLACEMENT, parent_frame_id=TABLE)
    command = UpdateMountPlacement(mount_id=RACK, placement=elsewhere, survey=SURVEY)
    got = outcome(command, MountInFrame(mount=mount(), frame=frame(id=TABLE)))
    assert got == [MountPlacementUpdated(mount_id=RACK, occurred_at=NOW, placement=elsewhere, survey=SURVEY)]


def test_the_same_placement_is_a_no_op() -> None:
    command = UpdateMountPlacement(mount_id=RACK, placement=PLACEMENT)
    assert outcome(command, MountInFrame(mount=mount(), frame=frame())) == []


def test_a_survey_that_confirms_the_placement_is_recorded() -> None:
    command = UpdateMountPlacement(mount_id=RACK, placement=PLACEMENT, survey=SURVEY)
    got = outcome(command, MountInFrame(mount=mount(), frame=frame()))
    assert got == [MountPlacementUpdated(mount_id=RACK, occurred_at=NOW, placement=PLACEMENT, survey=SURVEY)]


@pytest.mark.parametrize(
    ("command", "seen", "refusal"),
    [
        (
            replace(UPDATE, placement=replace(MOVED, x=float("inf"))),
            MountInFrame(mount=mount(DECOMMISSIONED), frame=frame()),
            InvalidPlacementError,
        ),
        (
            replace(UPDATE, survey=replace(SURVEY, method="")),
            MountInFrame(mount=mount(DECOMMISSIONED), frame=frame()),
            InvalidSurveyError,
        ),
        (
            UPDATE,
            MountInFrame(mount=mount(), frame=frame(FRAME_DECOMMISSIONED, facility_code="als")),
            MountFrameDecommissionedError,
        ),
        (
            UPDATE,
            MountInFrame(mount=mount(), frame=frame(facility_code="als")),
            MountFacilityMismatchError,
        ),
    ],
)
def test_update_placement_refusals(command: UpdateMountPlacement, seen: MountInFrame, refusal: type) -> None:
    assert outcome(command, seen) == refusal


def test_update_placement_sees_the_new_frame() -> None:
    world: Any = SmallWorld(mount(), frame(id=TABLE))
    command = replace(UPDATE, placement=replace(PLACEMENT, parent_frame_id=TABLE))
    assert asyncio.run(command.gather(world)) == MountInFrame(mount=mount(), frame=frame(id=TABLE))


def test_an_occupied_mount_stays() -> None:
    assert outcome(DECOMMISSION, MountInUse(mount=mount(INSTALLED))) == MountHasAssetInstalledError


def test_a_mount_with_active_children_stays() -> None:
    child = mount(mount_id=BAY, parent_id=RACK)
    assert outcome(DECOMMISSION, MountInUse(mount=mount(), children=(child,))) == MountHasActiveChildrenError


def test_a_mount_that_was_emptied_may_go() -> None:
    got = outcome(DECOMMISSION, MountInUse(mount=mount(INSTALLED, UNINSTALLED)))
    assert got == [DECOMMISSIONED]


def test_decommission_finds_the_active_children() -> None:
    child = mount(mount_id=BAY, parent_id=RACK)
    world: Any = SmallWorld(mount(), child)
    assert asyncio.run(DECOMMISSION.gather(world)) == MountInUse(mount=mount(), children=(child,))


def test_decommission_asks_for_a_reason_first() -> None:
    used = MountInUse(mount=mount(DECOMMISSIONED))
    assert outcome(DecommissionMount(mount_id=RACK, reason=" "), used) == InvalidMountReasonError


def test_filters_tell_the_frame_and_whether_the_mount_is_occupied() -> None:
    of = {each.name: each.of for each in mounts.listing.filters}
    assert of["frame_id"](mount()) == HALL
    assert [of["occupied"](mount()), of["occupied"](mount(INSTALLED))] == [False, True]


GRID = """
                  update-placement  decommission
Active            Active            Decommissioned
Decommissioned    -                 -
"""


def test_status_grid() -> None:
    check_columns(
        GRID,
        mounts,
        {"Active": [REGISTERED], "Decommissioned": [REGISTERED, DECOMMISSIONED]},
        {
            "update-placement": (UPDATE, lambda state: MountInFrame(mount=state, frame=frame())),
            "decommission": (DECOMMISSION, lambda state: MountInUse(mount=state)),
        },
    )
