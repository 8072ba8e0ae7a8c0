"""Comparing all but assets: the facility, families, models, enclosures and supplies of a file."""

from collections.abc import Iterator
from uuid import UUID

from msgspec import UNSET

from beamwright.contexts.equipment.family import Family, schema_differs
from beamwright.contexts.equipment.model import UNKNOWN_PART_NUMBER
from beamwright.contexts.federation.facility import FacilityKind, FacilityStatus
from beamwright.kernel.declared_schema import unit_changes
from beamwright.kernel.text import folded

from .calls import View
from .checking import AssetAt
from .document import Place, near
from .live import gone
from .plan import Draft, Made, Phase, Ref, Wish, alike, builtin, was_now
from .schema import EnclosureEntry, FamilyEntry, ModelEntry, SupplyEntry


def plan_facility(draft: Draft) -> None:
    entry, live = draft.source.facility, draft.live
    place = ("facility",)
    subject = draft.subject("facility", entry.code, place)
    above = None if entry.parent is UNSET else live.facilities.get(entry.parent)
    if entry.parent is not UNSET and above is None:
        draft.fault((*place, "parent"), f"There is no facility {entry.parent}; register it first.")
    if live.facility is None:
        kind = entry.kind or (FacilityKind.SITE if above is None else FacilityKind.AREA)
        fields = {"code": entry.code, "display_name": entry.display_name or entry.code, "kind": kind}
        parent = {} if above is None else {"parent_id": above["id"]}
        draft.create(Phase.FACILITY, "register_facility", fields | parent, subject)
    elif live.facility["status"] != FacilityStatus.ACTIVE:
        draft.fault((*place, "code"), f"Facility {entry.code} is decommissioned.")
    else:
        _compare_facility(draft, live.facility, above)


def _compare_facility(draft: Draft, view: View, above: View | None) -> None:
    entry, subject = draft.source.facility, draft.subject("facility", draft.live.code, ("facility",))
    conflicts: list[str] = []
    if entry.kind is not UNSET and entry.kind != view["kind"]:
        conflicts.append(f"It is a {view['kind']}, which cannot be changed.")
    if above is not None and above["id"] != view["parent_id"]:
        conflicts.append("It has another parent, which cannot be changed.")
    if conflicts:
        draft.conflict(subject, *conflicts)
        return
    wishes: list[Wish] = []
    if entry.display_name is not UNSET and entry.display_name != view["display_name"]:
        fields = {"facility_id": view["id"], "display_name": entry.display_name}
        detail = was_now("display_name", view["display_name"], entry.display_name)
        wishes.append(Wish("update_facility", fields, (detail,)))
    draft.change(Phase.FACILITY, view, subject, wishes)


def plan_families(draft: Draft) -> None:
    for number, entry in enumerate(draft.source.families):
        place = ("families", number)
        roles = [_role(draft, name, (*place, "roles", n)) for n, name in enumerate(entry.roles or ())]
        view = draft.live.family_named(entry.name)
        subject = draft.subject("family", entry.name, place)
        if view is None:
            fields = {"name": entry.name, "affordances": builtin(entry.affordances)}
            fields |= {} if entry.settings_schema is UNSET else {"settings_schema": entry.settings_schema}
            fields |= {"presented_role_ids": roles} if roles else {}
            ref: Ref = draft.create(
                Phase.CATALOGUE, "define_family", fields, subject, _deprecated(draft, entry.name)
            )
        else:
            ref = view["id"]
            conflicts = list(_family_conflicts(entry, view))
            if conflicts:
                draft.conflict(subject, *conflicts)
                continue
            draft.change(Phase.CATALOGUE, view, subject, _family_wishes(draft, entry, view, roles))
        draft.families[folded(entry.name)] = ref
        _remember(draft, ref, entry)


def _deprecated(draft: Draft, name: str) -> int:
    return sum(folded(each["name"]) == folded(name) for each in draft.live.families.values())


def _role(draft: Draft, name: str, place: Place) -> str:
    for role in draft.live.roles.values():
        if role["status"] != "Deprecated" and folded(role["name"]) == folded(name):
            return role["id"]
    known = [role["name"] for role in draft.live.roles.values()]
    draft.fault(place, f"There is no role “{name}”.{near(name, known)}")
    return ""


