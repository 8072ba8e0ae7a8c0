"""Which assets of a file exist in the service: by the path of their names."""

from collections import defaultdict
from collections.abc import Iterable

from .calls import View
from .checking import AssetAt, same_name
from .plan import Draft


def match(draft: Draft) -> dict[AssetAt, View | None]:
    """Each asset of the file with what exists of it, None for what is new.

    What is in conflict is reported and left out, and so is all below it: a path that two assets have, and a new
    one that seems to be an asset of the same name elsewhere, moved in the file or in the service.
    """
    by_path: dict[AssetAt, list[View]] = {}
    for at in draft.source.assets:
        by_path[at] = _at_path(draft, at, by_path)
    elsewhere = _elsewhere(draft, {view["id"] for views in by_path.values() for view in views})
    found: dict[AssetAt, View | None] = {}
    for at, views in by_path.items():
        subject = draft.subject("asset", at.path, at.place)
        if at.parent is not None and at.parent not in found:
            draft.conflict(subject, "What it stands below is in conflict.")
        elif conflict := _conflict(draft, at, views, elsewhere.get(same_name(at.entry.name), ())):
            draft.conflict(subject, conflict)
        else:
            found[at] = views[0] if views else None
    return found


def _at_path(draft: Draft, at: AssetAt, by_path: dict[AssetAt, list[View]]) -> list[View]:
    if at.parent is None:
        return draft.live.named_below(None, at.entry.name)
    above = by_path[at.parent]
    return draft.live.named_below(above[0]["id"], at.entry.name) if len(above) == 1 else []


def _elsewhere(draft: Draft, taken: set[str]) -> dict[str, list[View]]:
    """The assets in use that no path of the file leads to, by name."""
    by_name: defaultdict[str, list[View]] = defaultdict(list)
    for id, view in draft.live.assets.items():
        if id not in taken and draft.live.names(id):
            by_name[same_name(view["name"])].append(view)
    return by_name


def _conflict(draft: Draft, at: AssetAt, views: list[View], elsewhere: Iterable[View]) -> str | None:
    if len(views) > 1:
        ids = ", ".join(view["id"] for view in views)
        return f"The service has {len(views)} assets of this path ({ids}); rename all but one."
    for other in () if views else elsewhere:
        if _same_piece(at, other):
            path = draft.live.path(other["id"])
            return f"It stands at {path} in the service; move it with relocate_asset, or move it in the file."
    return None


def _same_piece(at: AssetAt, view: View) -> bool:
    """Whether an asset of the same name is the same piece, by what is written on it."""
    entry = at.entry
    wanted = {each.text for each in entry.alternate_identifiers or ()}
    present = {f"{each['kind']}:{each['value']}" for each in view["alternate_identifiers"]}
    serial_number = (entry.settings or {}).get("serial_number")
    if serial_number is None:
        return bool(wanted & present)
    return bool(wanted & present) or serial_number == view["settings"].get("serial_number")
