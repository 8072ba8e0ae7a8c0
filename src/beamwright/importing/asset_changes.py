"""Comparing one asset of a file with the one that exists: the ordinary commands that bring it in line."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import UNSET

from beamwright.contexts.equipment.asset_settings import declared
from beamwright.kernel.merge import merged

from .asset_names import Targets
from .calls import View
from .plan import Draft, Ref, Wish, alike, builtin, was_now
from .schema import AssetEntry


def wishes(draft: Draft, entry: AssetEntry, targets: Targets, view: View) -> Iterator[Wish]:
    """In an order in which each command finds what it needs.

    Families are joined before the model or a rule asks for them, and left after these have let go of them.
    """
    id = {"asset_id": view["id"]}
    patch = {} if entry.settings is UNSET else smallest(view["settings"], entry.settings)
    joining, leaving = family_changes(targets, view)
    for ref in joining:
        family = draft.family_object(ref)
        own = {name: patch.pop(name) for name in list(patch) if name in declared(family)}
        details = (f"families: + {family.name}", *_settings_details(view["settings"], own))
        yield Wish("add_asset_family", id | {"family_id": ref, "settings_patch": own}, details)
    if targets.model is not UNSET and targets.model != view["model_id"]:
        was = draft.live.models.get(view["model_id"], {}).get("name", view["model_id"])
        detail = was_now("model", was, targets.model_name)
        yield Wish("assign_asset_model", id | {"model_id": targets.model}, (detail,))
    yield from _rule(id, entry, view)
    for gone_id in leaving:
        own = orphans(draft, targets, view, gone_id)
        for name in own:
            patch.pop(name, None)
        details = (
            f"families: - {draft.live.family_name(gone_id)}",
            *_settings_details(view["settings"], own),
        )
        yield Wish("remove_asset_family", id | {"family_id": gone_id, "settings_patch": own}, details)
    if patch:
        details = tuple(_settings_details(view["settings"], patch))
        yield Wish("update_asset_settings", id | {"settings_patch": patch}, details)
    yield from _bindings(draft, id, entry, targets, view)
    yield from _parts(id, entry, view)


def family_changes(targets: Targets, view: View) -> tuple[list[Ref], list[str]]:
    """The families that an asset is to join, and those that it is to leave."""
    if targets.families is UNSET:
        return [], []
    have, want = set[Any](view["family_ids"]), cast(list[Ref], targets.families)
    return [ref for ref in want if ref not in have], sorted(have - set(want))


def orphans(draft: Draft, targets: Targets, view: View, family_id: str) -> dict[str, None]:
    """Settings that nobody declares any more once a family is left."""
    if family_id not in draft.live.families:
        return {}
    kept = {name for ref in targets.families for name in declared(draft.family_object(ref))}
    own = declared(draft.family_object(family_id)).keys() - kept
    return dict.fromkeys(sorted(own & view["settings"].keys()))


def _rule(id: Mapping[str, Any], entry: AssetEntry, view: View) -> Iterator[Wish]:
    if entry.partition_rule is UNSET:
        return
    was, now = view["partition_rule"], builtin(entry.partition_rule)
    if not alike(was, now):
        detail = was_now("partition_rule", was, now)
        yield Wish("update_asset_partition_rule", {**id, "partition_rule": now}, (detail,))


def _bindings(
    draft: Draft, id: Mapping[str, Any], entry: AssetEntry, targets: Targets, view: View
) -> Iterator[Wish]:
    if targets.enclosure is not UNSET and targets.enclosure != view["located_in_enclosure_id"]:
        was = draft.live.enclosures.get(view["located_in_enclosure_id"], {}).get("name")
        fields = {**id, "located_in_enclosure_id": targets.enclosure, "reason": draft.reason}
        yield Wish("place_asset", fields, (was_now("enclosure", was, entry.enclosure),))
    if targets.controller is not UNSET and targets.controller != view["controller_id"]:
        was = None if view["controller_id"] is None else draft.live.path(view["controller_id"])
        detail = was_now("controller", was, entry.controller)
        yield Wish("assign_asset_controller", {**id, "controller_id": targets.controller}, (detail,))
    if entry.drawing is not UNSET and not alike(builtin(entry.drawing), view["drawing"]):
        drawing = builtin(entry.drawing)
        detail = was_now("drawing", view["drawing"], drawing)
        yield Wish("assign_asset_drawing", {**id, "drawing": drawing}, (detail,))


def _parts(id: Mapping[str, Any], entry: AssetEntry, view: View) -> Iterator[Wish]:
    """Ports, identifiers and owners: what is not wanted goes first, so that what changed can come back."""
    if entry.ports is not UNSET:
        removed, added = _difference(view["ports"], builtin(entry.ports))
        for port in removed:
            yield Wish("remove_asset_port", {**id, "name": port["name"]}, (f"ports: - {port['name']}",))
        for port in added:
            yield Wish("add_asset_port", {**id, **port}, (f"ports: + {port['name']}",))
    if entry.alternate_identifiers is not UNSET:
        removed, added = _difference(view["alternate_identifiers"], builtin(entry.alternate_identifiers))
        for sign, verb, each in _signed(removed, added):
            detail = f"alternate_identifiers: {sign} {each['kind']} {each['value']}"
            yield Wish(f"{verb}_asset_alternate_identifier", {**id, **each}, (detail,))
    if entry.owners is not UNSET:
        removed, added = _difference(view["owners"], builtin(entry.owners))
        for owner in removed:
            name = owner["name"]
            yield Wish("remove_asset_owner", {**id, "owner_name": name}, (f"owners: - {name}",))
        for owner in added:
            yield Wish("add_asset_owner", {**id, "owner": owner}, (f"owners: + {owner['name']}",))


def _difference(was: Sequence[View], now: Sequence[View]) -> tuple[list[View], list[View]]:
    return [each for each in was if each not in now], [each for each in now if each not in was]


def _signed(removed: Sequence[View], added: Sequence[View]) -> Iterator[tuple[str, str, View]]:
    yield from (("-", "remove", each) for each in removed)
    yield from (("+", "add", each) for each in added)


def smallest(was: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a merge patch that changes something."""
    changed: dict[str, Any] = {}
    for name, value in patch.items():
        old = was.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            below = smallest(cast(dict[str, Any], old), cast(dict[str, Any], value))
            changed |= {name: below} if below else {}
        elif value is None:
            changed |= {name: None} if name in was else {}
        elif name not in was or not alike(old, value):
            changed[name] = value
    return changed


def _settings_details(
    was: Mapping[str, Any], patch: Mapping[str, Any], path: str = "settings"
) -> Iterator[str]:
    for name, value in patch.items():
        old = was.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            yield from _settings_details(
                cast(dict[str, Any], old), cast(dict[str, Any], value), f"{path}.{name}"
            )
        else:
            yield was_now(f"{path}.{name}", old, value)


def settled(draft: Draft, entry: AssetEntry, targets: Targets, view: View) -> dict[str, Any]:
    """The settings that an asset will have."""
    _, leaving = family_changes(targets, view) if view else ([], [])
    dropped = {name for gone_id in leaving for name in orphans(draft, targets, view, gone_id)}
    kept = {name: value for name, value in view.get("settings", {}).items() if name not in dropped}
    return merged(kept, entry.settings or {})
