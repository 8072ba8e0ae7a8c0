"""Clearances in force and after: activated, superseded by their amendment, expired, or withdrawn before."""

from typing import Annotated
from uuid import UUID

from msgspec import Meta

from beamwright.contexts.decision.decision import decisions
from beamwright.kernel import text
from beamwright.kernel.external_refs import Scheme, checked_ref
from beamwright.kernel.observing import trigger
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import Value

from .clearance import (
    ACTIVE,
    LIFECYCLE,
    Clearance,
    ClearanceActivated,
    ClearanceExpired,
    ClearanceExternalRefAlreadyAssignedError,
    ClearanceExternalRefAssigned,
    ClearanceNotDueError,
    ClearanceSuperseded,
    ClearanceTemplateWithdrawnError,
    ClearanceWindowLapsedError,
    ClearanceWithdrawn,
    InvalidClearanceExternalRefError,
    InvalidClearanceReasonError,
    check_human,
    clearances,
)
from .clearance_template import ClearanceTemplate, ClearanceTemplateStatus, clearance_templates

type RefAuthority = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 200})]


class ClearanceToActivate(Value):
    """An approved clearance, its template, and the clearance that it amends."""

    clearance: Clearance
    template: ClearanceTemplate
    parent: Clearance | None = None


@clearances.operation("POST /clearances/{clearance_id}/activate")
class ActivateClearance(Command[ClearanceToActivate]):
    """Put an approved clearance into force; the one that it amends ends in the same moment."""

    clearance_id: UUID

    async def gather(self, world: World) -> ClearanceToActivate:
        clearance = await world.load(clearances, self.clearance_id)
        template = await world.load(clearance_templates, clearance.template_id)
        parent = None
        if clearance.parent_id is not None:
            parent = await world.load(clearances, clearance.parent_id)
        return ClearanceToActivate(clearance=clearance, template=template, parent=parent)

    def decide(
        self, seen: ClearanceToActivate, occasion: Occasion
    ) -> list[ClearanceActivated | ClearanceSuperseded]:
        clearance, parent = seen.clearance, seen.parent
        check_human(occasion, clearance.id)
        LIFECYCLE.check(ClearanceActivated, clearance.status, clearance.id)
        check_window_ahead(clearance, occasion)
        check_template_stands(seen.template)
        events: list[ClearanceActivated | ClearanceSuperseded] = [
            ClearanceActivated(
                clearance_id=clearance.id, occurred_at=occasion.now, activated_by=occasion.principal_id
            )
        ]
        # A parent that ended meanwhile stays as it ended.
        if parent is not None and parent.status is ACTIVE:
            events.append(
                ClearanceSuperseded(
                    clearance_id=parent.id,
                    occurred_at=occasion.now,
                    superseded_by_clearance_id=clearance.id,
                    superseded_by=occasion.principal_id,
                )
            )
        return events


@clearances.operation("POST /clearances/{clearance_id}/expire")
class ExpireClearance(Command[Clearance]):
    """End a clearance in force; work under way is not touched, and no more starts on its ground."""

    clearance_id: UUID
    reason: text.Reason
    decided_by_decision_id: UUID | None = None

    async def gather(self, world: World) -> Clearance:
        clearance = await world.load(clearances, self.clearance_id)
        if self.decided_by_decision_id is not None:
            await world.load(decisions, self.decided_by_decision_id)
        return clearance

    def decide(self, clearance: Clearance, occasion: Occasion) -> ClearanceExpired:
        reason = text.reason(self.reason, InvalidClearanceReasonError)
        LIFECYCLE.check(ClearanceExpired, clearance.status, clearance.id)
        check_due(clearance, occasion)
        return ClearanceExpired(
            clearance_id=clearance.id,
            occurred_at=occasion.now,
            reason=reason,
            valid_until=clearance.valid_until,
            trigger=trigger(occasion.principal_kind),
            decided_by_decision_id=self.decided_by_decision_id,
            expired_by=occasion.principal_id,
        )


@clearances.operation("POST /clearances/{clearance_id}/withdraw")
class WithdrawClearance(Command[Clearance]):
    """Withdraw a clearance that is not in force yet."""

    clearance_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Clearance:
        return await world.load(clearances, self.clearance_id)

    def decide(self, clearance: Clearance, occasion: Occasion) -> ClearanceWithdrawn:
        reason = text.reason(self.reason, InvalidClearanceReasonError)
        LIFECYCLE.check(ClearanceWithdrawn, clearance.status, clearance.id)
        return ClearanceWithdrawn(
            clearance_id=clearance.id,
            occurred_at=occasion.now,
            reason=reason,
            withdrawn_by=occasion.principal_id,
        )


@clearances.operation("POST /clearances/{clearance_id}/assign-external-ref")
class AssignClearanceExternalRef(Command[Clearance]):
    """Record the number that the clearance has in another system."""

    clearance_id: UUID
    scheme: Scheme
    value: text.Name
    authority: RefAuthority

    async def gather(self, world: World) -> Clearance:
        return await world.load(clearances, self.clearance_id)

    def decide(self, clearance: Clearance, occasion: Occasion) -> list[ClearanceExternalRefAssigned]:
        refusal = InvalidClearanceExternalRefError
        scheme, given = checked_ref(self.scheme, self.value, self.authority, refusal)
        current = clearance.external_refs.get(scheme)
        if current is not None and current.value != given.value:
            raise ClearanceExternalRefAlreadyAssignedError(
                f"The clearance is {scheme} {current.value} already.",
                clearance_id=str(clearance.id),
                scheme=scheme,
                value=current.value,
            )
        if current is not None:
            return []
        return [
            ClearanceExternalRefAssigned(
                clearance_id=clearance.id,
                occurred_at=occasion.now,
                scheme=scheme,
                value=given.value,
                authority=given.authority or "",
                assigned_by=occasion.principal_id,
            )
        ]


def check_window_ahead(clearance: Clearance, occasion: Occasion) -> None:
    """Gate: what would be over at once is not activated."""
    if clearance.valid_until is not None and clearance.valid_until <= occasion.now:
        raise ClearanceWindowLapsedError(
            f"The window ended at {clearance.valid_until.isoformat()}; return the clearance and revise it.",
            clearance_id=str(clearance.id),
            valid_until=clearance.valid_until.isoformat(),
        )


def check_template_stands(template: ClearanceTemplate) -> None:
    """Gate: a withdrawn form authorises nothing new."""
    if template.status is ClearanceTemplateStatus.WITHDRAWN:
        raise ClearanceTemplateWithdrawnError(
            f"Template {template.code} was withdrawn: {template.status_reason}.", template_id=str(template.id)
        )


def check_due(clearance: Clearance, occasion: Occasion) -> None:
    """Gate: agents and accounts end a clearance only when its time has come."""
    due = clearance.valid_until is not None and clearance.valid_until <= occasion.now
    if occasion.principal_kind != ActorKind.HUMAN and not due:
        until = clearance.valid_until
        raise ClearanceNotDueError(
            "The clearance is valid still; only a person ends it before its time.",
            clearance_id=str(clearance.id),
            valid_until=None if until is None else until.isoformat(),
        )
