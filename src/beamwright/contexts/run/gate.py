"""The gate that every start and resume passes: what must hold of assets, supplies, enclosures and clearances."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any
from uuid import UUID

import msgspec

from beamwright.contexts.enclosure.enclosure import Enclosure
from beamwright.contexts.enclosure.gate import EnclosureFailure, advice, failing_enclosures
from beamwright.contexts.equipment.asset import Asset, AssetCondition, AssetLifecycle
from beamwright.contexts.safety.clearance import Clearance
from beamwright.contexts.safety.gate import (
    ClearanceFailure,
    ClearanceGateMode,
    ClearanceVerdict,
    ClearedWork,
    NeededClearance,
    clearance_gate,
    coverage_advice,
)
from beamwright.contexts.safety.values import BindingKind
from beamwright.contexts.subject.subject import Subject
from beamwright.contexts.supply.gate import SupplyFailure, SupplyScope, failing_supplies
from beamwright.contexts.supply.supply import Supply
from beamwright.contexts.trust.visit import Visit
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.observing import Contact
from beamwright.kernel.roles import VisitStatus
from beamwright.kernel.value import Value

from .run import Run, RunStatus
from .values import GateEvidence, RelianceOn

# Of many failures alike, a sentence names the first few; the context has them all.
MOST_TOLD = 10
OPEN_VISIT = frozenset({VisitStatus.ARRIVED, VisitStatus.IN_PROGRESS})


class GateRow(IntEnum):
    """What the gate demands, in the order in which a failure is told."""

    ASSETS_EXIST = 1
    NONE_DECOMMISSIONED = 2
    ASSETS_ACTIVE = 3
    NONE_FAULTED = 4
    SUBJECT_MOUNTED = 5
    WITHIN_PLAN_WINDOW = 6
    VISIT_OPEN = 7
    PARENT_RUN_RUNNING = 8
    SUPPLIES_IN_SCOPE = 9
    SUPPLIES_AVAILABLE = 10
    SOME_ENCLOSURE_PERMITTED = 11
    EVERY_ENCLOSURE_PERMITTED = 12
    CLEARANCE_BOUND = 13
    CLEARANCES_COVER = 14


# The refusal of each row for one kind of work; a row that has none does not apply to it.
type GateErrors = Mapping[GateRow, type[ConflictError]]


class GateScope(Value):
    """Everything that the gate looks at, as it was seen; what does not exist is absent from its map."""

    work: ClearedWork
    asset_ids: frozenset[UUID]
    # The bound assets, their controllers and all that is above these.
    assets: dict[UUID, Asset]
    missing_asset_ids: frozenset[UUID] = frozenset()
    facility_codes: frozenset[str] = frozenset()
    subject_id: UUID | None = None
    subject: Subject | None = None
    window_start: datetime | None = None
    window_end: datetime | None = None
    visit: Visit | None = None
    parent_run: Run | None = None
    needed_supplies: frozenset[str] = frozenset()
    supplies: tuple[Supply, ...] = ()
    enclosures: dict[UUID, Enclosure] = {}
    clearances: tuple[Clearance, ...] = ()
    clearance_gate: ClearanceGateMode = ClearanceGateMode.BOUND
    contacts: dict[UUID, Contact] = {}
    supply_stale_after: timedelta
    enclosure_stale_after: timedelta
    caution_ids: frozenset[UUID] = frozenset()
    # The version at which each supply, enclosure and clearance was seen.
    versions: dict[UUID, int] = {}

    @property
    def bound_assets(self) -> list[Asset]:
        return [self.assets[id] for id in sorted(self.asset_ids) if id in self.assets]

    @property
    def enclosure_ids(self) -> frozenset[UUID]:
        located = (asset.located_in_enclosure_id for asset in self.assets.values())
        return frozenset(id for id in located if id is not None)

    @property
    def supply_scope(self) -> SupplyScope:
        return SupplyScope(asset_ids=frozenset(self.assets), facility_codes=self.facility_codes)

    @property
    def needed_clearances(self) -> list[NeededClearance]:
        needed = [
            NeededClearance(kind=BindingKind.ASSET, id=id, ancestor_ids=tuple(self.ancestors(id)))
            for id in sorted(self.asset_ids)
        ]
        if self.subject_id is not None:
            needed.append(NeededClearance(kind=BindingKind.SUBJECT, id=self.subject_id))
        return needed

    def ancestors(self, asset_id: UUID) -> Iterable[UUID]:
        """What an asset is part of, nearest first."""
        asset = self.assets.get(asset_id)
        while asset is not None and asset.parent_id is not None:
            yield asset.parent_id
            asset = self.assets.get(asset.parent_id)


class Judgement(Value):
    """A scope at one moment, with what its parts' own rules say of it."""

    scope: GateScope
    now: datetime
    supplies: tuple[SupplyFailure, ...]
    enclosures: tuple[EnclosureFailure, ...]
    clearances: ClearanceVerdict


