"""Defining clearance templates and their further versions, and the one that every installation begins with."""

from datetime import timedelta
from uuid import UUID

from beamwright.contexts.federation.coverage import check_bindable, load_facility
from beamwright.contexts.federation.facility import Facility, FacilityCode
from beamwright.kernel import text
from beamwright.kernel.declared_schema import Schema, checked_schema, unit_changes
from beamwright.kernel.external_refs import GivenRef, Scheme, checked_refs
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.wellknown import GENERAL_CLEARANCE_TEMPLATE

from .clearance import ReviewerRole
from .clearance_template import (
    CODE,
    VERSIONABLE,
    ActivateClearanceTemplate,
    ClearanceForm,
    ClearanceTemplate,
    ClearanceTemplateCannotVersionError,
    ClearanceTemplateCode,
    ClearanceTemplateCommand,
    ClearanceTemplateDefined,
    ClearanceTemplateDescription,
    ClearanceTemplateFacilityDecommissionedError,
    ClearanceTemplateUnitChangedError,
    ClearanceTemplateVersioned,
    InvalidClearanceTemplateBindingsError,
    InvalidClearanceTemplateCodeError,
    InvalidClearanceTemplateDescriptionError,
    InvalidClearanceTemplateExternalRefError,
    InvalidClearanceTemplateFormSchemaError,
    InvalidClearanceTemplateRolesError,
    InvalidClearanceTemplateTitleError,
    InvalidClearanceTemplateValidityError,
    clearance_templates,
)
from .values import BindingKind

MOST_ROLES = 10
SHORTEST, LONGEST = timedelta(days=1), timedelta(days=1830)


@clearance_templates.operation("POST /clearance-templates", creates=True)
class DefineClearanceTemplate(Command[Facility]):
    """Define a form type of a facility, as a draft; without a facility, of the service's own."""

    facility_code: FacilityCode | None = None
    code: ClearanceTemplateCode
    title: text.Name
    description: ClearanceTemplateDescription | None = None
    form_schema: Schema | None = None
    reviewer_roles: tuple[ReviewerRole, ...] = ()
    binding_kinds: frozenset[BindingKind] = frozenset(BindingKind)
    declared_kinds: frozenset[BindingKind] = frozenset()
    valid_for: timedelta | None = None
    separated_duties: bool = True
    external_refs: dict[Scheme, GivenRef] = {}

    async def gather(self, world: World) -> Facility:
        return await load_facility(world, self.facility_code or world.installation.self_facility_code)

    def decide(self, facility: Facility, occasion: Occasion) -> ClearanceTemplateDefined:
        code = text.code(self.code, CODE, InvalidClearanceTemplateCodeError)
        form = checked_form(self, 1)
        refs = checked_refs(self.external_refs, InvalidClearanceTemplateExternalRefError)
        check_bindable(facility, ClearanceTemplateFacilityDecommissionedError)
        return ClearanceTemplateDefined(
            template_id=occasion.new_id,
            occurred_at=occasion.now,
            facility_code=facility.code,
            code=code,
            title=form.title,
            description=form.description,
            form_schema=form.form_schema,
            reviewer_roles=form.reviewer_roles,
            binding_kinds=form.binding_kinds,
            declared_kinds=form.declared_kinds,
            valid_for=form.valid_for,
            separated_duties=form.separated_duties,
            external_refs=refs,
            defined_by=occasion.principal_id,
        )


