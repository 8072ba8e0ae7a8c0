"""What the tests of clearances share: a template with two roles, a clearance on it, and its history."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from beamwright.contexts.safety.clearance import (
    Clearance,
    ClearanceActivated,
    ClearanceApproved,
    ClearanceExpired,
    ClearanceRegistered,
    ClearanceRejected,
    ClearanceReturned,
    ClearanceReviewStarted,
    ClearanceReviewStepAppended,
    ClearanceStatus,
    ClearanceSubmitted,
    ClearanceSuperseded,
    ClearanceWithdrawn,
    ReviewDecision,
    ReviewStep,
    clearances,
)
from beamwright.contexts.safety.clearance_template import (
    ClearanceTemplate,
    ClearanceTemplateActivated,
    ClearanceTemplateDefined,
    clearance_templates,
)
from beamwright.contexts.safety.values import Binding, BindingKind
from beamwright.kernel.observing import TriggerSource
from beamwright.kernel.operation import Occasion
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import replace
from tests.rules import NOW, OCCASION, given

TEMPLATE = UUID(int=20)
CLEARANCE = UUID(int=21)
PARENT = UUID(int=22)
AUTHOR, SUBMITTER, RADIATION, CHEMISTRY, OFFICER = (UUID(int=number) for number in range(31, 36))
ASSET, ROOT, SUBJECT, RUN, VISIT = (UUID(int=number) for number in range(41, 46))
BY_OFFICER = replace(OCCASION, principal_id=OFFICER)
BY_AGENT = replace(OCCASION, principal_kind=ActorKind.AGENT)
DAY = timedelta(days=1)

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "energy": {"type": "number", "unit": {"system": "ucum", "code": "keV"}},
        "gas": {"type": "string"},
    },
    "required": ["energy"],
    "additionalProperties": False,
    "unevaluatedProperties": False,
}

DEFINED_TEMPLATE = ClearanceTemplateDefined(
    template_id=TEMPLATE,
    occurred_at=NOW,
    facility_code="home",
    code="Beam",
    title="Beam work",
    description=None,
    form_schema=None,
    reviewer_roles=("radiation", "chemistry"),
    binding_kinds=frozenset(BindingKind),
    declared_kinds=frozenset(),
    valid_for=None,
    separated_duties=True,
    external_refs={},
    defined_by=OFFICER,
)
ACTIVATED_TEMPLATE = ClearanceTemplateActivated(template_id=TEMPLATE, occurred_at=NOW, activated_by=OFFICER)


def template(**fields: Any) -> ClearanceTemplate:
    """An active template."""
    return given(clearance_templates, replace(DEFINED_TEMPLATE, **fields), ACTIVATED_TEMPLATE)


def bound(kind: BindingKind = BindingKind.ASSET, id: UUID = ASSET) -> Binding:
    return Binding(kind=kind, id=id)


REGISTERED = ClearanceRegistered(
    clearance_id=CLEARANCE,
    occurred_at=NOW,
    template_id=TEMPLATE,
    template_code="Beam",
    template_version=1,
    facility_code="home",
    title="Align the mirror",
    answers={},
    bindings=(bound(),),
    declarations=(),
    risk_band=None,
    valid_from=None,
    valid_until=None,
    reviewer_roles=("radiation", "chemistry"),
    external_refs={},
    parent_id=None,
    registered_by=AUTHOR,
)
SUBMITTED = ClearanceSubmitted(clearance_id=CLEARANCE, occurred_at=NOW, round=1, submitted_by=SUBMITTER)
STARTED = ClearanceReviewStarted(
    clearance_id=CLEARANCE, occurred_at=NOW, round=1, first_reviewer_role=None, started_by=OFFICER
)
APPROVED = ClearanceApproved(
    clearance_id=CLEARANCE, occurred_at=NOW, valid_from=None, valid_until=None, approved_by=OFFICER
)
ACTIVATED = ClearanceActivated(clearance_id=CLEARANCE, occurred_at=NOW, activated_by=OFFICER)
RETURNED = ClearanceReturned(
    clearance_id=CLEARANCE, occurred_at=NOW, round=1, reason="name the gas", returned_by=OFFICER
)
REJECTED = ClearanceRejected(
    clearance_id=CLEARANCE, occurred_at=NOW, reason="too dangerous", rejected_by=OFFICER
)
EXPIRED = ClearanceExpired(
    clearance_id=CLEARANCE,
    occurred_at=NOW,
    reason="done",
    valid_until=None,
    trigger=TriggerSource.OPERATOR,
    decided_by_decision_id=None,
    expired_by=OFFICER,
)
SUPERSEDED = ClearanceSuperseded(
    clearance_id=CLEARANCE,
    occurred_at=NOW,
    superseded_by_clearance_id=UUID(int=29),
    superseded_by=OFFICER,
)
WITHDRAWN = ClearanceWithdrawn(
    clearance_id=CLEARANCE, occurred_at=NOW, reason="not needed", withdrawn_by=AUTHOR
)


def step(
    role: str,
    by: UUID,
    decision: ReviewDecision = ReviewDecision.APPROVED,
    round: int = 1,
    index: int = 1,
) -> ClearanceReviewStepAppended:
    said = ReviewStep(index=index, round=round, role=role, decision=decision, decided_by=by, decided_at=NOW)
    return ClearanceReviewStepAppended(clearance_id=CLEARANCE, occurred_at=NOW, step=said)


REVIEWED = (step("radiation", RADIATION), step("chemistry", CHEMISTRY, index=2))
UNDER_REVIEW = (REGISTERED, SUBMITTED, STARTED)
IN_FORCE = (*UNDER_REVIEW, *REVIEWED, APPROVED, ACTIVATED)
REACH = {
    "Defined": [REGISTERED],
    "Submitted": [REGISTERED, SUBMITTED],
    "UnderReview": [*UNDER_REVIEW, *REVIEWED],
    "Approved": [*UNDER_REVIEW, *REVIEWED, APPROVED],
    "Active": [*IN_FORCE],
    "Expired": [*IN_FORCE, EXPIRED],
    "Rejected": [REGISTERED, SUBMITTED, REJECTED],
    "Superseded": [*IN_FORCE, SUPERSEDED],
    "Withdrawn": [REGISTERED, WITHDRAWN],
}


def clearance(*history: Any, status: ClearanceStatus = ClearanceStatus.DEFINED, **fields: Any) -> Clearance:
    """The clearance after a history (or the one that leads to a status), registered with other fields."""
    first, *rest = history or REACH[status]
    return given(clearances, replace(first, **fields), *rest)


def in_force(**fields: Any) -> Clearance:
    """An active clearance with this window and these bindings."""
    window = {name: fields.get(name) for name in ("valid_from", "valid_until")}
    history = (*UNDER_REVIEW, *REVIEWED, replace(APPROVED, **window), ACTIVATED)
    return clearance(*history, **fields)


def by(principal: UUID) -> Occasion:
    return replace(OCCASION, principal_id=principal)
