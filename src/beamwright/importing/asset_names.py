"""What the names in an asset's entry stand for: families, a model, a controller, an enclosure."""

from typing import Any, NamedTuple

from msgspec import UNSET

from beamwright.kernel.text import folded

from .calls import View
from .catalogue_plan import means
from .checking import AssetAt, Paths, split
from .document import Place, near
from .plan import Draft, Ref


class Targets(NamedTuple):
    """The ids behind the names of an entry; UNSET where it says nothing, None where it says none."""

    families: Any = UNSET
    model: Any = UNSET
    controller: Any = UNSET
    enclosure: Any = UNSET
    # For the report.
    model_name: str | None = None


class AssetNames:
    """Looks names up in the file first and then in the service; an unknown one is a fault of the file."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.live = draft.live
        self.ids: dict[AssetAt, Ref] = {}
        self._paths = Paths(draft.source.assets)
        self._models = {entry.key: entry for entry in draft.source.models}

    def check_asset(self, path: str | None, place: Place) -> AssetAt | str | None:
        """The asset that a path means, or a note of what is wrong with it."""
        meant = self.asset(path)
        if path and meant is None:
            found = self._paths.find(path)
            unknown = f"There is no asset “{path}”.{self._paths.hint(path)}"
            self.draft.fault(place, found if isinstance(found, str) else unknown)
        return meant

    def asset(self, path: str | None) -> AssetAt | str | None:
        """An asset of the file, or the id of another one; None where it is unknown or not unique."""
        if not path:
            return None
        meant = self._paths.find(path)
        if meant is None and (view := self.live.at_path(split(path))) is not None:
            return str(view["id"])
        return None if isinstance(meant, str) else meant

    def controller_of(self, at: AssetAt) -> AssetAt | str | None:
        return self.asset(at.entry.controller or None)

    def targets(self, at: AssetAt, view: View | None) -> Targets:
        model, model_name = self._model(at, view)
        return Targets(
            families=self._families(at, view),
            model=model,
            controller=self._controller(at),
            enclosure=self._enclosure(at, view),
            model_name=model_name,
        )

    def _families(self, at: AssetAt, view: View | None) -> Any:
        names = at.entry.families
        if names is UNSET:
            return UNSET
        among: list[str] = view["family_ids"] if view else []
        place = (*at.place, "families")
        found = [self.draft.family(name, (*place, number), among) for number, name in enumerate(names)]
        return [ref for ref in found if ref is not None]

    def _model(self, at: AssetAt, view: View | None) -> tuple[Any, str | None]:
        key = at.entry.model
        if key is UNSET or key is None:
            return key, None
        entry = self._models.get(key.strip())
        if entry is None:
            hint = near(key, list(self._models))
            self.draft.fault((*at.place, "model"), f"There is no model “{key}” under `models:`.{hint}")
            return UNSET, None
        # The asset may be of a deprecated model that another has followed.
        present = self.live.models.get(view["model_id"]) if view else None
        if present is not None and means(entry, present):
            return present["id"], entry.name
        return self.draft.models[entry.key], entry.name

    def _controller(self, at: AssetAt) -> Any:
        if not at.entry.controller:
            return at.entry.controller
        meant = self.controller_of(at)
        if isinstance(meant, AssetAt):
            return self.ids.get(meant, UNSET)
        return UNSET if meant is None else meant

    def _enclosure(self, at: AssetAt, view: View | None) -> Any:
        name = at.entry.enclosure
        if name is UNSET or name is None:
            return name
        # The asset may stand in one that is out of use.
        present = self.live.enclosures.get(view["located_in_enclosure_id"]) if view else None
        if present is not None and folded(present["name"]) == folded(name.strip()):
            return present["id"]
        if (own := self.draft.enclosures.get(folded(name.strip()))) is not None:
            return own
        found = self.live.enclosure_named(name.strip(), self.live.covering())
        if found is not None:
            return found["id"]
        hint = near(name, [entry.name for entry in self.draft.source.enclosures])
        self.draft.fault((*at.place, "enclosure"), f"There is no enclosure “{name}”.{hint}")
        return UNSET