def _family_conflicts(entry: FamilyEntry, view: View) -> Iterator[str]:
    lacking = set(entry.affordances) ^ set(view["affordances"])
    if lacking:
        yield f"Its affordances differ by {', '.join(sorted(lacking))}; give it a new version with version_family."
    if entry.settings_schema is not UNSET:
        changed = unit_changes(view["settings_schema"], entry.settings_schema)
        if changed:
            paths = ", ".join(change.path for change in changed)
            yield f"The unit of {paths} differs; give it a new version with version_family."


def _family_wishes(draft: Draft, entry: FamilyEntry, view: View, roles: list[str]) -> Iterator[Wish]:
    id = {"family_id": view["id"]}
    schema = entry.settings_schema
    if schema is not UNSET and schema_differs(view["settings_schema"], schema):
        fields = id | {"settings_schema": schema}
        yield Wish("update_family_settings_schema", fields, ("settings_schema: replaced",))
    if entry.roles is UNSET:
        return
    names = {role["id"]: role["name"] for role in draft.live.roles.values()}
    for role in sorted(set(roles) - set(view["presented_role_ids"])):
        yield Wish("add_family_role", id | {"role_id": role}, (f"roles: + {names.get(role, role)}",))
    for role in sorted(set(view["presented_role_ids"]) - set(roles)):
        yield Wish("remove_family_role", id | {"role_id": role}, (f"roles: - {names.get(role, role)}",))


def _remember(draft: Draft, ref: Ref, entry: FamilyEntry) -> None:
    """The family as it will be, for the check of settings."""
    if isinstance(ref, str) and entry.settings_schema is UNSET:
        return
    family = Family(
        id=UUID(int=ref.step) if isinstance(ref, Made) else UUID(ref),
        name=entry.name,
        affordances=frozenset(entry.affordances),
        presented_role_ids=frozenset(),
        settings_schema=None if entry.settings_schema is UNSET else entry.settings_schema,
        settings_schema_version=1,
    )
    draft.remember_family(ref, family)


def plan_models(draft: Draft) -> None:
    for number, entry in enumerate(draft.source.models):
        place = ("models", number)
        subject = draft.subject("model", f"{entry.manufacturer.name} {entry.part_number}", place)
        view = model_of(draft, entry)
        among: list[str] = view["declared_family_ids"] if view else []
        found = [draft.family(name, (*place, "families", n), among) for n, name in enumerate(entry.families)]
        families = [ref for ref in found if ref is not None]
        if view is None:
            fields = {
                "name": entry.name,
                "manufacturer": builtin(entry.manufacturer),
                "part_number": entry.part_number,
                "declared_family_ids": families,
            }
            draft.models[entry.key] = draft.create(Phase.CATALOGUE, "define_model", fields, subject)
            continue
        draft.models[entry.key] = view["id"]
        conflicts = list(_model_conflicts(entry, view))
        if conflicts:
            draft.conflict(subject, *conflicts)
        else:
            draft.change(Phase.CATALOGUE, view, subject, _model_wishes(draft, view, families))


def model_of(draft: Draft, entry: ModelEntry) -> View | None:
    """The model that an entry means, one that can be assigned before one that cannot."""
    found = draft.live.models_of(entry.manufacturer.name, entry.part_number)
    return next((view for view in found if means(entry, view)), None)


def means(entry: ModelEntry, view: View) -> bool:
    """Whether an entry describes a model: by part number, or by name while that is unknown."""
    same_part = (
        folded(entry.manufacturer.name) == folded(view["manufacturer"]["name"])
        and entry.part_number == view["part_number"]
    )
    unknown = entry.part_number.casefold() == UNKNOWN_PART_NUMBER
    return same_part and (not unknown or entry.name == view["name"])


def _model_conflicts(entry: ModelEntry, view: View) -> Iterator[str]:
    """What only a new version of the model changes, which needs a tag that somebody chooses."""
    for what, was, now in (
        ("name", view["name"], entry.name),
        ("manufacturer", view["manufacturer"], builtin(entry.manufacturer)),
    ):
        if not alike(was, now):
            yield f"{was_now(what, was, now)}; give it a new version with version_model."


