"""Drafting clearances: registered on a template, revised by their author, submitted, and amended while in force."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import UNSET, UnsetType

from beamwright.contexts.federation.coverage import related
from beamwright.kernel import text
from beamwright.kernel.declared_values import check_values, violations
from beamwright.kernel.external_refs import GivenRef, Scheme, checked_refs
from beamwright.kernel.merge import merged
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Time, Value, patched

from .clearance import (
    ACTIVE,
    LIFECYCLE,
    UNDER_WAY,
    Clearance,
    ClearanceAmendmentOpenError,
    ClearanceAnswersRequiredError,
    ClearanceBindingFacilityMismatchError,
    ClearanceCannotAmendError,
    ClearanceDeclarationsRequiredError,
    ClearanceRegistered,
    ClearanceRevised,
    ClearanceSubmitted,
    ClearanceTemplateNotBindableError,
    InvalidClearanceAnswersError,
    InvalidClearanceExternalRefError,
    InvalidClearanceTitleError,
    checked_window,
    clearances,
)
from .clearance_template import (
    ClearanceForm,
    ClearanceTemplate,
    ClearanceTemplateStatus,
    clearance_templates,
)
from .values import (
    MOST_BINDINGS,
    Binding,
    HazardDeclaration,
    RiskBand,
    checked_bindings,
    checked_declarations,
)

type Answers = dict[str, Any]


class ClearanceContent(Value):
    """What an author writes into a form."""

    title: str
    answers: Answers
    bindings: tuple[Binding, ...]
    declarations: tuple[HazardDeclaration, ...]
    risk_band: RiskBand | None
    valid_from: datetime | None
    valid_until: datetime | None


class ClearanceGrounds(Value):
    """The template, and the bound things whose facility is not related to it."""

    template: ClearanceTemplate
    unrelated: tuple[str, ...] = ()


class ClearanceDraft(Value):
    """A clearance on its template; `open_amendment_id` where it is amended already."""

    clearance: Clearance
    grounds: ClearanceGrounds
    open_amendment_id: UUID | None = None


@clearances.operation("POST /clearances", creates=True)
class RegisterClearance(Command[ClearanceGrounds]):
    """Register a clearance on an active template, as a draft."""

    template_id: UUID
    title: text.Name
    bindings: tuple[Binding, ...]
    answers: Answers = {}
    declarations: tuple[HazardDeclaration, ...] = ()
    risk_band: RiskBand | None = None
    valid_from: Time | None = None
    valid_until: Time | None = None
    external_refs: dict[Scheme, GivenRef] = {}

    async def gather(self, world: World) -> ClearanceGrounds:
        template = await world.load(clearance_templates, self.template_id)
        return await load_grounds(world, template, self.bindings)

    def decide(self, grounds: ClearanceGrounds, occasion: Occasion) -> ClearanceRegistered:
        template = grounds.template
        given = ClearanceContent(
            title=self.title,
            answers=self.answers,
            bindings=self.bindings,
            declarations=self.declarations,
            risk_band=self.risk_band,
            valid_from=self.valid_from,
            valid_until=self.valid_until,
        )
        form = template.form(template.template_version)
        content = checked_content(given, form)
        refs = checked_refs(self.external_refs, InvalidClearanceExternalRefError)
        check_answers(content, form)
        check_template_active(template)
        check_facilities_related(grounds)
        return registration(template, content, refs, None, occasion)


@clearances.operation("POST /clearances/{clearance_id}/revise")
class ReviseClearance(Command[ClearanceDraft]):
    """Change a draft; what is absent stays, and answers are merged into those that are there."""

    clearance_id: UUID
    title: text.Name | UnsetType = UNSET
    answers: Answers | UnsetType | None = UNSET
    bindings: tuple[Binding, ...] | UnsetType = UNSET
    declarations: tuple[HazardDeclaration, ...] | UnsetType = UNSET
    risk_band: RiskBand | UnsetType | None = UNSET
    valid_from: Time | UnsetType | None = UNSET
    valid_until: Time | UnsetType | None = UNSET

    async def gather(self, world: World) -> ClearanceDraft:
        clearance = await world.load(clearances, self.clearance_id)
        template = await world.load(clearance_templates, clearance.template_id)
        bindings = patched(self.bindings, clearance.bindings)
        return ClearanceDraft(clearance=clearance, grounds=await load_grounds(world, template, bindings))

    def decide(self, seen: ClearanceDraft, occasion: Occasion) -> list[ClearanceRevised]:
        clearance = seen.clearance
        before = content_of(clearance)
        form = seen.grounds.template.form(clearance.template_version)
        content = checked_content(patched_content(self, before, merge_answers=True), form)
        check_answers(content, form)
        LIFECYCLE.check(ClearanceRevised, clearance.status, clearance.id)
        check_facilities_related(seen.grounds)
        if content == before:
            return []
        return [
            ClearanceRevised(
                clearance_id=clearance.id,
                occurred_at=occasion.now,
                title=content.title,
                answers=content.answers,
                bindings=content.bindings,
                declarations=content.declarations,
                risk_band=content.risk_band,
                valid_from=content.valid_from,
                valid_until=content.valid_until,
                revised_by=occasion.principal_id,
            )
        ]


@clearances.operation("POST /clearances/{clearance_id}/submit")
class SubmitClearance(Command[ClearanceDraft]):
    """Submit a draft for review; every submission begins a new round."""

    clearance_id: UUID

    async def gather(self, world: World) -> ClearanceDraft:
        clearance = await world.load(clearances, self.clearance_id)
        template = await world.load(clearance_templates, clearance.template_id)
        return ClearanceDraft(clearance=clearance, grounds=ClearanceGrounds(template=template))

    def decide(self, seen: ClearanceDraft, occasion: Occasion) -> ClearanceSubmitted:
        clearance = seen.clearance
        form = seen.grounds.template.form(clearance.template_version)
        LIFECYCLE.check(ClearanceSubmitted, clearance.status, clearance.id)
        check_answered(clearance, form)
        check_declared(clearance, form)
        return ClearanceSubmitted(
            clearance_id=clearance.id,
            occurred_at=occasion.now,
            round=clearance.round + 1,
            submitted_by=occasion.principal_id,
        )


@clearances.operation("POST /clearances/{clearance_id}/amend", creates=True)
class AmendClearance(Command[ClearanceDraft]):
    """Draft a clearance that takes the place of one in force when it is activated; what is absent is the parent's."""

    clearance_id: UUID
    title: text.Name | UnsetType = UNSET
    answers: Answers | UnsetType | None = UNSET
    bindings: tuple[Binding, ...] | UnsetType = UNSET
    declarations: tuple[HazardDeclaration, ...] | UnsetType = UNSET
    risk_band: RiskBand | UnsetType | None = UNSET
    valid_from: Time | UnsetType | None = UNSET
    valid_until: Time | UnsetType | None = UNSET
    # The parent keeps its own numbers.
    external_refs: dict[Scheme, GivenRef] = {}

    async def gather(self, world: World) -> ClearanceDraft:
        parent = await world.load(clearances, self.clearance_id)
        template = await world.load(clearance_templates, parent.template_id)
        amendments = await world.find(clearances, parent_id=frozenset({parent.id}))
        open_ids = [child.id for child in amendments if child.status in UNDER_WAY]
        return ClearanceDraft(
            clearance=parent,
            grounds=await load_grounds(world, template, patched(self.bindings, parent.bindings)),
            open_amendment_id=open_ids[0] if open_ids else None,
        )

    def decide(self, seen: ClearanceDraft, occasion: Occasion) -> ClearanceRegistered:
        parent, template = seen.clearance, seen.grounds.template
        form = template.form(template.template_version)
        content = checked_content(patched_content(self, content_of(parent), merge_answers=False), form)
        refs = checked_refs(self.external_refs, InvalidClearanceExternalRefError)
        check_answers(content, form)
        if parent.status is not ACTIVE:
            raise ClearanceCannotAmendError.of(parent.id, parent.status, [ACTIVE])
        check_template_active(template)
        check_facilities_related(seen.grounds)
        if seen.open_amendment_id is not None:
            raise ClearanceAmendmentOpenError(
                f"Clearance {seen.open_amendment_id} amends this one already; finish or withdraw it first.",
                clearance_id=str(parent.id),
                open_amendment_id=str(seen.open_amendment_id),
            )
        return registration(template, content, refs, parent.id, occasion)


