"""Assembly: the form of a blueprint, how its parts fit together, its content hash and its status grid."""

import asyncio
import hashlib
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.equipment.assembly import (
    Assembly,
    AssemblyDefined,
    AssemblyDeprecated,
    AssemblyRoleAdded,
    AssemblyRoleRemoved,
    AssemblyVersioned,
    AssemblyVersionTagTakenError,
    DeprecateAssembly,
    InvalidAssemblyNameError,
    InvalidAssemblyReasonError,
    InvalidAssemblyVersionTagError,
    InvalidParameterOverridesSchemaError,
    InvalidSubAssemblyLinkError,
    InvalidTemplateSlotError,
    InvalidTemplateWireError,
    SlotCardinality,
    SubAssemblyLink,
    TemplateSlot,
    TemplateWire,
    assemblies,
)
from beamwright.contexts.equipment.assembly_definition import (
    AddAssemblyRole,
    AssemblyRevision,
    AssemblyRoleAlreadyPresentError,
    AssemblyRoleNotPresentError,
    AssemblyWithRole,
    DefineAssembly,
    RemoveAssemblyRole,
    VersionAssembly,
    assembly_hash,
)
from beamwright.contexts.equipment.blueprint import (
    AssemblyParts,
    AssemblyRoleNotSatisfiedError,
    AssemblySlotNameConflictError,
    SubAssemblyContentHashMismatchError,
    SubAssemblyCycleError,
    SubAssemblyDeprecatedError,
    SubAssemblyNestingTooDeepError,
    WireReferencesUnknownSlotError,
)
from beamwright.contexts.equipment.family import (
    Family,
    FamilyDefined,
    FamilyDeprecated,
    FamilyDeprecatedError,
    families,
)
from beamwright.contexts.equipment.role import Role, RoleDefined, RoleDeprecated, RoleDeprecatedError, roles
from beamwright.contexts.equipment.values import Affordance, Drawing, DrawingSystem, InvalidDrawingError
from beamwright.kernel.event import Event
from beamwright.kernel.value import replace
from beamwright.kernel.versions import TaggedVersion
from tests.contexts.trust.examples import SmallWorld, check_columns
from tests.rules import NEW_ID, NOW, given, outcome

ASSEMBLY, CHILD, STAGE_FAMILY, CAMERA_FAMILY, ROLE = (UUID(int=number) for number in range(601, 606))
CLOSED = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"speed": {"type": "number"}},
    "additionalProperties": False,
    "unevaluatedProperties": False,
}


def slot(name: str, *family_ids: UUID) -> TemplateSlot:
    return TemplateSlot(
        slot_name=name,
        required_family_ids=frozenset(family_ids or [STAGE_FAMILY]),
        cardinality=SlotCardinality.EXACTLY_1,
    )


def wire(source: str, target: str) -> TemplateWire:
    (source_slot, source_port), (target_slot, target_port) = source.split("."), target.split(".")
    return TemplateWire(
        source_slot_name=source_slot,
        source_port_name=source_port,
        target_slot_name=target_slot,
        target_port_name=target_port,
    )


def link(name: str, content_hash: str, id: UUID = CHILD) -> SubAssemblyLink:
    return SubAssemblyLink(slot_name=name, sub_assembly_id=id, content_hash=content_hash)


ROTATION, CAMERA = slot("rotation"), slot("camera", CAMERA_FAMILY)
TRIGGER = wire("rotation.encoder", "camera.trigger")
DEFINE = DefineAssembly(name="Tomography", required_slots=(CAMERA, ROTATION), required_wires=(TRIGGER,))
HASH = "0123456789abcdef" * 4
DEFINED = AssemblyDefined(
    assembly_id=ASSEMBLY,
    occurred_at=NOW,
    name="Tomography",
    presented_role_ids=frozenset(),
    required_slots=(CAMERA, ROTATION),
    required_wires=(TRIGGER,),
    required_sub_assemblies=(),
    parameter_overrides_schema=None,
    drawing=None,
    version_tag=None,
    content_hash=HASH,
)
DEPRECATED = AssemblyDeprecated(assembly_id=ASSEMBLY, occurred_at=NOW, reason="superseded")
VERSIONED = AssemblyVersioned(
    assembly_id=ASSEMBLY,
    occurred_at=NOW,
    name="Tomography",
    presented_role_ids=frozenset(),
    required_slots=(CAMERA, ROTATION),
    required_wires=(TRIGGER,),
    required_sub_assemblies=(),
    parameter_overrides_schema=None,
    drawing=None,
    version_tag="2",
    content_hash=HASH,
    previous_content_hash=HASH,
)


