"""Frame: its rules, its place in the tree and its status grid."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.frame import (
    Frame,
    FrameCannotUpdatePlacementError,
    FrameDecommissioned,
    FramePlacementUpdated,
    FrameRegistered,
    FrameRevision,
    InvalidFrameNameError,
    InvalidFrameReasonError,
    InvalidFrameRevisionError,
    InvalidFrameRootError,
    ListFrameAncestors,
    UpdateFramePlacement,
    frames,
)
from beamwright.contexts.equipment.frame_registration import (
    FrameFacilityMismatchError,
    FrameParentDecommissionedError,
    FrameSurroundings,
    RegisterFrame,
)
from beamwright.contexts.equipment.frame_retirement import DecommissionFrame, FrameInUse, FrameInUseError
from beamwright.contexts.equipment.mount import Mount, MountDecommissioned, MountRegistered, mounts
from beamwright.contexts.equipment.values import (
    EquipmentFacilityNotActiveError,
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

FACILITY, HALL, TABLE, STAGE, OTHER, MOUNT = (UUID(int=number) for number in range(501, 507))


def placement(parent_frame_id: UUID = HALL, **changes: Any) -> Placement:
    flat = Placement(
        parent_frame_id=parent_frame_id,
        reference_surface=ReferenceSurface.OPTIC_CENTER,
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
    return replace(flat, **changes)


ROOT_REGISTERED = FrameRegistered(
    frame_id=HALL,
    occurred_at=NOW,
    name="Hall",
    facility_code="aps",
    parent_id=None,
    placement=None,
    supersedes=None,
)
REGISTERED = FrameRegistered(
    frame_id=TABLE,
    occurred_at=NOW,
    name="Table",
    facility_code="aps",
    parent_id=HALL,
    placement=placement(),
    supersedes=None,
)
DECOMMISSIONED = FrameDecommissioned(frame_id=TABLE, occurred_at=NOW, reason="rebuilt")
SURVEY = Survey(method="laser tracker", performed_at=NOW, document=None, note=None)


def root(*events: Event, **changes: Any) -> Frame:
    return given(frames, replace(ROOT_REGISTERED, **changes), *events)


def frame(*events: Event, **changes: Any) -> Frame:
    return given(frames, replace(REGISTERED, **changes), *events)


def mount(*events: Event) -> Mount:
    first = MountRegistered(
        mount_id=MOUNT,
        occurred_at=NOW,
        slot_code="A-1",
        facility_code="aps",
        parent_id=None,
        placement=placement(TABLE),
        drawing=None,
    )
    return given(mounts, first, *events)


def facility(kind: FacilityKind = FacilityKind.SITE, *events: Event) -> Facility:
    first = FacilityRegistered(
        facility_id=FACILITY, occurred_at=NOW, code="aps", display_name="APS", kind=kind
    )
    return given(facilities, first, *events)


CLOSED = facility(
    FacilityKind.SITE, FacilityDecommissioned(facility_id=FACILITY, occurred_at=NOW, reason="closed")
)


def supersede(predecessor: UUID, within: UUID) -> FrameRevision:
    return FrameRevision(predecessor_frame_id=predecessor, transform_from_predecessor=placement(within))


def register(**changes: Any) -> RegisterFrame:
    return replace(RegisterFrame(name="Hall", facility_code="aps"), **changes)


def test_a_root_is_registered_with_neither_parent_nor_placement() -> None:
    got = outcome(register(name=" Hall "), FrameSurroundings(facility=facility()))
    assert got == [replace(ROOT_REGISTERED, frame_id=NEW_ID)]


def test_a_frame_is_placed_in_its_parent() -> None:
    command = register(name="Table", parent_id=HALL, placement=placement())
    got = outcome(command, FrameSurroundings(facility=facility(), parent=root()))
    assert got == [replace(REGISTERED, frame_id=NEW_ID)]


def test_a_frame_may_supersede_a_decommissioned_one() -> None:
    command = register(supersedes=supersede(TABLE, TABLE))
    got = outcome(command, FrameSurroundings(facility=facility(), predecessor=frame(DECOMMISSIONED)))
    assert got == [replace(ROOT_REGISTERED, frame_id=NEW_ID, supersedes=supersede(TABLE, TABLE))]


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"name": " "}, InvalidFrameNameError),
        ({"parent_id": HALL, "placement": placement(x=float("nan"))}, InvalidPlacementError),
        ({"parent_id": HALL, "placement": placement(tolerance_x=-1)}, InvalidPlacementError),
        ({"parent_id": HALL}, InvalidFrameRootError),
        ({"placement": placement()}, InvalidFrameRootError),
        ({"parent_id": HALL, "placement": placement(OTHER)}, InvalidFrameRootError),
        ({"supersedes": supersede(TABLE, OTHER)}, InvalidFrameRevisionError),
        (
            {
                "supersedes": FrameRevision(
                    predecessor_frame_id=TABLE, transform_from_predecessor=placement(TABLE, y=float("inf"))
                )
            },
            InvalidPlacementError,
        ),
    ],
)
def test_register_refuses_bad_values(changes: dict[str, Any], refusal: type) -> None:
    assert outcome(register(**changes), FrameSurroundings(facility=CLOSED)) == refusal


@pytest.mark.parametrize(
    ("around", "refusal"),
    [
        (FrameSurroundings(facility=CLOSED, parent=frame(DECOMMISSIONED)), EquipmentFacilityNotActiveError),
        (FrameSurroundings(facility=facility(FacilityKind.PEER)), EquipmentFacilityNotActiveError),
        (
            FrameSurroundings(facility=facility(), parent=frame(DECOMMISSIONED, facility_code="als")),
            FrameParentDecommissionedError,
        ),
        (
            FrameSurroundings(facility=facility(), parent=frame(facility_code="als")),
            FrameFacilityMismatchError,
        ),
        (
            FrameSurroundings(facility=facility(), predecessor=frame(facility_code="als")),
            FrameFacilityMismatchError,
        ),
    ],
)
def test_register_refuses_bad_surroundings_in_order(around: FrameSurroundings, refusal: type) -> None:
    assert outcome(register(), around) == refusal


def test_register_sees_facility_parent_and_predecessor() -> None:
    command = register(parent_id=HALL, placement=placement(), supersedes=supersede(TABLE, TABLE))
    world: Any = SmallWorld(facility(), root(), frame())
    seen = asyncio.run(command.gather(world))
    assert seen == FrameSurroundings(facility=facility(), parent=root(), predecessor=frame())


def test_a_frame_is_superseded_once() -> None:
    revised = root(supersedes=supersede(TABLE, TABLE))
    assert [(claim.kind, claim.key) for claim in frames.claims(revised)] == [("frame-successor", str(TABLE))]
    assert frames.claims(root()) == []


def test_placement_is_updated_with_its_survey() -> None:
    got = outcome(UpdateFramePlacement(frame_id=TABLE, placement=placement(x=1), survey=SURVEY), frame())
    assert got == [
        FramePlacementUpdated(frame_id=TABLE, occurred_at=NOW, placement=placement(x=1), survey=SURVEY)
    ]


def test_the_same_placement_is_a_no_op() -> None:
    assert outcome(UpdateFramePlacement(frame_id=TABLE, placement=placement()), frame()) == []


def test_a_survey_that_confirms_the_placement_is_recorded() -> None:
    got = outcome(UpdateFramePlacement(frame_id=TABLE, placement=placement(), survey=SURVEY), frame())
    assert got == [
        FramePlacementUpdated(frame_id=TABLE, occurred_at=NOW, placement=placement(), survey=SURVEY)
    ]


@pytest.mark.parametrize(
    ("placed", "survey", "refusal"),
    [
        (placement(rz=float("nan")), None, InvalidPlacementError),
        (placement(), replace(SURVEY, method=" "), InvalidSurveyError),
        (placement(OTHER), None, InvalidFrameRootError),
    ],
)
def test_update_placement_refuses_bad_values_first(
    placed: Placement, survey: Survey | None, refusal: type
) -> None:
    command = UpdateFramePlacement(frame_id=TABLE, placement=placed, survey=survey)
    assert outcome(command, frame(DECOMMISSIONED)) == refusal


def test_a_root_is_placed_in_nothing() -> None:
    got = outcome(UpdateFramePlacement(frame_id=HALL, placement=placement()), root())
    assert got == FrameCannotUpdatePlacementError


def test_a_frame_in_use_stays() -> None:
    child = frame(frame_id=STAGE, parent_id=TABLE, placement=placement(TABLE))
    for used in (FrameInUse(frame=frame(), children=(child,)), FrameInUse(frame=frame(), mounts=(mount(),))):
        assert outcome(DecommissionFrame(frame_id=TABLE, reason="rebuilt"), used) == FrameInUseError


def test_what_is_decommissioned_itself_does_not_hold_a_frame() -> None:
    gone = mount(MountDecommissioned(mount_id=MOUNT, occurred_at=NOW, reason="gone"))
    got = outcome(
        DecommissionFrame(frame_id=TABLE, reason="rebuilt"), FrameInUse(frame=frame(), mounts=(gone,))
    )
    assert got == [DECOMMISSIONED]


def test_decommission_finds_what_is_placed_in_the_frame() -> None:
    child = frame(frame_id=STAGE, parent_id=TABLE, placement=placement(TABLE))
    world: Any = SmallWorld(root(), frame(), child, mount())
    seen = asyncio.run(DecommissionFrame(frame_id=TABLE, reason="rebuilt").gather(world))
    assert seen == FrameInUse(frame=frame(), children=(child,), mounts=(mount(),))


def test_decommission_asks_for_a_reason_first() -> None:
    used = FrameInUse(frame=frame(DECOMMISSIONED))
    assert outcome(DecommissionFrame(frame_id=TABLE, reason=" "), used) == InvalidFrameReasonError


def test_ancestors_come_root_first_with_their_placements() -> None:
    stage = frame(frame_id=STAGE, parent_id=TABLE, placement=placement(TABLE))
    world: Any = SmallWorld(root(), frame(), stage)
    got = asyncio.run(ListFrameAncestors(frame_id=STAGE).answer(world))
    assert [(each.frame_id, each.placement) for each in got.items] == [(HALL, None), (TABLE, placement())]


GRID = """
                  update-placement  decommission
Active            Active            Decommissioned
Decommissioned    -                 -
"""


def test_status_grid() -> None:
    check_columns(
        GRID,
        frames,
        {"Active": [REGISTERED], "Decommissioned": [REGISTERED, DECOMMISSIONED]},
        {
            "update-placement": (
                UpdateFramePlacement(frame_id=TABLE, placement=placement(x=1)),
                lambda state: state,
            ),
            "decommission": (
                DecommissionFrame(frame_id=TABLE, reason="rebuilt"),
                lambda state: FrameInUse(frame=state),
            ),
        },
    )