async def load_grounds(
    world: World, template: ClearanceTemplate, bindings: Collection[Binding]
) -> ClearanceGrounds:
    """Every bound thing exists within the caller's reach; which of them are at an unrelated facility."""
    facilities: dict[str, list[str]] = {}
    # What is beyond the most allowed, or has no id, is refused by its value.
    for binding in list(bindings)[:MOST_BINDINGS]:
        if binding.id is not None:
            at = (await world.belonging(binding.kind, binding.id)).facility_code
            if at is not None:
                facilities.setdefault(at, []).append(binding.key)
    unrelated = [
        key
        for code, keys in facilities.items()
        if not await related(world, template.facility_code, code)
        for key in keys
    ]
    return ClearanceGrounds(template=template, unrelated=tuple(sorted(unrelated)))


def content_of(clearance: Clearance) -> ClearanceContent:
    return ClearanceContent(
        title=clearance.title,
        answers=clearance.answers,
        bindings=clearance.bindings,
        declarations=clearance.declarations,
        risk_band=clearance.risk_band,
        valid_from=clearance.valid_from,
        valid_until=clearance.valid_until,
    )


def patched_content(
    patch: ReviseClearance | AmendClearance, before: ClearanceContent, *, merge_answers: bool
) -> ClearanceContent:
    answers: Mapping[str, Any] = patched(patch.answers, before.answers) or {}
    if merge_answers and patch.answers is not UNSET:
        answers = merged(before.answers, patch.answers) if patch.answers is not None else {}
    return ClearanceContent(
        title=patched(patch.title, before.title),
        answers=dict(answers),
        bindings=patched(patch.bindings, before.bindings),
        declarations=patched(patch.declarations, before.declarations),
        risk_band=patched(patch.risk_band, before.risk_band),
        valid_from=patched(patch.valid_from, before.valid_from),
        valid_until=patched(patch.valid_until, before.valid_until),
    )