def assembly(*events: Event, **changes: Any) -> Assembly:
    return given(assemblies, replace(DEFINED, **changes), *events)


def child(*events: Event, **changes: Any) -> Assembly:
    plain: dict[str, Any] = {"required_slots": (slot("lens"),), "required_wires": ()}
    return assembly(*events, **({"assembly_id": CHILD, "name": "Optics"} | plain | changes))


def family(
    id: UUID = STAGE_FAMILY, *events: Event, affordances: frozenset[Affordance] = frozenset()
) -> Family:
    first = FamilyDefined(
        family_id=id,
        occurred_at=NOW,
        name=f"Family {id.int}",
        affordances=affordances,
        settings_schema=None,
        settings_schema_version=0,
        presented_role_ids=frozenset(),
    )
    return given(families, first, *events)


def role(*events: Event) -> Role:
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
    return given(roles, first, *events)


STAGES, CAMERAS = family(), family(CAMERA_FAMILY, affordances=frozenset({Affordance.IMAGEABLE}))
OLD_STAGES = family(STAGE_FAMILY, FamilyDeprecated(family_id=STAGE_FAMILY, occurred_at=NOW, reason="old"))
OLD_ROLE = role(RoleDeprecated(role_id=ROLE, occurred_at=NOW, reason="old"))
PARTS = AssemblyParts(families=(STAGES, CAMERAS))


def outcome_events(command: Any, seen: Any) -> list[Any]:
    got = outcome(command, seen)
    assert not isinstance(got, type), got
    return list(got)


def test_define_keeps_slots_and_wires_in_order_and_hashes_them() -> None:
    command = replace(DEFINE, name=" Tomography ", required_slots=(ROTATION, CAMERA))
    [defined] = outcome_events(command, PARTS)
    assert defined == replace(
        DEFINED, assembly_id=NEW_ID, content_hash=assembly_hash(given(assemblies, defined).content)
    )


def test_the_hash_is_sha_256_over_the_dsse_encoding_of_the_canonical_content() -> None:
    content = assembly(required_slots=(slot("a"),), required_wires=()).content
    kind = "application/vnd.beamwright.assembly+json"
    body = (
        '{"name":"Tomography","parameter_overrides_schema":null,"presented_role_ids":[],"required_slots":'
        f'[{{"cardinality":"Exactly1","required_family_ids":["{STAGE_FAMILY}"],"slot_name":"a"}}],'
        '"required_sub_assemblies":[],"required_wires":[]}'
    )
    encoded = f"DSSEv1 {len(kind)} {kind} {len(body)} {body}"
    assert assembly_hash(content) == hashlib.sha256(encoded.encode()).hexdigest()


def test_the_order_of_slots_and_repeated_wires_make_no_other_hash() -> None:
    other = replace(DEFINE, required_slots=(ROTATION, CAMERA), required_wires=(TRIGGER, TRIGGER))
    assert outcome(other, PARTS) == outcome(DEFINE, PARTS)


def test_composed_and_decomposed_names_make_the_same_hash() -> None:
    composed, decomposed = (
        replace(DEFINE, required_slots=(slot(name), slot("s")), required_wires=())
        for name in ("r\u00e9", "re\u0301")
    )
    assert outcome(composed, PARTS) == outcome(decomposed, PARTS)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "Laminography"},
        {"presented_role_ids": frozenset({ROLE})},
        {"required_slots": (CAMERA,)},
        {"required_wires": ()},
        {"required_sub_assemblies": (link("optics", HASH),)},
        {"parameter_overrides_schema": {}},
    ],
)
def test_each_part_of_the_content_counts_in_the_hash(changes: dict[str, Any]) -> None:
    assert assembly_hash(assembly(**changes).content) != assembly_hash(assembly().content)


