"""Blueprints: the form of slots, wires and links, and the rules by which they fit together."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from unicodedata import normalize
from uuid import UUID

import msgspec

from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.value import Value, replace

from .assembly import (
    Assembly,
    AssemblyContent,
    AssemblyStatus,
    InvalidParameterOverridesSchemaError,
    InvalidSubAssemblyLinkError,
    InvalidTemplateSlotError,
    InvalidTemplateWireError,
    SubAssemblyLink,
    TemplateSlot,
    TemplateWire,
    named_families,
)
from .family import Family, check_families_usable
from .role import Role, check_roles_usable

MOST_SLOTS, MOST_FAMILIES, MOST_WIRES, MOST_LINKS = 200, 20, 500, 50
HASH = "^[0-9a-f]{64}$"


class SubAssemblyCycleError(ConflictError):
    """An assembly is not part of itself."""


class SubAssemblyDeprecatedError(ConflictError):
    """A deprecated assembly is not built into another."""


class SubAssemblyNestingTooDeepError(ConflictError):
    """A sub-assembly has sub-assemblies of its own; one level is the most."""


class SubAssemblyContentHashMismatchError(ConflictError):
    """The sub-assembly's content is not the one that the link pins."""


class AssemblySlotNameConflictError(ConflictError):
    """Two slots or links of the assembly and its sub-assemblies have one name."""


class WireReferencesUnknownSlotError(ConflictError):
    """A wire begins or ends at a slot that neither the assembly nor a sub-assembly has."""


class AssemblyRoleNotSatisfiedError(ConflictError):
    """The families of the slots do not cover what a presented role requires."""


class AssemblyParts(Value):
    """What a blueprint names: families (of its sub-assemblies' slots too), roles and sub-assemblies."""

    families: tuple[Family, ...] = ()
    roles: tuple[Role, ...] = ()
    children: tuple[Assembly, ...] = ()


def label(value: str, refusal: type[InvalidError], what: str) -> str:
    """A name of 1 to 100 characters in NFC, as the content hash sees it."""
    return normalize("NFC", text.trimmed(value, 100, refusal, what))


def check_count(items: Collection[object], most: int, refusal: type[InvalidError], what: str) -> None:
    if len(items) > most:
        raise refusal(f"There are {len(items)} {what}; at most {most} are allowed.", most=most)


def checked_slots(slots: Sequence[TemplateSlot]) -> tuple[TemplateSlot, ...]:
    """The slots by name."""
    check_count(slots, MOST_SLOTS, InvalidTemplateSlotError, "slots")
    found = [
        replace(slot, slot_name=label(slot.slot_name, InvalidTemplateSlotError, "slot's name"))
        for slot in slots
    ]
    for slot in found:
        if not 1 <= len(slot.required_family_ids) <= MOST_FAMILIES:
            raise InvalidTemplateSlotError(
                f"Slot {slot.slot_name} must name 1 to {MOST_FAMILIES} families.",
                slot_name=slot.slot_name,
                count=len(slot.required_family_ids),
            )
    return tuple(sorted(found, key=lambda slot: slot.slot_name))


def checked_wires(wires: Sequence[TemplateWire]) -> tuple[TemplateWire, ...]:
    """The wires in order, each once."""
    check_count(wires, MOST_WIRES, InvalidTemplateWireError, "wires")
    return tuple(sorted({checked_wire(wire) for wire in wires}, key=msgspec.structs.astuple))


def checked_wire(wire: TemplateWire) -> TemplateWire:
    source_slot, source_port, target_slot, target_port = (
        label(end, InvalidTemplateWireError, "wire's slot or port name")
        for end in msgspec.structs.astuple(wire)
    )
    if (source_slot, source_port) == (target_slot, target_port):
        raise InvalidTemplateWireError(
            f"A wire must not join port {source_port} of slot {source_slot} to itself.",
            slot_name=source_slot,
            port_name=source_port,
        )
    return TemplateWire(
        source_slot_name=source_slot,
        source_port_name=source_port,
        target_slot_name=target_slot,
        target_port_name=target_port,
    )


def checked_links(links: Sequence[SubAssemblyLink]) -> tuple[SubAssemblyLink, ...]:
    """The links by name."""
    check_count(links, MOST_LINKS, InvalidSubAssemblyLinkError, "sub-assemblies")
    found = [
        SubAssemblyLink(
            slot_name=label(link.slot_name, InvalidSubAssemblyLinkError, "link's name"),
            sub_assembly_id=link.sub_assembly_id,
            content_hash=text.code(link.content_hash, HASH, InvalidSubAssemblyLinkError, "content hash"),
        )
        for link in links
    ]
    return tuple(sorted(found, key=lambda link: (link.slot_name, link.sub_assembly_id)))


