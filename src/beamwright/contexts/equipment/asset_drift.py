"""Listing drift: assets are judged page by page against what they belong to, so that no call has to see them all."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from beamwright.kernel.aggregate import ListRequest
from beamwright.kernel.cursor import InvalidCursorError, decode_cursor, encode_cursor
from beamwright.kernel.operation import World
from beamwright.kernel.value import Value

from .asset import Asset, assets
from .asset_settings import SchemaConflict, schema_conflicts
from .drift import OF_OWN_FAMILY, AssetDrift, AssetDriftKind, AssetNeighbours, drift_of
from .family import Family

SCANNED_AT_ONCE = 200
# A call that finds little ends here and says where to go on.
MOST_SCANNED = 2000
SORT = "created_at"


class Neighbourhood:
    """Looks up what assets are judged against, each object once, whatever number of assets share it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[str, dict[UUID, Any]] = {}
        self._conflicts: dict[frozenset[UUID], tuple[SchemaConflict, ...]] = {}

    async def around(self, judged: Sequence[Asset]) -> list[AssetNeighbours]:
        """What is around each of these assets; unknown objects are left out."""
        await self._learn("Family", (id for asset in judged for id in asset.family_ids))
        await self._learn("Model", (asset.model_id for asset in judged))
        await self._learn("Asset", (id for asset in judged for id in (asset.parent_id, asset.controller_id)))
        await self._learn("Enclosure", (asset.located_in_enclosure_id for asset in judged))
        return [self._neighbours(asset) for asset in judged]

    async def _learn(self, aggregate_name: str, ids: Iterable[UUID | None]) -> None:
        known = self._known.setdefault(aggregate_name, {})
        wanted = {id for id in ids if id is not None} - known.keys()
        if wanted:
            found = await self._world.look_up(aggregate_name, sorted(wanted)) or ()
            # None for what does not exist, so that it is not asked for again.
            known |= dict.fromkeys(wanted) | {state.id: state for state in found}

    def _neighbours(self, asset: Asset) -> AssetNeighbours:
        found = (self._one("Family", id) for id in sorted(asset.family_ids))
        joined = tuple(family for family in found if family is not None)
        return AssetNeighbours(
            families=joined,
            conflicts=self._conflicts_of(joined),
            model=self._one("Model", asset.model_id),
            parent=self._one("Asset", asset.parent_id),
            controller=self._one("Asset", asset.controller_id),
            enclosure=self._one("Enclosure", asset.located_in_enclosure_id),
        )

    def _one(self, aggregate_name: str, id: UUID | None) -> Any:
        return None if id is None else self._known[aggregate_name][id]

    def _conflicts_of(self, joined: tuple[Family, ...]) -> tuple[SchemaConflict, ...]:
        ids = frozenset(family.id for family in joined)
        if ids not in self._conflicts:
            self._conflicts[ids] = tuple(schema_conflicts(joined))
        return self._conflicts[ids]


class Place(Value):
    """Where a scan goes on: the list's own cursor of a page, the last asset of it that was judged, and its rows."""

    cursor: str | None = None
    created_at: datetime | None = None
    asset_id: UUID | None = None
    rows: int = 0

    @classmethod
    def parse(cls, text: str | None) -> "Place":
        if text is None:
            return cls()
        cursor, created_at, asset_id, rows = decode_cursor(text, 4)
        try:
            if not asset_id:
                return cls(cursor=cursor or None)
            at = datetime.fromisoformat(created_at).astimezone(UTC)
            return cls(cursor=cursor or None, created_at=at, asset_id=UUID(asset_id), rows=abs(int(rows)))
        except (ValueError, OverflowError):
            raise InvalidCursorError("Use the next_cursor of a page of drift, unchanged, or none.") from None

    def text(self) -> str:
        at = "" if self.created_at is None else self.created_at.isoformat()
        return encode_cursor([self.cursor or "", at, str(self.asset_id or ""), str(self.rows)])

    def seen(self, view: Any) -> int | None:
        """How many rows of an asset were answered before; None for all of them."""
        if self.created_at is None or self.asset_id is None:
            return 0
        at, here = (view.created_at, view.id), (self.created_at, self.asset_id)
        return None if at < here else self.rows if at == here else 0


class AssetDriftPage(Value):
    """One page of drift, oldest asset first; it may be short, even empty, and still have a next one."""

    items: list[AssetDrift]
    next_cursor: str | None
    as_of: str


@assets.operation("GET /assets/drift")
class ListAssetDrift(ListRequest):
    """List where assets no longer agree with their families, model, parent, controller or enclosure.

    A page looks at a bounded number of assets: it may hold fewer rows than asked for, even none, and have a
    next_cursor all the same. Go on until there is none.
    """

    kind: AssetDriftKind | None = None
    facility_code: str | None = None
    family_id: UUID | None = None
    model_id: UUID | None = None

    async def answer(self, world: World) -> AssetDriftPage:
        place, around = Place.parse(self.cursor), Neighbourhood(world)
        items: list[AssetDrift] = []
        as_of: str | None = None
        for _ in range(MOST_SCANNED // SCANNED_AT_ONCE):
            page = await world.page(assets, self.scan(place.cursor))
            as_of = as_of or page.as_of
            stopped = await self.judge(page.items, place, around, items)
            if stopped is not None:
                return AssetDriftPage(items=items, next_cursor=stopped.text(), as_of=as_of)
            if page.next_cursor is None:
                return AssetDriftPage(items=items, next_cursor=None, as_of=as_of)
            place = Place(cursor=page.next_cursor)
        return AssetDriftPage(items=items, next_cursor=place.text(), as_of=as_of or "")

    async def judge(
        self, views: Sequence[Any], place: Place, around: Neighbourhood, items: list[AssetDrift]
    ) -> Place | None:
        """Add the rows of some assets; where to go on once there are enough of them."""
        remaining = [(view, seen) for view in views if (seen := place.seen(view)) is not None]
        states = [asset_of(view) for view, _ in remaining]
        for (view, seen), asset, beside in zip(remaining, states, await around.around(states), strict=True):
            rows = [row for row in drift_of(asset, beside) if self.wants(row)]
            for number, row in enumerate(rows[seen:], seen):
                if len(items) == self.limit:
                    return Place(
                        cursor=place.cursor, created_at=view.created_at, asset_id=asset.id, rows=number
                    )
                items.append(row)
        return None

    def scan(self, cursor: str | None) -> Any:
        """The list of the assets that can have what is asked for, oldest first."""
        in_family = self.family_id if self.kind in OF_OWN_FAMILY else None
        return LIST_ASSETS(
            facility_code=self.facility_code,
            family_id=in_family,
            model_id=self.model_id,
            sort=SORT,
            limit=SCANNED_AT_ONCE,
            cursor=cursor,
            consistent_with=self.consistent_with,
        )

    def wants(self, row: AssetDrift) -> bool:
        return (
            self.kind in (None, row.kind)
            and self.family_id in (None, row.family_id)
            and self.model_id in (None, row.model_id)
        )


def asset_of(view: Any) -> Asset:
    """The state that a view of the list shows."""
    return Asset(**{field: getattr(view, field) for field in Asset.__struct_fields__})


# The generated list request: declared by `assets.reads`, hence not a name that can be imported.
LIST_ASSETS: Any = next(
    operation.request for operation in assets.operations if operation.name == "list_assets"
)
