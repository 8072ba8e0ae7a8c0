"""What a facility file says, once its values are sound and it does not contradict itself."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from beamwright.contexts.enclosure.enclosure import checked_permit_source
from beamwright.contexts.equipment.asset_values import (
    checked_alternate_identifier,
    checked_owner,
    checked_port,
)
from beamwright.contexts.equipment.model import UNKNOWN_PART_NUMBER
from beamwright.contexts.equipment.partition_rule import checked_rule
from beamwright.contexts.equipment.values import checked_drawing, checked_manufacturer
from beamwright.contexts.federation.facility import FacilityKind
from beamwright.contexts.supply.supply import checked_status_source
from beamwright.kernel import text
from beamwright.kernel.declared_schema import checked_schema
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.trees import MOST_LEVELS
from beamwright.kernel.value import replace

from .document import Fault, FaultyFileError, Node, Place, fault, line_of, near
from .schema import (
    AssetEntry,
    EnclosureEntry,
    FacilityEntry,
    FacilityFile,
    FamilyEntry,
    ModelEntry,
    SupplyEntry,
    read_file,
)


class AssetAt:
    """An asset of the file, where it stands in the tree and in the file."""

    __slots__ = ("entry", "names", "parent", "place")

    def __init__(self, entry: AssetEntry, place: Place, parent: "AssetAt | None") -> None:
        self.entry = entry
        self.place = place
        self.parent = parent
        self.names: tuple[str, ...] = (*(parent.names if parent else ()), entry.name)

    @property
    def path(self) -> str:
        return joined(self.names)


class FacilitySource:
    """A sound file: its entries with their text trimmed, and its assets in the order of the file."""

    def __init__(self, root: Node, file: FacilityFile) -> None:
        self.root = root
        faults: list[Fault] = []
        check = Checks(root, faults)
        self.facility = check.facility(file.facility)
        self.families = [check.family(each, ("families", n)) for n, each in enumerate(file.families)]
        self.models = [check.model(each, ("models", n)) for n, each in enumerate(file.models)]
        self.enclosures = [check.enclosure(each, ("enclosures", n)) for n, each in enumerate(file.enclosures)]
        self.assets = list(check.assets(file.assets, ("assets",), None))
        self.supplies = [check.supply(each, ("supplies", n)) for n, each in enumerate(file.supplies)]
        check.distinct(self)
        if faults:
            raise FaultyFileError(faults)

    def fault(self, place: Place, message: str) -> Fault:
        return fault(self.root, place, message)


def read_source(content: bytes) -> FacilitySource:
    """A file that can be compared with a service, or everything that is wrong with it."""
    return FacilitySource(*read_file(content))


def same_name(name: str) -> str:
    """How names of assets are compared: as they are written, however their accents are encoded."""
    return unicodedata.normalize("NFC", name)


def joined(names: Iterable[str]) -> str:
    return "/".join(name.replace("\\", "\\\\").replace("/", "\\/") for name in names)


def split(path: str) -> tuple[str, ...]:
    """The names of a path; `\\/` is a slash within a name."""
    parts = re.findall(r"((?:\\.|[^/\\])*)(?:/|$)", path.strip().removeprefix("/"))
    return tuple(re.sub(r"\\(.)", r"\1", part).strip() for part in parts if part.strip())


class Checks:
    """Checks the entries one by one with the rules of the service itself, and notes each fault with its line."""

    def __init__(self, root: Node, faults: list[Fault]) -> None:
        self.root = root
        self.faults = faults

    def note(self, place: Place, message: str) -> None:
        self.faults.append(fault(self.root, place, message))

    def value[T](self, check: Callable[[T], T], value: T, *place: str | int) -> T:
        """The value as the service would keep it; what the service would refuse is noted."""
        try:
            return check(value)
        except InvalidError as refusal:
            self.note(place, refusal.detail)
            return value

    def given[T](self, check: Callable[[T], T], value: T | UnsetType, *place: str | int) -> T | UnsetType:
        return UNSET if value is UNSET else self.value(check, value, *place)

    def each[T](
        self, check: Callable[[T], T], values: list[T] | UnsetType, *place: str | int
    ) -> list[T] | UnsetType:
        if values is UNSET:
            return UNSET
        return [self.value(check, value, *place, number) for number, value in enumerate(values)]

    def facility(self, entry: FacilityEntry) -> FacilityEntry:
        place = ("facility",)
        kind = entry.kind or (FacilityKind.SITE if entry.parent is UNSET else FacilityKind.AREA)
        if kind is FacilityKind.PEER:
            self.note(
                (*place, "kind"), "A Peer is another installation's; its equipment is not described here."
            )
        elif (kind is FacilityKind.AREA) == (entry.parent is UNSET):
            self.note(place, "An Area has a parent, a Site has none.")
        return replace(entry, display_name=self.given(named, entry.display_name, *place, "display_name"))

    def family(self, entry: FamilyEntry, place: Place) -> FamilyEntry:
        return replace(
            entry,
            name=self.value(named, entry.name, *place, "name"),
            settings_schema=self.given(
                lambda schema: checked_schema(schema, InvalidError),
                entry.settings_schema,
                *place,
                "settings_schema",
            ),
            roles=self.each(named, entry.roles, *place, "roles"),
        )

    def model(self, entry: ModelEntry, place: Place) -> ModelEntry:
        return replace(
            entry,
            key=entry.key.strip(),
            name=self.value(named, entry.name, *place, "name"),
            manufacturer=self.value(checked_manufacturer, entry.manufacturer, *place, "manufacturer"),
            part_number=self.value(part_number, entry.part_number, *place, "part_number"),
            families=[
                self.value(named, each, *place, "families", n) for n, each in enumerate(entry.families)
            ],
        )

    def enclosure(self, entry: EnclosureEntry, place: Place) -> EnclosureEntry:
        return replace(
            entry,
            name=self.value(named, entry.name, *place, "name"),
            permit_source=self.given(checked_permit_source, entry.permit_source, *place, "permit_source"),
        )

    def supply(self, entry: SupplyEntry, place: Place) -> SupplyEntry:
        return replace(
            entry,
            kind=self.value(kind_of_supply, entry.kind, *place, "kind"),
            name=self.value(named, entry.name, *place, "name"),
            status_source=self.given(checked_status_source, entry.status_source, *place, "status_source"),
        )

    def assets(
        self, entries: Sequence[AssetEntry], place: Place, parent: AssetAt | None
    ) -> Iterator[AssetAt]:
        """Every asset, a parent before its children."""
        if entries and len(place) > 2 * MOST_LEVELS:
            self.note(place, f"Assets are nested {MOST_LEVELS} levels deep at most.")
            return
        seen: dict[str, int] = {}
        for number, entry in enumerate(entries):
            here = (*place, number)
            at = AssetAt(self.asset(entry, here), here, parent)
            first = seen.setdefault(same_name(at.entry.name), number)
            if first != number:
                line = line_of(self.root, (*place, first, "name"))
                message = f"“{at.path}” stands in line {line} already; names tell siblings apart."
                self.note((*here, "name"), message)
            yield at
            yield from self.assets(entry.children, (*here, "children"), at)

    def asset(self, entry: AssetEntry, place: Place) -> AssetEntry:
        if entry.lifecycle == "Active" and entry.families is not UNSET and not entry.families:
            self.note((*place, "lifecycle"), "An active asset belongs to at least one family.")
        identifiers = entry.alternate_identifiers
        return replace(
            entry,
            name=self.value(named, entry.name, *place, "name"),
            families=self.each(named, entry.families, *place, "families"),
            ports=self.each(checked_port, entry.ports, *place, "ports"),
            owners=self.each(checked_owner, entry.owners, *place, "owners"),
            alternate_identifiers=self.each(
                checked_alternate_identifier, identifiers, *place, "alternate_identifiers"
            ),
            drawing=self.given(checked_drawing, entry.drawing, *place, "drawing"),
            partition_rule=self.given(
                lambda rule: None if rule is None else checked_rule(rule),
                entry.partition_rule,
                *place,
                "partition_rule",
            ),
        )

    def distinct(self, source: FacilitySource) -> None:
        """Gate: nothing is described twice."""
        self._once("families", [text.folded(each.name) for each in source.families])
        self._once("models", [each.key for each in source.models])
        self._once("models", [part_key(each) for each in source.models])
        self._once("enclosures", [text.folded(each.name) for each in source.enclosures])
        places = [(each.kind, text.folded(each.name), each.within or None) for each in source.supplies]
        self._once("supplies", places)
        for at in source.assets:
            entry = at.entry
            self._once("ports", [each.name for each in entry.ports or ()], at.place)
            self._once("owners", [text.folded(each.name) for each in entry.owners or ()], at.place)
            identifiers = [each.text for each in entry.alternate_identifiers or ()]
            self._once("alternate_identifiers", identifiers, at.place)
            self._once("families", [text.folded(each) for each in entry.families or ()], at.place)

    def _once(self, key: str, identities: Sequence[Any], within: Place = ()) -> None:
        seen: dict[Any, int] = {}
        for number, identity in enumerate(identities):
            if identity is not None and seen.setdefault(identity, number) != number:
                first = line_of(self.root, (*within, key, seen[identity]))
                self.note((*within, key, number), f"This stands in line {first} already.")


def part_key(entry: ModelEntry) -> tuple[str, str] | None:
    """What a model is found again by; a part number that nobody knows yet tells nothing."""
    if entry.part_number.casefold() == UNKNOWN_PART_NUMBER:
        return None
    return text.folded(entry.manufacturer.name), entry.part_number


def named(value: str) -> str:
    return text.name(value, InvalidError)


def part_number(value: str) -> str:
    return text.trimmed(value, 100, InvalidError, "part number")


def kind_of_supply(value: str) -> str:
    return text.trimmed(value, 50, InvalidError, "kind")


class Paths:
    """Finds the asset of the file that a path means: the whole path, or its end where that is unique."""

    def __init__(self, assets: Sequence[AssetAt]) -> None:
        self._whole = {tuple(map(same_name, at.names)): at for at in assets}
        self._by_last: dict[str, list[AssetAt]] = {}
        for at in assets:
            self._by_last.setdefault(same_name(at.names[-1]), []).append(at)

    def find(self, path: str) -> AssetAt | str | None:
        """The asset; a sentence where several are meant; None where it is not of this file."""
        names = tuple(map(same_name, split(path)))
        if not names:
            return None
        if (whole := self._whole.get(names)) is not None:
            return whole
        ending = [at for at in self._by_last.get(names[-1], ()) if _ends(at, names)]
        if len(ending) > 1:
            some = ", ".join(at.path for at in ending[:3])
            return f"“{path}” can be {some}{' or others' if len(ending) > 3 else ''}; write more of the path."
        return ending[0] if ending else None

    def hint(self, path: str) -> str:
        names = split(path)
        return near(names[-1], list(self._by_last)) if names else ""


def _ends(at: AssetAt, names: tuple[str, ...]) -> bool:
    return tuple(map(same_name, at.names[-len(names) :])) == names
