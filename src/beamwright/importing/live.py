"""What the service has: the facility with its equipment, and the catalogue that it draws on."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from beamwright.contexts.equipment.asset import AssetLifecycle
from beamwright.contexts.equipment.family import Family, FamilyStatus
from beamwright.contexts.equipment.model import ModelStatus
from beamwright.kernel import text

from .calls import Calls, View
from .checking import joined, same_name

LISTS = ("facility", "role", "family", "model", "enclosure", "asset", "supply")


class Live:
    """One reading of the service, object by object as its lists show them."""

    def __init__(self, calls: Calls, code: str) -> None:
        calls.caught_up(LISTS)
        self.code = code
        self.facilities = {each["code"]: each for each in calls.all("list_facilities")}
        self.roles = {each["id"]: each for each in calls.all("list_roles")}
        self.families = {each["id"]: each for each in calls.all("list_families")}
        self.models = {each["id"]: each for each in calls.all("list_models")}
        self.enclosures = {each["id"]: each for each in calls.all("list_enclosures")}
        self.supplies = list(calls.all("list_supplies", facility_code=code))
        self.assets = {each["id"]: each for each in calls.all("list_assets", facility_code=code)}
        self._joinable = {
            text.folded(each["name"]): each
            for each in self.families.values()
            if each["status"] != FamilyStatus.DEPRECATED
        }
        self._below: dict[str | None, dict[str, list[View]]] = {}
        self._gone = Counter[tuple[str | None, str]]()
        for asset in self.assets.values():
            parent_id, name = asset["parent_id"], same_name(asset["name"])
            if gone(asset):
                self._gone[parent_id, name] += 1
            else:
                self._below.setdefault(parent_id, {}).setdefault(name, []).append(asset)

    @property
    def facility(self) -> View | None:
        return self.facilities.get(self.code)

    def covering(self) -> list[str]:
        """The codes of the facility and of those it is a part of, nearest first."""
        by_id = {each["id"]: code for code, each in self.facilities.items()}
        above = self.facility["ancestor_ids"] if self.facility else ()
        return [self.code, *(by_id[id] for id in above if id in by_id)]

    def below(self, parent_id: str | None) -> list[View]:
        """The assets in use directly below one, or the roots, by name."""
        named = self._below.get(parent_id, {})
        return [each for name in sorted(named) for each in named[name]]

    def named_below(self, parent_id: str | None, name: str) -> list[View]:
        return self._below.get(parent_id, {}).get(same_name(name), [])

    def gone_below(self, parent_id: str | None, name: str) -> int:
        """How many assets of this name were there before: the next one is another one."""
        return self._gone[parent_id, same_name(name)]

    def names(self, id: str) -> tuple[str, ...]:
        """The path of an asset; empty where it, or something above it, is not in use."""
        names: list[str] = []
        here = self.assets.get(id)
        while here is not None and not gone(here):
            names.append(here["name"])
            if here["parent_id"] is None:
                return tuple(reversed(names))
            here = self.assets.get(here["parent_id"])
        return ()

    def path(self, id: str) -> str:
        return joined(self.names(id)) or id

    def at_path(self, names: Sequence[str]) -> View | None:
        """The one asset at a path from the root."""
        found: list[View] = [{"id": None}]
        for name in names:
            found = [below for each in found for below in self.named_below(each["id"], name)]
        return found[0] if len(found) == 1 and names else None

    def family_name(self, id: str) -> str:
        return self.families[id]["name"] if id in self.families else id

    def family_named(self, name: str, among: Iterable[str] = ()) -> View | None:
        """A family by name: one of `among`, deprecated or not, else the one that can be joined."""
        for id in among:
            if text.folded(self.family_name(id)) == text.folded(name):
                return self.families.get(id)
        return self._joinable.get(text.folded(name))

    def family_names_known(self) -> list[str]:
        return [each["name"] for each in self._joinable.values()]

    def models_of(self, manufacturer: str, part_number: str) -> list[View]:
        """The models with this part number, those first that can be assigned."""
        found = [
            each
            for each in self.models.values()
            if text.folded(each["manufacturer"]["name"]) == text.folded(manufacturer)
            and each["part_number"] == part_number
        ]
        return sorted(found, key=lambda each: each["status"] == ModelStatus.DEPRECATED)

    def enclosure_named(self, name: str, codes: Sequence[str]) -> View | None:
        """The enclosure in use of this name in the first of these facilities that has one."""
        for code in codes:
            for each in self.enclosures.values():
                if (
                    each["facility_code"] == code
                    and not gone(each)
                    and text.folded(each["name"]) == text.folded(name)
                ):
                    return each
        return None


def gone(view: View) -> bool:
    """Whether an asset, an enclosure or a supply is out of use for good."""
    return view.get("lifecycle", view.get("status")) == AssetLifecycle.DECOMMISSIONED


def settings_family(view: View) -> Family:
    """A family as far as the rules of settings look at it."""
    return msgspec.convert({**view, "stream_version": view["version"]}, Family)