def judge(scope: GateScope, now: datetime) -> Judgement:
    return Judgement(
        scope=scope,
        now=now,
        supplies=tuple(_lacking(scope, now, scope.needed_supplies, scope.supplies)),
        enclosures=tuple(
            failing_enclosures(
                scope.enclosure_ids, scope.enclosures, scope.contacts, now, scope.enclosure_stale_after
            )
        ),
        clearances=clearance_gate(
            scope.work, scope.needed_clearances, scope.clearances, now, scope.clearance_gate
        ),
    )


def _lacking(
    scope: GateScope, now: datetime, kinds: Iterable[str], supplies: Iterable[Supply]
) -> list[SupplyFailure]:
    return failing_supplies(
        frozenset(kinds), supplies, scope.supply_scope, scope.contacts, now, scope.supply_stale_after
    )


class GateItem(Value):
    """One thing that fails: its ids and states, and the way out."""

    about: dict[str, Any]
    way_out: str


class GateFailure(Value):
    """A row that does not hold."""

    row: GateRow
    error: type[ConflictError]
    items: tuple[GateItem, ...]

    @property
    def code(self) -> str:
        return self.error.__name__

    @property
    def detail(self) -> str:
        told, more = self.items[:MOST_TOLD], len(self.items) - MOST_TOLD
        return " ".join([*(item.way_out for item in told), *([f"And {more} more."] if more > 0 else ())])

    @property
    def context(self) -> dict[str, Any]:
        return {"row": int(self.row), "items": [item.about for item in self.items]}


class GateNotice(Value):
    """What does not refuse the work, but should be known before it begins."""

    code: str
    detail: str
    context: dict[str, Any]


type Check = Callable[[Judgement], list[GateItem]]


def check_gate(judged: Judgement, errors: GateErrors) -> None:
    """Gate: every row is evaluated, the first failing one raised, and all of them told."""
    failures = gate_failures(judged, errors)
    if failures:
        first = failures[0]
        told = [{"code": each.code, "detail": each.detail, **each.context} for each in failures]
        raise first.error(first.detail, failures=told)


def gate_failures(judged: Judgement, errors: GateErrors) -> list[GateFailure]:
    """The rows that fail, in order."""
    checked = ((row, tuple(CHECKS[row](judged))) for row in GateRow if row in errors)
    return [GateFailure(row=row, error=errors[row], items=items) for row, items in checked if items]


def gate_notices(scope: GateScope) -> list[GateNotice]:
    """What passes, and is worth knowing."""
    notices = [
        GateNotice(
            code="AssetDegraded",
            detail=f"{asset.name} is Degraded: {asset.condition_reason or 'no reason given'}",
            context={"asset_id": str(asset.id), "condition_since": asset.condition_since.isoformat()},
        )
        for asset in scope.bound_assets
        if asset.condition is AssetCondition.DEGRADED
    ]
    if scope.clearance_gate is ClearanceGateMode.OFF:
        off = "CLEARANCE_GATE is off: no clearance is asked for."
        notices.append(GateNotice(code="ClearanceGateOff", detail=off, context={}))
    return notices


