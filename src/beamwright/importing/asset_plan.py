"""Planning the tree of assets: new ones in an order in which they can be made, others brought in line."""

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from beamwright.contexts.equipment.asset_settings import check_joining, checked_settings
from beamwright.kernel.errors import DomainError

from .asset_changes import settled, wishes
from .asset_matching import match
from .asset_names import AssetNames, Targets
from .calls import View
from .checking import AssetAt
from .plan import Change, Draft, Made, Phase, Ref, Subject, builtin

COMMISSIONED = "Commissioned"


class AssetPlanner:
    """Plans what becomes of each asset of the file; `ids` then says which asset each one is."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.live = draft.live
        self.names = AssetNames(draft)
        self.found = match(draft)
        self.ids = self.names.ids
        # Assets whose controller can be named only once both exist.
        self._later: list[tuple[AssetAt, AssetAt]] = []

    def plan(self) -> None:
        for at, view in self.found.items():
            self._check_controller(at)
            if view is not None:
                self.ids[at] = view["id"]
        for at, deferred in self.in_order():
            self.register(at, deferred=deferred)
        for at, controller in self._later:
            fields = {"asset_id": self.ids[at], "controller_id": self.ids[controller]}
            self.draft.step(Phase.CHANGES, "assign_asset_controller", fields, "new", self.subject(at))
        for at, view in self.found.items():
            if view is not None:
                self.compare(at, view)
        present = sum(view is not None for view in self.found.values())
        self.draft.others = sum(bool(self.live.names(id)) for id in self.live.assets) - present

    def subject(self, at: AssetAt) -> Subject:
        return self.draft.subject("asset", at.path, at.place)

    def _check_controller(self, at: AssetAt) -> None:
        place = (*at.place, "controller")
        controller = self.names.check_asset(at.entry.controller or None, place)
        if controller is at:
            self.draft.fault(place, "An asset does not control itself.")
        elif isinstance(controller, AssetAt) and controller not in self.found:
            self.draft.conflict(self.subject(at), f"Its controller {controller.path} is in conflict.")

    def in_order(self) -> Iterator[tuple[AssetAt, bool]]:
        """New assets, each after its parent and its controller; true where its controller can only follow."""
        new = {at: None for at, view in self.found.items() if view is None}
        needs = {at: self._needed(at, new) for at in new}
        waiting: defaultdict[AssetAt, list[AssetAt]] = defaultdict(list)
        for at, needed in needs.items():
            for other in needed:
                waiting[other].append(at)
        ready = deque(at for at in new if not needs[at])
        while new:
            deferred = not ready
            if deferred:
                # A controller stands below what it drives, or two drive each other: someone comes first.
                ready.append(next(at for at in new if at.parent not in new))
            at = ready.popleft()
            if at not in new:
                continue
            del new[at]
            yield at, deferred
            for other in waiting[at]:
                needs[other].discard(at)
                if not needs[other] and other in new:
                    ready.append(other)

    def _needed(self, at: AssetAt, new: dict[AssetAt, None]) -> set[AssetAt]:
        needed = (at.parent, self.names.controller_of(at))
        return {each for each in needed if isinstance(each, AssetAt) and each in new}

    def register(self, at: AssetAt, *, deferred: bool) -> None:
        entry, subject = at.entry, self.subject(at)
        targets = self.names.targets(at, None)
        self._check_settings(at, targets, {})
        parent = None if at.parent is None else self.ids[at.parent]
        anchor = {"facility_code": self.live.code} if parent is None else {"parent_id": parent}
        before = 0 if isinstance(parent, Made) else self.live.gone_below(parent, entry.name)
        fields = {"name": entry.name, "tier": entry.tier.value, **anchor, **_described(at, targets)}
        if deferred:
            fields.pop("controller_id", None)
        made = self.draft.create(Phase.ASSETS, "register_asset", fields, subject, before)
        self.ids[at] = made
        if entry.partition_rule:
            rule = {"asset_id": made, "partition_rule": builtin(entry.partition_rule)}
            self.draft.step(Phase.CHANGES, "update_asset_partition_rule", rule, "new", subject)
        controller = self.names.controller_of(at)
        if deferred and isinstance(controller, AssetAt):
            self._later.append((at, controller))
        if self._works(at, targets.families):
            self._activate(made, subject, "new", made)

    def compare(self, at: AssetAt, view: View) -> None:
        draft, entry, subject = self.draft, at.entry, self.subject(at)
        if entry.tier != view["tier"]:
            draft.conflict(subject, f"It is a {view['tier']}, which cannot be changed into a {entry.tier}.")
            return
        if entry.lifecycle == COMMISSIONED != view["lifecycle"]:
            draft.conflict(subject, f"It is {view['lifecycle']} and is not commissioned anew.")
            return
        targets = self.names.targets(at, view)
        self._check_settings(at, targets, view)
        last = draft.change(Phase.CHANGES, view, subject, wishes(draft, entry, targets, view))
        families = view["family_ids"] if targets.families is UNSET else targets.families
        if view["lifecycle"] == COMMISSIONED and self._works(at, families):
            self._activate(view["id"], subject, f"version {view['version']}", last)
            self._show_activation(subject, changed=last is not None)

    def _works(self, at: AssetAt, families: Any) -> bool:
        """Whatever has a family comes into service, unless the file says otherwise."""
        if at.entry.lifecycle == COMMISSIONED:
            return False
        if at.entry.lifecycle and not families:
            self.draft.fault((*at.place, "lifecycle"), "An active asset belongs to at least one family.")
        return bool(families)

    def _activate(self, id: Ref, subject: Subject, standing: str, after: Made | None) -> None:
        needed = () if after is None else (after.step,)
        self.draft.step(Phase.SERVICE, "activate_asset", {"asset_id": id}, standing, subject, needed)

    def _show_activation(self, subject: Subject, *, changed: bool) -> None:
        changes, detail = self.draft.changes, f"lifecycle: {COMMISSIONED} -> Active"
        if changed:
            changes[-1] = changes[-1]._replace(details=(*changes[-1].details, detail))
        else:
            changes.append(Change("~", subject, (detail,)))
            self.draft.same[subject.kind] -= 1

    def _check_settings(self, at: AssetAt, targets: Targets, view: View) -> None:
        """What the service would refuse is a fault of the file, told before anything is done."""
        refs: list[Ref] = view.get("family_ids", []) if targets.families is UNSET else targets.families
        if at.entry.settings is UNSET or any(
            isinstance(ref, str) and ref not in self.live.families for ref in refs
        ):
            return
        joined = [self.draft.family_object(ref) for ref in refs]
        try:
            check_joining(joined, [family.id for family in joined])
            checked_settings(joined, settled(self.draft, at.entry, targets, view))
        except DomainError as refusal:
            pointer = str(refusal.context.get("path", "")).split("/")[1:]
            self.draft.fault((*at.place, "settings", *pointer), refusal.detail)


def _described(at: AssetAt, targets: Targets) -> dict[str, Any]:
    """What is said of a new asset beyond its name, its tier and where it stands."""
    entry = at.entry
    ids = {
        "family_ids": targets.families,
        "model_id": targets.model,
        "controller_id": targets.controller,
        "located_in_enclosure_id": targets.enclosure,
    }
    values = {
        "settings": entry.settings,
        "ports": entry.ports,
        "drawing": entry.drawing,
        "alternate_identifiers": entry.alternate_identifiers,
        "owners": entry.owners,
    }
    # Ids of what is still to be made are filled in when it is.
    return {name: id for name, id in ids.items() if id} | {
        name: builtin(value) for name, value in values.items() if value
    }
