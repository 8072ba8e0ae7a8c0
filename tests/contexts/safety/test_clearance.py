"""Clearance: drafting, amendment, ends, and the whole status grid."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.safety.clearance import (
    ClearanceAmendmentOpenError,
    ClearanceAnswersRequiredError,
    ClearanceBindingFacilityMismatchError,
    ClearanceCannotAmendError,
    ClearanceDeclarationsRequiredError,
    ClearanceExpired,
    ClearanceExternalRefAlreadyAssignedError,
    ClearanceExternalRefAssigned,
    ClearanceNotDueError,
    ClearanceRegistered,
    ClearanceRequiresHumanError,
    ClearanceRevised,
    ClearanceStatus,
    ClearanceSubmitted,
    ClearanceSuperseded,
    ClearanceTemplateNotBindableError,
    ClearanceTemplateWithdrawnError,
    ClearanceWindowLapsedError,
    InvalidClearanceAnswersError,
    InvalidClearanceExternalRefError,
    InvalidClearanceReasonError,
    InvalidClearanceTitleError,
    InvalidClearanceValidityWindowError,
    ReviewDecision,
    clearances,
)
from beamwright.contexts.safety.clearance_drafting import (
    AmendClearance,
    ClearanceDraft,
    ClearanceGrounds,
    RegisterClearance,
    ReviseClearance,
    SubmitClearance,
)
from beamwright.contexts.safety.clearance_lifecycle import (
    ActivateClearance,
    AssignClearanceExternalRef,
    ClearanceToActivate,
    ExpireClearance,
    WithdrawClearance,
)
from beamwright.contexts.safety.clearance_review import (
    AppendClearanceReviewStep,
    ApproveClearance,
    ClearanceUnderForm,
    RejectClearance,
    ReturnClearance,
    StartClearanceReview,
)
from beamwright.contexts.safety.clearance_template import ClearanceTemplateStatus
from beamwright.contexts.safety.values import (
    Binding,
    BindingKind,
    GhsClassification,
    GhsPictogram,
    HazardClassification,
    HazardDeclaration,
    InvalidClearanceBindingsError,
    InvalidClearanceDeclarationError,
    InvalidHazardClassificationError,
    NfpaClassification,
    RiskBand,
    RiskBandClassification,
    SchemeClassification,
)
from beamwright.kernel.external_refs import GivenRef
from beamwright.kernel.observing import TriggerSource
from beamwright.kernel.value import replace
from tests.contexts.safety.examples import (
    ACTIVATED,
    APPROVED,
    ASSET,
    AUTHOR,
    BY_AGENT,
    BY_OFFICER,
    CLEARANCE,
    DAY,
    IN_FORCE,
    OFFICER,
    PARENT,
    REACH,
    REGISTERED,
    RETURNED,
    REVIEWED,
    ROOT,
    SCHEMA,
    SUBMITTED,
    TEMPLATE,
    UNDER_REVIEW,
    VISIT,
    WITHDRAWN,
    bound,
    by,
    clearance,
    in_force,
    template,
)
from tests.grids import check_grid
from tests.rules import NEW_ID, NOW, given, outcome

GROUNDS = ClearanceGrounds(template=template())
REGISTER = RegisterClearance(template_id=TEMPLATE, title="Align the mirror", bindings=(bound(),))
EXTERNAL = Binding(kind=BindingKind.EXTERNAL, scheme="esaf", value="77")
DECLARED = HazardDeclaration(binding=bound(), classifications=(RiskBandClassification(band=RiskBand.GREEN),))


def draft(**fields: Any) -> ClearanceDraft:
    return ClearanceDraft(clearance=clearance(**fields), grounds=GROUNDS)


# Registering


def test_a_clearance_pins_its_template_and_is_its_author_s() -> None:
    got = outcome(replace(REGISTER, title=" Align the mirror "), GROUNDS, by(AUTHOR))
    assert got == [replace(REGISTERED, clearance_id=NEW_ID)]


def test_bindings_are_stored_sorted() -> None:
    command = replace(REGISTER, bindings=(EXTERNAL, bound(BindingKind.VISIT, VISIT), bound(id=ROOT), bound()))
    got = outcome(command, GROUNDS)
    assert isinstance(got, list) and isinstance(got[0], ClearanceRegistered)
    assert [binding.key for binding in got[0].bindings] == [
        f"Asset:{ASSET}",
        f"Asset:{ROOT}",
        "External:esaf:77",
        f"Visit:{VISIT}",
    ]


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"title": ""}, InvalidClearanceTitleError),
        ({"bindings": ()}, InvalidClearanceBindingsError),
        ({"bindings": (bound(), bound())}, InvalidClearanceBindingsError),
        ({"bindings": tuple(bound(id=UUID(int=n)) for n in range(201))}, InvalidClearanceBindingsError),
        ({"bindings": (Binding(kind=BindingKind.ASSET),)}, InvalidClearanceBindingsError),
        ({"bindings": (replace(EXTERNAL, id=ASSET),)}, InvalidClearanceBindingsError),
        ({"bindings": (replace(EXTERNAL, value=" "),)}, InvalidClearanceBindingsError),
        ({"bindings": (replace(bound(), scheme="x"),)}, InvalidClearanceBindingsError),
        ({"declarations": (replace(DECLARED, binding=EXTERNAL),)}, InvalidClearanceDeclarationError),
        ({"declarations": (DECLARED, DECLARED)}, InvalidClearanceDeclarationError),
        ({"declarations": (replace(DECLARED, classifications=()),)}, InvalidClearanceDeclarationError),
        ({"declarations": (replace(DECLARED, notes=" "),)}, InvalidClearanceDeclarationError),
        (
            {"declarations": (replace(DECLARED, mitigations=frozenset({"x" * 201})),)},
            InvalidClearanceDeclarationError,
        ),
        ({"valid_from": NOW, "valid_until": NOW}, InvalidClearanceValidityWindowError),
        ({"external_refs": {"ESAF": GivenRef(value="7")}}, InvalidClearanceExternalRefError),
        ({"external_refs": {"esaf": GivenRef(value="esaf:7")}}, InvalidClearanceExternalRefError),
        ({"answers": {"gas": "argon"}}, InvalidClearanceAnswersError),
    ],
)
def test_each_bad_value_has_its_own_refusal(fields: dict[str, Any], refusal: type) -> None:
    assert outcome(replace(REGISTER, **fields), GROUNDS) == refusal


def test_values_are_refused_in_the_order_of_the_catalogue() -> None:
    bad_ref = {"esaf": GivenRef(value=" ")}
    worst = replace(REGISTER, title="", answers={"gas": "argon"}, external_refs=bad_ref)
    closed = ClearanceGrounds(template=replace(template(), status=ClearanceTemplateStatus.DRAFT))
    assert outcome(worst, closed) == InvalidClearanceTitleError
    assert outcome(replace(worst, title="x"), closed) == InvalidClearanceExternalRefError
    assert outcome(replace(worst, title="x", external_refs={}), closed) == InvalidClearanceAnswersError


@pytest.mark.parametrize(
    ("classification", "accepted"),
    [
        (NfpaClassification(health=4, flammability=0, instability=2), True),
        (NfpaClassification(health=5, flammability=0, instability=0), False),
        (NfpaClassification(health=0, flammability=0, instability=-1), False),
        (GhsClassification(pictogram=GhsPictogram.GHS06, statements=frozenset({"H300+H310"})), True),
        (GhsClassification(pictogram=GhsPictogram.GHS06, statements=frozenset({"X300"})), False),
        (SchemeClassification(scheme="adr", code="6.1"), True),
        (SchemeClassification(scheme="adr", code=" "), False),
        (SchemeClassification(scheme="adr", code="6.1", severity_label=""), False),
    ],
)
def test_classifications_stay_within_their_scheme(
    classification: HazardClassification, accepted: bool
) -> None:
    declared = replace(DECLARED, classifications=(classification,))
    got = outcome(replace(REGISTER, declarations=(declared,)), GROUNDS)
    assert isinstance(got, list) if accepted else got == InvalidHazardClassificationError


def test_a_kind_that_the_template_does_not_bind_is_refused() -> None:
    runs_only = ClearanceGrounds(template=template(binding_kinds=frozenset({BindingKind.RUN})))
    assert outcome(REGISTER, runs_only) == InvalidClearanceBindingsError


@pytest.mark.parametrize(
    ("answers", "refusal"),
    [({}, None), ({"energy": 20}, None), ({"gas": "argon"}, InvalidClearanceAnswersError)],
)
def test_answers_meet_the_form_or_are_none(answers: dict[str, Any], refusal: type | None) -> None:
    asking = ClearanceGrounds(template=template(form_schema=SCHEMA))
    got = outcome(replace(REGISTER, answers=answers), asking)
    assert got == refusal if refusal else isinstance(got, list)


@pytest.mark.parametrize("status", sorted(set(ClearanceTemplateStatus) - {ClearanceTemplateStatus.ACTIVE}))
def test_new_clearances_need_an_active_template(status: ClearanceTemplateStatus) -> None:
    closed = ClearanceGrounds(template=replace(template(), status=status))
    assert outcome(REGISTER, closed) == ClearanceTemplateNotBindableError


def test_a_thing_of_an_unrelated_facility_is_not_bound() -> None:
    elsewhere = replace(GROUNDS, unrelated=(f"Asset:{ASSET}",))
    assert outcome(REGISTER, elsewhere) == ClearanceBindingFacilityMismatchError
    assert outcome(ReviseClearance(clearance_id=CLEARANCE), replace(draft(), grounds=elsewhere)) == (
        ClearanceBindingFacilityMismatchError
    )


def test_it_belongs_to_its_facility_the_visits_bound_and_its_author() -> None:
    belonging = clearances.belongs(clearance(bindings=(bound(), bound(BindingKind.VISIT, VISIT))))
    assert (belonging.facility_code, belonging.visit_ids, belonging.owner_id) == (
        "home",
        frozenset({VISIT}),
        AUTHOR,
    )


# Revising and submitting


def test_revise_merges_answers_and_keeps_what_is_absent() -> None:
    seen = ClearanceDraft(
        clearance=clearance(answers={"energy": 20, "gas": "argon"}, valid_from=NOW),
        grounds=ClearanceGrounds(template=template(form_schema=SCHEMA)),
    )
    got = outcome(
        ReviseClearance(clearance_id=CLEARANCE, answers={"gas": None}, valid_from=None), seen, by(AUTHOR)
    )
    assert got == [
        ClearanceRevised(
            clearance_id=CLEARANCE,
            occurred_at=NOW,
            title="Align the mirror",
            answers={"energy": 20},
            bindings=(bound(),),
            declarations=(),
            risk_band=None,
            valid_from=None,
            valid_until=None,
            revised_by=AUTHOR,
        )
    ]


def test_a_revision_that_changes_nothing_is_a_no_op() -> None:
    assert outcome(ReviseClearance(clearance_id=CLEARANCE, title="Align the mirror"), draft()) == []


def test_a_declaration_does_not_outlive_its_binding() -> None:
    seen = draft(declarations=(DECLARED,))
    command = ReviseClearance(clearance_id=CLEARANCE, bindings=(bound(id=ROOT),))
    assert outcome(command, seen) == InvalidClearanceDeclarationError


def test_a_draft_on_a_deprecated_template_is_still_revised() -> None:
    old = replace(template(), status=ClearanceTemplateStatus.DEPRECATED)
    seen = replace(draft(), grounds=ClearanceGrounds(template=old))
    assert isinstance(outcome(ReviseClearance(clearance_id=CLEARANCE, title="Other"), seen), list)


def test_a_required_answer_is_given_before_the_review() -> None:
    asking = ClearanceGrounds(template=template(form_schema=SCHEMA))
    seen = replace(draft(), grounds=asking)
    assert outcome(SubmitClearance(clearance_id=CLEARANCE), seen) == ClearanceAnswersRequiredError
    answered = replace(seen, clearance=clearance(answers={"energy": 20}))
    assert isinstance(outcome(SubmitClearance(clearance_id=CLEARANCE), answered), list)


def test_hazards_are_declared_where_the_template_asks_for_it() -> None:
    asking = ClearanceGrounds(template=template(declared_kinds=frozenset({BindingKind.ASSET})))
    seen = replace(draft(), grounds=asking)
    assert outcome(SubmitClearance(clearance_id=CLEARANCE), seen) == ClearanceDeclarationsRequiredError
    declared = replace(seen, clearance=clearance(declarations=(DECLARED,)))
    assert isinstance(outcome(SubmitClearance(clearance_id=CLEARANCE), declared), list)


def test_every_submission_begins_a_round() -> None:
    returned = ClearanceDraft(clearance=clearance(REGISTERED, SUBMITTED, RETURNED), grounds=GROUNDS)
    got = outcome(SubmitClearance(clearance_id=CLEARANCE), returned, by(AUTHOR))
    assert got == [ClearanceSubmitted(clearance_id=CLEARANCE, occurred_at=NOW, round=2, submitted_by=AUTHOR)]


def test_a_return_says_why_and_undoes_the_submission() -> None:
    returned = clearance(*UNDER_REVIEW, *REVIEWED, APPROVED, RETURNED)
    assert (returned.status, returned.status_reason) == ("Defined", "name the gas")
    assert (returned.submitted_by, returned.approved_by) == (None, None)


# Amending


AMEND = AmendClearance(clearance_id=CLEARANCE, title="Align both mirrors")


def amending(**fields: Any) -> ClearanceDraft:
    return ClearanceDraft(
        clearance=in_force(risk_band=RiskBand.RED, valid_until=NOW + DAY), grounds=GROUNDS, **fields
    )


def test_what_an_amendment_leaves_out_is_the_parent_s_but_for_its_numbers() -> None:
    seen = ClearanceDraft(
        clearance=in_force(external_refs={"esaf": GivenRef(value="7")}, risk_band=RiskBand.RED),
        grounds=ClearanceGrounds(template=replace(template(), template_version=1)),
    )
    got = outcome(AMEND, seen, by(AUTHOR))
    expected = replace(
        REGISTERED,
        clearance_id=NEW_ID,
        title="Align both mirrors",
        risk_band=RiskBand.RED,
        parent_id=CLEARANCE,
    )
    assert got == [expected]


def test_answers_of_an_amendment_replace_the_parent_s() -> None:
    asking = ClearanceGrounds(template=template(form_schema=SCHEMA))
    seen = ClearanceDraft(clearance=in_force(answers={"energy": 20, "gas": "argon"}), grounds=asking)
    got = outcome(replace(AMEND, answers={"energy": 30}), seen)
    assert isinstance(got, list) and isinstance(got[0], ClearanceRegistered)
    assert got[0].answers == {"energy": 30}


@pytest.mark.parametrize("status", sorted(set(ClearanceStatus) - {ClearanceStatus.ACTIVE}))
def test_only_an_active_clearance_is_amended(status: ClearanceStatus) -> None:
    seen = ClearanceDraft(clearance=clearance(status=status), grounds=GROUNDS)
    assert outcome(AMEND, seen) == ClearanceCannotAmendError


def test_an_amendment_needs_an_active_template() -> None:
    closed = ClearanceGrounds(template=replace(template(), status=ClearanceTemplateStatus.DEPRECATED))
    assert outcome(AMEND, replace(amending(), grounds=closed)) == ClearanceTemplateNotBindableError


def test_one_amendment_is_open_at_a_time() -> None:
    assert outcome(AMEND, amending(open_amendment_id=UUID(int=5))) == ClearanceAmendmentOpenError


@pytest.mark.parametrize("status", ClearanceStatus)
def test_the_claim_of_an_amendment_is_held_while_it_is_under_way(status: ClearanceStatus) -> None:
    keys = [claim.key for claim in clearances.claims(clearance(status=status, parent_id=PARENT))]
    held = status in ("Defined", "Submitted", "UnderReview", "Approved")
    assert keys == ([str(PARENT)] if held else [])


# Activating


def to_activate(**seen: Any) -> ClearanceToActivate:
    approved = ClearanceToActivate(clearance=clearance(status=ClearanceStatus.APPROVED), template=template())
    return replace(approved, **seen)


ACTIVATE = ActivateClearance(clearance_id=CLEARANCE)


def test_activation_ends_the_active_parent_in_the_same_append() -> None:
    parent = in_force(clearance_id=PARENT)
    assert outcome(ACTIVATE, to_activate(parent=parent), BY_OFFICER) == [
        ACTIVATED,
        ClearanceSuperseded(
            clearance_id=PARENT,
            occurred_at=NOW,
            superseded_by_clearance_id=CLEARANCE,
            superseded_by=OFFICER,
        ),
    ]


def test_a_parent_that_expired_meanwhile_stays_expired() -> None:
    parent = clearance(status=ClearanceStatus.EXPIRED, clearance_id=PARENT)
    assert outcome(ACTIVATE, to_activate(parent=parent), BY_OFFICER) == [ACTIVATED]


@pytest.mark.parametrize(("ahead", "accepted"), [(DAY, True), (timedelta(), False), (-DAY, False)])
def test_a_window_that_is_over_is_not_activated(ahead: timedelta, accepted: bool) -> None:
    approved = clearance(*UNDER_REVIEW, replace(APPROVED, valid_until=NOW + ahead))
    got = outcome(ACTIVATE, to_activate(clearance=approved))
    assert isinstance(got, list) if accepted else got == ClearanceWindowLapsedError


def test_activation_may_precede_the_window() -> None:
    approved = clearance(*UNDER_REVIEW, replace(APPROVED, valid_from=NOW + DAY))
    assert isinstance(outcome(ACTIVATE, to_activate(clearance=approved)), list)


@pytest.mark.parametrize(
    ("status", "accepted"),
    [
        (ClearanceTemplateStatus.ACTIVE, True),
        (ClearanceTemplateStatus.DEPRECATED, True),
        (ClearanceTemplateStatus.WITHDRAWN, False),
    ],
)
def test_a_withdrawn_template_forbids_activation(status: ClearanceTemplateStatus, accepted: bool) -> None:
    got = outcome(ACTIVATE, to_activate(template=replace(template(), status=status)))
    assert isinstance(got, list) if accepted else got == ClearanceTemplateWithdrawnError


# Ending


EXPIRE = ExpireClearance(clearance_id=CLEARANCE, reason="done")


def test_a_person_ends_a_clearance_before_its_time() -> None:
    got = outcome(EXPIRE, in_force(valid_until=NOW + DAY), BY_OFFICER)
    assert got == [
        ClearanceExpired(
            clearance_id=CLEARANCE,
            occurred_at=NOW,
            reason="done",
            valid_until=NOW + DAY,
            trigger=TriggerSource.OPERATOR,
            decided_by_decision_id=None,
            expired_by=OFFICER,
        )
    ]


@pytest.mark.parametrize(("until", "due"), [(None, False), (DAY, False), (timedelta(), True), (-DAY, True)])
def test_an_agent_ends_only_what_is_due(until: timedelta | None, due: bool) -> None:
    active = in_force(valid_until=None if until is None else NOW + until)
    got = outcome(EXPIRE, active, BY_AGENT)
    if not due:
        assert got == ClearanceNotDueError
    else:
        assert isinstance(got, list) and isinstance(got[0], ClearanceExpired)
        assert got[0].trigger is TriggerSource.AUTO


def test_the_end_says_who_and_why() -> None:
    ended = clearance(status=ClearanceStatus.WITHDRAWN)
    assert (ended.closed_by, ended.status_reason) == (AUTHOR, "not needed")
    assert clearance(status=ClearanceStatus.SUPERSEDED).closed_by == OFFICER


# External references


ASSIGN = AssignClearanceExternalRef(
    clearance_id=CLEARANCE, scheme="esaf", value="77", authority="User office"
)
ASSIGNED = ClearanceExternalRefAssigned(
    clearance_id=CLEARANCE,
    occurred_at=NOW,
    scheme="esaf",
    value="77",
    authority="User office",
    assigned_by=OFFICER,
)


def test_a_number_is_assigned_in_any_status() -> None:
    for history in REACH.values():
        assert outcome(ASSIGN, given(clearances, *history), BY_OFFICER) == [ASSIGNED]


def test_the_same_number_again_is_a_no_op_and_another_is_refused() -> None:
    numbered = clearance(REGISTERED, ASSIGNED)
    assert outcome(ASSIGN, numbered) == []
    assert outcome(replace(ASSIGN, value="78"), numbered) == ClearanceExternalRefAlreadyAssignedError


def test_a_number_is_claimed() -> None:
    assert [claim.key for claim in clearances.claims(clearance(REGISTERED, ASSIGNED))] == ["esaf:77"]
    at_once = clearance(external_refs={"esaf": GivenRef(value="77")})
    assert [claim.key for claim in clearances.claims(at_once)] == ["esaf:77"]


def test_an_authority_is_not_blank() -> None:
    assert outcome(replace(ASSIGN, authority=" "), clearance()) == InvalidClearanceExternalRefError


# Every verb from every status


def test_status_grid_of_drafting() -> None:
    check_grid(
        """
                revise    submit
    Defined       Defined   Submitted
    Submitted     -         -
    UnderReview   -         -
    Approved      -         -
    Active        -         -
    Expired       -         -
    Rejected      -         -
    Superseded    -         -
    Withdrawn     -         -
        """,
        clearances,
        status=lambda clearance: clearance.status,
        reach=REACH,
        verbs={
            "revise": ReviseClearance(clearance_id=CLEARANCE, title="Other"),
            "submit": SubmitClearance(clearance_id=CLEARANCE),
        },
        seen=lambda state: ClearanceDraft(clearance=state, grounds=GROUNDS),
    )


def test_status_grid_of_review() -> None:
    check_grid(
        """
                  start-review   append-review-step   approve
    Defined       -              -                    -
    Submitted     UnderReview    -                    -
    UnderReview   -              UnderReview          Approved
    Approved      -              -                    -
    Active        -              -                    -
    Expired       -              -                    -
    Rejected      -              -                    -
    Superseded    -              -                    -
    Withdrawn     -              -                    -
        """,
        clearances,
        status=lambda clearance: clearance.status,
        reach=REACH,
        verbs={
            "start-review": StartClearanceReview(clearance_id=CLEARANCE),
            "append-review-step": AppendClearanceReviewStep(
                clearance_id=CLEARANCE, role="radiation", decision=ReviewDecision.APPROVED
            ),
            "approve": ApproveClearance(clearance_id=CLEARANCE),
        },
        seen=lambda state: ClearanceUnderForm(clearance=state, form=template().form(1)),
    )


def test_status_grid_of_returns_and_ends() -> None:
    check_grid(
        """
                  return    reject     expire    withdraw
    Defined       -         -          -         Withdrawn
    Submitted     Defined   Rejected   -         Withdrawn
    UnderReview   Defined   Rejected   -         Withdrawn
    Approved      Defined   -          -         Withdrawn
    Active        -         -          Expired   -
    Expired       -         -          -         -
    Rejected      -         -          -         -
    Superseded    -         -          -         -
    Withdrawn     -         -          -         -
        """,
        clearances,
        status=lambda clearance: clearance.status,
        reach=REACH,
        verbs={
            "return": ReturnClearance(clearance_id=CLEARANCE, reason="name the gas"),
            "reject": RejectClearance(clearance_id=CLEARANCE, reason="too dangerous"),
            "expire": EXPIRE,
            "withdraw": WithdrawClearance(clearance_id=CLEARANCE, reason="not needed"),
        },
    )


def test_status_grid_of_activation() -> None:
    check_grid(
        """
                  activate
    Defined       -
    Submitted     -
    UnderReview   -
    Approved      Active
    Active        -
    Expired       -
    Rejected      -
    Superseded    -
    Withdrawn     -
        """,
        clearances,
        status=lambda clearance: clearance.status,
        reach=REACH,
        verbs={"activate": ACTIVATE},
        seen=lambda state: ClearanceToActivate(clearance=state, template=template()),
    )


@pytest.mark.parametrize("verb", [ReturnClearance, RejectClearance, ExpireClearance, WithdrawClearance])
def test_a_reason_is_not_blank(verb: Any) -> None:
    command = verb(clearance_id=CLEARANCE, reason="  ")
    for history in (REACH["Submitted"], IN_FORCE, [REGISTERED, WITHDRAWN]):
        assert outcome(command, given(clearances, *history)) == InvalidClearanceReasonError


def test_only_people_judge_and_put_into_force() -> None:
    under_form = ClearanceUnderForm(clearance=clearance(), form=template().form(1))
    step = AppendClearanceReviewStep(
        clearance_id=CLEARANCE, role="radiation", decision=ReviewDecision.APPROVED
    )
    reject = RejectClearance(clearance_id=CLEARANCE, reason="too dangerous")
    refused = {
        outcome(step, under_form, BY_AGENT),
        outcome(ApproveClearance(clearance_id=CLEARANCE), under_form, BY_AGENT),
        outcome(reject, clearance(), BY_AGENT),
        outcome(ACTIVATE, to_activate(), BY_AGENT),
    }
    assert refused == {ClearanceRequiresHumanError}


def test_agents_draft_and_submit_as_people_do() -> None:
    assert isinstance(outcome(REGISTER, GROUNDS, BY_AGENT), list)
    assert isinstance(outcome(SubmitClearance(clearance_id=CLEARANCE), draft(), BY_AGENT), list)