@clearance_templates.operation("POST /clearance-templates/{template_id}/version")
class VersionClearanceTemplate(ClearanceTemplateCommand):
    """Replace all that a template asks; clearances keep the version that they were written on."""

    title: text.Name
    description: ClearanceTemplateDescription | None = None
    form_schema: Schema | None = None
    reviewer_roles: tuple[ReviewerRole, ...]
    binding_kinds: frozenset[BindingKind]
    declared_kinds: frozenset[BindingKind]
    valid_for: timedelta | None = None
    separated_duties: bool

    def decide(self, template: ClearanceTemplate, occasion: Occasion) -> ClearanceTemplateVersioned:
        form = checked_form(self, template.template_version + 1)
        if template.status not in VERSIONABLE:
            raise ClearanceTemplateCannotVersionError.of(template.id, template.status, VERSIONABLE)
        check_units_kept(template, form.form_schema)
        return ClearanceTemplateVersioned(
            template_id=template.id,
            occurred_at=occasion.now,
            template_version=form.template_version,
            title=form.title,
            description=form.description,
            form_schema=form.form_schema,
            reviewer_roles=form.reviewer_roles,
            binding_kinds=form.binding_kinds,
            declared_kinds=form.declared_kinds,
            valid_for=form.valid_for,
            separated_duties=form.separated_duties,
            versioned_by=occasion.principal_id,
        )


def checked_form(given: DefineClearanceTemplate | VersionClearanceTemplate, number: int) -> ClearanceForm:
    """What a template is to ask, trimmed and checked."""
    description, schema = given.description, given.form_schema
    if description is not None:
        refusal = InvalidClearanceTemplateDescriptionError
        description = text.trimmed(description, 5000, refusal, "description", prose=True)
    return ClearanceForm(
        template_version=number,
        title=text.name(given.title, InvalidClearanceTemplateTitleError, "title"),
        description=description,
        form_schema=schema and checked_schema(schema, InvalidClearanceTemplateFormSchemaError),
        reviewer_roles=checked_roles(given.reviewer_roles),
        binding_kinds=checked_kinds(given.binding_kinds, given.declared_kinds),
        declared_kinds=given.declared_kinds,
        valid_for=checked_validity(given.valid_for),
        separated_duties=given.separated_duties,
    )


def checked_roles(given: tuple[str, ...]) -> tuple[str, ...]:
    """Each role must approve, so each is named once."""
    refusal = InvalidClearanceTemplateRolesError
    roles = tuple(text.trimmed(role, 50, refusal, "role") for role in given)
    if len(roles) > MOST_ROLES or len(set(roles)) < len(roles):
        raise refusal(f"At most {MOST_ROLES} roles review, each named once.", most=MOST_ROLES)
    return roles


def checked_kinds(
    binding_kinds: frozenset[BindingKind], declared_kinds: frozenset[BindingKind]
) -> frozenset[BindingKind]:
    if not binding_kinds:
        raise InvalidClearanceTemplateBindingsError("A template binds at least one kind of thing.")
    if other := sorted(declared_kinds - binding_kinds):
        raise InvalidClearanceTemplateBindingsError(
            f"Declarations are asked of {', '.join(other)}, which the template does not bind.", kinds=other
        )
    return binding_kinds


def checked_validity(valid_for: timedelta | None) -> timedelta | None:
    if valid_for is not None and not SHORTEST <= valid_for <= LONGEST:
        raise InvalidClearanceTemplateValidityError("A clearance may last P1D to P1830D.")
    return valid_for


def check_units_kept(template: ClearanceTemplate, schema: Schema | None) -> None:
    """Gate: answers of the same name mean the same, whatever the version."""
    if paths := [change.path for change in unit_changes(template.form_schema, schema)]:
        raise ClearanceTemplateUnitChangedError(
            f"The unit of {', '.join(paths)} would change; give the field another name.",
            template_id=str(template.id),
            paths=paths,
        )


type StarterCommand = DefineClearanceTemplate | ActivateClearanceTemplate


def starter_templates(self_facility_code: str) -> list[tuple[UUID, StarterCommand]]:
    """One form without reviewers or separated duties, defined, then activated: one person on a laptop can finish it."""
    general = DefineClearanceTemplate(
        facility_code=self_facility_code,
        code="general",
        title="General work clearance",
        separated_duties=False,
    )
    id = GENERAL_CLEARANCE_TEMPLATE
    return [(id, general), (id, ActivateClearanceTemplate(template_id=id))]