def test_drawing_and_tags_do_not_count_in_the_hash() -> None:
    drawing = Drawing(system=DrawingSystem.EDMS, number="7", revision=None)
    assert assembly_hash(assembly(drawing=drawing, version_tag="1").content) == assembly_hash(
        assembly().content
    )


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"name": " "}, InvalidAssemblyNameError),
        ({"required_slots": (slot(" "),)}, InvalidTemplateSlotError),
        ({"required_slots": (slot("x" * 101),)}, InvalidTemplateSlotError),
        ({"required_slots": (replace(ROTATION, required_family_ids=frozenset()),)}, InvalidTemplateSlotError),
        ({"required_slots": (slot("a", *(UUID(int=n) for n in range(21))),)}, InvalidTemplateSlotError),
        ({"required_slots": tuple(slot(str(n)) for n in range(201))}, InvalidTemplateSlotError),
        ({"required_wires": (wire("rotation. ", "camera.b"),)}, InvalidTemplateWireError),
        ({"required_wires": (wire("camera.a", " camera.a"),)}, InvalidTemplateWireError),
        ({"required_wires": (TRIGGER,) * 501}, InvalidTemplateWireError),
        ({"required_sub_assemblies": (link(" ", HASH),)}, InvalidSubAssemblyLinkError),
        ({"required_sub_assemblies": (link("optics", "abc"),)}, InvalidSubAssemblyLinkError),
        ({"required_sub_assemblies": (link("optics", HASH),) * 51}, InvalidSubAssemblyLinkError),
        (
            {"drawing": Drawing(system=DrawingSystem.EDMS, number=" ", revision=None)},
            InvalidDrawingError,
        ),
        ({"parameter_overrides_schema": {"type": "object"}}, InvalidParameterOverridesSchemaError),
        ({"version_tag": "initial"}, InvalidAssemblyVersionTagError),
    ],
)
def test_define_refuses_bad_values_first(changes: dict[str, Any], refusal: type) -> None:
    assert outcome(replace(DEFINE, **changes), AssemblyParts(families=(OLD_STAGES,))) == refusal


DEEP = child(required_sub_assemblies=(link("further", HASH, ASSEMBLY),))
OLD_CHILD = child(AssemblyDeprecated(assembly_id=CHILD, occurred_at=NOW, reason="old"))
OPTICS = link("optics", HASH)
OTHER_OPTICS = link("optics", "f" * 64)


@pytest.mark.parametrize(
    ("changes", "parts", "refusal"),
    [
        ({}, {"families": (OLD_STAGES,), "roles": (OLD_ROLE,)}, FamilyDeprecatedError),
        (
            {"presented_role_ids": frozenset({ROLE}), "required_sub_assemblies": (OPTICS,)},
            {"roles": (OLD_ROLE,), "children": (OLD_CHILD,)},
            RoleDeprecatedError,
        ),
        (
            {"required_sub_assemblies": (link("optics", HASH, NEW_ID),)},
            {"children": (child(assembly_id=NEW_ID),)},
            SubAssemblyCycleError,
        ),
        ({"required_sub_assemblies": (OPTICS,)}, {"children": (OLD_CHILD,)}, SubAssemblyDeprecatedError),
        (
            {"required_sub_assemblies": (OTHER_OPTICS,)},
            {"children": (DEEP,)},
            SubAssemblyNestingTooDeepError,
        ),
        (
            {"required_sub_assemblies": (replace(OTHER_OPTICS, slot_name="camera"),)},
            {"children": (child(),)},
            SubAssemblyContentHashMismatchError,
        ),
        ({"required_slots": (CAMERA, CAMERA)}, {}, AssemblySlotNameConflictError),
        (
            {"required_sub_assemblies": (link("camera", HASH),)},
            {"children": (child(),)},
            AssemblySlotNameConflictError,
        ),
        (
            {"required_sub_assemblies": (OPTICS,), "required_slots": (slot("lens"),)},
            {"children": (child(),)},
            AssemblySlotNameConflictError,
        ),
        (
            {"required_sub_assemblies": (OPTICS, replace(OPTICS, slot_name="more optics"))},
            {"children": (child(),)},
            AssemblySlotNameConflictError,
        ),
        ({"required_slots": (CAMERA,)}, {"roles": (role(),)}, WireReferencesUnknownSlotError),
        (
            {"required_wires": (wire("optics.a", "camera.b"),), "required_sub_assemblies": (OPTICS,)},
            {"children": (child(),)},
            WireReferencesUnknownSlotError,
        ),
        ({}, {"roles": (role(),), "families": (STAGES,)}, AssemblyRoleNotSatisfiedError),
    ],
)
def test_define_refusals_in_order(changes: dict[str, Any], parts: dict[str, Any], refusal: type) -> None:
    assert outcome(replace(DEFINE, **changes), replace(PARTS, **parts)) == refusal


