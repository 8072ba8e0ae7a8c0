"""Writing a facility file from what the service has; importing it again changes nothing."""

import re
from collections.abc import Iterable, Iterator
from textwrap import indent
from typing import Any, NamedTuple

import yaml

from beamwright.contexts.equipment.asset import AssetLifecycle
from beamwright.contexts.equipment.family import FamilyStatus
from beamwright.kernel import wellknown

from .calls import View
from .checking import joined
from .document import is_plain_text
from .live import Live, gone

# Every installation is seeded with these.
STARTER_FAMILIES = frozenset(str(wellknown.seeded_family(number)) for number in range(1, 100))
WIDTH = 110


class Exported(NamedTuple):
    """A facility file, and what could not be said in one."""

    text: str
    notes: list[str]


def export(live: Live) -> Exported:
    """The facility's enclosures, equipment and supplies, with the families and models that these use."""
    return Exporting(live).exported()


class Exporting:
    """Collects the parts of one file."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.notes: list[str] = []
        self.assets = [view for id, view in live.assets.items() if live.names(id)]
        self.keys = self._keys()

    def exported(self) -> Exported:
        parts: dict[str, Any] = {
            "facility": self.facility(),
            "families": list(self.families()),
            "models": list(self.models()),
            "enclosures": list(self.enclosures()),
            "assets": self.below(None),
            "supplies": list(self.supplies()),
        }
        orphans = sum(not gone(view) for view in self.live.assets.values()) - len(self.assets)
        if orphans:
            self.notes.append(f"{orphans} assets below decommissioned ones are left out.")
        written = [_written(key, part) for key, part in parts.items() if part]
        return Exported("\n".join(["beamwright: 1\n", *written]), self.notes)

    def facility(self) -> View:
        view = self.live.facility
        assert view is not None
        entry = {"code": view["code"], "display_name": view["display_name"], "kind": view["kind"]}
        above = self.live.covering()[1:]
        return entry | ({"parent": above[0]} if above else {})

    def families(self) -> Iterator[View]:
        """Those in use that are not seeded; a deprecated one cannot be defined."""
        ids = {id for asset in self.assets for id in asset["family_ids"]}
        ids |= {id for model in self._models_in_use() for id in model["declared_family_ids"]}
        own = (self.live.families[id] for id in ids - STARTER_FAMILIES if id in self.live.families)
        for view in sorted(own, key=lambda view: view["name"]):
            if view["status"] != FamilyStatus.DEPRECATED:
                entry: View = {"name": view["name"], "affordances": view["affordances"]}
                if view["settings_schema"] is not None:
                    entry["settings_schema"] = view["settings_schema"]
                roles = [
                    self.live.roles[id]["name"] for id in view["presented_role_ids"] if id in self.live.roles
                ]
                yield entry | ({"roles": roles} if roles else {})

    def _models_in_use(self) -> list[View]:
        ids = {asset["model_id"] for asset in self.assets}
        found = [view for id, view in self.live.models.items() if id in ids]
        return sorted(found, key=lambda view: (view["manufacturer"]["name"], view["part_number"], view["id"]))

    def _keys(self) -> dict[str, str]:
        """A key for each model in use, readable and unique."""
        keys: dict[str, str] = {}
        for view in self._models_in_use():
            words = f"{view['manufacturer']['name']} {view['part_number']}".casefold()
            key = re.sub(r"[^a-z0-9]+", "-", words).strip("-")[:90] or "model"
            taken = sum(other == key or other.startswith(f"{key}-") for other in keys.values())
            keys[view["id"]] = f"{key}-{taken + 1}" if taken else key
        return keys

    def models(self) -> Iterator[View]:
        for view in self._models_in_use():
            yield {
                "key": self.keys[view["id"]],
                "name": view["name"],
                "manufacturer": _present(view["manufacturer"]),
                "part_number": view["part_number"],
                "families": self._family_names(view["declared_family_ids"]),
            }

    def enclosures(self) -> Iterator[View]:
        for view in sorted(self.live.enclosures.values(), key=lambda view: view["name"]):
            if view["facility_code"] == self.live.code and not gone(view):
                yield _present({"name": view["name"], "permit_source": view["permit_source"]})

    def supplies(self) -> Iterator[View]:
        for view in sorted(self.live.supplies, key=lambda view: (view["kind"], view["name"])):
            if gone(view):
                continue
            within = view["containing_asset_id"]
            if within is not None and not self.live.names(within):
                self.notes.append(f"Supply {view['name']} is within an asset that is not in use; left out.")
                continue
            place = {} if within is None else {"within": self.live.path(within)}
            source = (
                {} if view["status_source"] is None else {"status_source": _present(view["status_source"])}
            )
            yield {"kind": view["kind"], "name": view["name"], **place, **source}

    def below(self, parent_id: str | None) -> list[View]:
        children = self.live.below(parent_id)
        self._note_namesakes(parent_id, children)
        return [self.asset(view) for view in children]

    def _note_namesakes(self, parent_id: str | None, children: Iterable[View]) -> None:
        names = {view["name"] for view in children}
        for name in sorted(names):
            if len(self.live.named_below(parent_id, name)) > 1:
                where = "" if parent_id is None else f" below {self.live.path(parent_id)}"
                self.notes.append(f"Several assets are called {name}{where}; rename them before an import.")

    def asset(self, view: View) -> View:
        entry: View = {"name": view["name"], "tier": view["tier"]}
        entry |= _filled(
            families=self._family_names(view["family_ids"]),
            model=self.keys.get(view["model_id"]),
            controller=self._controller(view),
            enclosure=self.live.enclosures.get(view["located_in_enclosure_id"], {}).get("name"),
            settings=view["settings"],
            ports=view["ports"],
            owners=[_present(owner) for owner in view["owners"]],
            alternate_identifiers=view["alternate_identifiers"],
            drawing=_present(view["drawing"] or {}),
            partition_rule=_present(view["partition_rule"] or {}),
        )
        if view["lifecycle"] == AssetLifecycle.COMMISSIONED and view["family_ids"]:
            entry["lifecycle"] = view["lifecycle"]
        return entry | _filled(children=self.below(view["id"]))

    def _controller(self, view: View) -> str | None:
        id = view["controller_id"]
        if id is None:
            return None
        names = self.live.names(id)
        if not names:
            path = self.live.path(view["id"])
            self.notes.append(f"The controller of {path} is not in use or of another facility; left out.")
        return joined(names) or None

    def _family_names(self, ids: Iterable[str]) -> list[str]:
        return sorted(self.live.family_name(id) for id in ids)


def _present(fields: View) -> View:
    """What is known; what is null is left out."""
    return {name: value for name, value in fields.items() if value is not None}


def _filled(**fields: Any) -> View:
    return {name: value for name, value in fields.items() if value}


class _Writer(yaml.SafeDumper):
    """Writes small lists and mappings in one line, text so that it is read as text, and never an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _written(key: str, part: Any) -> str:
    """One part, its entries below its key."""
    text = yaml.dump(part, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=WIDTH)
    return f"{key}:\n{indent(text, '  ')}"


def _text(writer: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return yaml.ScalarNode("tag:yaml.org,2002:str", value, style=None if is_plain_text(value) else '"')


def _mapping(writer: yaml.SafeDumper, value: View) -> yaml.MappingNode:
    return writer.represent_mapping("tag:yaml.org,2002:map", value.items(), flow_style=_small(value))


def _list(writer: yaml.SafeDumper, value: list[Any]) -> yaml.SequenceNode:
    small = all(not isinstance(each, dict | list) for each in value) and _small(value)
    return writer.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=small)


def _small(value: View | list[Any]) -> bool:
    """Whether a container fits on a line beside its key."""
    within = value.values() if isinstance(value, dict) else value
    flat = all(not isinstance(each, dict | list) for each in within)
    return flat and "tier" not in value and len(str(value)) < WIDTH - 30


_Writer.add_representer(str, _text)
_Writer.add_representer(dict, _mapping)
_Writer.add_representer(list, _list)