def gate_evidence(judged: Judgement) -> GateEvidence:
    """What work that passes relies on: serving supplies, every enclosure, the clearances that cover it."""
    scope = judged.scope
    serving = (
        supply
        for supply in scope.supplies
        if supply.kind in scope.needed_supplies and not _lacking(scope, judged.now, {supply.kind}, [supply])
    )
    return GateEvidence(
        supplies=_relied_on(scope, (supply.id for supply in serving)),
        enclosures=_relied_on(scope, scope.enclosure_ids),
        clearances=_relied_on(scope, judged.clearances.relied_on),
    )


def _relied_on(scope: GateScope, ids: Iterable[UUID]) -> tuple[RelianceOn, ...]:
    return tuple(RelianceOn(id=id, version=scope.versions[id]) for id in sorted(set(ids)))


def _assets_exist(judged: Judgement) -> list[GateItem]:
    return [
        GateItem(about={"asset_id": str(id)}, way_out=f"Asset {id} does not exist; define another plan.")
        for id in sorted(judged.scope.missing_asset_ids)
    ]


def _asset_item(asset: Asset, way_out: str) -> GateItem:
    about = {
        "asset_id": str(asset.id),
        "name": asset.name,
        "lifecycle": asset.lifecycle,
        "condition": asset.condition,
    }
    return GateItem(about=about, way_out=way_out)


def _none_decommissioned(judged: Judgement) -> list[GateItem]:
    return [
        _asset_item(asset, f"{asset.name} is Decommissioned; define a plan without it.")
        for asset in judged.scope.bound_assets
        if asset.decommissioned
    ]


_TO_ACTIVE = {
    AssetLifecycle.COMMISSIONED: "activate_asset",
    AssetLifecycle.MAINTENANCE: "exit_asset_maintenance",
    AssetLifecycle.DECOMMISSIONED: "define a plan without it",
}


def _assets_active(judged: Judgement) -> list[GateItem]:
    return [
        _asset_item(asset, f"{asset.name} is {asset.lifecycle}: {_TO_ACTIVE[asset.lifecycle]}.")
        for asset in judged.scope.bound_assets
        if asset.lifecycle is not AssetLifecycle.ACTIVE
    ]


def _none_faulted(judged: Judgement) -> list[GateItem]:
    return [
        _asset_item(asset, f"{asset.name} is Faulted: repair it, then restore_asset.")
        for asset in judged.scope.bound_assets
        if asset.condition is AssetCondition.FAULTED
    ]


def _subject_mounted(judged: Judgement) -> list[GateItem]:
    scope, subject = judged.scope, judged.scope.subject
    if scope.subject_id is None:
        return []
    if subject is not None and subject.mounted and subject.mounted_on_asset_id in scope.assets:
        return []
    if subject is None:
        about: dict[str, Any] = {"subject_id": str(scope.subject_id)}
        return [GateItem(about=about, way_out=f"Subject {scope.subject_id} does not exist.")]
    place = subject.mounted_on_asset_id
    about = {
        "subject_id": str(subject.id),
        "name": subject.name,
        "status": subject.status,
        "mounted_on_asset_id": None if place is None else str(place),
    }
    where = "" if place is None else f" on asset {place}, which this work does not touch"
    way_out = f"{subject.name} is {subject.status}{where}: mount_subject on an asset of this work."
    return [GateItem(about=about, way_out=way_out)]


def _within_plan_window(judged: Judgement) -> list[GateItem]:
    start, end, now = judged.scope.window_start, judged.scope.window_end, judged.now
    if start is None or end is None or start <= now < end:
        return []
    about = {"window_start": start.isoformat(), "window_end": end.isoformat(), "now": now.isoformat()}
    way_out = f"The plan's window is {start.isoformat()} to {end.isoformat()}: wait, or update_plan_window."
    return [GateItem(about=about, way_out=way_out)]