def test_wires_may_end_at_slots_of_sub_assemblies() -> None:
    command = replace(
        DEFINE, required_wires=(wire("rotation.a", "lens.b"),), required_sub_assemblies=(OPTICS,)
    )
    [defined] = outcome_events(command, replace(PARTS, children=(child(),)))
    assert defined.required_wires == (wire("rotation.a", "lens.b"),)


def test_families_of_sub_assemblies_cover_roles_even_when_deprecated() -> None:
    command = replace(
        DEFINE,
        presented_role_ids=frozenset({ROLE}),
        required_slots=(ROTATION,),
        required_wires=(),
        required_sub_assemblies=(OPTICS,),
    )
    gone = FamilyDeprecated(family_id=CAMERA_FAMILY, occurred_at=NOW, reason="old")
    old = family(CAMERA_FAMILY, gone, affordances=frozenset({Affordance.IMAGEABLE}))
    optics = child(required_slots=(slot("lens", CAMERA_FAMILY),))
    parts = AssemblyParts(families=(STAGES, old), roles=(role(),), children=(optics,))
    assert outcome_events(command, parts)[0].presented_role_ids == {ROLE}


def test_define_sees_families_roles_children_and_their_families() -> None:
    optics = child(required_slots=(slot("lens", CAMERA_FAMILY),))
    command = DefineAssembly(
        name="Tomography",
        presented_role_ids=frozenset({ROLE}),
        required_slots=(ROTATION,),
        required_sub_assemblies=(OPTICS,),
    )
    world: Any = SmallWorld(STAGES, CAMERAS, role(), optics)
    seen = asyncio.run(command.gather(world))
    assert seen == AssemblyParts(families=(STAGES, CAMERAS), roles=(role(),), children=(optics,))


VERSION = VersionAssembly(
    assembly_id=ASSEMBLY, version_tag="2", name="Tomography", required_slots=(CAMERA,), required_wires=()
)


def test_version_replaces_everything_and_names_the_hash_before() -> None:
    [versioned] = outcome_events(VERSION, AssemblyRevision(assembly=assembly(), parts=PARTS))
    after = given(assemblies, DEFINED, versioned)
    assert (after.required_slots, after.required_wires) == ((CAMERA,), ())
    assert versioned.previous_content_hash == HASH
    assert versioned.content_hash == after.content_hash == assembly_hash(after.content)


def test_every_tag_is_kept_with_its_stream_version() -> None:
    after = assembly(VERSIONED, version_tag="1")
    assert after.version_tag == "2"
    assert after.version_tags == (
        TaggedVersion(version_tag="1", stream_version=1),
        TaggedVersion(version_tag="2", stream_version=2),
    )


@pytest.mark.parametrize(
    ("command", "before", "refusal"),
    [
        (replace(VERSION, name=""), assembly(DEPRECATED), InvalidAssemblyNameError),
        (replace(VERSION, version_tag="-"), assembly(DEPRECATED), InvalidAssemblyVersionTagError),
        (VERSION, assembly(version_tag="2"), AssemblyVersionTagTakenError),
        (
            replace(VERSION, required_sub_assemblies=(link("optics", HASH, ASSEMBLY),)),
            assembly(),
            SubAssemblyCycleError,
        ),
    ],
)
def test_version_refusals(command: VersionAssembly, before: Assembly, refusal: type) -> None:
    seen = AssemblyRevision(assembly=before, parts=replace(PARTS, children=(assembly(),)))
    assert outcome(command, seen) == refusal


def test_a_tag_is_judged_before_the_families() -> None:
    seen = AssemblyRevision(assembly=assembly(version_tag="2"), parts=AssemblyParts(families=(OLD_STAGES,)))
    assert outcome(VERSION, seen) == AssemblyVersionTagTakenError


def test_a_declared_schema_is_replaced_and_not_removed() -> None:
    seen = AssemblyRevision(assembly=assembly(parameter_overrides_schema=CLOSED), parts=PARTS)
    assert outcome(VERSION, seen) == InvalidParameterOverridesSchemaError
    [versioned] = outcome_events(replace(VERSION, parameter_overrides_schema={}), seen)
    assert versioned.parameter_overrides_schema == {}