def _model_wishes(draft: Draft, view: View, families: list[Ref]) -> Iterator[Wish]:
    have, id = set(view["declared_family_ids"]), {"model_id": view["id"]}
    for ref in (ref for ref in families if ref not in have):
        name = draft.family_object(ref).name
        yield Wish("add_model_family", id | {"family_id": ref}, (f"families: + {name}",))
    for gone_id in sorted(have - set(families)):
        name = draft.live.family_name(gone_id)
        yield Wish("remove_model_family", id | {"family_id": gone_id}, (f"families: - {name}",))


def plan_enclosures(draft: Draft) -> None:
    live = draft.live
    for number, entry in enumerate(draft.source.enclosures):
        subject = draft.subject("enclosure", entry.name, ("enclosures", number))
        view = live.enclosure_named(entry.name, [live.code])
        if view is None:
            fields = {"name": entry.name, "facility_code": live.code}
            fields |= {"permit_source": builtin(entry.permit_source)} if entry.permit_source else {}
            before = sum(
                each["facility_code"] == live.code and folded(each["name"]) == folded(entry.name)
                for each in live.enclosures.values()
            )
            ref: Ref = draft.create(Phase.CATALOGUE, "register_enclosure", fields, subject, before)
        else:
            ref = view["id"]
            draft.change(Phase.CATALOGUE, view, subject, _enclosure_wishes(draft, entry, view))
        draft.enclosures[folded(entry.name)] = ref


def _enclosure_wishes(draft: Draft, entry: EnclosureEntry, view: View) -> Iterator[Wish]:
    source = builtin(entry.permit_source) if entry.permit_source is not UNSET else UNSET
    if source is not UNSET and not alike(source, view["permit_source"]):
        fields = {"enclosure_id": view["id"], "permit_source": source, "reason": draft.reason}
        detail = was_now("permit_source", view["permit_source"], source)
        yield Wish("assign_enclosure_permit_source", fields, (f"{detail} (its permit becomes Unknown)",))


def plan_supplies(draft: Draft, within: dict[int, "AssetAt | str"], ids: dict[AssetAt, Ref]) -> None:
    """Supplies, by the number of their entry and the asset that each is within; those in conflict are left out."""
    for number, entry in enumerate(draft.source.supplies):
        place = ("supplies", number)
        target = within.get(number)
        if entry.within is not UNSET and target is None:
            continue
        asset = ids.get(target) if isinstance(target, AssetAt) else target
        path = f"{entry.kind} {entry.name}" + (f" within {entry.within}" if entry.within else "")
        subject = draft.subject("supply", path, place)
        if isinstance(target, AssetAt) and asset is None:
            draft.conflict(subject, "The asset that it is within is in conflict.")
            continue
        alike_ones = [each for each in draft.live.supplies if _same_supply(each, entry, asset)]
        view = next((each for each in alike_ones if not gone(each)), None)
        if view is not None:
            draft.change(Phase.SERVICE, view, subject, _supply_wishes(draft, entry, view))
            continue
        fields = {"kind": entry.kind, "name": entry.name, "facility_code": draft.live.code}
        fields |= {} if asset is None else {"containing_asset_id": asset}
        fields |= {"status_source": builtin(entry.status_source)} if entry.status_source else {}
        draft.create(Phase.SERVICE, "register_supply", fields, subject, len(alike_ones))


def _same_supply(view: View, entry: SupplyEntry, asset: Ref | None) -> bool:
    return (
        view["kind"] == entry.kind
        and folded(view["name"]) == folded(entry.name)
        and view["containing_asset_id"] == asset
    )


def _supply_wishes(draft: Draft, entry: SupplyEntry, view: View) -> Iterator[Wish]:
    source = builtin(entry.status_source) if entry.status_source is not UNSET else UNSET
    if source is not UNSET and not alike(source, view["status_source"]):
        fields = {"supply_id": view["id"], "status_source": source, "reason": draft.reason}
        yield Wish(
            "assign_supply_status_source", fields, (was_now("status_source", view["status_source"], source),)
        )
