"""Clearance template: a facility's form type: what is asked, who reviews, how long it may last."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, assert_never
from uuid import UUID

import msgspec
from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter, Test, Version
from beamwright.kernel.declared_schema import Schema
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.external_refs import GivenRef, assigned
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, Query, World
from beamwright.kernel.profiles import ExternalRef
from beamwright.kernel.value import Time, Value, replace

from .values import BindingKind

CODE = "^[A-Za-z0-9][A-Za-z0-9_-]{0,49}$"

type ClearanceTemplateCode = Annotated[str, Meta(extra_json_schema={"pattern": CODE})]
type ClearanceTemplateDescription = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": 5000})
]


class ClearanceTemplateStatus(StrEnum):
    DRAFT = "Draft"
    ACTIVE = "Active"
    DEPRECATED = "Deprecated"
    WITHDRAWN = "Withdrawn"


class ClearanceTemplateNotFoundError(NotFoundError):
    """There is no such clearance template."""


class ClearanceTemplateVersionNotFoundError(NotFoundError):
    """The clearance template has no such version."""


class InvalidClearanceTemplateCodeError(InvalidError):
    """The template's code is malformed."""


class InvalidClearanceTemplateTitleError(InvalidError):
    """The template's title is blank or too long."""


class InvalidClearanceTemplateDescriptionError(InvalidError):
    """The template's description is blank or too long."""


class InvalidClearanceTemplateFormSchemaError(InvalidError):
    """The form's schema breaks a rule of declared schemas."""


class InvalidClearanceTemplateRolesError(InvalidError):
    """The reviewer roles are too many, given twice, blank or too long."""


class InvalidClearanceTemplateBindingsError(InvalidError):
    """A template binds some kind of thing, and asks for declarations only of kinds that it binds."""


class InvalidClearanceTemplateValidityError(InvalidError):
    """How long a clearance may last is outside P1D to P1830D."""


class InvalidClearanceTemplateExternalRefError(InvalidError):
    """An external reference's scheme, value or authority is malformed."""


class InvalidClearanceTemplateReasonError(InvalidError):
    """The reason is blank or too long."""


class ClearanceTemplateFacilityDecommissionedError(ConflictError):
    """The facility is decommissioned, or is a Peer, which has no templates here."""


class ClearanceTemplateAlreadyExistsError(ConflictError):
    """Another template of the facility that is not withdrawn has this code."""


class ClearanceTemplateUnitChangedError(ConflictError):
    """A field of the form would change its unit; give it another name."""


class ClearanceTemplateCannotActivateError(CannotTransitionError):
    """Only a draft template is activated."""


class ClearanceTemplateCannotVersionError(CannotTransitionError):
    """A deprecated or withdrawn template is not versioned any more."""


class ClearanceTemplateCannotDeprecateError(CannotTransitionError):
    """Only an active template is deprecated."""


class ClearanceTemplateCannotWithdrawError(CannotTransitionError):
    """The template is withdrawn already."""


class ClearanceForm(Value):
    """What a template asks, as it was at one of its versions."""

    template_version: int
    title: str
    description: str | None
    form_schema: Schema | None
    reviewer_roles: tuple[str, ...]
    binding_kinds: frozenset[BindingKind]
    declared_kinds: frozenset[BindingKind]
    valid_for: timedelta | None
    separated_duties: bool


class ClearanceTemplateFact(Event):
    template_id: UUID


class ClearanceTemplateDefined(ClearanceTemplateFact):
    facility_code: str
    code: str
    title: str
    description: str | None
    form_schema: Schema | None
    reviewer_roles: tuple[str, ...]
    binding_kinds: frozenset[BindingKind]
    declared_kinds: frozenset[BindingKind]
    valid_for: timedelta | None
    separated_duties: bool
    external_refs: dict[str, GivenRef]
    defined_by: UUID


class ClearanceTemplateActivated(ClearanceTemplateFact):
    activated_by: UUID