ADD, REMOVE = (
    AddAssemblyRole(assembly_id=ASSEMBLY, role_id=ROLE),
    RemoveAssemblyRole(assembly_id=ASSEMBLY, role_id=ROLE),
)
WITH_ROLE = {"presented_role_ids": frozenset({ROLE})}


def test_a_role_is_added_with_the_hash_of_the_content_after() -> None:
    got = outcome(ADD, AssemblyWithRole(assembly=assembly(), role=role(), families=(CAMERAS,)))
    expected = assembly_hash(assembly(**WITH_ROLE).content)
    assert got == [
        AssemblyRoleAdded(
            assembly_id=ASSEMBLY,
            occurred_at=NOW,
            role_id=ROLE,
            content_hash=expected,
            previous_content_hash=HASH,
        )
    ]


def test_a_role_is_removed_with_the_hash_of_the_content_after() -> None:
    got = outcome(REMOVE, assembly(**WITH_ROLE))
    expected = assembly_hash(assembly().content)
    assert got == [
        AssemblyRoleRemoved(
            assembly_id=ASSEMBLY,
            occurred_at=NOW,
            role_id=ROLE,
            content_hash=expected,
            previous_content_hash=HASH,
        )
    ]


@pytest.mark.parametrize(
    ("seen", "refusal"),
    [
        (AssemblyWithRole(assembly=assembly(**WITH_ROLE), role=OLD_ROLE), AssemblyRoleAlreadyPresentError),
        (AssemblyWithRole(assembly=assembly(), role=OLD_ROLE), RoleDeprecatedError),
        (
            AssemblyWithRole(assembly=assembly(), role=role(), families=(STAGES,)),
            AssemblyRoleNotSatisfiedError,
        ),
    ],
)
def test_add_role_refusals_in_order(seen: AssemblyWithRole, refusal: type) -> None:
    assert outcome(ADD, seen) == refusal


def test_only_a_presented_role_is_removed() -> None:
    assert outcome(REMOVE, assembly()) == AssemblyRoleNotPresentError


def test_add_role_sees_the_families_of_sub_assemblies_too() -> None:
    optics = child(required_slots=(slot("lens", CAMERA_FAMILY),))
    whole = assembly(required_slots=(ROTATION,), required_wires=(), required_sub_assemblies=(OPTICS,))
    world: Any = SmallWorld(whole, optics, role(), STAGES, CAMERAS)
    seen = asyncio.run(ADD.gather(world))
    assert seen == AssemblyWithRole(assembly=whole, role=role(), families=(STAGES, CAMERAS))


def test_deprecate_asks_for_a_reason_first() -> None:
    command = DeprecateAssembly(assembly_id=ASSEMBLY, reason=" ")
    assert outcome(command, assembly(DEPRECATED)) == InvalidAssemblyReasonError


def test_filters_tell_families_and_roles() -> None:
    of = {each.name: each.of for each in assemblies.listing.filters}
    assert of["family_id"](assembly()) == [STAGE_FAMILY, CAMERA_FAMILY]
    assert of["role_id"](assembly(**WITH_ROLE)) == [ROLE]


GRID = """
              version     deprecate    add-role    remove-role
Defined       Versioned   Deprecated   Defined     Defined
Versioned     Versioned   Deprecated   Versioned   Versioned
Deprecated    -           -            -           -
"""


def test_status_grid() -> None:
    check_columns(
        GRID,
        assemblies,
        {"Defined": [DEFINED], "Versioned": [DEFINED, VERSIONED], "Deprecated": [DEFINED, DEPRECATED]},
        {
            "version": (
                replace(VERSION, version_tag="3"),
                lambda state: AssemblyRevision(assembly=state, parts=PARTS),
            ),
            "deprecate": (DeprecateAssembly(assembly_id=ASSEMBLY, reason="old"), lambda state: state),
            "add-role": (
                ADD,
                lambda state: AssemblyWithRole(assembly=state, role=role(), families=(CAMERAS,)),
            ),
            "remove-role": (REMOVE, lambda state: replace(state, presented_role_ids=frozenset({ROLE}))),
        },
    )