def checked_content(given: ClearanceContent, form: ClearanceForm) -> ClearanceContent:
    """What is written, trimmed, sorted and checked, but for the answers."""
    title = text.name(given.title, InvalidClearanceTitleError, "title")
    bindings = checked_bindings(given.bindings, form.binding_kinds)
    declarations = checked_declarations(given.declarations, bindings)
    valid_from, valid_until = checked_window(given.valid_from, given.valid_until)
    return ClearanceContent(
        title=title,
        answers=given.answers,
        bindings=bindings,
        declarations=declarations,
        risk_band=given.risk_band,
        valid_from=valid_from,
        valid_until=valid_until,
    )


def check_answers(content: ClearanceContent, form: ClearanceForm) -> None:
    """No answers always pass; others meet the form's schema as a whole."""
    declare_with = "version_clearance_template"
    check_values(form.form_schema, content.answers, InvalidClearanceAnswersError, declare_with=declare_with)


def check_template_active(template: ClearanceTemplate) -> None:
    """Gate: new clearances are written on a template in use."""
    if template.status is not ClearanceTemplateStatus.ACTIVE:
        raise ClearanceTemplateNotBindableError(
            f"Template {template.code} is {template.status}; choose an Active one.",
            template_id=str(template.id),
            status=template.status,
        )


def check_facilities_related(grounds: ClearanceGrounds) -> None:
    """Gate: a clearance of one place does not authorise work at another."""
    if grounds.unrelated:
        code = grounds.template.facility_code
        raise ClearanceBindingFacilityMismatchError(
            f"{', '.join(grounds.unrelated)}: at no facility related to {code}.",
            facility_code=code,
            bindings=list(grounds.unrelated),
        )


def check_answered(clearance: Clearance, form: ClearanceForm) -> None:
    """Gate: what the form requires is answered before anyone reviews it."""
    broken = violations(form.form_schema, clearance.answers) if form.form_schema else []
    if absent := sorted(each.path for each in broken if each.keyword == "required"):
        raise ClearanceAnswersRequiredError(
            f"The form requires {', '.join(absent)}; revise_clearance to answer.",
            clearance_id=str(clearance.id),
            absent=absent,
        )


def check_declared(clearance: Clearance, form: ClearanceForm) -> None:
    """Gate: every binding of the kinds that the template names has its hazards declared."""
    declared = {declaration.binding.key for declaration in clearance.declarations}
    needed = [binding.key for binding in clearance.bindings if binding.kind in form.declared_kinds]
    if undeclared := sorted(set(needed) - declared):
        raise ClearanceDeclarationsRequiredError(
            f"Declare the hazards of {', '.join(undeclared)} with revise_clearance.",
            clearance_id=str(clearance.id),
            bindings=undeclared,
        )


def registration(
    template: ClearanceTemplate,
    content: ClearanceContent,
    external_refs: dict[str, GivenRef],
    parent_id: UUID | None,
    occasion: Occasion,
) -> ClearanceRegistered:
    """A new draft on the template's current version."""
    return ClearanceRegistered(
        clearance_id=occasion.new_id,
        occurred_at=occasion.now,
        template_id=template.id,
        template_code=template.code,
        template_version=template.template_version,
        facility_code=template.facility_code,
        title=content.title,
        answers=content.answers,
        bindings=content.bindings,
        declarations=content.declarations,
        risk_band=content.risk_band,
        valid_from=content.valid_from,
        valid_until=content.valid_until,
        reviewer_roles=template.reviewer_roles,
        external_refs=external_refs,
        parent_id=parent_id,
        registered_by=occasion.principal_id,
    )
