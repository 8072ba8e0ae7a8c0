"""The clearances of a start or resume: what each needed thing is covered by, and what fails."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from beamwright.kernel.value import Time, Value

from .clearance import Clearance, ClearanceStatus
from .values import Binding, BindingKind


class ClearanceGateMode(StrEnum):
    """`bound`: what some clearance is bound to needs one in force; `required`: everything does; `off`: nothing."""

    BOUND = "bound"
    REQUIRED = "required"
    OFF = "off"


class ClearedWork(Value):
    """The work itself; a run that is only about to start has no id yet."""

    kind: BindingKind
    id: UUID | None = None
    visit_id: UUID | None = None

    @property
    def keys(self) -> frozenset[str]:
        """The bindings that cover everything of the work."""
        own = {Binding(kind=self.kind, id=self.id).key} if self.id is not None else set[str]()
        visit = Binding(kind=BindingKind.VISIT, id=self.visit_id).key
        return frozenset(own | {visit} if self.visit_id is not None else own)


class NeededClearance(Value):
    """An asset with all that it is part of, or a subject."""

    kind: BindingKind
    id: UUID
    ancestor_ids: tuple[UUID, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(Binding(kind=self.kind, id=id).key for id in (self.id, *self.ancestor_ids))


class NearClearance(Value):
    """A clearance that is bound, but not in force."""

    clearance_id: UUID
    status: ClearanceStatus
    valid_from: Time | None
    valid_until: Time | None


class ClearanceCoverage(Value):
    """A needed thing, the clearances in force that cover it, and those bound to it that are not."""

    kind: BindingKind
    id: UUID
    covered_by: tuple[UUID, ...] = ()
    near: tuple[NearClearance, ...] = ()

    @property
    def covered(self) -> bool:
        return bool(self.covered_by)

    @property
    def bound(self) -> bool:
        return bool(self.covered_by or self.near)


class ClearanceFailure(StrEnum):
    """The two rows of the gate: nothing is bound at all, or a needed thing is not covered by one in force."""

    NONE_BOUND = "NoneBound"
    NOT_COVERED = "NotCovered"


class ClearanceVerdict(Value):
    """What the gate says of every needed thing; `uncovered` are the ones that refuse the start."""

    needed: tuple[ClearanceCoverage, ...] = ()
    uncovered: tuple[ClearanceCoverage, ...] = ()
    failure: ClearanceFailure | None = None

    @property
    def relied_on(self) -> tuple[UUID, ...]:
        """The clearances that the start relies on."""
        return tuple(sorted({id for each in self.needed for id in each.covered_by}))


def binding_keys(work: ClearedWork, needed: Iterable[NeededClearance]) -> frozenset[str]:
    """The value of `list_clearances`' filter `binds` that finds every clearance the gate must see."""
    return work.keys.union(*(each.keys for each in needed))


def clearance_gate(
    work: ClearedWork,
    needed: Sequence[NeededClearance],
    clearances: Collection[Clearance],
    now: datetime,
    mode: ClearanceGateMode = ClearanceGateMode.BOUND,
) -> ClearanceVerdict:
    """Judge clearances found by `binding_keys`; who is refused raises its own class for `failure`."""
    judged = tuple(_coverage(work, each, clearances, now) for each in _sorted(needed))
    match mode:
        case ClearanceGateMode.OFF:
            gated = ()
        case ClearanceGateMode.BOUND:
            gated = tuple(each for each in judged if each.bound)
        case ClearanceGateMode.REQUIRED:
            gated = judged
    uncovered = tuple(each for each in gated if not each.covered)
    failure = None
    if uncovered:
        none = not any(each.bound for each in judged)
        failure = ClearanceFailure.NONE_BOUND if none else ClearanceFailure.NOT_COVERED
    return ClearanceVerdict(needed=judged, uncovered=uncovered, failure=failure)


def coverage_advice(coverage: ClearanceCoverage) -> str:
    """The way out for a needed thing that nothing covers, in a sentence."""
    thing = f"{coverage.kind} {coverage.id}"
    if not coverage.near:
        return f"No clearance is bound to {thing}; register_clearance for it and have it activated."
    states = ", ".join(_said(near) for near in coverage.near)
    return f"{thing} is covered by no clearance in force; bound are {states}."


def _sorted(needed: Iterable[NeededClearance]) -> list[NeededClearance]:
    return sorted(needed, key=lambda each: (each.kind, each.id))


def _coverage(
    work: ClearedWork, needed: NeededClearance, clearances: Collection[Clearance], now: datetime
) -> ClearanceCoverage:
    keys = work.keys | needed.keys
    bound = sorted(
        (each for each in clearances if any(binding.key in keys for binding in each.bindings)),
        key=lambda each: each.id,
    )
    return ClearanceCoverage(
        kind=needed.kind,
        id=needed.id,
        covered_by=tuple(each.id for each in bound if each.in_force(now)),
        near=tuple(_near(each) for each in bound if not each.in_force(now)),
    )


def _near(clearance: Clearance) -> NearClearance:
    return NearClearance(
        clearance_id=clearance.id,
        status=clearance.status,
        valid_from=clearance.valid_from,
        valid_until=clearance.valid_until,
    )


def _said(near: NearClearance) -> str:
    begin = near.valid_from.isoformat() if near.valid_from is not None else "…"
    end = near.valid_until.isoformat() if near.valid_until is not None else "…"
    window = f" ({begin} to {end})" if near.valid_from or near.valid_until else ""
    return f"{near.clearance_id} {near.status}{window}"