class ClearanceTemplateVersioned(ClearanceTemplateFact):
    template_version: int
    title: str
    description: str | None
    form_schema: Schema | None
    reviewer_roles: tuple[str, ...]
    binding_kinds: frozenset[BindingKind]
    declared_kinds: frozenset[BindingKind]
    valid_for: timedelta | None
    separated_duties: bool
    versioned_by: UUID


class ClearanceTemplateDeprecated(ClearanceTemplateFact):
    reason: str
    deprecated_by: UUID


class ClearanceTemplateWithdrawn(ClearanceTemplateFact):
    reason: str
    withdrawn_by: UUID


type ClearanceTemplateEvent = (
    ClearanceTemplateDefined
    | ClearanceTemplateActivated
    | ClearanceTemplateVersioned
    | ClearanceTemplateDeprecated
    | ClearanceTemplateWithdrawn
)

DRAFT, ACTIVE, DEPRECATED, WITHDRAWN = ClearanceTemplateStatus

LIFECYCLE = StateMachine[ClearanceTemplateStatus](
    {
        ClearanceTemplateActivated: move({DRAFT}, ACTIVE, ClearanceTemplateCannotActivateError),
        ClearanceTemplateDeprecated: move({ACTIVE}, DEPRECATED, ClearanceTemplateCannotDeprecateError),
        ClearanceTemplateWithdrawn: move(
            {DRAFT, ACTIVE, DEPRECATED}, WITHDRAWN, ClearanceTemplateCannotWithdrawError
        ),
    }
)
# A new version leaves the status as it is.
VERSIONABLE = frozenset({DRAFT, ACTIVE})


class ClearanceTemplate(Value):
    id: UUID
    facility_code: str
    code: str
    title: str
    description: str | None
    form_schema: Schema | None
    reviewer_roles: tuple[str, ...]
    binding_kinds: frozenset[BindingKind]
    declared_kinds: frozenset[BindingKind]
    valid_for: timedelta | None
    separated_duties: bool
    template_version: int = 1
    versions: tuple[ClearanceForm, ...]
    status: ClearanceTemplateStatus = ClearanceTemplateStatus.DRAFT
    status_reason: text.Reason | None = None
    external_refs: dict[str, ExternalRef] = {}

    def form(self, template_version: int) -> ClearanceForm:
        """What the template asked at one of its versions."""
        for form in self.versions:
            if form.template_version == template_version:
                return form
        raise ClearanceTemplateVersionNotFoundError(
            f"Template {self.code} has versions 1 to {self.template_version}.",
            template_id=str(self.id),
            template_version=template_version,
        )


def evolve(template: ClearanceTemplate | None, event: ClearanceTemplateEvent) -> ClearanceTemplate:
    match event:
        case ClearanceTemplateDefined():
            form = numbered(event, 1)
            return ClearanceTemplate(
                id=event.template_id,
                facility_code=event.facility_code,
                code=event.code,
                versions=(form,),
                external_refs={
                    scheme: assigned(ref, event.occurred_at) for scheme, ref in event.external_refs.items()
                },
                **msgspec.structs.asdict(form),
            )
        case _ if template is None:
            raise ValueError(event)
        case ClearanceTemplateActivated():
            return replace(template, status=LIFECYCLE.after(event))
        case ClearanceTemplateVersioned():
            form = numbered(event, event.template_version)
            versions = (*template.versions, form)
            return replace(template, versions=versions, **msgspec.structs.asdict(form))
        case ClearanceTemplateDeprecated() | ClearanceTemplateWithdrawn():
            return replace(template, status=LIFECYCLE.after(event), status_reason=event.reason)
        case _:
            assert_never(event)


def numbered(event: ClearanceTemplateDefined | ClearanceTemplateVersioned, number: int) -> ClearanceForm:
    return ClearanceForm(
        template_version=number,
        title=event.title,
        description=event.description,
        form_schema=event.form_schema,
        reviewer_roles=event.reviewer_roles,
        binding_kinds=event.binding_kinds,
        declared_kinds=event.declared_kinds,
        valid_for=event.valid_for,
        separated_duties=event.separated_duties,
    )