def _visit_open(judged: Judgement) -> list[GateItem]:
    visit, visit_id = judged.scope.visit, judged.scope.work.visit_id
    if visit_id is None or (visit is not None and visit.status in OPEN_VISIT):
        return []
    about: dict[str, Any] = {"visit_id": str(visit_id)}
    if visit is None:
        return [GateItem(about=about, way_out=f"Visit {visit_id} does not exist.")]
    about |= {"code": visit.code, "status": visit.status}
    way_out = f"Visit {visit.code} is {visit.status}; work needs one that has arrived and is not on hold."
    return [GateItem(about=about, way_out=way_out)]


def _parent_run_running(judged: Judgement) -> list[GateItem]:
    run = judged.scope.parent_run
    if run is None or run.status is RunStatus.RUNNING:
        return []
    about = {"run_id": str(run.id), "status": run.status}
    return [GateItem(about=about, way_out=f"Run {run.name} is {run.status}; it must be Running.")]


def _supply_items(judged: Judgement, *, some: bool) -> list[GateItem]:
    return [
        GateItem(
            about={"kind": each.kind, "supplies": msgspec.to_builtins(each.supplies)}, way_out=each.advice
        )
        for each in judged.supplies
        if bool(each.supplies) is some
    ]


def _supplies_in_scope(judged: Judgement) -> list[GateItem]:
    return _supply_items(judged, some=False)


def _supplies_available(judged: Judgement) -> list[GateItem]:
    return _supply_items(judged, some=True)


def _enclosure_items(judged: Judgement, *, all_fail: bool) -> list[GateItem]:
    if (len(judged.enclosures) == len(judged.scope.enclosure_ids)) is not all_fail:
        return []
    return [GateItem(about=msgspec.to_builtins(each), way_out=advice(each)) for each in judged.enclosures]


def _some_enclosure_permitted(judged: Judgement) -> list[GateItem]:
    return _enclosure_items(judged, all_fail=True)


def _every_enclosure_permitted(judged: Judgement) -> list[GateItem]:
    return _enclosure_items(judged, all_fail=False)


def _clearance_items(judged: Judgement, failure: ClearanceFailure) -> list[GateItem]:
    verdict = judged.clearances
    if verdict.failure is not failure:
        return []
    return [
        GateItem(about=msgspec.to_builtins(each), way_out=coverage_advice(each)) for each in verdict.uncovered
    ]


def _clearance_bound(judged: Judgement) -> list[GateItem]:
    return _clearance_items(judged, ClearanceFailure.NONE_BOUND)


def _clearances_cover(judged: Judgement) -> list[GateItem]:
    return _clearance_items(judged, ClearanceFailure.NOT_COVERED)


CHECKS: Mapping[GateRow, Check] = {
    GateRow.ASSETS_EXIST: _assets_exist,
    GateRow.NONE_DECOMMISSIONED: _none_decommissioned,
    GateRow.ASSETS_ACTIVE: _assets_active,
    GateRow.NONE_FAULTED: _none_faulted,
    GateRow.SUBJECT_MOUNTED: _subject_mounted,
    GateRow.WITHIN_PLAN_WINDOW: _within_plan_window,
    GateRow.VISIT_OPEN: _visit_open,
    GateRow.PARENT_RUN_RUNNING: _parent_run_running,
    GateRow.SUPPLIES_IN_SCOPE: _supplies_in_scope,
    GateRow.SUPPLIES_AVAILABLE: _supplies_available,
    GateRow.SOME_ENCLOSURE_PERMITTED: _some_enclosure_permitted,
    GateRow.EVERY_ENCLOSURE_PERMITTED: _every_enclosure_permitted,
    GateRow.CLEARANCE_BOUND: _clearance_bound,
    GateRow.CLEARANCES_COVER: _clearances_cover,
}