def check_schema_kept(assembly: Assembly, content: AssemblyContent) -> None:
    """Gate: a declared schema is replaced, never removed."""
    if assembly.parameter_overrides_schema is not None and content.parameter_overrides_schema is None:
        raise InvalidParameterOverridesSchemaError(
            "The assembly has a parameter overrides schema: state it again, or give {} for no constraint.",
            path="",
            keyword="parameter_overrides_schema",
        )


def check_blueprint(assembly_id: UUID, content: AssemblyContent, parts: AssemblyParts) -> None:
    """Gate: everything that the blueprint names can be used, and fits together."""
    own = named_families(content.required_slots)
    check_families_usable([family for family in parts.families if family.id in own])
    check_roles_usable(parts.roles)
    check_no_cycle(assembly_id, content.required_sub_assemblies)
    check_children_usable(parts.children)
    check_nesting(parts.children)
    check_pins(content.required_sub_assemblies, parts.children)
    check_slot_names(content, parts.children)
    check_wired_slots(content, parts.children)
    check_roles_covered(parts.roles, parts.families, AssemblyRoleNotSatisfiedError)


def check_no_cycle(assembly_id: UUID, links: Iterable[SubAssemblyLink]) -> None:
    """Gate: nothing contains itself."""
    if any(link.sub_assembly_id == assembly_id for link in links):
        raise SubAssemblyCycleError("An assembly cannot be part of itself.", assembly_id=str(assembly_id))


def check_children_usable(children: Iterable[Assembly]) -> None:
    """Gate: what is built in is not deprecated."""
    deprecated = [child for child in children if child.status is AssemblyStatus.DEPRECATED]
    if deprecated:
        names = ", ".join(sorted(child.name for child in deprecated))
        raise SubAssemblyDeprecatedError(
            f"Deprecated assemblies are not built into others: {names}.",
            assembly_ids=sorted(str(child.id) for child in deprecated),
        )


def check_nesting(children: Iterable[Assembly]) -> None:
    """Gate: blueprints nest one level deep."""
    deep = [child for child in children if child.required_sub_assemblies]
    if deep:
        names = ", ".join(sorted(child.name for child in deep))
        raise SubAssemblyNestingTooDeepError(
            f"These have sub-assemblies of their own, and one level is the most: {names}.",
            assembly_ids=sorted(str(child.id) for child in deep),
        )


def check_pins(links: Iterable[SubAssemblyLink], children: Iterable[Assembly]) -> None:
    """Gate: each sub-assembly has the content that its link pins."""
    current = {child.id: child.content_hash for child in children}
    for link in links:
        if current[link.sub_assembly_id] != link.content_hash:
            raise SubAssemblyContentHashMismatchError(
                f"The content of sub-assembly {link.slot_name} is not the pinned one; version the assembly"
                " with the hash of the content that is meant.",
                slot_name=link.slot_name,
                assembly_id=str(link.sub_assembly_id),
                pinned=link.content_hash,
                current=current[link.sub_assembly_id],
            )


def check_slot_names(content: AssemblyContent, children: Iterable[Assembly]) -> None:
    """Gate: slots, links and the slots of sub-assemblies share one flat namespace."""
    linked = {child.id: child for child in children}
    names = [slot.slot_name for slot in content.required_slots]
    for link in content.required_sub_assemblies:
        names += [link.slot_name, *(slot.slot_name for slot in linked[link.sub_assembly_id].required_slots)]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise AssemblySlotNameConflictError(
            f"Each name may stand for one slot or sub-assembly only: {', '.join(twice)}.", slot_names=twice
        )


def check_wired_slots(content: AssemblyContent, children: Iterable[Assembly]) -> None:
    """Gate: wires begin and end at slots, the assembly's own or a sub-assembly's."""
    known = {slot.slot_name for slot in content.required_slots}
    known |= {slot.slot_name for child in children for slot in child.required_slots}
    ends = {end for wire in content.required_wires for end in (wire.source_slot_name, wire.target_slot_name)}
    unknown = sorted(ends - known)
    if unknown:
        raise WireReferencesUnknownSlotError(
            f"Wires name slots that do not exist: {', '.join(unknown)}.", slot_names=unknown
        )


def check_roles_covered(
    presented: Iterable[Role], families: Iterable[Family], refusal: type[ConflictError]
) -> None:
    """Gate: the families together can do what each presented role requires."""
    covered = {affordance for family in families for affordance in family.affordances}
    for role in sorted(presented, key=lambda role: role.id):
        missing = sorted(role.required_affordances - covered)
        if missing:
            raise refusal(
                f"Role {role.name} requires {', '.join(missing)}, which none of the families affords.",
                role_id=str(role.id),
                missing_affordances=missing,
            )