def claims(template: ClearanceTemplate) -> list[Claim]:
    """A code is taken at its facility while its template is not withdrawn."""
    if template.status is ClearanceTemplateStatus.WITHDRAWN:
        return []
    key = f"{template.facility_code}/{template.code.casefold()}"
    return [Claim(kind="clearance-template-code", key=key, taken=ClearanceTemplateAlreadyExistsError)]


clearance_templates = Aggregate[ClearanceTemplate, ClearanceTemplateEvent](
    "ClearanceTemplate",
    id_field="template_id",
    events=ClearanceTemplateEvent,
    evolve=evolve,
    missing=ClearanceTemplateNotFoundError,
    belongs=lambda template: Belonging(facility_code=template.facility_code),
    claims=claims,
)
clearance_templates.reads(
    "/clearance-templates",
    filters=(
        "facility_code",
        "code",
        "status",
        Filter(
            name="reviewer_role", type=str, of=lambda template: template.reviewer_roles, test=Test.CONTAINS
        ),
    ),
    sorts=("created_at", "code"),
    text=("code", "title", "description"),
)
# The generated read knows the versions of the stream; templates are also read by their own, below.
clearance_templates.operations[:] = [
    operation for operation in clearance_templates.operations if operation.name != "get_clearance_template"
]


@clearance_templates.operation("GET /clearance-templates/{template_id}", response=clearance_templates.view)
class GetClearanceTemplate(Query[Any]):
    """Read one clearance template, now, as it was, or with what one of its versions asked."""

    template_id: UUID
    template_version: Version | None = None
    as_of_version: Version | None = None
    as_of: Time | None = None

    async def answer(self, world: World) -> Any:
        id = self.template_id
        view = await world.view(clearance_templates, id, self.as_of_version, self.as_of)
        if self.template_version is None:
            return view
        form = (await world.load(clearance_templates, id)).form(self.template_version)
        return msgspec.structs.replace(view, **msgspec.structs.asdict(form))


class ClearanceTemplateCommand(Command[ClearanceTemplate]):
    """Base of the moves that look at nothing but the template."""

    template_id: UUID

    async def gather(self, world: World) -> ClearanceTemplate:
        return await world.load(clearance_templates, self.template_id)


@clearance_templates.operation("POST /clearance-templates/{template_id}/activate")
class ActivateClearanceTemplate(ClearanceTemplateCommand):
    """Put a template into use: clearances can be written on it."""

    def decide(self, template: ClearanceTemplate, occasion: Occasion) -> ClearanceTemplateActivated:
        LIFECYCLE.check(ClearanceTemplateActivated, template.status, template.id)
        return ClearanceTemplateActivated(
            template_id=template.id,
            occurred_at=occasion.now,
            activated_by=occasion.principal_id,
        )


@clearance_templates.operation("POST /clearance-templates/{template_id}/deprecate")
class DeprecateClearanceTemplate(ClearanceTemplateCommand):
    """Deprecate a template: clearances under way finish, and no new one is written on it."""

    reason: text.Reason

    def decide(self, template: ClearanceTemplate, occasion: Occasion) -> ClearanceTemplateDeprecated:
        reason = text.reason(self.reason, InvalidClearanceTemplateReasonError)
        LIFECYCLE.check(ClearanceTemplateDeprecated, template.status, template.id)
        return ClearanceTemplateDeprecated(
            template_id=template.id,
            occurred_at=occasion.now,
            reason=reason,
            deprecated_by=occasion.principal_id,
        )


@clearance_templates.operation("POST /clearance-templates/{template_id}/withdraw")
class WithdrawClearanceTemplate(ClearanceTemplateCommand):
    """Withdraw a template: not even clearances under way are activated any more."""

    reason: text.Reason

    def decide(self, template: ClearanceTemplate, occasion: Occasion) -> ClearanceTemplateWithdrawn:
        reason = text.reason(self.reason, InvalidClearanceTemplateReasonError)
        LIFECYCLE.check(ClearanceTemplateWithdrawn, template.status, template.id)
        return ClearanceTemplateWithdrawn(
            template_id=template.id,
            occurred_at=occasion.now,
            reason=reason,
            withdrawn_by=occasion.principal_id,
        )
